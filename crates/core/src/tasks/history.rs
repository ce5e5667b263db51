//! The history entry of each transition of a task: the event, the changes, the process that wrote them, and
//! the engine call that caused them. Pure: [`HistoryRecorder::transition`] derives it from the row before,
//! the event and the row after.
//!
//! An entry contains no argument, result or answer, and of the texts of an engine or a job only the handle.
//! This module bounds what can repeat without end, so that no task fills a disk. Of changes that only report
//! progress, it keeps the first one after 1, 2, 4, 8... seconds of the task's life. Of repeated failures of a
//! call, it keeps the first eight, the 16th, the 32nd and so on. Leases, the size of a log and watches are
//! not transitions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Answer, ErrorKind, JobHandle, Progress, Timestamp};

use super::machine::{Event, deadline};
use super::store::Holder;
use super::task::{Job, Outcome, Owner, QuestionStatus, Task};

/// A history entry as it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The version of the row that it created.
    pub version: u64,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// The transition and the process that wrote it.
    #[serde(flatten)]
    pub transition: Transition,
}

/// A transition to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The process that wrote it, under its holder id.
    pub replica: String,
    /// The event and its changes; never empty.
    pub what: Vec<Fact>,
    /// The engine call that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<EngineCall>,
}

/// A call to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineCall {
    /// The operation.
    pub to: EngineOperation,
    /// The duration in milliseconds.
    pub ms: u64,
}

/// An operation of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the verbs of a backend")]
pub enum EngineOperation {
    Start,
    Find,
    Look,
    Cancel,
    Answer,
}

/// One event in the life of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The row was inserted.
    Created {
        /// The owner.
        owner: Owner,
        /// The tool that was called.
        tool: String,
        /// The backend that will run the job.
        backend: String,
    },
    /// It waits for a free slot.
    Queued,
    /// This attempt to start was committed, and is about to be sent.
    Attempt(u32),
    /// The committed attempt was not sent.
    TakenBack,
    /// An attempt returned no handle.
    StartFailed {
        /// The number of the attempt.
        attempt: u32,
        /// The error kind.
        kind: String,
    },
    /// A search for a job that may have started found none.
    NotFound,
    /// A search failed.
    FindFailed {
        /// The error kind.
        kind: String,
    },
    /// The engine accepted the job under this handle.
    Accepted(JobHandle),
    /// The job's progress.
    Progress(Progress),
    /// Polls of the job fail from now on.
    LooksFail {
        /// The error kind of the failed poll.
        kind: String,
    },
    /// Polls of the job succeed again.
    LooksAgain,
    /// A question with this key was asked.
    Asked(String),
    /// The question was sent to a client for the first time.
    Sent(String),
    /// A question was answered.
    Answered {
        /// The question's key.
        key: String,
        /// The kind of answer, never its content.
        how: AnswerKind,
        /// The person who answered, as the owner of their own tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Owner>,
    },
    /// The engine accepted the answer.
    AnswerTaken(String),
    /// The engine no longer needed the answer.
    AnswerTooLate(String),
    /// The answer could not be delivered to the engine, or the engine refuses it from this person (kind
    /// `denied`).
    AnswerFailed {
        /// The question's key.
        key: String,
        /// The number of attempts.
        times: u32,
        /// The error kind.
        kind: String,
    },
    /// The job no longer needs an answer to the question.
    Withdrawn(String),
    /// A client or an operator requested cancellation.
    CancelWished,
    /// The engine accepted the cancellation request.
    CancelTaken,
    /// The cancellation request failed.
    CancelFailed {
        /// The number of attempts.
        times: u32,
        /// The error kind.
        kind: String,
    },
    /// An immediate retry of the pending attempts was requested: by an operator, or for a hint that another
    /// process passed on.
    RetryWished,
    /// An operator gave up the task; its outcome is unknown.
    OutcomeUnknown,
    /// `max_wait`, `start_within` or (for consent) `answer_within` expired before the start, or `max_runtime`
    /// after it.
    DeadlinePassed,
    /// The caller of a plain call disconnected.
    CallerGone,
    /// The job is closed after its task had ended: no action on the engine is pending any more.
    JobOver,
    /// The client's state is final.
    Ended(Outcome),
}

/// The kind of an answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words of the protocol")]
pub enum AnswerKind {
    Accepted,
    Declined,
    Dismissed,
}

/// An event with the engine call that produced it.
#[derive(Clone, Debug)]
pub struct EventWithCall {
    /// The event.
    pub event: Event,
    /// The call, if there was one.
    pub call: Option<EngineCall>,
}

