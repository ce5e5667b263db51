//! Sends questions to this session's user, and handles the answers. A question is claimed before it is sent,
//! so that only one stream carries it at a time. Its JSON-RPC id is sealed, so that any process can take the
//! answer. A client with that capability may create a task of its own for a question ("the client's task");
//! the answer is then fetched from that task.

mod client_tasks;
mod message;
mod responses;

pub(super) use responses::{handle_task_status, replied};

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskbridge_sdk::{Answer, Ask, Timestamp};

use self::client_tasks::{ClientTasks, note};
use super::SessionCall;
use crate::mcp::Bridge;
use crate::mcp::authorization::CallerContext;
use crate::mcp::message_sink::MessageSink;
use crate::mcp::session::Session;
use crate::seal::Purpose;
use crate::tasks::service::{DeliveryGuard, QuestionClaim};
use crate::tasks::store::{MOST_HELD, QuestionMessage, SessionChange, StoreError};
use crate::tasks::task::{QuestionStatus, Task, TaskId, TaskQuestion};

/// How long a stream counts as carrying a question without renewal.
const LEASE: Duration = Duration::from_secs(30);
/// How often one stream asks the same question if the answers do not fit. Some clients answer automatically,
/// and would repeat the same answer forever.
const MOST_TIMES: u32 = 3;
/// How often a stream checks whether its client is ready, where no hint comes.
const LOOK_IF_READY: Duration = Duration::from_secs(1);
/// Maximum TTL that a client's task is requested with. Some libraries have timers that count milliseconds in
/// 31 bits, and would drop a task with a longer TTL at once.
const LONGEST_TTL: Duration = Duration::from_millis(i32::MAX as u64);

/// The part of one stream in asking questions.
pub(super) struct QuestionSender<'a> {
    bridge: &'a Bridge,
    /// The caller who is asked.
    actor: CallerContext<'a>,
    outlet: &'a dyn MessageSink,
    session: &'a Session,
    /// How long a new question is reserved for streams that wait for its task.
    grace: Duration,
    opened: Timestamp,
    out: Vec<InFlightQuestion>,
    /// Pages that were asked about here and are being visited, by task and question.
    visits: Vec<(TaskId, String)>,
    asked: HashMap<(TaskId, String), u32>,
    /// The tasks of the session's client; `None` if it creates none.
    holdings: Option<ClientTasks>,
    /// When the task that was attended last must be checked again, with or without a hint.
    look_at: Option<Timestamp>,
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
    Stays,
    /// The client has dealt with this message, or another message carries the question now.
    Over,
    /// The task no longer needs an answer.
    Withdrawn,
}

/// Registers that a client polls a task. From now on its listening stream asks the task's questions, even if
/// another session created the task: a restarted client only has the new session.
///
/// # Errors
/// If the store fails. The next poll registers it again.
pub(super) async fn polled(call: &SessionCall<'_>, task: &Task) -> Result<(), StoreError> {
    let (session, client) = (call.session, call.client_for(task));
    let is_own = task.origin.session.as_ref() == Some(&session.nonce);
    if is_own || !task.open_questions().any(|asked| client.can_ask(&asked.question.ask)) {
        return Ok(());
    }
    let known = call.bridge.store.settings(&session.nonce).await?.unwrap_or_default().polls;
    if !known.contains(&task.id) && !note(call.bridge, session, SessionChange::Poll(task.id.clone())).await? {
        tracing::debug!(task = ?task.id, "the session has ended, or polls too many tasks to be asked for this one");
    }
    Ok(())
}

impl<'a> QuestionSender<'a> {
    /// Creates the question sender of a stream. It asks questions that its client can be asked and that are
    /// older than `grace`. It manages the client's tasks for `only` this task, or all of them.
    pub(super) fn new(
        call: &SessionCall<'a>,
        outlet: &'a dyn MessageSink,
        grace: Duration,
        only: Option<&TaskId>,
    ) -> Self {
        let makes_tasks = call.client().makes_tasks();
        Self {
            bridge: call.bridge,
            actor: CallerContext::new(call.bridge, &call.caller.principal),
            outlet,
            session: call.session,
            grace,
            opened: call.bridge.clock.now(),
            out: Vec::new(),
            visits: Vec::new(),
            asked: HashMap::new(),
            holdings: makes_tasks.then(|| ClientTasks::new(call.bridge, only)),
            look_at: None,
            closed: false,
        }
    }

