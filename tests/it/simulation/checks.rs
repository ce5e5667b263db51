//! What was promised, held against what is seen.

use taskbridge::store::sqlite::SqliteStore;
use taskbridge::tasks::notices::What;
use taskbridge::tasks::store::{Holder, Notices, TaskStore};
use taskbridge::tasks::task::{Job, Outcome, Owner, Task, TaskId};
use taskbridge_sdk::sim::{Mode, SimEngine};
use taskbridge_sdk::{Content, Output, Timestamp};

use super::node::{LEASE, RECEIVER};
use super::world::{Plan, name};

/// What a call must come to, if nobody cancels it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Success with this text.
    Text(String),
    /// Success, and the output tells the answer.
    Answered,
    /// The job fails.
    Failure,
    /// The engine forgets the job.
    Gone,
    /// It runs until it is stopped.
    Endless,
    /// Nothing: somebody saw a task that is not theirs.
    Private,
    /// Nothing: a client that had seen it ended was shown something else.
    Unseen,
}

/// A task that a client was told of.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) id: TaskId,
    pub(super) owner: Owner,
    pub(super) expected: Expected,
    pub(super) once: Option<String>,
    /// How it ended, once somebody saw it ended.
    pub(super) ended: Option<Outcome>,
    /// True once somebody wished it cancelled.
    pub(super) cancelled: bool,
}

