//! The checks after each step: of rows, of deletions, and of what clients read. It must not change the
//! world, only its record.

use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::task::{Job, Outcome, Task, TaskId};
use taskbridge_sdk::{JobKey, Timestamp};

use super::calls::{MAX_OBEDIENT_RUNTIME, QUOTA_OWNER, QUOTA_ROWS};
use super::record::{Expected, Snapshot};
use super::world::{World, name};

/// How long deletions pause after a step of the store's clock, minus the delay until a process notices it.
const DELETION_PAUSE: std::time::Duration = std::time::Duration::from_secs(590);

/// Returns the number of jobs with this key in all engines.
pub(super) fn starts(world: &World, key: &JobKey) -> usize {
    world.engines.iter().chain(&world.foreign).map(|engine| engine.sim.starts(key)).sum()
}

/// Checks all rows. `previous_check` is when that was last done, by the world's clock and by the store's.
pub(super) fn check_rows(
    world: &World,
    rows: &[Task],
    previous_check: (Timestamp, Timestamp),
) -> Result<(), String> {
    for task in rows {
        check_row(world, task)?;
    }
    let mut calls: Vec<_> = rows.iter().filter_map(|task| task.origin.channel.as_ref()).collect();
    calls.sort_unstable();
    if let Some(pair) = calls.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} made two tasks", pair[0]));
    }
    let slot_holders = rows.iter().filter(|task| task.holds_slots()).count();
    if slot_holders > 1 {
        return Err(format!("{slot_holders} tasks hold a slot that is for one"));
    }
    let quota_rows = rows.iter().filter(|task| task.owner.as_str() == QUOTA_OWNER).count();
    if quota_rows > QUOTA_ROWS as usize {
        return Err(format!("{quota_rows} tasks are kept for {QUOTA_OWNER}"));
    }
    check_deleted(world, rows, previous_check)?;
    check_promises(world, rows)
}

/// Checks the rows that their owners cannot see: only ended tasks expire.
pub(super) fn check_hidden(rows: &[Task]) -> Result<(), String> {
    match rows.iter().find(|task| !task.has_ended()) {
        Some(task) => Err(format!("{} has not ended and is hidden from its owner", name(&task.id))),
        None => Ok(()),
    }
}

fn check_row(world: &World, task: &Task) -> Result<(), String> {
    let starts = starts(world, &task.key);
    if starts > 1 {
        return Err(format!("{} has {starts} jobs", name(&task.id)));
    }
    if task.has_ended() && task.due_at.is_none() && !matches!(task.job, Job::Closed { .. }) {
        return Err(format!("{} is forgotten while its job may run", name(&task.id)));
    }
    if task.refused_when_full && task.is_queued() {
        return Err(format!("{} waits in a line where it was to be refused", name(&task.id)));
    }
    Ok(())
}