impl From<Event> for EventWithCall {
    fn from(event: Event) -> Self {
        Self { event, call: None }
    }
}

impl Event {
    /// Returns the event with the engine call that produced it and the call's duration.
    pub fn after_call(self, to: EngineOperation, took: Duration) -> EventWithCall {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        EventWithCall { event: self, call: Some(EngineCall { to, ms }) }
    }
}

/// Builds transitions in the name of a process, if history is kept.
#[derive(Clone, Debug)]
pub struct HistoryRecorder {
    /// The holder id of this process.
    pub replica: Holder,
    /// Whether history is kept.
    pub enabled: bool,
}

impl HistoryRecorder {
    /// Returns the transition of an insert; `None` if no history is kept.
    pub fn creation(&self, task: &Task) -> Option<Transition> {
        let created = Fact::Created {
            owner: task.owner.clone(),
            tool: task.tool.clone(),
            backend: task.backend.clone(),
        };
        let mut what = vec![created];
        what.extend(task.open_questions().map(|question| Fact::Asked(question.key.clone())));
        match &task.job {
            Job::Pending { queued: true, .. } => what.push(Fact::Queued),
            Job::Starting { attempts, .. } => what.push(Fact::Attempt(*attempts)),
            Job::Pending { .. } | Job::Open { .. } | Job::Closed { .. } => {}
        }
        self.build(what, None)
    }

    /// Returns the transition of a write from `before` to `after`; `fact` is the result of [`event_fact`]
    /// for the event and `before`. `None` if no history is kept, or nothing happened that it records.
    pub fn transition(
        &self,
        before: &Task,
        fact: Option<Fact>,
        after: &Task,
        call: Option<EngineCall>,
    ) -> Option<Transition> {
        if !self.enabled {
            return None;
        }
        self.build(facts(before, fact, after), call)
    }

    fn build(&self, what: Vec<Fact>, call: Option<EngineCall>) -> Option<Transition> {
        let replica = self.replica.0.clone();
        (self.enabled && !what.is_empty()).then_some(Transition { replica, what, call })
    }
}

/// Returns the fact that an event itself contributes, given the row before it. The other facts follow from
/// comparing the rows.
pub fn event_fact(before: &Task, event: &Event) -> Option<Fact> {
    Some(match event {
        Event::StartNotSent => Fact::TakenBack,
        Event::StartFailed { attempt, failure, .. } if is_recorded(*attempt) => {
            Fact::StartFailed { attempt: *attempt, kind: kind_name(failure.kind) }
        }
        Event::NotFound if is_recorded(search_number(before)) => Fact::NotFound,
        Event::FindFailed(failure) if is_recorded(search_number(before)) => {
            Fact::FindFailed { kind: kind_name(failure.kind) }
        }
        Event::PollFailed(failure) if before.trouble.is_none() => {
            Fact::LooksFail { kind: kind_name(failure.kind) }
        }
        Event::CancelRequested { .. } => Fact::CancelWished,
        Event::CancelTaken { .. } if before.cancel.as_ref().is_some_and(|cancel| !cancel.taken) => {
            Fact::CancelTaken
        }
        Event::CancelFailed(failure) => {
            let times = before.cancel.as_ref().map_or(0, |cancel| cancel.attempts) + 1;
            return is_recorded(times).then(|| Fact::CancelFailed { times, kind: kind_name(failure.kind) });
        }
        Event::Answered { key, answer, by } => {
            let how = match answer {
                Answer::Accept(_) => AnswerKind::Accepted,
                Answer::Decline => AnswerKind::Declined,
                Answer::Cancel => AnswerKind::Dismissed,
            };
            Fact::Answered { key: key.clone(), how, by: Some(by.owner.clone()) }
        }
        Event::AnswerTaken { key } => Fact::AnswerTaken(key.clone()),
        Event::AnswerTooLate { key } => Fact::AnswerTooLate(key.clone()),
        Event::AnswerNotAllowed { key } => {
            let (key, times, kind) =
                (key.clone(), answer_attempts(before, key) + 1, kind_name(ErrorKind::Denied));
            Fact::AnswerFailed { key, times, kind }
        }
        Event::AnswerFailed { key, failure } => {
            let times = answer_attempts(before, key) + 1;
            let (key, kind) = (key.clone(), kind_name(failure.kind));
            return is_recorded(times).then_some(Fact::AnswerFailed { key, times, kind });
        }
        Event::QuestionSent { key } if before.open_questions().any(|open| open.key == *key) => {
            Fact::Sent(key.clone())
        }
        Event::Observed { observation, polled_at, .. }
            if !observation.state.has_ended() && deadline::is_past_max_runtime(before, *polled_at) =>
        {
            Fact::DeadlinePassed
        }
        Event::RetryNow => Fact::RetryWished,
        Event::OutcomeUnknown => Fact::OutcomeUnknown,
        Event::DeadlinePassed => Fact::DeadlinePassed,
        Event::CallAbandoned => Fact::CallerGone,
        _ => return None,
    })
}

