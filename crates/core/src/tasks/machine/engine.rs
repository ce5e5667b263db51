//! The part of the state machine that handles the job in the engine: starts, polls, cancellations, and what
//! clients want polled. Pure. It must not handle answers: see [`super::questions`].

use std::time::Duration;

use taskbridge_sdk::{ErrorKind, GroupKey, JobHandle, JobState, Observation, Output, Timestamp};

use super::{
    CANCEL_RETRY_DELAY, Failure, Step, backoff, deadline, end, end_with, notes, outage, questions,
    uncounted_gap, wait_after,
};
use crate::tasks::task::slots::is_owner_slot;
use crate::tasks::task::{CANNOT_BE_CANCELLED, Job, LogSize, Outcome, RecoverySearch, Task, TaskPolicy};

pub(super) fn start_committed(task: &mut Task, now: Timestamp) {
    let Job::Pending { spec, attempts, not_before, .. } = &task.job else { return };
    if !spec.unresolved.is_empty() {
        return;
    }
    if !uncounted_gap(*not_before, now).is_zero() {
        // No start was attempted during the gap, so `start_within` starts over.
        task.trouble = None;
    }
    task.job = Job::Starting {
        spec: spec.clone(),
        attempts: attempts + 1,
        sought: None,
        first_attempt_at: Some(now),
        not_before: now,
    };
}

/// How often the tasks that a call refers to are read until each has started.
const RESOLVE_EVERY: Duration = Duration::from_secs(5);

pub(super) fn resolved(task: &mut Task, handles: Vec<(String, JobHandle)>, now: Timestamp) {
    let Job::Pending { spec, not_before, .. } = &mut task.job else { return };
    for (parameter, handle) in handles {
        if spec.unresolved.remove(&parameter).is_some() {
            spec.arguments[parameter] = handle.as_str().into();
        }
    }
    if !spec.unresolved.is_empty() {
        *not_before = now + RESOLVE_EVERY;
    }
}

pub(super) fn reference_lost(step: &mut Step, parameter: &str, now: Timestamp) {
    let Job::Pending { spec, .. } = &step.task.job else { return };
    let Some(id) = spec.unresolved.get(parameter) else { return };
    let message = format!("not started: task {id}, which `{parameter}` names, ended before it was started");
    step.task.job = Job::Closed { handle: None };
    end_with(step, Outcome::Failed, message.clone(), Output::text(message), now);
}

/// Takes back an attempt that was not sent, and delays the next one by [`POSTPONE_DELAY`]. The attempt still
/// counts, so that no later one reuses its number.
pub(super) fn start_not_sent(task: &mut Task, now: Timestamp) {
    if let Job::Starting { spec, attempts, .. } = &task.job {
        let (spec, attempts) = (spec.clone(), *attempts);
        task.job = Job::Pending { spec, queued: false, attempts, not_before: now + POSTPONE_DELAY };
    }
}

/// Delay of a row whose call was not made in time, because the store was slow or busy.
const POSTPONE_DELAY: Duration = Duration::from_secs(2);

pub(super) fn postpone(task: &mut Task, now: Timestamp) {
    let later = now + POSTPONE_DELAY;
    match &mut task.job {
        Job::Pending { not_before, .. } | Job::Starting { not_before, .. } => {
            *not_before = later.max(*not_before);
        }
        Job::Open { .. } => {
            if let Some(cancel) = &mut task.cancel {
                cancel.not_before = later.max(cancel.not_before);
            }
            questions::postpone_answers(task, later);
            task.look_at = task.look_at.map(|at| later.max(at));
        }
        Job::Closed { .. } => {}
    }
}

pub(super) fn no_slot(step: &mut Step, now: Timestamp) {
    let refused = step.task.refused_when_full;
    let Job::Pending { queued, .. } = &mut step.task.job else { return };
    if refused {
        step.task.job = Job::Closed { handle: None };
        let message =
            format!("not started: the limit of {} is reached; try again later", slot_names(&step.task.slots));
        end_with(step, Outcome::Failed, message.clone(), Output::text(message), now);
    } else {
        *queued = true;
    }
}

/// Names the slots in a text for everybody who may see the task. Slots of an owner contain the owner's name,
/// so they are replaced by a general text.
fn slot_names(slots: &[String]) -> String {
    let (owners, shared): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| is_owner_slot(slot));
    let shared = shared.into_iter().map(|slot| format!("`{slot}`"));
    let owners = (!owners.is_empty()).then(|| "running tasks per owner".to_owned());
    shared.chain(owners).collect::<Vec<_>>().join(" or ")
}

