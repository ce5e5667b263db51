//! The state machine, pure and total. [`todo()`] returns the pending action of a row, [`next`] the row after
//! an event. It must not do anything: no clock, no randomness, no store, no engine.
//!
//! Invariants for every row and every event, in any order and however late:
//!
//! - A final client state never changes.
//! - A fact from the engine (started, observed, cancellation accepted) is valid in every state, including
//!   final ones. There it changes nothing that the client sees.
//! - A row has a due time exactly while its job is not [`Job::Closed`]. An unfinished row is never closed.
//! - A start that may have been sent is repeated as a first attempt (`may_exist: false`) only after the
//!   result of that same attempt shows that it started nothing.

pub(super) mod deadline;
mod delivery;
mod engine;
mod event;
mod notes;
mod outage;
mod questions;

pub use event::{Answerer, CancelMode, Event, Failure, Step};
pub(super) use questions::may_ask_again;

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use taskbridge_sdk::{JobKey, OnBehalfOf, Output, Timestamp};

use engine::Poll;

use super::task::{
    CANNOT_BE_CANCELLED, CancelRequest, Job, Outcome, QuestionSource, QuestionStatus, Task, TaskQuestion,
    TaskState,
};

/// Delay before a job that was asked to stop and still runs is asked again.
const CANCEL_RETRY_DELAY: Duration = Duration::from_secs(600);

/// Maximum part of the gap between an attempt and the time when it was due that counts as retry time.
const COUNTED_GAP: Duration = Duration::from_secs(60);

/// Returns the part of a gap that does not count as retry time, for example because all processes were down.
/// The attempt was due at `due`, and is made `now`.
fn uncounted_gap(due: Timestamp, now: Timestamp) -> Duration {
    now.since(due).saturating_sub(COUNTED_GAP)
}

/// The pending action of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the job. With `may_exist`, an earlier attempt may have reached the engine.
    Start {
        /// See [`taskbridge_sdk::JobSpec::may_exist`].
        may_exist: bool,
    },
    /// Read the handles of the jobs that the call refers to, and apply [`Event::Resolved`] or
    /// [`Event::ReferenceLost`].
    Resolve,
    /// Search for a job that may have started and is no longer wanted.
    Find,
    /// Ask the engine to stop the job.
    Cancel,
    /// Send the answer to this question to the engine.
    Answer {
        /// [`TaskQuestion::key`].
        key: String,
    },
    /// Poll the open job now.
    Poll,
    /// Apply [`Event::DeadlinePassed`]: the start was not sent in time.
    Expire,
    /// Nothing before the row's due time.
    Wait,
}

/// Returns the pending action of this row at this time.
pub fn todo(task: &Task, now: Timestamp) -> Action {
    match &task.job {
        Job::Closed { .. } => Action::Wait,
        Job::Pending { queued, not_before, .. } => {
            if now >= deadline::pending(task) {
                Action::Expire
            } else if *queued || awaits_consent(task) || now < *not_before {
                Action::Wait
            } else if task.unresolved().next().is_some() {
                Action::Resolve
            } else {
                Action::Start { may_exist: false }
            }
        }
        Job::Starting { not_before, .. } => {
            if now < *not_before {
                Action::Wait
            } else if task.has_ended() || task.cancel.is_some() {
                Action::Find
            } else {
                Action::Start { may_exist: true }
            }
        }
        Job::Open { .. } => {
            if deadline::open(task).is_some_and(|at| now >= at) {
                return Action::Poll;
            }
            if task.cancel.as_ref().is_some_and(|cancel| now >= cancel.not_before) {
                return Action::Cancel;
            }
            match task.questions.iter().find(|question| answer_due(question).is_some_and(|due| now >= due)) {
                Some(question) => Action::Answer { key: question.key.clone() },
                None if task.look_at.is_some_and(|at| now >= at) => Action::Poll,
                None => Action::Wait,
            }
        }
    }
}

