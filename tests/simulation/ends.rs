//! The checks of a world at rest: every task has the outcome of its job, or an outcome with a valid reason.
//! It must not wait for anything.

use std::time::Duration;

use taskbridge_core::tasks::notices::NoticeCause;
use taskbridge_core::tasks::store::{Holder, Store};
use taskbridge_core::tasks::task::{Job, OnExpiry, Outcome, Task};
use taskbridge_sdk::sim::Mode;
use taskbridge_sdk::{Content, JobKey, Output};

use super::checks::starts;
use super::engines::{Engine, ROUGH};
use super::node::{LEASE, RECEIVER};
use super::record::{Ack, Expected, Promise, Record, Snapshot};
use super::world::{World, name};

/// Tolerance for deadlines: polls can be stale, and rows are read between steps.
const SLACK: Duration = Duration::from_secs(30);

/// How long after the creation of a row a frozen process may write it.
const MAX_FREEZE: Duration = Duration::from_secs(120);

/// Checks a world in which nothing is due.
pub(super) async fn check_at_rest(world: &World, store: &dyn Store) -> Result<(), String> {
    let record = std::mem::take(&mut *world.record.lock());
    let result = check(world, store, &record).await;
    *world.record.lock() = record;
    result
}

async fn check(world: &World, store: &dyn Store, record: &Record) -> Result<(), String> {
    let is_given_up = |Snapshot { task, .. }: &Snapshot| {
        record.promises.iter().any(|promise| promise.id == task.id && promise.given_up)
    };
    let find_by_key = |key: &JobKey| record.snapshots.values().find(|snapshot| snapshot.task.key == *key);
    for key in world.engines.iter().chain(&world.foreign).flat_map(|engine| engine.sim.running()) {
        match find_by_key(&key) {
            Some(snapshot)
                if may_run_on(snapshot) || is_given_up(snapshot) || never_found(world, snapshot) => {}
            Some(snapshot) => {
                return Err(format!("{} has ended, and its job runs on", name(&snapshot.task.id)));
            }
            None => return Err(format!("a job of no task runs on: {key:?}")),
        }
    }
    for promise in &record.promises {
        let snapshot = record.snapshots.get(&promise.id);
        let Some(snapshot) = snapshot.filter(|snapshot| !ended_between_reads(record, snapshot)) else {
            continue;
        };
        let mut promise = promise.clone();
        for other in record.promises.iter().filter(|other| other.id == promise.id) {
            promise.called_at = promise.called_at.min(other.called_at);
            promise.cancelled |= other.cancelled;
            promise.given_up |= other.given_up;
        }
        check_outcome(world, record, &promise, snapshot)?;
    }
    check_notices(world, store, record).await?;
    // While the store's clock is ahead, keys of expired tasks are free.
    if world.plan.steps { Ok(()) } else { check_no_duplicates(record) }
}

/// Reports whether the row ended, expired and was deleted between two readings of all rows.
fn ended_between_reads(record: &Record, Snapshot { task, .. }: &Snapshot) -> bool {
    !task.has_ended() && record.deleted.contains(&task.id)
}

/// Reports whether the task was cancelled during its start, at an engine that cannot search for a job by its
/// key.
fn never_found(world: &World, Snapshot { task, .. }: &Snapshot) -> bool {
    let is_unkeyed = world.plan.mode == Mode::Unkeyed;
    is_unkeyed && task.cancel.is_some() && matches!(task.job, Job::Closed { handle: None })
}

/// Reports whether the task has ended in a way that leaves its job running.
fn may_run_on(Snapshot { task, .. }: &Snapshot) -> bool {
    let message = task.status_message().unwrap_or_default();
    let given_up =
        ["abandoned", "crashed", "the outcome is unknown"].iter().any(|word| message.contains(word));
    let expired = task.terms.on_expiry == OnExpiry::Abandon && message.contains("max_runtime");
    message.contains("uncertain") || given_up || expired
}

