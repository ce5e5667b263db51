//! What is kept of each transition of a task: what happened, what it changed, which process wrote it, and the call to an
//! engine that led to it. Pure: [`transition`] derives it from the row before, the event and the row after.
//!
//! It holds no argument, no result, no answer and no words of an engine or of a job. What can happen without end is
//! bounded here, so that no task fills a disk: of changes that only say how far a job has come, the first after 1, 2, 4,
//! 8... seconds of the task's life is kept, and of calls that fail again and again the first eight, the 16th, the 32nd
//! and so on. Leases, renewals of messages and what a log has printed are no transitions, and neither is who watches.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Answer, ErrorKind, JobHandle, Progress, Timestamp};

use super::machine::{Event, deadline};
use super::store::Holder;
use super::task::{AskedStatus, Job, Outcome, Owner, Task};

/// One transition as it is read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the row that it made.
    pub version: u64,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// Who wrote it, and what it was.
    #[serde(flatten)]
    pub transition: Transition,
}

/// One transition as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The process that wrote it, as it names itself where it holds leases.
    pub replica: String,
    /// What happened, and what changed with it; never empty.
    pub what: Vec<Fact>,
    /// The call to an engine that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<EngineCall>,
}

/// A call to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineCall {
    /// What was asked of it.
    pub to: CallTo,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// What is asked of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the verbs of a backend")]
pub enum CallTo {
    Start,
    Find,
    Look,
    Cancel,
    Answer,
}

/// One thing that happened to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The row was made.
    Created {
        /// Whose it is.
        owner: Owner,
        /// The tool that was called.
        tool: String,
        /// The backend that is to run the job.
        backend: String,
    },
    /// It waits for a free slot.
    Queued,
    /// This attempt to start was committed, and is about to be sent.
    Attempt(u32),
    /// It was not sent after all.
    TakenBack,
    /// An attempt brought no handle.
    StartFailed {
        /// Which attempt.
        attempt: u32,
        /// How it failed.
        kind: String,
    },
    /// A search for a job that may have started found none.
    NotFound,
    /// A search could not be made.
    FindFailed {
        /// How it failed.
        kind: String,
    },
    /// The engine has the job, under this name.
    Accepted(JobHandle),
    /// How far the job has come.
    Progress(Progress),
    /// The job cannot be looked at since now.
    LooksFail {
        /// How the look failed.
        kind: String,
    },
    /// It can be looked at again.
    LooksAgain,
    /// A question was asked, by its key.
    Asked(String),
    /// It went out to a client for the first time.
    Sent(String),
    /// Somebody answered it.
    Answered {
        /// The question's key.
        key: String,
        /// Whether they said anything, and never what.
        how: Said,
        /// Who they are: the owner of their own tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Owner>,
    },
    /// The engine has the answer.
    AnswerTaken(String),
    /// The engine no longer wanted it.
    AnswerTooLate(String),
    /// The answer could not be handed over.
    AnswerFailed {
        /// The question's key.
        key: String,
        /// How often that was tried.
        times: u32,
        /// How it failed.
        kind: String,
    },
    /// The job no longer wants an answer to it.
    Withdrawn(String),
    /// Somebody wants the job stopped.
    CancelWished,
    /// The engine took the request to stop.
    CancelTaken,
    /// It did not.
    CancelFailed {
        /// How often that was tried.
        times: u32,
        /// How it failed.
        kind: String,
    },
    /// An operator wanted what was owed done at once.
    RetryWished,
    /// An operator gave the task up.
    OutcomeUnknown,
    /// `max_wait` or `start_within` is over before the start, or `max_runtime` after it.
    DeadlinePassed,
    /// Whoever waited for the answer to a plain call went away.
    CallerGone,
    /// Nothing is owed to the engine any more.
    JobOver,
    /// The client's state is final.
    Ended(Outcome),
}

/// What somebody did with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words of the protocol")]
pub enum Said {
    Accepted,
    Declined,
    Dismissed,
}

/// An event, with the call to an engine that brought it.
#[derive(Clone, Debug)]
pub struct Happened {
    /// The event.
    pub event: Event,
    /// The call, if there was one.
    pub call: Option<EngineCall>,
}

impl From<Event> for Happened {
    fn from(event: Event) -> Self {
        Self { event, call: None }
    }
}

