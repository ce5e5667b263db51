//! Sends questions to this session's user, and handles the answers. A question is claimed before it is sent,
//! so that only one stream carries it at a time. Its JSON-RPC id is sealed, so that any process can take the
//! answer. A client with that capability may create a task of its own for a question ("the client's task");
//! the answer is then fetched from that task.

mod client_tasks;
mod deliveries;
mod message;
mod responses;

pub(super) use self::responses::{handle_response, handle_task_status};

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskbridge_sdk::{Answer, Ask, Timestamp};

use self::client_tasks::{ClientTasks, store_change};
use self::deliveries::KnownDeliveries;
use super::SessionCall;
use crate::mcp::Bridge;
use crate::mcp::features::authorization::CallerContext;
use crate::mcp::features::dialect::Dialect as _;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::session::deliveries::DeliveryGuard;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::Session;
use crate::seal::Purpose;
use crate::sessions::{MAX_CLIENT_TASKS, QuestionMessage, SessionChange};
use crate::tasks::store::StoreError;
use crate::tasks::task::{QuestionStatus, Task, TaskId, TaskQuestion};

/// How long a stream counts as carrying a question without renewal.
const LEASE: Duration = Duration::from_secs(30);
/// How often one stream asks the same question if the answers do not fit. Some clients answer automatically,
/// and would repeat the same answer forever.
const MAX_ATTEMPTS: u32 = 3;
/// How often a stream checks whether its client is ready, where no hint comes.
const READY_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum TTL that a client's task is requested with. Some libraries have timers that count milliseconds in
/// 31 bits, and would drop a task with a longer TTL at once.
const MAX_TTL: Duration = Duration::from_millis(i32::MAX as u64);

/// The part of one stream in asking questions.
pub(super) struct QuestionSender<'a> {
    bridge: &'a Bridge,
    /// The caller who is asked.
    actor: CallerContext<'a>,
    sink: &'a dyn MessageSink,
    session: &'a Session,
    /// How long a new question is reserved for streams that wait for its task.
    grace: Duration,
    opened_at: Timestamp,
    in_flight: Vec<InFlightQuestion>,
    deliveries: KnownDeliveries,
    /// Pages that were asked about here and are being visited, by task and question.
    visits: Vec<(TaskId, String)>,
    ask_counts: HashMap<(TaskId, String), u32>,
    /// The tasks of the session's client; `None` if it creates none.
    client_tasks: Option<ClientTasks>,
    /// When the task of the last [`Self::sync`] must be checked again, with or without a hint.
    recheck_at: Option<Timestamp>,
    closed: bool,
}

/// Subject of a message of this server. Sealed, it is the message's JSON-RPC id.
#[derive(Debug, Serialize, Deserialize)]
struct MessageSubject {
    #[serde(flatten)]
    of: QuestionMessage,
    #[serde(rename = "w", default)]
    what: MessageKind,
}

/// Kind of a message of this server.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
enum MessageKind {
    /// The question itself.
    #[default]
    #[serde(rename = "q")]
    Question,
    /// The status of the client's task for the question.
    #[serde(rename = "s")]
    Status,
    /// The result of that task.
    #[serde(rename = "r")]
    Result,
    /// The cancellation of that task.
    #[serde(rename = "c")]
    Cancel,
}

/// A message in flight on this stream.
struct InFlightQuestion {
    guard: DeliveryGuard,
    id: String,
    /// True if the client may create a task of its own for it.
    as_task: bool,
    renew_at: Timestamp,
}

/// State of a message in flight.
#[derive(PartialEq)]
enum QuestionState {
    /// The question is still open.
    StillOpen,
    /// The client has dealt with this message, or another message carries the question now.
    Done,
    /// The task no longer needs an answer.
    Withdrawn,
}

/// Registers that a client polls a task. From now on its listening stream asks the task's questions, even if
/// another session created the task: a restarted client only has the new session.
///
/// # Errors
/// If the store fails. The next poll registers it again.
pub(super) async fn register_poll(call: &SessionCall<'_>, task: &Task) -> Result<(), StoreError> {
    let (session, client) = (call.session, call.client_for(task));
    let is_own = task.origin.channel.as_ref() == Some(&session.nonce);
    if is_own || !task.open_questions().any(|task_question| client.can_ask(&task_question.question.ask)) {
        return Ok(());
    }
    let polled_tasks = call.bridge.sessions.store.settings(&session.nonce).await?.unwrap_or_default().polls;
    if !polled_tasks.contains(&task.id)
        && !store_change(call.bridge, session, SessionChange::Poll(task.id.clone())).await?
    {
        tracing::debug!(task = ?task.id, "the session has ended, or polls too many tasks to be asked for this one");
    }
    Ok(())
}