/// Checks that a receiver of all events has exactly one notice for each end, with the right outcome. It must
/// have at most one for each question, and no others.
async fn check_notices(world: &World, store: &dyn Store, record: &Record) -> Result<(), String> {
    // Notices written while the clock was ahead are due later.
    world.store_clock.set(10 * 86_400_000);
    let holder = Holder("outside".to_owned());
    let notices = store.take_notices(RECEIVER, &holder, LEASE, usize::MAX >> 1).await;
    let notices = notices.map_err(|error| error.to_string())?;
    let count_notices = |task: &Task, cause: &NoticeCause| {
        notices
            .iter()
            .filter(|leased| leased.notice.content.task == task.id && leased.notice.content.what == *cause)
            .count()
    };
    for Snapshot { task, .. } in
        record.snapshots.values().filter(|snapshot| !ended_between_reads(record, snapshot))
    {
        let ends = task.outcome().map_or(0, |outcome| count_notices(task, &NoticeCause::Ended(outcome)));
        if ends != 1 {
            return Err(format!("{} has ended, and {ends} notices say how", name(&task.id)));
        }
        let is_unnotified = |key: &String| count_notices(task, &NoticeCause::Asks(key.clone())) == 0;
        let unnotified = task.questions.iter().find(|question| is_unnotified(&question.key));
        if let Some(question) = unnotified {
            return Err(format!("{} has asked {}, and no notice says so", name(&task.id), question.key));
        }
    }
    for news in notices.iter().map(|leased| &leased.notice.content) {
        let Some(Snapshot { task, .. }) = record.snapshots.get(&news.task) else {
            if world.plan.steps || world.plan.long_outages {
                // It ended, expired and was deleted between two readings.
                continue;
            }
            return Err(format!("a notice is of {}, which never was", name(&news.task)));
        };
        let is_false = task.has_ended()
            && matches!(news.what, NoticeCause::Ended(outcome) if Some(outcome) != task.outcome());
        if is_false || count_notices(task, &news.what) > 1 {
            return Err(format!("{} has a false or a second notice: {:?}", name(&task.id), news.what));
        }
    }
    Ok(())
}

/// Checks that an idempotency key is free again when its task has expired, and not before.
fn check_no_duplicates(record: &Record) -> Result<(), String> {
    for promise in &record.promises {
        for other in &record.promises {
            let same = promise.idempotency_key.is_some()
                && other.idempotency_key == promise.idempotency_key
                && other.owner == promise.owner;
            let (Some(first), Some(second)) =
                (record.snapshots.get(&promise.id), record.snapshots.get(&other.id))
            else {
                continue;
            };
            let (first, second) = (&first.task, &second.task);
            if same
                && first.id != second.id
                && first.created_at <= second.created_at
                && second.created_at + MAX_FREEZE < first.kept_until()
            {
                return Err(format!(
                    "{} has a twin under the same idempotency key: {}",
                    name(&first.id),
                    name(&second.id)
                ));
            }
        }
    }
    Ok(())
}

fn check_outcome(
    world: &World,
    record: &Record,
    promise: &Promise,
    snapshot: &Snapshot,
) -> Result<(), String> {
    let Snapshot { task, output, .. } = snapshot;
    let Some(outcome) = task.outcome() else { return Err(format!("{} has not ended", name(&promise.id))) };
    let starts = starts(world, &task.key);
    let failure = |reason: &str| {
        let age = task.ended_at.map(|ended| ended.since(task.created_at));
        Err(format!(
            "{} {reason}: {:?} was expected, and it is {outcome:?} after {age:?}, {:?}, {output:?}",
            name(&promise.id),
            promise.expected,
            task.status_message()
        ))
    };
    if promise.declined == Ack::Confirmed && starts > 0 {
        return failure("was started although its owner declined");
    }
    if promise.asks_consent && promise.consented == Ack::NotSent && starts > 0 {
        return failure("was started although its owner was not asked");
    }
    match outcome {
        Outcome::Cancelled if promise.cancelled || promise.declined != Ack::NotSent => return Ok(()),
        Outcome::Broken if promise.given_up => return Ok(()),
        Outcome::Failed if starts == 0 && lost_reference(record, task) => return Ok(()),
        // Another task took the last slot in the meantime.
        Outcome::Failed if task.refused_when_full && starts == 0 => return Ok(()),
        Outcome::Broken => {
            return check_broken_reason(world, promise, snapshot, starts).or_else(|reason| failure(&reason));
        }
        _ => {}
    }
    if starts != 1 {
        return failure(&format!("ended with {starts} jobs"));
    }
    match (&promise.expected, outcome) {
        (Expected::Text(expected), Outcome::Succeeded)
            if texts(output.as_ref()).first() == Some(&expected.as_str()) =>
        {
            Ok(())
        }
        (Expected::Answered(times), Outcome::Succeeded) => {
            check_answers(world, record, promise, output.as_ref(), *times).or_else(|reason| failure(&reason))
        }
        (Expected::Failure, Outcome::Failed) if output.is_some() => Ok(()),
        _ => failure("did not come to what was expected"),
    }
}

/// Reports whether the task failed because a task that it refers to ended without a job.
fn lost_reference(record: &Record, task: &Task) -> bool {
    let has_ended = |id| record.snapshots.get(id).is_none_or(|Snapshot { task, .. }| task.has_ended());
    let message = task.status_message().unwrap_or_default();
    message.contains("ended before it was started") && task.refers_to.iter().any(has_ended)
}