impl Event {
    /// The event, brought by such a call that took so long.
    pub fn after_call(self, to: CallTo, took: Duration) -> Happened {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Happened { event: self, call: Some(EngineCall { to, ms }) }
    }
}

/// Makes transitions, in the name of a process, if any are to be kept.
#[derive(Clone, Debug)]
pub struct Scribe {
    /// Who this is.
    pub replica: Holder,
    /// Whether transitions are kept at all.
    pub keeps: bool,
}

impl Scribe {
    /// The birth of a row.
    pub fn born(&self, task: &Task) -> Option<Transition> {
        let created = Fact::Created {
            owner: task.owner.clone(),
            tool: task.tool.clone(),
            backend: task.backend.clone(),
        };
        let mut what = vec![created];
        what.extend(task.open_questions().map(|asked| Fact::Asked(asked.key.clone())));
        match &task.job {
            Job::Pending { queued: true, .. } => what.push(Fact::Queued),
            Job::Starting { attempts, .. } => what.push(Fact::Attempt(*attempts)),
            Job::Pending { .. } | Job::Open { .. } | Job::Closed { .. } => {}
        }
        self.signed(what, None)
    }

    /// What a write is that made `after` of `before`; `said` is [`said`] of the event and `before`.
    pub fn transition(
        &self,
        before: &Task,
        said: Option<Fact>,
        after: &Task,
        call: Option<EngineCall>,
    ) -> Option<Transition> {
        if !self.keeps {
            return None;
        }
        self.signed(facts(before, said, after), call)
    }

    fn signed(&self, what: Vec<Fact>, call: Option<EngineCall>) -> Option<Transition> {
        let replica = self.replica.0.clone();
        (self.keeps && !what.is_empty()).then_some(Transition { replica, what, call })
    }
}

/// What an event says by itself, to a row that is like this before it. What it changes is told by the rows.
pub fn said(before: &Task, event: &Event) -> Option<Fact> {
    Some(match event {
        Event::Unsent => Fact::TakenBack,
        Event::StartFailed { attempt, failure, .. } if is_told(*attempt) => {
            Fact::StartFailed { attempt: *attempt, kind: word(failure.kind) }
        }
        Event::NotFound if is_told(searches(before)) => Fact::NotFound,
        Event::FindFailed(failure) if is_told(searches(before)) => {
            Fact::FindFailed { kind: word(failure.kind) }
        }
        Event::LookFailed(failure) if before.trouble.is_none() => {
            Fact::LooksFail { kind: word(failure.kind) }
        }
        Event::CancelRequested { .. } => Fact::CancelWished,
        Event::CancelTaken { .. } if before.cancel.as_ref().is_some_and(|cancel| !cancel.taken) => {
            Fact::CancelTaken
        }
        Event::CancelFailed(failure) => {
            let times = before.cancel.as_ref().map_or(0, |cancel| cancel.attempts) + 1;
            return is_told(times).then(|| Fact::CancelFailed { times, kind: word(failure.kind) });
        }
        Event::Answered { key, answer, by } => {
            let how = match answer {
                Answer::Accept(_) => Said::Accepted,
                Answer::Decline => Said::Declined,
                Answer::Cancel => Said::Dismissed,
            };
            Fact::Answered { key: key.clone(), how, by: Some(by.owner.clone()) }
        }
        Event::AnswerTaken { key } => Fact::AnswerTaken(key.clone()),
        Event::AnswerTooLate { key } => Fact::AnswerTooLate(key.clone()),
        Event::AnswerNotAllowed { key } => {
            let (key, times, kind) = (key.clone(), hand_overs(before, key) + 1, word(ErrorKind::Denied));
            Fact::AnswerFailed { key, times, kind }
        }
        Event::AnswerFailed { key, failure } => {
            let times = hand_overs(before, key) + 1;
            let (key, kind) = (key.clone(), word(failure.kind));
            return is_told(times).then_some(Fact::AnswerFailed { key, times, kind });
        }
        Event::Delivering { key, .. } if was_never_out(before, key) => Fact::Sent(key.clone()),
        Event::Observed { seen, began, .. }
            if !seen.state.has_ended() && deadline::decides(before, *began) =>
        {
            Fact::DeadlinePassed
        }
        Event::RetryNow => Fact::RetryWished,
        Event::OutcomeUnknown => Fact::OutcomeUnknown,
        Event::DeadlinePassed => Fact::DeadlinePassed,
        Event::Abandoned => Fact::CallerGone,
        _ => return None,
    })
}