impl<'a> QuestionSender<'a> {
    /// Creates the question sender of a stream. It asks questions that its client can be asked and that are
    /// older than `grace`. It manages the client's tasks for `only` this task, or all of them.
    pub(super) fn new(
        call: &SessionCall<'a>,
        sink: &'a dyn MessageSink,
        grace: Duration,
        only: Option<&TaskId>,
    ) -> Self {
        let can_run_tasks = call.client().can_run_tasks();
        Self {
            bridge: call.bridge,
            actor: CallerContext::new(&call.bridge.context, &call.caller.principal),
            sink,
            session: call.session,
            grace,
            opened_at: call.bridge.context.clock.now(),
            in_flight: Vec::new(),
            deliveries: KnownDeliveries::default(),
            visits: Vec::new(),
            ask_counts: HashMap::new(),
            client_tasks: can_run_tasks.then(|| ClientTasks::new(call.bridge, only)),
            recheck_at: None,
            closed: false,
        }
    }

    /// Returns true if this stream has work for the task, or will have it sooner than it knew. A question
    /// that another process wrote may become due a moment later by this process's clock, and no hint
    /// announces that.
    pub(super) fn has_work(&self, task: &Task) -> bool {
        let now = self.bridge.context.clock.now();
        self.in_flight.iter().any(|question| {
            question.guard.claim().task == task.id && self.state(question, task) != QuestionState::StillOpen
        }) || self.visits.iter().any(|(id, key)| *id == task.id && is_visited(task, key))
            || task.open_questions().any(|task_question| self.may_ask(task, task_question, now))
            || self.has_unneeded_client_task(task)
            || self
                .next_check(task)
                .is_some_and(|next_check| self.recheck_at.is_none_or(|scheduled| next_check < scheduled))
    }