/// Records that the job exists. This is also accepted after the task was given up: the job is then tracked to
/// its end. If an operator abandoned the task, only the handle is recorded.
pub(super) fn started(
    step: &mut Step,
    handle: JobHandle,
    group: GroupKey,
    first: Option<Observation>,
    now: Timestamp,
) {
    let task = &mut step.task;
    match &task.job {
        Job::Closed { handle: None } if super::is_abandoned(task) => {
            task.job = Job::Closed { handle: Some(handle) };
            return;
        }
        Job::Pending { .. } | Job::Starting { .. } | Job::Closed { handle: None } => {
            task.job = Job::Open { handle, group, started_at: now };
            task.trouble = None;
        }
        // The job was polled after its start. The polls are newer than this reply, unless the reply
        // reports the end.
        Job::Open { .. } if first.as_ref().is_some_and(|observation| !observation.state.has_ended()) => {
            return;
        }
        Job::Open { .. } | Job::Closed { handle: Some(_) } => {}
    }
    if let Some(observation) = first {
        let (list_lag, start_lag, new_group) = Default::default();
        observed(step, observation, Poll { polled_at: now, list_lag, start_lag, new_group }, now);
    }
}

pub(super) fn start_failed(step: &mut Step, attempt: u32, may_exist: bool, failure: Failure, now: Timestamp) {
    let task = &mut step.task;
    let out_of_time = now >= deadline::wait(task);
    let Job::Starting { spec, attempts, sought: search, not_before, .. } = &mut task.job else { return };
    if *attempts != attempt {
        // This attempt was superseded. The result of the later attempt decides.
        return;
    }
    let delay = wait_after(&task.key, *attempts, &failure);
    match failure.kind {
        ErrorKind::Rejected | ErrorKind::Unsupported => {
            task.job = Job::Closed { handle: None };
            let output = Output::text(failure.message.clone());
            end_with(step, Outcome::Failed, failure.message, output, now);
        }
        ErrorKind::Denied | ErrorKind::Config if !may_exist => {
            task.job = Job::Closed { handle: None };
            end(task, Outcome::Broken, format!("not started: {}", failure.message), now);
        }
        ErrorKind::Limited { .. } | ErrorKind::Unavailable if !may_exist => {
            let (spec, attempts) = (spec.clone(), *attempts);
            task.job = Job::Pending { spec, queued: false, attempts, not_before: now + delay };
            let outage_start = outage::record_outage(task, &failure, now);
            if now.since(outage_start) >= task.terms.start_within {
                task.job = Job::Closed { handle: None };
                end(task, Outcome::Broken, format!("not started: {}", failure.message), now);
            }
        }
        _ => {
            // The job may exist, and this attempt did not settle that. If the search ran and found nothing,
            // the limit is `settle_window`. If the search could not run, it is the longer of `settle_window`
            // and `start_within`. After `max_wait` the limit may be shorter: see [`min_search_time`].
            let search_ran = failure.kind == ErrorKind::Uncertain;
            let min_time = min_search_time(&task.terms, search_ran, out_of_time);
            if (search_ran && failure.is_final) || count_search(search, *not_before, min_time, now) {
                task.job = Job::Closed { handle: None };
                let message = format!("it is uncertain whether the job started: {}", failure.message);
                end(task, Outcome::Broken, message, now);
            } else {
                *attempts += 1;
                *not_before = now + delay.min(MAX_SEARCH_DELAY);
                outage::record_outage(task, &failure, now);
            }
        }
    }
}

/// Maximum delay between two searches for a job, until the search is over. A repeated start is a search, too.
const MAX_SEARCH_DELAY: Duration = Duration::from_secs(10);

/// Minimum number of searches before a search is over, however long it has taken.
const MIN_SEARCHES: u32 = 6;

/// Counts a search that was due at `due`. Returns true if the search for the job is over.
fn count_search(
    search: &mut Option<RecoverySearch>,
    due: Timestamp,
    min_time: Duration,
    now: Timestamp,
) -> bool {
    let search = search.get_or_insert(RecoverySearch { since: now, times: 0 });
    search.since = now.min(search.since + uncounted_gap(due, now));
    search.times = search.times.saturating_add(1);
    search.times >= MIN_SEARCHES && now.since(search.since) >= min_time
}