/// All that is kept of a write: what the event said, and what the rows differ in. Nothing, if they do not differ.
fn facts(before: &Task, said: Option<Fact>, after: &Task) -> Vec<Fact> {
    if before == after {
        return Vec::new();
    }
    let answered = match &said {
        Some(Fact::Answered { key, .. } | Fact::AnswerTaken(key) | Fact::AnswerTooLate(key)) => {
            Some(key.clone())
        }
        _ => None,
    };
    let mut facts: Vec<Fact> = said.into_iter().collect();
    let ended = after.has_ended() && !before.has_ended();
    match (&before.job, &after.job) {
        (_, Job::Pending { queued: true, .. }) if !before.is_queued() => facts.push(Fact::Queued),
        (Job::Pending { .. }, Job::Starting { attempts, .. }) if is_told(*attempts) => {
            facts.push(Fact::Attempt(*attempts));
        }
        (Job::Open { .. }, Job::Open { .. }) => {}
        (_, Job::Open { handle, .. }) => facts.push(Fact::Accepted(handle.clone())),
        // A job that was accepted and has ended by the time that it was told of.
        (Job::Pending { .. } | Job::Starting { .. }, Job::Closed { handle: Some(handle) }) => {
            facts.push(Fact::Accepted(handle.clone()));
        }
        _ => {}
    }
    let was_open = matches!(before.job, Job::Open { .. });
    if was_open && before.trouble.is_some() && after.trouble.is_none() && !ended {
        facts.push(Fact::LooksAgain);
    }
    for asked in &after.questions {
        let known = before.questions.iter().find(|known| known.key == asked.key);
        match known.map(|known| &known.status) {
            None => facts.push(Fact::Asked(asked.key.clone())),
            Some(AskedStatus::Closed) => {}
            Some(_) if asked.status == AskedStatus::Closed && !ended => {
                if answered.as_ref() != Some(&asked.key) {
                    facts.push(Fact::Withdrawn(asked.key.clone()));
                }
            }
            Some(_) => {}
        }
    }
    if let Some(progress) = after.progress.filter(|_| before.progress != after.progress)
        && (before.progress.is_none() || stage(before) != stage(after))
    {
        facts.push(Fact::Progress(progress));
    }
    let is_over = |task: &Task| matches!(task.job, Job::Closed { .. });
    if is_over(after) && !is_over(before) && !ended {
        facts.push(Fact::JobOver);
    }
    if let Some(outcome) = after.outcome().filter(|_| ended) {
        facts.push(Fact::Ended(outcome));
    }
    facts
}

/// True for the 1st to the 8th, the 16th, the 32nd and so on.
fn is_told(times: u32) -> bool {
    times <= 8 || times.is_power_of_two()
}

/// In which stretch of its life a task was when it last changed: each is as long as all before it together.
fn stage(task: &Task) -> u32 {
    let age = task.changed_at.since(task.created_at).as_secs();
    u64::BITS - age.leading_zeros()
}

/// Which search for the job the next one is.
fn searches(task: &Task) -> u32 {
    match &task.job {
        Job::Starting { sought, .. } => sought.map_or(0, |sought| sought.times) + 1,
        Job::Pending { .. } | Job::Open { .. } | Job::Closed { .. } => 1,
    }
}

fn hand_overs(task: &Task, key: &str) -> u32 {
    let asked = task.questions.iter().find(|asked| asked.key == key);
    match asked.map(|asked| &asked.status) {
        Some(AskedStatus::Answered { attempts, .. }) => *attempts,
        _ => 0,
    }
}

fn was_never_out(task: &Task, key: &str) -> bool {
    task.questions.iter().any(|asked| asked.key == key && asked.delivery.is_none())
}

/// A kind of error in one word.
fn word(kind: ErrorKind) -> String {
    let word = match kind {
        ErrorKind::Rejected => "rejected",
        ErrorKind::Denied => "denied",
        ErrorKind::Config => "config",
        ErrorKind::Limited { .. } => "limited",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Uncertain => "uncertain",
    };
    word.to_owned()
}

#[cfg(test)]
mod tests;
