//! Questions on their way to this session's user, and the answers that come back. A question is claimed before it is
//! sent, so that it is on one stream at a time; its JSON-RPC id is sealed, so that the answer can come back to any
//! process.

use std::collections::HashMap;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::{Call, from_wire, to_wire, wire};
use crate::mcp::Bridge;
use crate::mcp::generation::{Replied, Revision};
use crate::mcp::jsonrpc::{Id, Outcome};
use crate::mcp::outlet::Outlet;
use crate::mcp::session::{Abilities, Caller};
use crate::seal::Purpose;
use crate::tasks::service::{AnswerError, Carried, Carrying};
use crate::tasks::store::StoreError;
use crate::tasks::task::{Asked, AskedStatus, Task, TaskId};

/// For how long a stream counts as open without saying so again.
const LEASE: Duration = Duration::from_secs(30);
/// How often one stream asks the same question, where the answers do not fit. Some clients answer by themselves, and
/// would answer the same for ever.
const MOST_TIMES: u32 = 3;

/// One stream's part in asking.
pub(super) struct Carrier<'a> {
    bridge: &'a Bridge,
    outlet: &'a dyn Outlet,
    revision: Revision,
    client: Abilities,
    /// How long a new question is left to streams that wait for its task.
    grace: Duration,
    opened: Timestamp,
    out: Vec<Out>,
    asked: HashMap<(TaskId, String), u32>,
    closed: bool,
}

/// A message that is out on this stream.
struct Out {
    guard: Carrying,
    id: String,
    renew_at: Timestamp,
}

/// What becomes of a message that is out.
#[derive(PartialEq)]
enum Fate {
    /// The question is open.
    Stays,
    /// It was answered, or another message carries the question now.
    Over,
    /// The task wants no answer any more.
    Withdrawn,
}

impl<'a> Carrier<'a> {
    /// A stream that carries the questions that its client can be asked from now on, those that are older than `grace`.
    pub(super) fn new(call: &Call<'a>, outlet: &'a dyn Outlet, grace: Duration) -> Self {
        Self {
            bridge: call.bridge,
            outlet,
            revision: call.revision(),
            client: call.client(),
            grace,
            opened: call.bridge.clock.now(),
            out: Vec::new(),
            asked: HashMap::new(),
            closed: false,
        }
    }

    /// True if this stream has something to do for the task.
    pub(super) fn is_behind(&self, task: &Task) -> bool {
        let now = self.bridge.clock.now();
        self.out.iter().any(|out| out.guard.carried().task == task.id && out.fate(task) != Fate::Stays)
            || task.open_questions().any(|asked| self.wants(&task.id, asked, now))
    }

