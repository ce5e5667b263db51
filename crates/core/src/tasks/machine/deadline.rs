//! The deadlines of a task: for its start, its job, an answer, and an outcome that cannot be read. Pure.
//!
//! A deadline of an open job is decided by a poll that began after it, not by the clock alone. After an
//! outage, a job that has ended still delivers its result, however late. A question that was answered in the
//! engine ends nothing. If all polls after `max_runtime` fail, the task ends with an unknown outcome once
//! `outcome_grace` is over. The deadline of a start that was not sent is decided by the clock.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::{
    Failure, awaits_consent, end, format_duration, or_unstoppable, questions, record_cancel_request,
    uncounted_gap, wait_after,
};
use crate::tasks::task::{Job, OnExpiry, Outcome, Overdue, Task, TaskQuestion};

/// Minimum number of failed polls after the deadline before the outcome counts as unknown, even if
/// they take longer than `outcome_grace`.
const FAILED_POLLS: u32 = 3;

/// Returns when the task has waited for its start for the maximum time.
pub(super) fn wait(task: &Task) -> Timestamp {
    task.created_at + longest_wait(task)
}

/// Returns how long the task may wait for its start: `max_wait`, and while it waits for consent at most
/// `answer_within`.
fn longest_wait(task: &Task) -> Duration {
    let within = task.terms.answer_within.filter(|_| awaits_consent(task));
    within.into_iter().fold(task.terms.max_wait(), Duration::min)
}

/// Returns when a task whose start was not sent is given up. This is the end of its wait. It is earlier if
/// the engine has been unavailable for `start_within` and the next attempt would be later than that.
pub(super) fn pending(task: &Task) -> Timestamp {
    let Job::Pending { queued: false, not_before, .. } = &task.job else { return wait(task) };
    let give_up = task.trouble.as_ref().map(|outage| outage.since + task.terms.start_within);
    give_up.filter(|give_up| not_before > give_up).map_or(wait(task), |give_up| give_up.min(wait(task)))
}

/// Returns when an open job must be polled because a deadline has passed.
pub(super) fn open(task: &Task) -> Option<Timestamp> {
    let at = first(task)?;
    Some(task.overdue.map_or(at, |overdue| at.max(overdue.not_before)))
}

/// Returns the earliest deadline of an open job.
fn first(task: &Task) -> Option<Timestamp> {
    run(task).into_iter().chain(answer(task).map(|(at, _)| at)).min()
}

/// Returns when the `max_runtime` of an open job is over. `None` for other jobs, and if that no longer
/// matters because the task has ended and its job is being stopped.
fn run(task: &Task) -> Option<Timestamp> {
    match &task.job {
        Job::Open { started_at, .. } if task.cancel.is_none() || !task.has_ended() => {
            Some(*started_at + task.terms.max_runtime)
        }
        Job::Open { .. } | Job::Pending { .. } | Job::Starting { .. } | Job::Closed { .. } => None,
    }
}

/// Returns the oldest open question of an open job, and when its `answer_within` is over. A job
/// that is being stopped needs no answer.
fn answer(task: &Task) -> Option<(Timestamp, &TaskQuestion)> {
    let within = task.terms.answer_within.filter(|_| task.cancel.is_none() || task.cannot_be_cancelled())?;
    let oldest = task.open_questions().min_by_key(|question| question.at)?;
    matches!(task.job, Job::Open { .. }).then_some((oldest.at + within, oldest))
}

/// Returns true if a poll that began at this time and saw the job running ends the task.
pub(in crate::tasks) fn is_past_max_runtime(task: &Task, polled_at: Timestamp) -> bool {
    run(task).is_some_and(|deadline| polled_at >= deadline)
}

/// Ends a task whose start was not sent in time.
pub(super) fn pending_passed(task: &mut Task, now: Timestamp) {
    let deadline = pending(task);
    if !matches!(task.job, Job::Pending { .. }) || now < deadline {
        return;
    }
    let waited = format_duration(longest_wait(task));
    let why = match &task.trouble {
        _ if awaits_consent(task) => format!("it was not confirmed within {waited}"),
        Some(outage) if !task.is_queued() => outage.reason.clone(),
        _ => format!("it could not be started within {waited}"),
    };
    task.job = Job::Closed { handle: None };
    end(task, Outcome::Broken, format!("not started: {why}"), now);
}

/// Ends the task after a poll saw the job running past its `max_runtime`.
pub(super) fn end_overdue_job(task: &mut Task, now: Timestamp) {
    let job = match task.terms.on_expiry {
        OnExpiry::Cancel => "the job is stopped",
        OnExpiry::Abandon => "the job continues without a task",
    };
    let limit = format_duration(task.terms.max_runtime);
    let message = format!(
        "ran longer than max_runtime ({limit}), so {job}; ask for less work in one call, or raise max_runtime"
    );
    expire(task, message, now);
}

/// Fails the task if a poll that began after the deadline still lists the question.
pub(super) fn fail_unanswered(task: &mut Task, polled_at: Timestamp, now: Timestamp) {
    let Some((_, task_question)) = answer(task).filter(|(deadline, _)| polled_at >= *deadline) else {
        return;
    };
    let within = format_duration(task.terms.answer_within.unwrap_or_default());
    let question = &task_question.question.message;
    let message = format!(
        "the question {question:?} was not answered within {within} (answer_within), so the job is stopped"
    );
    questions::stop(task, Outcome::Failed, None, message, now);
}

/// Handles a failed poll. After a deadline, the next poll is delayed. After `max_runtime`, failed polls are
/// counted, and they end the task once `outcome_grace` is over.
pub(super) fn poll_failed(task: &mut Task, failure: &Failure, now: Timestamp) {
    if first(task).is_none_or(|deadline| now < deadline) {
        return;
    }
    let has_run_out = is_past_max_runtime(task, now);
    let first_failure = Overdue { since: now, times: 0, not_before: now };
    // Polls that failed before the end of `max_runtime` do not count towards the grace period.
    let counts =
        |overdue: &Overdue| !has_run_out || run(task).is_some_and(|deadline| overdue.since >= deadline);
    let Overdue { since, times, not_before } = task.overdue.filter(counts).unwrap_or(first_failure);
    let since = now.min(since + uncounted_gap(not_before, now));
    let times = times.saturating_add(1);
    let grace = task.terms.outcome_grace;
    if has_run_out && times >= FAILED_POLLS && now.since(since) >= grace {
        let message = format!(
            "the outcome is unknown: max_runtime ({}) is over, and polls of the job failed for {} after \
             that ({}); the job may still run",
            format_duration(task.terms.max_runtime),
            format_duration(grace),
            failure.message
        );
        return expire(task, message, now);
    }
    let pause = wait_after(&task.key, times, failure).min(grace.max(Duration::from_secs(1)));
    task.overdue = Some(Overdue { since, times, not_before: now + pause });
}

fn expire(task: &mut Task, message: String, now: Timestamp) {
    let Job::Open { handle, .. } = &task.job else { return };
    match task.terms.on_expiry {
        OnExpiry::Cancel => record_cancel_request(task, None, now),
        OnExpiry::Abandon => task.job = Job::Closed { handle: Some(handle.clone()) },
    }
    task.overdue = None;
    let message = or_unstoppable(task, message);
    end(task, Outcome::Broken, message, now);
}
