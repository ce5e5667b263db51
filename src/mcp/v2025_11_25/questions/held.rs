//! Tasks of the client's own, which it made of questions of ours: looked at for as long as the question is open, fetched
//! once they have an answer, cancelled once nobody wants it any more. What is held is in the session's row, so that any
//! stream of the session goes on with it, in any process. Here is what a stream sends; what comes back is for
//! [`super::replied`].

use std::collections::HashMap;
use std::time::Duration;

use taskbridge_sdk::{Answer, Timestamp};

use super::{Carrier, MOST_TIMES, Sent, What, message, visit};
use crate::mcp::Bridge;
use crate::mcp::session::Session;
use crate::seal::Purpose;
use crate::tasks::service::{Actor, AnswerError};
use crate::tasks::store::{Held, Message, Setting, Stage, StoreError};
use crate::tasks::task::{AskedStatus, Task, TaskId};
use crate::tasks::watch::Changes;

/// The shortest time between two looks at a client's task, however often its client would have it looked at.
const SHORTEST: Duration = Duration::from_millis(250);
/// The longest, unless its client wants to be asked less often.
const LONGEST: Duration = Duration::from_secs(30);
/// How much longer the next look may come late than the task is old.
const LATENESS: u32 = 20;

/// What a stream knows of the tasks that its session's client holds.
pub(super) struct Holdings {
    /// Those for this task alone.
    only: Option<TaskId>,
    pub(super) held: Vec<Held>,
    /// True if a stream of the session listens in another process, as far as is known.
    is_listened: bool,
    sent: HashMap<Message, SentHere>,
    /// Hints about the tasks that they are held for.
    follows: Changes,
}

/// What was sent on this stream about one of them.
#[derive(Clone, Copy, Default)]
struct SentHere {
    looked_at: Option<Timestamp>,
    fetched_at: Option<Timestamp>,
    fetches: u32,
    cancelled: bool,
}

impl Holdings {
    pub(super) fn new(bridge: &Bridge, only: Option<&TaskId>) -> Self {
        let follows = bridge.service.follow([]);
        Self { only: only.cloned(), held: Vec::new(), is_listened: false, sent: HashMap::new(), follows }
    }

    /// Takes what is held now. Returns of which messages nothing is held any more.
    fn take(&mut self, held: Vec<Held>) -> Vec<Message> {
        let before = std::mem::replace(&mut self.held, held);
        let (still, gone): (Vec<Message>, Vec<Message>) = before
            .into_iter()
            .map(|held| held.of)
            .partition(|of| self.held.iter().any(|held| held.of == *of));
        for of in &gone {
            self.sent.remove(of);
            if !still.iter().any(|other| other.task == of.task) {
                self.follows.let_go(&of.task);
            }
        }
        for held in &self.held {
            self.follows.take_up(&held.of.task);
        }
        gone
    }

    fn has_sent(&mut self, of: &Message) -> &mut SentHere {
        self.sent.entry(of.clone()).or_default()
    }
}