    /// Returns the tasks for which this stream has something in flight.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        let in_flight = self.in_flight.iter().map(|question| &question.guard.claim().task);
        in_flight.chain(self.visits.iter().map(|(id, _)| id))
    }

    /// Brings the stream up to date with the task: withdraws questions that no longer need an answer, and
    /// asks open ones. Returns when the task must be checked again, if no hint comes first.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn sync(&mut self, task: &Task) -> Result<Option<Timestamp>, StoreError> {
        self.refresh().await?;
        self.read_deliveries(task).await?;
        self.sync_in_flight(task).await?;
        self.refresh_readiness(task).await?;
        while !self.closed {
            let now = self.bridge.context.clock.now();
            let is_wanted = |task_question: &&TaskQuestion| self.may_ask(task, task_question, now);
            let Some(task_question) = task.open_questions().find(is_wanted) else { break };
            // If nothing has changed, the claim was refused because the task is gone.
            if !self.ask(task, task_question).await? && !self.read_deliveries(task).await? {
                break;
            }
        }
        self.recheck_at = self.next_check(task);
        Ok(self.recheck_at)
    }

    /// Ends the question sender because the request of its stream is answered: the client has seen the
    /// questions that were sent there. Those still open are not asked again on the streams that are open now.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn finish(self) -> Result<(), StoreError> {
        for question in self.in_flight {
            question.guard.finish().await?;
        }
        Ok(())
    }

    async fn sync_in_flight(&mut self, task: &Task) -> Result<(), StoreError> {
        let now = self.bridge.context.clock.now();
        for mut question in std::mem::take(&mut self.in_flight) {
            if question.guard.claim().task == task.id {
                match self.state(&question, task) {
                    QuestionState::StillOpen if now >= question.renew_at => {
                        if let Some(renewed) = question.guard.renew(LEASE).await? {
                            let key = &question.guard.claim().question.key;
                            self.deliveries.insert(&task.id, key, renewed);
                        }
                        question.renew_at = now + LEASE / 2;
                    }
                    QuestionState::StillOpen => {}
                    QuestionState::Done => {
                        self.visits.extend(visit(task, &question.guard.claim().question.key));
                        continue;
                    }
                    QuestionState::Withdrawn => {
                        if let Some((id, key)) = visit(task, &question.guard.claim().question.key) {
                            self.send_message(message::complete(&self.bridge.context.seal, &id, &key)).await;
                        }
                        // A client's task is cancelled instead, once the client has reported that it created
                        // one.
                        if !question.as_task {
                            self.send_message(message::withdraw(&question.id, &task.id)).await;
                        }
                        continue;
                    }
                }
            }
            self.in_flight.push(question);
        }
        for (id, key) in std::mem::take(&mut self.visits) {
            if id == task.id && is_visited(task, &key) {
                self.send_message(message::complete(&self.bridge.context.seal, &id, &key)).await;
            } else {
                self.visits.push((id, key));
            }
        }
        Ok(())
    }

    /// Updates whether the client is ready, which it may have reported to another process. It is asked
    /// nothing before.
    async fn refresh_readiness(&self, task: &Task) -> Result<(), StoreError> {
        let Self { bridge, session, .. } = *self;
        let may_be_unready = bridge.sessions.uninitialized.may_have(session, bridge.context.clock.now());
        if bridge.sessions.is_shared && may_be_unready && task.open_questions().next().is_some() {
            match bridge.sessions.store.settings(&session.nonce).await?.is_some_and(|settings| settings.ready)
            {
                true => bridge.sessions.uninitialized.set_ready(session),
                false => bridge.sessions.uninitialized.insert(session),
            }
        }
        Ok(())
    }

    fn is_client_unready(&self) -> bool {
        self.bridge.sessions.uninitialized.has(self.session, self.bridge.context.clock.now())
    }

    async fn send_message(&mut self, message: Value) {
        self.closed |= !self.sink.send(message).await;
    }

    async fn send(&mut self, guard: DeliveryGuard, task: &Task) {
        let claim = guard.claim();
        let question_message =
            QuestionMessage { task: task.id.clone(), key: claim.question.key.clone(), n: claim.n };
        *self.ask_counts.entry((question_message.task.clone(), question_message.key.clone())).or_default() +=
            1;
        let id = self
            .bridge
            .context
            .seal
            .seal(Purpose::Question, &MessageSubject { of: question_message, what: MessageKind::Question });
        let can_run_as_task = self.session.client.can_run_as_task(&claim.question.question.ask);
        let as_task = can_run_as_task
            && self
                .client_tasks
                .as_ref()
                .is_some_and(|client_tasks| client_tasks.records.len() < MAX_CLIENT_TASKS);
        // The question is open until then at most.
        let until = task.run_until();
        let ttl = as_task.then(|| until.since(self.bridge.context.clock.now()).min(MAX_TTL));
        let message = message::request(&self.bridge.context.seal, self.session.revision, claim, ttl, &id);
        if self.sink.send(message).await {
            let renew_at = self.bridge.context.clock.now() + LEASE / 2;
            self.in_flight.push(InFlightQuestion { guard, id, as_task, renew_at });
        } else {
            self.closed = true;
        }
    }

    /// Returns true if this stream may ask the question. No open stream may carry it. A question that the
    /// client has dealt with, but that is still open, is asked again only by a stream that asked it before,
    /// up to `MAX_ATTEMPTS` times, or that was opened later.
    fn may_ask(&self, task: &Task, task_question: &TaskQuestion, now: Timestamp) -> bool {
        let id = &task.id;
        let attempts = self.ask_counts.get(&(id.clone(), task_question.key.clone())).copied().unwrap_or(0);
        let is_free = match self.deliveries.newest(task, task_question) {
            None => true,
            Some(delivery) if delivery.over => attempts > 0 || delivery.until <= self.opened_at,
            Some(delivery) => !delivery.is_open(now),
        };
        self.actor.answers(task, self.session.client).can_ask(&task_question.question.ask)
            && !self.closed
            && !self.has_client_task(id, &task_question.key)
            && is_free
            && attempts < MAX_ATTEMPTS
            && task_question.at + self.grace <= now
            && !self.is_client_unready()
    }

    fn next_check(&self, task: &Task) -> Option<Timestamp> {
        let now = self.bridge.context.clock.now();
        let renewals = self
            .in_flight
            .iter()
            .filter(|question| question.guard.claim().task == task.id)
            .map(|question| question.renew_at);
        let others = task.open_questions().filter_map(|task_question| {
            let due_at = Some(task_question.at + self.grace).filter(|due_at| *due_at > now);
            let delivery = self.deliveries.newest(task, task_question);
            let lease_end = delivery.filter(|delivery| delivery.is_open(now)).map(|delivery| delivery.until);
            due_at.into_iter().chain(lease_end).max()
        });
        let ready_check = (self.is_client_unready() && task.open_questions().next().is_some())
            .then_some(now + READY_CHECK_INTERVAL);
        renewals.chain(others).chain(ready_check).min()
    }
}

/// Returns true once the visit of a page is complete, as far as the task is concerned.
fn is_visited(task: &Task, key: &str) -> bool {
    let task_question = task.questions.iter().find(|task_question| task_question.key == *key);
    task.has_ended()
        || task_question.is_none_or(|task_question| task_question.status == QuestionStatus::Closed)
}

/// Returns the visit of a page for a question, if the question asks for one and it may have begun.
fn visit(task: &Task, key: &str) -> Option<(TaskId, String)> {
    let task_question = task.questions.iter().find(|task_question| task_question.key == *key)?;
    let may_have_begun = match &task_question.status {
        QuestionStatus::Answered { answer, .. } => matches!(answer, Answer::Accept(_)),
        QuestionStatus::Visiting => true,
        // The job observed the visit itself, unless the answer is no longer needed.
        QuestionStatus::Closed => !task.has_ended(),
        QuestionStatus::Open => false,
    };
    let is_page = matches!(task_question.question.ask, Ask::Url(_));
    (is_page && may_have_begun).then(|| (task.id.clone(), key.to_owned()))
}