/// Returns all facts of a write: the one of the event, and the differences of the rows. If the rows are
/// equal, only [`Fact::Sent`] counts.
fn facts(before: &Task, fact: Option<Fact>, after: &Task) -> Vec<Fact> {
    if before == after {
        // Who has sent a question is recorded elsewhere, so it is the only fact that leaves the row as it is.
        return fact.into_iter().filter(|fact| matches!(fact, Fact::Sent(_))).collect();
    }
    let answered = match &fact {
        Some(Fact::Answered { key, .. } | Fact::AnswerTaken(key) | Fact::AnswerTooLate(key)) => {
            Some(key.clone())
        }
        _ => None,
    };
    let mut facts: Vec<Fact> = fact.into_iter().collect();
    let ended = after.has_ended() && !before.has_ended();
    match (&before.job, &after.job) {
        (_, Job::Pending { queued: true, .. }) if !before.is_queued() => facts.push(Fact::Queued),
        (Job::Pending { .. }, Job::Starting { attempts, .. }) if is_recorded(*attempts) => {
            facts.push(Fact::Attempt(*attempts));
        }
        (Job::Open { .. }, Job::Open { .. }) => {}
        (_, Job::Open { handle, .. }) => facts.push(Fact::Accepted(handle.clone())),
        // The job was accepted and has already ended when the event is processed.
        (Job::Pending { .. } | Job::Starting { .. }, Job::Closed { handle: Some(handle) }) => {
            facts.push(Fact::Accepted(handle.clone()));
        }
        _ => {}
    }
    let was_open = matches!(before.job, Job::Open { .. });
    if was_open && before.trouble.is_some() && after.trouble.is_none() && !ended {
        facts.push(Fact::LooksAgain);
    }
    for question in &after.questions {
        let known = before.questions.iter().find(|known| known.key == question.key);
        match known.map(|known| &known.status) {
            None => facts.push(Fact::Asked(question.key.clone())),
            Some(QuestionStatus::Closed) => {}
            Some(_) if question.status == QuestionStatus::Closed && !ended => {
                if answered.as_ref() != Some(&question.key) {
                    facts.push(Fact::Withdrawn(question.key.clone()));
                }
            }
            Some(_) => {}
        }
    }
    if let Some(progress) = after.progress.filter(|_| before.progress != after.progress)
        && (before.progress.is_none() || age_bucket(before) != age_bucket(after))
    {
        facts.push(Fact::Progress(progress));
    }
    let is_closed = |task: &Task| matches!(task.job, Job::Closed { .. });
    if is_closed(after) && !is_closed(before) && !ended {
        facts.push(Fact::JobOver);
    }
    if let Some(outcome) = after.outcome().filter(|_| ended) {
        facts.push(Fact::Ended(outcome));
    }
    facts
}

/// Returns true for the 1st to the 8th, the 16th, the 32nd and so on.
fn is_recorded(times: u32) -> bool {
    times <= 8 || times.is_power_of_two()
}

/// Returns the age bucket of a task's last change. Each bucket is as long as all earlier ones together.
fn age_bucket(task: &Task) -> u32 {
    let age = task.changed_at.since(task.created_at).as_secs();
    u64::BITS - age.leading_zeros()
}

/// Returns the number of the next search for the job.
fn search_number(task: &Task) -> u32 {
    match &task.job {
        Job::Starting { sought: search, .. } => search.map_or(0, |search| search.times) + 1,
        Job::Pending { .. } | Job::Open { .. } | Job::Closed { .. } => 1,
    }
}

/// Returns how often sending the answer to this question has failed.
fn answer_attempts(task: &Task, key: &str) -> u32 {
    let question = task.questions.iter().find(|question| question.key == key);
    match question.map(|question| &question.status) {
        Some(QuestionStatus::Answered { attempts, .. }) => *attempts,
        _ => 0,
    }
}

/// Returns the name of an error kind.
fn kind_name(kind: ErrorKind) -> String {
    let name = match kind {
        ErrorKind::Rejected => "rejected",
        ErrorKind::Denied => "denied",
        ErrorKind::Config => "config",
        ErrorKind::Limited { .. } => "limited",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Uncertain => "uncertain",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