impl Carrier<'_> {
    /// Looks after all that is held, as far as it is time. Returns when something is due again, if no hint comes before.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub(in crate::mcp::v2025_11_25) async fn collect(&mut self) -> Result<Option<Timestamp>, StoreError> {
        self.refresh().await?;
        let held = self.holdings.as_ref().map_or_else(Vec::new, |holdings| holdings.held.clone());
        let mut next: Option<Timestamp> = None;
        for held in held {
            let now = self.bridge.clock.now();
            let due =
                if self.collects() { self.see_to(&held, now).await? } else { Some(now + pace(&held, now)) };
            next = next.into_iter().chain(due).min();
        }
        Ok(next)
    }

    /// Waits for a hint about a task that something is held for.
    pub(in crate::mcp::v2025_11_25) async fn hint(&mut self) {
        match &mut self.holdings {
            Some(holdings) => drop(holdings.follows.next().await),
            None => std::future::pending().await,
        }
    }

    /// Reads anew what is held.
    pub(super) async fn refresh(&mut self) -> Result<(), StoreError> {
        let Some(holdings) = &mut self.holdings else { return Ok(()) };
        let settings = self.bridge.store.settings(&self.session.nonce).await?.unwrap_or_default();
        let mut held = settings.held;
        holdings.is_listened = settings.streams.speaker(self.bridge.clock.now()) > 0;
        if let Some(only) = &holdings.only {
            held.retain(|held| held.of.task == *only);
        }
        for of in holdings.take(held) {
            self.let_go_of(of).await?;
        }
        Ok(())
    }

    /// True if something is held for this question, so that it must not be asked again here.
    pub(super) fn is_held(&self, task: &TaskId, key: &str) -> bool {
        let mut held = self.holdings.iter().flat_map(|holdings| &holdings.held);
        held.any(|held| held.of.task == *task && held.of.key == key)
    }

    /// True if something is held for this task whose answer nobody wants any more, and that was not cancelled here.
    pub(super) fn holds_in_vain(&self, task: &Task) -> bool {
        let Some(holdings) = self.holdings.as_ref().filter(|_| self.collects()) else { return false };
        holdings.held.iter().any(|held| {
            held.of.task == task.id
                && !is_open(task, &held.of.key)
                && holdings.sent.get(&held.of).is_none_or(|sent| !sent.cancelled)
        })
    }

    /// The listening stream of a session does all of this, wherever it is open; a stream that waits for a task, where
    /// none listens. While one opens or closes, both may: then a client is asked twice how its task stands, and nothing
    /// else.
    fn collects(&self) -> bool {
        let Some(Holdings { only: Some(_), is_listened, .. }) = &self.holdings else { return true };
        !(*is_listened || self.bridge.speakers.is_listened(&self.session.nonce))
    }

    async fn see_to(&mut self, held: &Held, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let Held { of, stage, .. } = held;
        let view = self.bridge.service.get(&self.actor, &of.task).await?;
        let task = view.map(|view| view.task);
        let wanted = task.as_ref().is_some_and(|task| is_open(task, &of.key));
        match stage {
            Stage::Cancelled if wanted => {
                // Whoever heard of it has gone away before all was written.
                dismiss(self.bridge, &self.actor, self.session, of).await?;
                Ok(None)
            }
            Stage::Ended | Stage::Cancelled if !wanted => {
                let_go(self.bridge, self.session, of).await?;
                Ok(None)
            }
            Stage::Working | Stage::InputRequired if !wanted => {
                self.cancel(held, task.as_ref()).await?;
                Ok(None)
            }
            Stage::Ended | Stage::Cancelled => Ok(self.fetch(held, now).await),
            Stage::InputRequired => {
                // The task says that it cannot go on without this; it is answered when it has ended.
                if self.sent_about(of).fetches == 0 {
                    self.fetch(held, now).await;
                }
                Ok(Some(self.look(held, now).await))
            }
            Stage::Working => Ok(Some(self.look(held, now).await)),
        }
    }

    /// Asks how it stands, if it is time. Returns when it is time again.
    async fn look(&mut self, held: &Held, now: Timestamp) -> Timestamp {
        let pace = pace(held, now);
        let due = self.sent_about(&held.of).looked_at.unwrap_or(held.since) + pace;
        if due > now {
            return due;
        }
        self.has_sent(&held.of, |sent| sent.looked_at = Some(now));
        self.ask_about(held, What::Status, "tasks/get").await;
        now + pace
    }

    /// Asks for its result, again if nothing came of it, but not for ever. Returns when it is time again.
    async fn fetch(&mut self, held: &Held, now: Timestamp) -> Option<Timestamp> {
        let SentHere { fetched_at, fetches, .. } = self.sent_about(&held.of);
        if fetches == MOST_TIMES {
            return None;
        }
        if let Some(due) = fetched_at.map(|last| last + LONGEST).filter(|due| *due > now) {
            return Some(due);
        }
        self.has_sent(&held.of, |sent| {
            sent.fetched_at = Some(now);
            sent.fetches += 1;
        });
        self.ask_about(held, What::Result, "tasks/result").await;
        Some(now + LONGEST)
    }

    /// Tells the client that its task is in vain. It is let go when the client has said something to that, and until then
    /// every new stream says it once more.
    async fn cancel(&mut self, held: &Held, task: Option<&Task>) -> Result<(), StoreError> {
        if self.sent_about(&held.of).cancelled {
            return Ok(());
        }
        self.has_sent(&held.of, |sent| sent.cancelled = true);
        if let Some((id, key)) = task.and_then(|task| visit(task, &held.of.key)) {
            self.say(message::complete(&self.bridge.seal, &id, &key)).await;
        }
        if !self.session.client.cancels_tasks {
            return let_go(self.bridge, self.session, &held.of).await;
        }
        self.ask_about(held, What::Cancel, "tasks/cancel").await;
        Ok(())
    }

    async fn ask_about(&mut self, held: &Held, what: What, method: &'static str) {
        let id = self.bridge.seal.seal(Purpose::Question, &Sent { of: held.of.clone(), what });
        self.say(message::about(&id, method, &held.id)).await;
    }

    fn sent_about(&self, of: &Message) -> SentHere {
        self.holdings.as_ref().and_then(|holdings| holdings.sent.get(of)).copied().unwrap_or_default()
    }

    fn has_sent(&mut self, of: &Message, note: impl FnOnce(&mut SentHere)) {
        if let Some(holdings) = &mut self.holdings {
            note(holdings.has_sent(of));
        }
    }

    /// A task of the client's has brought its answer, or is gone without one. Then the question is asked once more here,
    /// and as often as any other where an answer did not fit.
    async fn let_go_of(&mut self, of: Message) -> Result<(), StoreError> {
        if !self.collects() {
            return Ok(());
        }
        let Some(view) = self.bridge.service.get(&self.actor, &of.task).await? else { return Ok(()) };
        let Some(asked) = view.task.questions.iter().find(|asked| asked.key == of.key) else { return Ok(()) };
        if asked.status == AskedStatus::Open {
            let did_not_fit = asked.delivery.as_ref().is_some_and(|delivery| delivery.problem.is_some());
            let at_least = if did_not_fit { 1 } else { MOST_TIMES - 1 };
            let times = self.asked.entry((of.task, of.key)).or_default();
            *times = at_least.max(*times);
        } else {
            self.visits.extend(visit(&view.task, &of.key));
        }
        Ok(())
    }
}