/// Returns the row after `event`. An event without news leaves the row unchanged. The version is not
/// incremented: the store does that.
pub fn next(task: &Task, event: Event, now: Timestamp) -> Step {
    let mut step = Step { task: task.clone(), output: None };
    apply(&mut step, event, now);
    let row = &mut step.task;
    if matches!(row.job, Job::Pending { .. }) && (row.has_ended() || row.cancel.is_some()) {
        // A job that was not sent, or is known not to have started, is never started once it is no
        // longer wanted.
        row.job = Job::Closed { handle: None };
        end(row, Outcome::Cancelled, "cancelled before it was started", now);
    }
    if !row.has_ended() {
        let asks = row.open_questions().next().is_some();
        row.state = if asks { TaskState::InputRequired } else { TaskState::Working };
    }
    row.due_at = due(row);
    if client_view(row) != client_view(task) {
        row.changed_at = now;
    }
    step
}

/// Returns a new row with its due time set.
pub fn with_due_time(mut task: Task) -> Task {
    task.due_at = due(&task);
    task
}

fn apply(step: &mut Step, event: Event, now: Timestamp) {
    match event {
        Event::StartCommitted => engine::start_committed(&mut step.task, now),
        Event::Resolved { handles } => engine::resolved(&mut step.task, handles, now),
        Event::ReferenceLost { parameter } => engine::reference_lost(step, &parameter, now),
        Event::StartNotSent => engine::start_not_sent(&mut step.task, now),
        Event::LeaseTooOld => engine::postpone(&mut step.task, now),
        Event::NoSlot => engine::no_slot(step, now),
        Event::Started { handle, group, first } => engine::started(step, handle, group, first, now),
        Event::StartFailed { attempt, may_exist, failure } => {
            engine::start_failed(step, attempt, may_exist, failure, now);
        }
        Event::NotFound => engine::not_found(&mut step.task, None, now),
        Event::FindFailed(failure) => engine::not_found(&mut step.task, Some(failure), now),
        Event::Observed { observation, polled_at, list_lag, start_lag, new_group } => {
            engine::observed(step, observation, Poll { polled_at, list_lag, start_lag, new_group }, now);
        }
        Event::PollFailed(failure) => engine::poll_failed(&mut step.task, failure, now),
        Event::PollCrashed { times } => engine::poll_crashed(&mut step.task, times, now),
        Event::CancelTaken { start_lag } => engine::cancel_taken(&mut step.task, start_lag, now),
        Event::CancelFailed(failure) => engine::cancel_failed(&mut step.task, &failure, now),
        Event::CancelRequested { mode, on_behalf_of } => {
            cancel_requested(&mut step.task, mode, on_behalf_of, now);
        }
        Event::Answered { key, answer, by } => questions::answered(&mut step.task, &key, answer, by, now),
        Event::AnswerTaken { key } => questions::answer_accepted(&mut step.task, &key, now),
        Event::AnswerTooLate { key } => questions::answer_too_late(&mut step.task, &key, now),
        Event::AnswerNotAllowed { key } => questions::answer_not_allowed(&mut step.task, &key, now),
        Event::AnswerFailed { key, failure } => {
            questions::answer_failed(&mut step.task, &key, &failure, now);
        }
        Event::ResultDelivered => delivery::delivered(&mut step.task, now),
        Event::ResultRead { .. } => delivery::read(&mut step.task, now),
        Event::CallAbandoned => delivery::abandoned(&mut step.task, now),
        Event::CallAttached { until } => delivery::attached(&mut step.task, until),
        Event::LogFollowed { until } => engine::log_followed(&mut step.task, until),
        Event::Watched { until } => engine::watched(&mut step.task, until),
        Event::RetryNow => retry_now(&mut step.task, now),
        Event::AnswersDue => questions::hasten_answers(&mut step.task, now),
        Event::OutcomeUnknown => outcome_unknown(&mut step.task, now),
        Event::DeadlinePassed => deadline::pending_passed(&mut step.task, now),
        Event::QuestionSent { .. } | Event::Nothing => {}
    }
}

