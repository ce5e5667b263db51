//! The deadlines of a task: for its start, for its job, and for an outcome that cannot be read. Pure.
//!
//! A deadline of a job is decided by a poll that began after it, never by the clock alone: after an outage a job that has
//! ended delivers its result, however late.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::{Failure, awaits_consent, end, in_words, wait_after, wish_cancel};
use crate::tasks::task::{Job, OnExpiry, Outcome, Overdue, Task};

/// So many polls must fail after the deadline before the outcome counts as unknown, however long that takes.
const FAILED_POLLS: u32 = 3;

/// When the task has waited for its start for as long as it may.
pub(super) fn wait(task: &Task) -> Timestamp {
    task.created_at + task.terms.max_wait()
}

/// When a task whose start was not sent is given up: at the end of its wait, or when the engine has been unavailable for
/// `start_within` and wants no further attempt before that.
pub(super) fn pending(task: &Task) -> Timestamp {
    let Job::Pending { queued: false, not_before, .. } = &task.job else { return wait(task) };
    let give_up = task.trouble.as_ref().map(|trouble| trouble.since + task.terms.start_within);
    give_up.filter(|give_up| not_before > give_up).map_or(wait(task), |give_up| give_up.min(wait(task)))
}

/// When an open job is to be polled because of `max_runtime`; `None` if that decides nothing any more: the task has ended
/// and its job is being stopped.
pub(super) fn open(task: &Task) -> Option<Timestamp> {
    let at = run(task).filter(|_| task.cancel.is_none() || !task.has_ended())?;
    Some(task.overdue.map_or(at, |overdue| at.max(overdue.not_before)))
}

/// When the `max_runtime` of an open job is over.
fn run(task: &Task) -> Option<Timestamp> {
    match &task.job {
        Job::Open { started_at, .. } => Some(*started_at + task.terms.max_runtime),
        Job::Pending { .. } | Job::Starting { .. } | Job::Closed { .. } => None,
    }
}

/// True if a poll that began at this moment and saw the job running ends the task.
pub(in crate::tasks) fn decides(task: &Task, began: Timestamp) -> bool {
    open(task).is_some() && run(task).is_some_and(|deadline| began >= deadline)
}

/// Gives up a task whose start was not sent in time.
pub(super) fn pending_passed(task: &mut Task, now: Timestamp) {
    let deadline = pending(task);
    if !matches!(task.job, Job::Pending { .. }) || now < deadline {
        return;
    }
    let waited = in_words(task.terms.max_wait());
    let why = match &task.trouble {
        _ if awaits_consent(task) => format!("nobody confirmed it within {waited}"),
        Some(trouble) if !task.is_queued() => trouble.reason.clone(),
        _ => format!("it could not be started within {waited}"),
    };
    task.job = Job::Closed { handle: None };
    end(task, Outcome::Broken, format!("not started: {why}"), now);
}

/// A poll saw the job running after its `max_runtime`.
pub(super) fn still_runs(task: &mut Task, now: Timestamp) {
    let message = format!("ran longer than max_runtime ({})", in_words(task.terms.max_runtime));
    expire(task, message, now);
}

/// A poll failed. After the deadline that is counted, and ends the task once `outcome_grace` is over.
pub(super) fn poll_failed(task: &mut Task, failure: &Failure, now: Timestamp) {
    if !decides(task, now) {
        return;
    }
    let first = Overdue { since: now, times: 0, not_before: now };
    let Overdue { since, times, .. } = task.overdue.unwrap_or(first);
    let times = times.saturating_add(1);
    let grace = task.terms.outcome_grace;
    if times >= FAILED_POLLS && now.since(since) >= grace {
        let message = format!(
            "the outcome is unknown: max_runtime ({}) is over, and the engine could not be asked about the job for {} \
             since ({}); the job may still run",
            in_words(task.terms.max_runtime),
            in_words(grace),
            failure.message
        );
        return expire(task, message, now);
    }
    let pause = wait_after(&task.key, times, failure.kind).min(grace.max(Duration::from_secs(1)));
    task.overdue = Some(Overdue { since, times, not_before: now + pause });
}

fn expire(task: &mut Task, message: String, now: Timestamp) {
    let Job::Open { handle, .. } = &task.job else { return };
    match task.terms.on_expiry {
        OnExpiry::Cancel => wish_cancel(task, None, now),
        OnExpiry::Abandon => task.job = Job::Closed { handle: Some(handle.clone()) },
    }
    task.overdue = None;
    end(task, Outcome::Broken, message, now);
}
