//! The checks after each step: of rows, of deletions, and of what clients read. It must not change the
//! world, only its record.

use taskbridge::clock::Clock;
use taskbridge::tasks::task::{Job, Outcome, Task, TaskId};
use taskbridge_sdk::{JobKey, Timestamp};

use super::calls::{FRUGAL, KEPT, OBEDIENT};
use super::record::{Expected, Snapshot};
use super::world::{World, name};

/// How long deletions pause after a step of the store's clock, minus the delay until a process notices it.
const HELD: std::time::Duration = std::time::Duration::from_secs(590);

/// Returns the number of jobs with this key in all engines.
pub(super) fn starts(world: &World, key: &JobKey) -> usize {
    world.engines.iter().chain(&world.foreign).map(|engine| engine.sim.starts(key)).sum()
}

/// Checks all rows. `before` is the time of the previous check, by the world's clock and by the store's.
pub(super) fn always(world: &World, rows: &[Task], before: (Timestamp, Timestamp)) -> Result<(), String> {
    for task in rows {
        of_row(world, task)?;
    }
    let mut calls: Vec<_> = rows.iter().filter_map(|task| task.origin.session.as_ref()).collect();
    calls.sort_unstable();
    if let Some(pair) = calls.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} made two tasks", pair[0]));
    }
    let held = rows.iter().filter(|task| task.holds_slots()).count();
    if held > 1 {
        return Err(format!("{held} tasks hold a slot that is for one"));
    }
    let kept = rows.iter().filter(|task| task.owner.as_str() == FRUGAL).count();
    if kept > KEPT as usize {
        return Err(format!("{kept} tasks are kept for {FRUGAL}"));
    }
    deleted(world, rows, before)?;
    of_clients(world, rows)
}

/// Checks the rows that their owners cannot see: only ended tasks expire.
pub(super) fn hidden(rows: &[Task]) -> Result<(), String> {
    match rows.iter().find(|task| !task.has_ended()) {
        Some(task) => Err(format!("{} has not ended and is hidden from its owner", name(&task.id))),
        None => Ok(()),
    }
}

fn of_row(world: &World, task: &Task) -> Result<(), String> {
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
fn deleted(world: &World, rows: &[Task], before: (Timestamp, Timestamp)) -> Result<(), String> {
    let mut record = world.record.lock();
    let now = (world.clock.now(), world.store_clock.now());
    let was_deleted = |id: &TaskId| rows.iter().all(|task| task.id != *id);
    let gone: Vec<TaskId> = record.snapshots.keys().filter(|id| was_deleted(id)).cloned().collect();
    for id in gone {
        if record.deleted.contains(&id) {
            continue;
        }
        let Snapshot { task, ended_at, .. } = &record.snapshots[&id];
        let Some(engine) = world.engines.iter().find(|engine| engine.name == task.backend) else { continue };
        let mut all = world.engines.iter().chain(&world.foreign);
        let shown_over = all.any(|engine| engine.faults.has_shown_over(&task.key));
        let stepped = world.stepped_at.is_some_and(|set| set >= before.0);
        if !task.has_ended() && shown_over && (stepped || now.0.since(before.0) >= task.terms.keep_result) {
            // It ended and expired since the last reading, perhaps by a time that a process wrote before it
            // noticed a step.
            record.deleted.insert(id);
            continue;
        }
        // The core gives up a fruitless search in the end.
        let never_began = matches!(task.job, Job::Starting { .. }) && starts(world, &task.key) == 0;
        // A job that the engine has forgotten is as absent as one that never existed.
        let runs =
            world.engines.iter().chain(&world.foreign).any(|engine| engine.sim.running().contains(&task.key));
        let is_closed = matches!(task.job, Job::Closed { .. }) || never_began || shown_over || !runs;
        let is_over = task.has_ended() && (is_closed || engine.faults.is_poison(task.key.as_str()));
        let may = |(at, shown): (Timestamp, Timestamp)| {
            // A process that started after the step may not know of it.
            let known = |set: &Timestamp| *set < at && world.last_born_at < *set;
            let lately = world.stepped_at.filter(known).is_some_and(|set| at.since(set) < HELD);
            shown >= task.kept_until() && !lately
        };
        if !is_over {
            return Err(format!(
                "{} was deleted while something was owed: between {before:?} and {now:?}; its end was shown: {shown_over}",
                name(&id)
            ));
        }
        let kept_for = task.ended_at.map_or(HELD, |ended| task.kept_until().since(ended));
        // A process that had not noticed the step wrote a wrong time into the row.
        let is_off = task
            .ended_at
            .zip(*ended_at)
            .is_some_and(|(one, other)| one.since(other).max(other.since(one)) > HELD);
        // Rows are read some time after they were written.
        let ended = if is_off { *ended_at } else { (*ended_at).min(task.ended_at) };
        let is_old = ended.is_some_and(|ended| now.0.since(ended) >= kept_for);
        if !is_off && !is_old && !may(before) && !may(now) {
            let set = world.stepped_at;
            return Err(format!(
                "{} was deleted before its time, {}: between {before:?} and {now:?}; the clock was set {set:?}",
                name(&id),
                task.kept_until()
            ));
        }
        record.deleted.insert(id);
    }
    Ok(())
}

fn of_clients(world: &World, rows: &[Task]) -> Result<(), String> {
    let mut record = world.record.lock();
    let record = &mut *record;
    for promise in &mut record.promises {
        let row = rows.iter().find(|task| task.id == promise.id);
        let Some(task) = row.or_else(|| record.snapshots.get(&promise.id).map(|seen| &seen.task)) else {
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
        match (promise.ended, task.outcome()) {
            (Some(before), now) if now != Some(before) => {
                return Err(format!("{} moved from {before:?} to {now:?}", name(&promise.id)));
            }
            (None, ended) => promise.ended = ended,
            _ => {}
        }
    }
    Ok(())
}

/// Checks that jobs that were cancelled before this time have stopped. Exceptions are jobs that ignore
/// cancels and take longer, and jobs whose cancel a fast clock delayed.
pub(super) fn stopped(world: &World, rows: &[Task], before: Timestamp) -> Result<(), String> {
    let record = world.record.lock();
    let is_deaf = |id: &TaskId| {
        record.promises.iter().any(|promise| {
            promise.id == *id && matches!(promise.expected, Expected::Text(_)) && promise.takes > OBEDIENT
        })
    };
    let runs_on = rows.iter().find(|task| {
        let cancelled =
            task.outcome() == Some(Outcome::Cancelled) && task.ended_at.is_some_and(|at| at < before);
        // Polls of a poison job crash, so its end cannot be read.
        let seen = world.engines.iter().all(|engine| !engine.faults.is_poison(task.key.as_str()));
        let is_later = world.plan.steps && task.due_at > Some(world.store_clock.now());
        cancelled && seen && matches!(task.job, Job::Open { .. }) && !is_deaf(&task.id) && !is_later
    });
    match runs_on {
        Some(task) => Err(format!("{} was cancelled, and its job runs on", name(&task.id))),
        None => Ok(()),
    }
}