/// Handles a client's request to stop the job.
///
/// If a cancellation races with the end of the job, the first commit wins: each is applied to the row as the
/// other left it. A task that has already ended is not cancelled, and its client sees how it ended. A job
/// whose start is not at the engine is closed, and its task is cancelled. Otherwise, with
/// [`CancelMode::Immediate`] this commit cancels the task, and a later success changes nothing for the
/// client. With [`CancelMode::Request`] this commit records only the request, and the task ends as its job
/// does. See "A cancel" in docs/architecture/walkthroughs.md.
fn cancel_requested(task: &mut Task, mode: CancelMode, on_behalf_of: Option<OnBehalfOf>, now: Timestamp) {
    if task.has_ended() {
        return;
    }
    if matches!(task.job, Job::Pending { .. }) {
        task.job = Job::Closed { handle: None };
        end(task, Outcome::Cancelled, "cancelled before it was started", now);
        return;
    }
    record_cancel_request(task, on_behalf_of, now);
    match mode {
        CancelMode::Immediate => end(task, Outcome::Cancelled, "cancelled by request", now),
        CancelMode::Request if task.cannot_be_cancelled() => {}
        CancelMode::Request => task.message = Some("cancelling".to_owned()),
    }
}

/// Ends a task that an operator abandoned, and closes its job, with the handle if that is known. If the task
/// was unfinished, a late reply to its start does not reopen the job. If the task had ended before, such a
/// reply does.
fn outcome_unknown(task: &mut Task, now: Timestamp) {
    let (handle, job) = match &task.job {
        Job::Pending { .. } => (None, "its job was not started"),
        Job::Starting { .. } => (None, "its job may have been started and may still run"),
        Job::Open { handle, .. } => (Some(handle.clone()), "its job may still run"),
        Job::Closed { .. } => return,
    };
    task.job = Job::Closed { handle };
    questions::close_all(task);
    end(task, Outcome::Broken, format!("{ABANDONED}; {job}"), now);
}

/// Start of the message of a task that an operator abandoned.
const ABANDONED: &str = "outcome unknown: an operator abandoned the task";

/// Returns true if an operator abandoned the task before it had ended.
fn is_abandoned(task: &Task) -> bool {
    task.outcome() == Some(Outcome::Broken)
        && task.message.as_ref().is_some_and(|message| message.starts_with(ABANDONED))
}

/// Makes the pending attempts due now, and an open job due for a poll. A job that waits for a slot or for
/// consent goes on waiting. Attempts to start or cancel a job are still counted, because the reply to an
/// earlier one may still arrive.
fn retry_now(task: &mut Task, now: Timestamp) {
    match &mut task.job {
        Job::Pending { not_before, .. } | Job::Starting { not_before, .. } => {
            *not_before = now.min(*not_before);
        }
        Job::Open { .. } => {
            if let Some(cancel) = task.cancel.as_mut().filter(|cancel| !cancel.unsupported) {
                cancel.not_before = now.min(cancel.not_before);
            }
            questions::hasten_answers(task, now);
            task.look_at = Some(now);
            if let Some(overdue) = &mut task.overdue {
                overdue.not_before = now.min(overdue.not_before);
            }
        }
        Job::Closed { .. } => {}
    }
}

/// Records a request to stop the job. Until the engine accepts it, the engine is called on behalf of the
/// latest requester, because an earlier one may lack credentials.
fn record_cancel_request(task: &mut Task, on_behalf_of: Option<OnBehalfOf>, now: Timestamp) {
    let cancel = task.cancel.get_or_insert(CancelRequest {
        at: now,
        taken: false,
        attempts: 0,
        unsupported: false,
        not_before: now,
        on_behalf_of: None,
    });
    if !cancel.taken {
        cancel.on_behalf_of = on_behalf_of;
    }
}

/// Adds to the message of a task that ends that its job continues, if its engine is known to be unable to stop
/// it.
fn or_unstoppable(task: &Task, message: String) -> String {
    if task.cannot_be_cancelled() { format!("{message}; {CANNOT_BE_CANCELLED}") } else { message }
}