/// Returns how long a search continues at least; it also needs [`MIN_SEARCHES`] attempts. Once the maximum
/// wait is over, a search that ran needs no further time, and one that could not run gets at most
/// `outcome_grace`.
fn min_search_time(terms: &TaskPolicy, search_ran: bool, out_of_time: bool) -> Duration {
    let min_time = if search_ran { terms.settle_window } else { terms.settle_window.max(terms.start_within) };
    match (out_of_time, search_ran) {
        (false, _) => min_time,
        (true, true) => Duration::ZERO,
        (true, false) => min_time.min(terms.outcome_grace),
    }
}

/// Handles the search for a job that was cancelled during its start, after it found nothing or failed.
pub(super) fn not_found(task: &mut Task, failure: Option<Failure>, now: Timestamp) {
    let is_final = failure.as_ref().is_some_and(|failure| failure.is_final);
    // While the engine is unreachable the cancellation stays pending, but the client gets an outcome.
    let must_retry = failure.as_ref().is_some_and(|failure| failure.kind.is_transient());
    // `max_wait` does not shorten a search that the engine answered: a job that is listed late
    // would keep running.
    let out_of_time = failure.is_some() && now >= deadline::wait(task);
    let min_time = min_search_time(&task.terms, failure.is_none(), out_of_time);
    let Job::Starting { attempts, sought: search, not_before, .. } = &mut task.job else { return };
    let is_over = count_search(search, *not_before, min_time, now) || is_final;
    if is_over && !must_retry {
        task.job = Job::Closed { handle: None };
    } else {
        *attempts = attempts.saturating_add(1);
        let longest = if is_over { Duration::MAX } else { MAX_SEARCH_DELAY };
        *not_before = now + backoff(&task.key, *attempts).min(longest);
    }
    match failure {
        _ if !is_over => {}
        // With `CancelMode::Request`, the task ends here.
        None => end(task, Outcome::Cancelled, "cancelled before it was started", now),
        Some(failure) => {
            let message = format!(
                "it is uncertain whether the job started, and so whether it was cancelled: {}",
                failure.message
            );
            end(task, Outcome::Broken, message, now);
        }
    }
}

/// What a poll was: the fields of [`super::Event::Observed`].
pub(super) struct Poll {
    pub(super) polled_at: Timestamp,
    pub(super) list_lag: Duration,
    pub(super) start_lag: Duration,
    pub(super) new_group: Option<GroupKey>,
}

pub(super) fn observed(step: &mut Step, mut observation: Observation, poll: Poll, now: Timestamp) {
    let Poll { polled_at, list_lag, start_lag, new_group } = poll;
    let task = &mut step.task;
    if !matches!(task.job, Job::Open { .. }) {
        return;
    }
    if observation.state == JobState::Gone && !outage::is_lost(task, polled_at, start_lag) {
        return outage::job_not_listed(task, now);
    }
    if let (Some(name), Some(new_group)) = (observation.renamed_to.take(), new_group)
        && let Job::Open { handle, group, .. } = &mut task.job
    {
        (*handle, *group) = (name, new_group);
    }
    let Job::Open { handle, .. } = &task.job else { return };
    let handle = handle.clone();
    task.missing = None;
    let is_overdue = deadline::is_past_max_runtime(task, polled_at);
    (task.look_at, task.overdue) = (None, None);
    if !task.has_ended() {
        task.trouble = None;
        // JSON cannot encode a number that is not finite, so the row would be unreadable.
        let new_progress =
            observation.progress.filter(|p| p.done.is_finite() && p.total.is_none_or(f64::is_finite));
        task.progress = new_progress.or(task.progress);
        task.furthest =
            task.progress.map(|progress| task.furthest.unwrap_or(progress.done).max(progress.done));
        if observation.message.is_some() {
            task.message = observation.message.clone();
        }
        task.link = observation.link.or(task.link.take());
        notes::add_notes(task, observation.notes, now);
        if !task.log_is_followed(now) {
            task.printed = None;
        }
        if let (Some(printed), Some(bytes)) = (&mut task.printed, observation.log_bytes) {
            printed.bytes = bytes;
        }
    }
    let (outcome, output, default_message) = match observation.state {
        JobState::Queued | JobState::Running => {
            if is_overdue {
                return deadline::end_overdue_job(task, now);
            }
            questions::apply_listed(task, observation.questions, polled_at - list_lag, now);
            return deadline::fail_unanswered(task, polled_at, now);
        }
        JobState::Succeeded(output) => (Outcome::Succeeded, Some(output), "succeeded"),
        JobState::Failed(output) => (Outcome::Failed, Some(output), "the job failed"),
        JobState::Cancelled(output) => (Outcome::Cancelled, Some(output), "the job was cancelled"),
        JobState::Gone => {
            (Outcome::Broken, None, "the engine no longer knows the job, so its end is not known")
        }
    };
    task.job = Job::Closed { handle: Some(handle) };
    task.files_bytes = output.as_ref().map_or(0, |output| output.files_bytes);
    questions::close_all(task);
    let message = observation.message.unwrap_or_else(|| default_message.to_owned());
    match output {
        Some(output) => end_with(step, outcome, message, output, now),
        None => end(task, outcome, message, now),
    }
}