/// Checks deleted rows: each must have expired by a clock without a recent step, and its job must be over.
fn check_deleted(world: &World, rows: &[Task], previous_check: (Timestamp, Timestamp)) -> Result<(), String> {
    let mut record = world.record.lock();
    let now = (world.clock.now(), world.store_clock.now());
    let was_deleted = |id: &TaskId| rows.iter().all(|task| task.id != *id);
    let missing: Vec<TaskId> = record.snapshots.keys().filter(|id| was_deleted(id)).cloned().collect();
    for id in missing {
        if record.deleted.contains(&id) {
            continue;
        }
        let Snapshot { task, ended_at, .. } = &record.snapshots[&id];
        let Some(engine) = world.engines.iter().find(|engine| engine.name == task.backend) else { continue };
        let mut engines = world.engines.iter().chain(&world.foreign);
        let end_was_shown = engines.any(|engine| engine.faults.has_shown_end(&task.key));
        let clock_stepped = world.stepped_at.is_some_and(|stepped_at| stepped_at >= previous_check.0);
        if !task.has_ended()
            && end_was_shown
            && (clock_stepped || now.0.since(previous_check.0) >= task.terms.keep_result)
        {
            // It ended and expired since the last reading, perhaps by a time that a process wrote before it
            // noticed a step.
            record.deleted.insert(id);
            continue;
        }
        // The core gives up a fruitless search in the end.
        let never_began = matches!(task.job, Job::Starting { .. }) && starts(world, &task.key) == 0;
        // A job that the engine has forgotten is as absent as one that never existed.
        let is_running =
            world.engines.iter().chain(&world.foreign).any(|engine| engine.sim.running().contains(&task.key));
        let is_closed = matches!(task.job, Job::Closed { .. }) || never_began || end_was_shown || !is_running;
        let is_over = task.has_ended() && (is_closed || engine.faults.is_poison(task.key.as_str()));
        let may_delete = |(at, store_time): (Timestamp, Timestamp)| {
            // A process that started after the step may not know of it.
            let knows_step = |stepped_at: &Timestamp| *stepped_at < at && world.last_started_at < *stepped_at;
            let recently_stepped = world
                .stepped_at
                .filter(knows_step)
                .is_some_and(|stepped_at| at.since(stepped_at) < DELETION_PAUSE);
            store_time >= task.kept_until() && !recently_stepped
        };
        if !is_over {
            return Err(format!(
                "{} was deleted while something was owed: between {previous_check:?} and {now:?}; its end was shown: {end_was_shown}",
                name(&id)
            ));
        }
        let retention = task.ended_at.map_or(DELETION_PAUSE, |ended| task.kept_until().since(ended));
        // A process that had not noticed the step wrote a wrong time into the row.
        let clock_was_wrong = task
            .ended_at
            .zip(*ended_at)
            .is_some_and(|(one, other)| one.since(other).max(other.since(one)) > DELETION_PAUSE);
        // Rows are read some time after they were written.
        let ended = if clock_was_wrong { *ended_at } else { (*ended_at).min(task.ended_at) };
        let is_old = ended.is_some_and(|ended| now.0.since(ended) >= retention);
        if !clock_was_wrong && !is_old && !may_delete(previous_check) && !may_delete(now) {
            let stepped_at = world.stepped_at;
            return Err(format!(
                "{} was deleted before its time, {}: between {previous_check:?} and {now:?}; the clock was set {stepped_at:?}",
                name(&id),
                task.kept_until()
            ));
        }
        record.deleted.insert(id);
    }
    Ok(())
}

fn check_promises(world: &World, rows: &[Task]) -> Result<(), String> {
    let mut record = world.record.lock();
    let record = &mut *record;
    for promise in &mut record.promises {
        let row = rows.iter().find(|task| task.id == promise.id);
        let Some(task) = row.or_else(|| record.snapshots.get(&promise.id).map(|snapshot| &snapshot.task))
        else {
            return Err(format!("{} was returned to a client and does not exist", name(&promise.id)));
        };
        if task.owner != promise.owner {
            return Err(format!("{} changed its owner", name(&promise.id)));
        }
        if promise.expected == Expected::Private {
            return Err(format!("{} was readable by another owner", name(&promise.id)));
        }
        if promise.expected == Expected::Unseen {
            return Err(format!("{} was read as not ended after a terminal state", name(&promise.id)));
        }
        match (promise.terminal_outcome, task.outcome()) {
            (Some(previous), current) if current != Some(previous) => {
                return Err(format!("{} moved from {previous:?} to {current:?}", name(&promise.id)));
            }
            (None, ended) => promise.terminal_outcome = ended,
            _ => {}
        }
    }
    Ok(())
}

/// Checks that jobs that were cancelled before this time have stopped. Exceptions are jobs that ignore
/// cancels and take longer, and jobs whose cancel a fast clock delayed.
pub(super) fn check_stopped(world: &World, rows: &[Task], cancelled_before: Timestamp) -> Result<(), String> {
    let record = world.record.lock();
    let ignores_cancel = |id: &TaskId| {
        record.promises.iter().any(|promise| {
            promise.id == *id
                && matches!(promise.expected, Expected::Text(_))
                && promise.job_duration > MAX_OBEDIENT_RUNTIME
        })
    };
    let running_task = rows.iter().find(|task| {
        let cancelled = task.outcome() == Some(Outcome::Cancelled)
            && task.ended_at.is_some_and(|at| at < cancelled_before);
        // Polls of a poison job crash, so its end cannot be read.
        let is_observable = world.engines.iter().all(|engine| !engine.faults.is_poison(task.key.as_str()));
        let may_be_delayed = world.plan.steps && task.due_at > Some(world.store_clock.now());
        cancelled
            && is_observable
            && matches!(task.job, Job::Open { .. })
            && !ignores_cancel(&task.id)
            && !may_be_delayed
    });
    match running_task {
        Some(task) => Err(format!("{} was cancelled, and its job runs on", name(&task.id))),
        None => Ok(()),
    }
}