    /// Returns true if this stream has work for the task, or will have it sooner than it knew. A question
    /// that another process wrote may become due a moment later by this process's clock, and no hint
    /// announces that.
    pub(super) fn is_behind(&self, task: &Task) -> bool {
        let now = self.bridge.clock.now();
        self.out
            .iter()
            .any(|out| out.guard.carried().task == task.id && out.fate(task) != QuestionState::Stays)
            || self.visits.iter().any(|(id, key)| *id == task.id && is_visited(task, key))
            || task.open_questions().any(|asked| self.wants(task, asked, now))
            || self.holds_in_vain(task)
            || self.next_look(task).is_some_and(|next| self.look_at.is_none_or(|known| next < known))
    }

    /// Returns the tasks for which this stream has something in flight.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        let out = self.out.iter().map(|out| &out.guard.carried().task);
        out.chain(self.visits.iter().map(|(id, _)| id))
    }

    /// Brings the stream up to date with the task: withdraws questions that no longer need an answer, and
    /// asks open ones. Returns when the task must be checked again, if no hint comes first.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn attend(&mut self, task: &Task) -> Result<Option<Timestamp>, StoreError> {
        self.refresh().await?;
        self.look_after(task).await?;
        self.look_if_ready(task).await?;
        while !self.closed {
            let now = self.bridge.clock.now();
            let wanted = |asked: &TaskQuestion| self.wants(task, asked, now);
            if !task.open_questions().any(wanted) {
                break;
            }
            let carried = self.bridge.service.carry(task, LEASE, wanted).await?;
            let Some(carried) = carried else { break };
            self.send(carried, task).await;
        }
        self.look_at = self.next_look(task);
        Ok(self.look_at)
    }

    /// Ends the question sender because the request of its stream is answered: the client has seen the
    /// questions that were sent there. Those still open are not asked again on the streams that are open now.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn leave(self) -> Result<(), StoreError> {
        for out in self.out {
            out.guard.over(None).await?;
        }
        Ok(())
    }

    async fn look_after(&mut self, task: &Task) -> Result<(), StoreError> {
        let now = self.bridge.clock.now();
        for mut out in std::mem::take(&mut self.out) {
            if out.guard.carried().task == task.id {
                match out.fate(task) {
                    QuestionState::Stays if now >= out.renew_at => {
                        out.guard.still_open(LEASE).await?;
                        out.renew_at = now + LEASE / 2;
                    }
                    QuestionState::Stays => {}
                    QuestionState::Over => {
                        self.visits.extend(visit(task, &out.guard.carried().key));
                        continue;
                    }
                    QuestionState::Withdrawn => {
                        if let Some((id, key)) = visit(task, &out.guard.carried().key) {
                            self.say(message::complete(&self.bridge.seal, &id, &key)).await;
                        }
                        // A client's task is cancelled instead, once the client has reported that it created
                        // one.
                        if !out.as_task {
                            self.say(message::withdraw(&out.id, &task.id)).await;
                        }
                        continue;
                    }
                }
            }
            self.out.push(out);
        }
        for (id, key) in std::mem::take(&mut self.visits) {
            if id == task.id && is_visited(task, &key) {
                self.say(message::complete(&self.bridge.seal, &id, &key)).await;
            } else {
                self.visits.push((id, key));
            }
        }
        Ok(())
    }

    /// Updates whether the client is ready, which it may have reported to another process. It is asked
    /// nothing before.
    async fn look_if_ready(&self, task: &Task) -> Result<(), StoreError> {
        let Self { bridge, session, .. } = *self;
        let may_be_early = bridge.initializing.may_have(session, bridge.clock.now());
        if bridge.store.is_shared() && may_be_early && task.open_questions().next().is_some() {
            match bridge.store.settings(&session.nonce).await?.is_some_and(|settings| settings.ready) {
                true => bridge.initializing.end(session),
                false => bridge.initializing.begin(session),
            }
        }
        Ok(())
    }

    fn is_early(&self) -> bool {
        self.bridge.initializing.has(self.session, self.bridge.clock.now())
    }

    async fn say(&mut self, message: Value) {
        self.closed |= !self.outlet.send(message).await;
    }

    async fn send(&mut self, carried: QuestionClaim, task: &Task) {
        let QuestionClaim { key, n, .. } = &carried;
        let of = QuestionMessage { task: task.id.clone(), key: key.clone(), n: *n };
        *self.asked.entry((of.task.clone(), of.key.clone())).or_default() += 1;
        let id =
            self.bridge.seal.seal(Purpose::Question, &MessageSubject { of, what: MessageKind::Question });
        let can = self.session.client.makes_task_of(&carried.asked.question.ask);
        let as_task = can && self.holdings.as_ref().is_some_and(|holdings| holdings.held.len() < MOST_HELD);
        // The question is open until then at most.
        let until = task.run_until();
        let ttl = as_task.then(|| until.since(self.bridge.clock.now()).min(LONGEST_TTL));
        let message = message::request(&self.bridge.seal, self.session.revision, &carried, ttl, &id);
        let guard = self.bridge.service.carrying(carried);
        if self.outlet.send(message).await {
            let renew_at = self.bridge.clock.now() + LEASE / 2;
            self.out.push(InFlightQuestion { guard, id, as_task, renew_at });
        } else {
            self.closed = true;
        }
    }

    /// Returns true if this stream may ask the question. No open stream may carry it. A question that the
    /// client has dealt with, but that is still open, is asked again only by a stream that asked it before,
    /// up to `MOST_TIMES` times, or that was opened later.
    fn wants(&self, task: &Task, asked: &TaskQuestion, now: Timestamp) -> bool {
        let id = &task.id;
        let times = self.asked.get(&(id.clone(), asked.key.clone())).copied().unwrap_or(0);
        let free = match &asked.delivery {
            None => true,
            Some(delivery) if delivery.over => times > 0 || delivery.until <= self.opened,
            Some(_) => !asked.is_out(now),
        };
        self.actor.answers(task, self.session.client).can_ask(&asked.question.ask)
            && !self.closed
            && !self.is_held(id, &asked.key)
            && free
            && times < MOST_TIMES
            && asked.at + self.grace <= now
            && !self.has_out(id, asked)
            && !self.is_early()
    }

    fn has_out(&self, id: &TaskId, asked: &TaskQuestion) -> bool {
        let newest = asked.delivery.as_ref().map_or(0, |delivery| delivery.n);
        self.out
            .iter()
            .map(|out| out.guard.carried())
            .any(|carried| carried.task == *id && carried.key == asked.key && carried.n > newest)
    }

    fn next_look(&self, task: &Task) -> Option<Timestamp> {
        let now = self.bridge.clock.now();
        let renewals =
            self.out.iter().filter(|out| out.guard.carried().task == task.id).map(|out| out.renew_at);
        let others = task.open_questions().filter_map(|asked| {
            let ripe = Some(asked.at + self.grace).filter(|ripe| *ripe > now);
            let lapse = asked.delivery.as_ref().filter(|_| asked.is_out(now)).map(|d| d.until);
            ripe.into_iter().chain(lapse).max()
        });
        let early =
            (self.is_early() && task.open_questions().next().is_some()).then_some(now + LOOK_IF_READY);
        renewals.chain(others).chain(early).min()
    }
}