/// Makes the client's state final, unless it already is, and closes its open questions.
fn end(task: &mut Task, outcome: Outcome, message: impl Into<String>, now: Timestamp) {
    if task.has_ended() {
        return;
    }
    task.state = TaskState::Ended(outcome);
    task.ended_at = Some(now);
    task.message = Some(message.into());
    task.trouble = None;
    task.overdue = None;
    task.missing = None;
    if outcome == Outcome::Cancelled {
        // An equal call wants its job to run, so a cancelled task cannot serve it.
        task.undelivered = None;
    }
    for question in &mut task.questions {
        if question.status == QuestionStatus::Open {
            question.status = QuestionStatus::Closed;
        }
    }
}

fn end_with(step: &mut Step, outcome: Outcome, message: String, output: Output, now: Timestamp) {
    if !step.task.has_ended() {
        step.output = Some(output);
        end(&mut step.task, outcome, message, now);
    }
}

/// Returns true while the server's own question before the start is open.
fn awaits_consent(task: &Task) -> bool {
    task.open_questions().any(|question| question.asker == QuestionSource::Confirm)
}

/// Returns true if an answer is still to be sent to the job.
pub fn has_pending_answer(task: &Task) -> bool {
    matches!(task.job, Job::Open { .. })
        && task.questions.iter().any(|question| answer_due(question).is_some())
}

fn answer_due(question: &TaskQuestion) -> Option<Timestamp> {
    match question.status {
        QuestionStatus::Answered { not_before, .. } => Some(not_before),
        QuestionStatus::Open | QuestionStatus::Visiting | QuestionStatus::Closed => None,
    }
}

/// Returns when the reconciler must process the row again; `None` only if no work is pending.
fn due(task: &Task) -> Option<Timestamp> {
    match &task.job {
        Job::Closed { .. } => None,
        Job::Pending { queued, not_before, .. } => {
            let waits = *queued || awaits_consent(task);
            let deadline = deadline::pending(task);
            Some(if waits { deadline } else { (*not_before).min(deadline) })
        }
        Job::Starting { not_before, .. } => Some(*not_before),
        Job::Open { .. } => {
            let cancel = task.cancel.as_ref().map(|cancel| cancel.not_before);
            let answers = task.questions.iter().filter_map(answer_due);
            answers.chain(cancel).chain(deadline::open(task)).chain(task.look_at).min()
        }
    }
}

/// Returns everything that a client can see of a row, to detect changes.
fn client_view(task: &Task) -> impl PartialEq {
    let progress = task.progress.map(|p| (p.done.to_bits(), p.total.map(f64::to_bits)));
    (task.state, task.status_message(), progress, task.link.clone())
}

/// Returns the delay after the `attempts`-th failure: it doubles from 250 ms to a minute, with a
/// jitter of a quarter either way. The jitter is derived from the key, so that jobs that failed
/// together do not retry together, and the machine stays pure.
fn backoff(key: &JobKey, attempts: u32) -> Duration {
    let longest = Duration::from_secs(60);
    let plain = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(longest)
        .with_max_times(16)
        .build()
        .nth(attempts.saturating_sub(1).min(15) as usize)
        .unwrap_or(longest);
    let digest =
        key.as_str().bytes().fold(attempts, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    plain.mul_f64(0.75 + f64::from(digest % 1000) / 2000.0)
}

/// Returns the delay after this failure: the backoff, or the delay that the engine requests if that is
/// longer. With such a request, the backoff stops doubling after the third failure.
fn wait_after(key: &JobKey, attempts: u32, failure: &Failure) -> Duration {
    match failure.retry_after {
        Some(after) => after.max(backoff(key, attempts.min(3))),
        None => backoff(key, attempts),
    }
}

/// Formats a duration as the config does: `90s`, `5m`, `7d`. Parts of a second are left out, except below one
/// second: `250ms`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        s if s % 86_400 == 0 => format!("{}d", s / 86_400),
        s if s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
