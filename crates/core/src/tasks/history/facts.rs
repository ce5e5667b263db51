//! The facts of a write: what its event says, and what the rows before and after show. Pure.
//!
//! It bounds what can repeat without end, so that no task fills a disk. Of changes that only report progress,
//! it keeps the first one after 1, 2, 4, 8... seconds of the task's life. Of repeated failures of a call, it
//! keeps the first eight, the 16th, the 32nd and so on.

use taskbridge_sdk::{Answer, ErrorKind, JobState};

use super::{AnswerKind, Fact};
use crate::tasks::machine::{Event, deadline};
use crate::tasks::task::{Job, QuestionStatus, Task};

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
        Event::Observed { observation, .. }
            if observation.state == JobState::Gone && before.missing.is_none() =>
        {
            Fact::LooksFail { kind: kind_name(ErrorKind::Unavailable) }
        }
        Event::RetryNow => Fact::RetryWished,
        Event::OutcomeUnknown => Fact::OutcomeUnknown,
        Event::DeadlinePassed => Fact::DeadlinePassed,
        Event::CallAbandoned => Fact::CallerGone,
        Event::ResultRead { by } if is_unread(before) => Fact::ResultRead { by: by.clone() },
        Event::ResultDelivered if is_unread(before) => Fact::ResultRead { by: before.owner.clone() },
        _ => return None,
    })
}

/// Returns all facts of a write: the one of the event, and the differences of the rows. If the rows are
/// equal, only [`Fact::Sent`] counts.
pub(super) fn facts(before: &Task, fact: Option<Fact>, after: &Task) -> Vec<Fact> {
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

fn is_unread(task: &Task) -> bool {
    task.has_ended() && task.result_read_at.is_none()
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
        ErrorKind::Unsupported => "unsupported",
    };
    name.to_owned()
}