/// Records that a client wants to know how much the job prints.
pub(super) fn log_followed(task: &mut Task, until: Timestamp) {
    if !task.has_ended() {
        let printed = task.printed.get_or_insert(LogSize { bytes: 0, wanted_until: until });
        printed.wanted_until = printed.wanted_until.max(until);
    }
}

/// Records that a client wants to know the job's progress.
pub(super) fn watched(task: &mut Task, until: Timestamp) {
    if !task.has_ended() {
        task.watched_until = task.watched_until.max(Some(until));
    }
}

pub(super) fn poll_failed(task: &mut Task, failure: Failure, now: Timestamp) {
    (task.look_at, task.missing) = (None, None);
    if matches!(task.job, Job::Open { .. }) {
        outage::record_outage(task, &failure, now);
        deadline::poll_failed(task, &failure, now);
    }
}

/// Ends a task whose job the adapter cannot poll. The outcome of the job is unknown.
pub(super) fn poll_crashed(task: &mut Task, times: u32, now: Timestamp) {
    let Job::Open { handle, .. } = &task.job else { return };
    // A cancellation that the engine has not accepted stays pending.
    if task.cancel.as_ref().is_none_or(|cancel| cancel.taken || cancel.unsupported) {
        task.job = Job::Closed { handle: Some(handle.clone()) };
    }
    (task.look_at, task.overdue) = (None, None);
    questions::close_all(task);
    let message = format!(
        "the adapter of backend `{}` crashed {times} times in a row while it polled this job; its outcome is unknown, and \
         the server's log shows where the adapter crashed",
        task.backend
    );
    end(task, Outcome::Broken, message, now);
}

/// Delay before a cancellation is repeated for a job that is younger than the start lag: the engine may not
/// list it yet, and accept the cancellation without effect.
const NEW_JOB_CANCEL_RETRY_DELAY: Duration = Duration::from_secs(10);

pub(super) fn cancel_taken(task: &mut Task, start_lag: Duration, now: Timestamp) {
    let is_new = matches!(task.job, Job::Open { started_at, .. } if now.since(started_at) < start_lag);
    if let Some(cancel) = &mut task.cancel {
        cancel.taken = true;
        cancel.not_before = now + if is_new { NEW_JOB_CANCEL_RETRY_DELAY } else { CANCEL_RETRY_DELAY };
    }
}

/// Maximum wait before a failed cancellation is repeated, whatever the engine asks for.
const MAX_CANCEL_WAIT: Duration = Duration::from_secs(900);

pub(super) fn cancel_failed(task: &mut Task, failure: &Failure, now: Timestamp) {
    let Some(cancel) = &mut task.cancel else { return };
    if cancel.unsupported {
        return;
    }
    cancel.attempts += 1;
    cancel.not_before = now + wait_after(&task.key, cancel.attempts, failure).min(MAX_CANCEL_WAIT);
    if failure.kind == ErrorKind::Unsupported {
        // The job is polled to its end by its group, and the client learns that it continues.
        (cancel.unsupported, cancel.not_before) = (true, Timestamp::MAX);
        if task.has_ended() {
            let message = task.message.take().unwrap_or_default();
            task.message = Some(format!("{message}; {CANNOT_BE_CANCELLED}"));
        } else {
            task.message = None;
        }
    }
}
