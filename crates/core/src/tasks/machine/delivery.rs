//! The part of the state machine that records what became of a result: who waits for it, and when it was first
//! read. It never changes the state of a task or its job. Pure.

use taskbridge_sdk::Timestamp;

use crate::tasks::task::Task;

/// A plain call received its result.
pub(super) fn delivered(task: &mut Task, now: Timestamp) {
    task.undelivered = None;
    read(task, now);
}

/// The result was read. Only the first time counts, and a task without an end has no result.
pub(super) fn read(task: &mut Task, now: Timestamp) {
    if task.has_ended() {
        task.result_read_at.get_or_insert(now);
    }
}

/// A plain call disconnected: an equal call can take over from now on.
pub(super) fn abandoned(task: &mut Task, now: Timestamp) {
    if let Some(undelivered) = &mut task.undelivered {
        undelivered.waiting_until = undelivered.waiting_until.min(now);
    }
}

/// An equal call takes over, and waits until then.
pub(super) fn attached(task: &mut Task, until: Timestamp) {
    if let Some(undelivered) = &mut task.undelivered {
        undelivered.waiting_until = until;
    }
}