/// How long to wait between two looks: as the client says, and longer the longer nobody has answered.
fn pace(held: &Held, now: Timestamp) -> Duration {
    let patience = (now.since(held.since) / LATENESS).min(LONGEST);
    held.every.max(patience).max(SHORTEST)
}

fn is_open(task: &Task, key: &str) -> bool {
    task.open_questions().any(|asked| asked.key == key)
}

/// Somebody at the client has cancelled its task: the question was closed without a choice.
///
/// # Errors
/// If the store cannot be used.
pub(super) async fn dismiss(
    bridge: &Bridge,
    by: &dyn Actor,
    session: &Session,
    of: &Message,
) -> Result<(), StoreError> {
    match bridge.service.answer(by, &of.task, &of.key, Answer::Cancel).await {
        Err(AnswerError::Store(error)) => Err(error),
        _ => let_go(bridge, session, of).await,
    }
}

/// Nothing comes of a client's task any more.
///
/// # Errors
/// If the store cannot be used.
pub(super) async fn let_go(bridge: &Bridge, session: &Session, of: &Message) -> Result<(), StoreError> {
    note(bridge, session, Setting::LetGo(of.clone())).await.map(drop)
}

/// Notes something about what a session's client holds, and tells its streams. False if there is no room for it.
///
/// # Errors
/// If the store cannot be used.
pub(super) async fn note(bridge: &Bridge, session: &Session, setting: Setting) -> Result<bool, StoreError> {
    let noted = bridge.store.set(&session.nonce, setting, session.expires).await?;
    bridge.service.session_changed(&session.nonce);
    Ok(noted.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_as_often_as_it_says_and_less_often_with_time() {
        let held = |every| Held {
            of: Message { task: TaskId::from_wire("t"), key: "q1".to_owned(), n: 1 },
            id: TaskId::from_wire("theirs"),
            since: Timestamp::from_millis(0),
            stage: Stage::Working,
            every: Duration::from_millis(every),
        };
        for (every, age, expected) in [
            (0, 0, 250),
            (1_000, 0, 1_000),
            (1_000, 20_000, 1_000),
            (1_000, 60_000, 3_000),
            (1_000, 86_400_000, 30_000),
            (3_600_000, 86_400_000, 3_600_000),
        ] {
            let pace = pace(&held(every), Timestamp::from_millis(age));
            assert_eq!(pace, Duration::from_millis(expected), "{every} {age}");
        }
    }
}