    /// Brings the stream up to date with the task: withdraws what nobody wants an answer to any more, asks what is
    /// open. Returns when the task must be looked at again, if no hint comes before.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub(super) async fn attend(&mut self, task: &Task) -> Result<Option<Timestamp>, StoreError> {
        self.look_after(task).await?;
        while !self.closed {
            let now = self.bridge.clock.now();
            let wanted = |asked: &Asked| self.wants(&task.id, asked, now);
            if !task.open_questions().any(wanted) {
                break;
            }
            let carried = self.bridge.service.carry(task, LEASE, wanted).await?;
            let Some(carried) = carried else { break };
            self.send(carried).await;
        }
        Ok(self.next_look(task))
    }

    /// The request that the stream belongs to is answered, so its client has seen what was asked on it. What is still
    /// open is not asked again on the streams that are open now.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub(super) async fn leave(self) -> Result<(), StoreError> {
        for out in self.out {
            out.guard.over().await?;
        }
        Ok(())
    }

    async fn look_after(&mut self, task: &Task) -> Result<(), StoreError> {
        let now = self.bridge.clock.now();
        for mut out in std::mem::take(&mut self.out) {
            if out.guard.carried().task == task.id {
                match out.fate(task) {
                    Fate::Stays if now >= out.renew_at => {
                        out.guard.still_open(LEASE).await?;
                        out.renew_at = now + LEASE / 2;
                    }
                    Fate::Stays => {}
                    Fate::Over => continue,
                    Fate::Withdrawn => {
                        let params =
                            wire::Cancelled { request_id: &out.id, reason: "the answer is no longer needed" };
                        let message = to_wire::notification("notifications/cancelled", params);
                        self.closed |= !self.outlet.send(message).await;
                        continue;
                    }
                }
            }
            self.out.push(out);
        }
        Ok(())
    }

    async fn send(&mut self, carried: Carried) {
        let Some(schema) = carried.asked.question.ask.form() else { return };
        let sealed = (carried.task.as_str(), carried.key.as_str(), carried.n);
        let id = self.bridge.seal.seal(Purpose::Question, &sealed);
        let params = wire::Elicit {
            mode: self.revision.has_tasks().then_some("form"),
            message: &carried.asked.question.message,
            requested_schema: schema,
            meta: to_wire::related_meta(&carried.task),
        };
        let message = to_wire::value(&wire::Message {
            jsonrpc: "2.0",
            id: Some(&id),
            method: "elicitation/create",
            params,
        });
        *self.asked.entry((carried.task.clone(), carried.key.clone())).or_default() += 1;
        let guard = self.bridge.service.carrying(carried);
        if self.outlet.send(message).await {
            let renew_at = self.bridge.clock.now() + LEASE / 2;
            self.out.push(Out { guard, id, renew_at });
        } else {
            self.closed = true;
        }
    }

    /// A question is this stream's to ask if no open stream carries it. One that the client has dealt with goes out
    /// again only on a stream that was opened afterwards, or, where the answer did not fit, on the same.
    fn wants(&self, id: &TaskId, asked: &Asked, now: Timestamp) -> bool {
        let times = self.asked.get(&(id.clone(), asked.key.clone())).copied().unwrap_or(0);
        let free = match &asked.delivery {
            None => true,
            Some(delivery) if delivery.over => times > 0 || delivery.until <= self.opened,
            Some(_) => !asked.is_out(now),
        };
        let can_be_asked = self.client.can_ask(&asked.question.ask) && asked.question.ask.form().is_some();
        can_be_asked
            && !self.closed
            && free
            && times < MOST_TIMES
            && asked.at + self.grace <= now
            && !self.has_out(id, asked)
    }

    fn has_out(&self, id: &TaskId, asked: &Asked) -> bool {
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
        renewals.chain(others).min()
    }
}

impl Out {
    fn fate(&self, task: &Task) -> Fate {
        let Carried { key, n, .. } = self.guard.carried();
        let asked = task.questions.iter().find(|asked| asked.key == *key);
        match asked.and_then(|asked| Some((asked, asked.delivery.as_ref()?))) {
            // The row was read before this message was claimed.
            Some((_, delivery)) if delivery.n < *n => Fate::Stays,
            Some((_, delivery)) if delivery.over || delivery.n > *n => Fate::Over,
            Some((asked, _)) if asked.status == AskedStatus::Open => Fate::Stays,
            _ => Fate::Withdrawn,
        }
    }
}

/// Takes the client's response to a question.
pub(super) async fn replied(bridge: &Bridge, caller: &Caller, id: &Id, outcome: Outcome) -> Replied {
    let Id::Text(id) = id else { return Replied::Unknown };
    let Some((task, key, n)) = bridge.seal.open::<(TaskId, String, u32)>(Purpose::Question, id) else {
        return Replied::Unknown;
    };
    let answer = match outcome {
        Ok(result) => from_wire::answer(&result),
        Err(error) => Err(format!("the client answered with an error: {}", error.message)),
    };
    let owner = &caller.principal.owner;
    let problem = match answer {
        Ok(answer) => match bridge.service.answer(owner, &task, &key, answer).await {
            Ok(_) => return Replied::Taken,
            // We asked it, so a task that is gone by now, or not this caller's, is nothing that the client did wrong.
            Err(AnswerError::Closed | AnswerError::NotFound) => return Replied::Late,
            Err(problem) => problem.to_string(),
        },
        Err(problem) => problem,
    };
    tracing::debug!(?task, key, n, problem, "an answer was not taken; the question stays open");
    match bridge.service.get(owner, &task).await {
        Ok(Some(view)) => {
            let Some(asked) = view.task.questions.into_iter().find(|asked| asked.key == key) else {
                return Replied::Late;
            };
            let message = bridge.service.carrying(Carried { task, key, n, asked });
            if let Err(error) = message.over().await {
                tracing::warn!(%error, "a question cannot be asked again yet");
            }
            Replied::Taken
        }
        Ok(None) => Replied::Late,
        Err(error) => {
            tracing::error!(%error, "an answer was lost; the question stays open");
            Replied::Taken
        }
    }
}