/// What holds at every moment.
pub(super) fn always(engine: &SimEngine, rows: &[Task], book: &mut [Told]) -> Result<(), String> {
    for task in rows {
        let starts = engine.starts(&task.key);
        if starts > 1 {
            return Err(format!("{} has {starts} jobs", name(&task.id)));
        }
        if task.has_ended() && task.due_at.is_none() && !matches!(task.job, Job::Closed { .. }) {
            return Err(format!("{} is forgotten while its job may run", name(&task.id)));
        }
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
    for told in book {
        let Some(task) = rows.iter().find(|task| task.id == told.id) else {
            return Err(format!("{} was told to a client and does not exist", name(&told.id)));
        };
        if task.owner != told.owner {
            return Err(format!("{} changed its owner", name(&told.id)));
        }
        if told.expected == Expected::Private {
            return Err(format!("{} was shown to somebody else", name(&told.id)));
        }
        if told.expected == Expected::Unseen {
            return Err(format!("{} was shown as it had been before it ended", name(&told.id)));
        }
        match (told.ended, task.outcome()) {
            (Some(before), now) if now != Some(before) => {
                return Err(format!("{} moved from {before:?} to {now:?}", name(&told.id)));
            }
            (None, ended) => told.ended = ended,
            _ => {}
        }
    }
    Ok(())
}

/// What was cancelled before this moment does not run any more.
pub(super) fn stopped(rows: &[Task], before: Timestamp) -> Result<(), String> {
    let runs_on = rows.iter().find(|task| {
        let cancelled =
            task.outcome() == Some(Outcome::Cancelled) && task.ended_at.is_some_and(|at| at < before);
        cancelled && matches!(task.job, Job::Open { .. })
    });
    match runs_on {
        Some(task) => Err(format!("{} was cancelled, and its job runs on", name(&task.id))),
        None => Ok(()),
    }
}

/// What holds when nothing is owed any more.
pub(super) async fn at_rest(
    store: &SqliteStore,
    engine: &SimEngine,
    plan: Plan,
    rows: &[Task],
    book: &[Told],
) -> Result<(), String> {
    // Where the engine has no keys, a start that was given up on, and said to be uncertain, may have arrived.
    let unfollowed =
        rows.iter().filter(|task| is_uncertain(plan, task)).map(|task| engine.starts(&task.key)).sum();
    if engine.running() > unfollowed {
        return Err(format!("{} jobs run that no task follows", engine.running()));
    }
    for told in book {
        let Some(task) = rows.iter().find(|task| task.id == told.id) else { continue };
        let output = store.output(&told.id).await.map_err(|error| error.to_string())?;
        let cancelled = book.iter().any(|other| other.id == told.id && other.cancelled);
        let told = &Told { cancelled, ..told.clone() };
        came_true(plan, told, task, output.as_ref(), engine.starts(&task.key))?;
    }
    everything_is_owed(store, rows).await?;
    for told in book {
        let twin = book.iter().find(|other| {
            told.once.is_some() && other.once == told.once && other.owner == told.owner && other.id != told.id
        });
        if twin.is_some() {
            return Err(format!("{} has a twin under the same idempotency key", name(&told.id)));
        }
    }
    Ok(())
}

/// A receiver that is to hear of everything is owed a notice of each end, as it came out, and of each question that was
/// answered, and of nothing else.
async fn everything_is_owed(store: &SqliteStore, rows: &[Task]) -> Result<(), String> {
    let sender = Holder("outside".to_owned());
    let owed = store.take_notices(RECEIVER, &sender, LEASE, usize::MAX >> 1).await;
    let owed = owed.map_err(|error| error.to_string())?;
    let of = |task: &Task, what: &What| {
        owed.iter().filter(|owed| owed.notice.news.task == task.id && owed.notice.news.what == *what).count()
    };
    let mut told = 0;
    for task in rows {
        let ends = task.outcome().map_or(0, |outcome| of(task, &What::Ended(outcome)));
        if ends != 1 {
            return Err(format!("{} has ended, and {ends} notices say how", name(&task.id)));
        }
        told += 1;
        for asked in &task.questions {
            let asks = of(task, &What::Asks(asked.key.clone()));
            if asks > 1 || (asks == 0 && asked.delivery.is_some()) {
                return Err(format!("{} has asked {}, and {asks} notices say so", name(&task.id), asked.key));
            }
            told += asks;
        }
    }
    if told != owed.len() {
        return Err(format!("{} notices are owed of {told} things that happened", owed.len()));
    }
    Ok(())
}

fn came_true(
    plan: Plan,
    told: &Told,
    task: &Task,
    output: Option<&Output>,
    starts: usize,
) -> Result<(), String> {
    let Some(outcome) = task.outcome() else { return Err(format!("{} has not ended", name(&told.id))) };
    let message = task.status_message().unwrap_or_default();
    let wrong = |what: &str| {
        let lived = task.ended_at.map(|ended| ended.since(task.created_at));
        Err(format!(
            "{} {what}: {:?} was expected, and it is {outcome:?} after {lived:?}, {message:?}, {output:?}",
            name(&told.id),
            told.expected
        ))
    };
    match outcome {
        Outcome::Cancelled if told.cancelled => return Ok(()),
        Outcome::Broken if told.expected == Expected::Gone && starts == 1 => return Ok(()),
        Outcome::Broken if is_uncertain(plan, task) => return Ok(()),
        // Who waits in a long line gets to the end of max_runtime before its job does, or even begins.
        Outcome::Broken if !task.slots.is_empty() && message.contains("(30m)") => return Ok(()),
        Outcome::Broken if !task.slots.is_empty() && message.contains("within 30m") => return Ok(()),
        Outcome::Broken if told.expected == Expected::Endless && message.contains("max_runtime") => {
            return Ok(());
        }
        _ => {}
    }
    if starts != 1 {
        return wrong(&format!("ended with {starts} jobs"));
    }
    let text = output.and_then(|output| match output.content.first() {
        Some(Content::Text { text }) => Some(text.as_str()),
        _ => None,
    });
    match (&told.expected, outcome) {
        (Expected::Text(expected), Outcome::Succeeded) if text == Some(expected) => Ok(()),
        (Expected::Answered, Outcome::Succeeded) if text.is_some() => Ok(()),
        (Expected::Failure, Outcome::Failed) if output.is_some() => Ok(()),
        _ => wrong("did not come to what was expected"),
    }
}

/// Where the engine has no keys, a lost reply may end as uncertain; it must say so.
fn is_uncertain(plan: Plan, task: &Task) -> bool {
    let message = task.status_message().unwrap_or_default();
    plan.mode == Mode::Unkeyed && task.outcome() == Some(Outcome::Broken) && message.contains("uncertain")
}