fn texts(output: Option<&Output>) -> Vec<&str> {
    let content = output.into_iter().flat_map(|output| &output.content);
    content
        .filter_map(|content| if let Content::Text { text } = content { Some(text.as_str()) } else { None })
        .collect()
}

/// Checks that the job received one answer for each question. Each was sent by a client and not refused, and
/// every confirmed one arrived.
fn check_answers(
    world: &World,
    record: &Record,
    promise: &Promise,
    output: Option<&Output>,
    times: usize,
) -> Result<(), String> {
    let number = |text: &&str| {
        let answer: serde_json::Value = serde_json::from_str(text).ok()?;
        answer["answer"]["n"].as_u64()
    };
    let received: Vec<u64> = texts(output).iter().skip(1).filter_map(number).collect();
    let sent = record.answers.get(&promise.id).map(Vec::as_slice).unwrap_or_default();
    if received.len() != times {
        return Err(format!("has {} answers of {times}", received.len()));
    }
    let ack = |n: &u64| sent.iter().any(|(sent, ack)| sent == n && *ack != Ack::NotSent);
    if let Some(n) = received.iter().find(|n| !ack(n)) {
        return Err(format!("received the answer {n}, which no client sent or which was refused"));
    }
    let lost = sent.iter().find(|(n, ack)| *ack == Ack::Confirmed && !received.contains(n));
    // If a poll leaves out a question, it is asked again, and the first answer can be too late.
    match lost.filter(|_| !world.plan.rough) {
        Some((n, _)) => Err(format!("never received the answer {n}, which was confirmed")),
        None => Ok(()),
    }
}

/// Checks that a task had a valid reason to end as broken.
fn check_broken_reason(
    world: &World,
    promise: &Promise,
    Snapshot { task, ended_at, .. }: &Snapshot,
    starts: usize,
) -> Result<(), String> {
    let message = task.status_message().unwrap_or_default();
    let ended = ended_at.ok_or("has ended at an unknown time")?;
    // An earlier call under the same key may have lost its reply.
    let age = ended.since(promise.called_at.min(task.created_at)) + SLACK;
    let terms = &task.terms;
    // A clock that is ahead brings deadlines forward.
    let steps = world.plan.steps;
    let require =
        |condition: bool, reason: &str| if condition || steps { Ok(()) } else { Err(reason.to_owned()) };
    if is_uncertain(world, task) {
        return Ok(());
    }
    if message.contains("uncertain") {
        let limit = terms.max_wait().min(terms.start_within);
        return require(age >= limit, "is uncertain, on an engine that knows keys");
    }
    if message.starts_with("not started") {
        if starts > 0 {
            return Err("is said not to have been started".to_owned());
        }
        return require(age >= terms.max_wait().min(terms.start_within), "was given up too early");
    }
    if message.contains("the outcome is unknown") {
        let min_age = terms.max_runtime + terms.outcome_grace;
        return require(age >= min_age, "could have been asked for longer");
    }
    if message.contains("ran longer than max_runtime") {
        let endless = matches!(promise.expected, Expected::Endless | Expected::Stubborn | Expected::Poison);
        // A job with a question runs until an answer reaches it.
        let asks = matches!(promise.expected, Expected::Answered(_)) && age >= terms.max_runtime;
        return require(
            endless || asks || promise.job_duration + SLACK > terms.max_runtime,
            "did not run that long",
        );
    }
    match promise.expected {
        Expected::Gone if starts == 1 => Ok(()),
        Expected::Poison if message.contains("crashed") => Ok(()),
        // By chance, every poll of it crashed (seed 538645).
        _ if task.backend == ROUGH && message.contains("crashed") => Ok(()),
        _ => Err("did not come to what was expected".to_owned()),
    }
}

fn engine_of<'w>(world: &'w World, task: &Task) -> &'w Engine {
    let foreign_engine = world.foreign.iter().find(|engine| engine.sim.starts(&task.key) > 0);
    let named_engine = || world.engines.iter().find(|engine| engine.name == task.backend);
    foreign_engine.or_else(named_engine).expect("every task is of an engine of the world")
}

/// Reports whether the task ended as uncertain, with that word in its message. A lost reply can cause it at
/// an engine without idempotency keys, or that forgets them.
fn is_uncertain(world: &World, task: &Task) -> bool {
    let message = task.status_message().unwrap_or_default();
    let engine = engine_of(world, task);
    let is_keyed = engine.is_keyed && !engine.faults.short_keys;
    !is_keyed && task.outcome() == Some(Outcome::Broken) && message.contains("uncertain")
}
