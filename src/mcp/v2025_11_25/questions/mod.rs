//! Questions on their way to this session's user, and the answers that come back. A question is claimed before it is
//! sent, so that it is on one stream at a time; its JSON-RPC id is sealed, so that the answer can come back to any
//! process.

mod message;
mod replied;

pub(super) use replied::replied;

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskbridge_sdk::{Answer, Ask, Timestamp};

use super::Call;
use crate::mcp::Bridge;
use crate::mcp::generation::Revision;
use crate::mcp::outlet::Outlet;
use crate::mcp::session::Abilities;
use crate::seal::Purpose;
use crate::tasks::service::{Carried, Carrying};
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
    /// The pages that were asked about here and that somebody visits, by task and question.
    visits: Vec<(TaskId, String)>,
    asked: HashMap<(TaskId, String), u32>,
    closed: bool,
}

/// What a message of ours is about: sealed, it is the message's JSON-RPC id.
#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    #[serde(rename = "t")]
    task: TaskId,
    #[serde(rename = "q")]
    key: String,
    n: u32,
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
            visits: Vec::new(),
            asked: HashMap::new(),
            closed: false,
        }
    }

    /// True if this stream has something to do for the task.
    pub(super) fn is_behind(&self, task: &Task) -> bool {
        let now = self.bridge.clock.now();
        self.out.iter().any(|out| out.guard.carried().task == task.id && out.fate(task) != Fate::Stays)
            || self.visits.iter().any(|(id, key)| *id == task.id && is_visited(task, key))
            || task.open_questions().any(|asked| self.wants(&task.id, asked, now))
    }

    /// The tasks that this stream has something out for.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        let out = self.out.iter().map(|out| &out.guard.carried().task);
        out.chain(self.visits.iter().map(|(id, _)| id))
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
            out.guard.over(None).await?;
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
                    Fate::Over => {
                        self.visits.extend(out.visit(task));
                        continue;
                    }
                    Fate::Withdrawn => {
                        if let Some((id, key)) = out.visit(task) {
                            self.say(message::complete(&self.bridge.seal, &id, &key)).await;
                        }
                        self.say(message::withdraw(&out.id)).await;
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

    async fn say(&mut self, message: Value) {
        self.closed |= !self.outlet.send(message).await;
    }

    async fn send(&mut self, carried: Carried) {
        let sent = Sent { task: carried.task.clone(), key: carried.key.clone(), n: carried.n };
        let id = self.bridge.seal.seal(Purpose::Question, &sent);
        let message = message::request(&self.bridge.seal, self.revision, &carried, &id);
        *self.asked.entry((sent.task, sent.key)).or_default() += 1;
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
        self.client.can_ask(&asked.question.ask)
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

/// True once a page's visit is over, as far as the task goes.
fn is_visited(task: &Task, key: &str) -> bool {
    let asked = task.questions.iter().find(|asked| asked.key == *key);
    task.has_ended() || asked.is_none_or(|asked| asked.status == AskedStatus::Closed)
}

impl Out {
    /// The visit that the message has led to, if it asked for one and may have.
    fn visit(&self, task: &Task) -> Option<(TaskId, String)> {
        let key = &self.guard.carried().key;
        let asked = task.questions.iter().find(|asked| asked.key == *key)?;
        let may_have = match &asked.status {
            AskedStatus::Answered { answer, .. } => matches!(answer, Answer::Accept(_)),
            AskedStatus::Visiting => true,
            // The job saw the visit itself, unless nobody wants it any more.
            AskedStatus::Closed => !task.has_ended(),
            AskedStatus::Open => false,
        };
        let page = matches!(asked.question.ask, Ask::Url(_));
        (page && may_have).then(|| (task.id.clone(), key.clone()))
    }

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