/// Returns true once the visit of a page is complete, as far as the task is concerned.
fn is_visited(task: &Task, key: &str) -> bool {
    let asked = task.questions.iter().find(|asked| asked.key == *key);
    task.has_ended() || asked.is_none_or(|asked| asked.status == QuestionStatus::Closed)
}

/// Returns the visit of a page for a question, if the question asks for one and it may have begun.
fn visit(task: &Task, key: &str) -> Option<(TaskId, String)> {
    let asked = task.questions.iter().find(|asked| asked.key == *key)?;
    let may_have = match &asked.status {
        QuestionStatus::Answered { answer, .. } => matches!(answer, Answer::Accept(_)),
        QuestionStatus::Visiting => true,
        // The job observed the visit itself, unless the answer is no longer needed.
        QuestionStatus::Closed => !task.has_ended(),
        QuestionStatus::Open => false,
    };
    let page = matches!(asked.question.ask, Ask::Url(_));
    (page && may_have).then(|| (task.id.clone(), key.to_owned()))
}

impl InFlightQuestion {
    fn fate(&self, task: &Task) -> QuestionState {
        let QuestionClaim { key, n, .. } = self.guard.carried();
        let asked = task.questions.iter().find(|asked| asked.key == *key);
        match asked.and_then(|asked| Some((asked, asked.delivery.as_ref()?))) {
            // The row was read before this message was claimed.
            Some((_, delivery)) if delivery.n < *n => QuestionState::Stays,
            Some((_, delivery)) if delivery.over || delivery.n > *n => QuestionState::Over,
            Some((asked, _)) if asked.status == QuestionStatus::Open => QuestionState::Stays,
            _ => QuestionState::Withdrawn,
        }
    }
}
