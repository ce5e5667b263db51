//! The checks at the end of a run. The engines' journals contain the starts, their jobs the ends, and the
//! database the tasks. The clients have the responses of the run and of repeated calls.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::{Backend as _, Content, GroupKey, JobHandle, JobState, Output, Subject};
use tokio::time::Instant;

use super::callers::{Done, REST, call_again};
use super::faults::Sizes;
use super::figures;
use super::load::Load;
use super::plan::{Ending, EngineName, Speaker, Work};
use super::world::{REPLICAS, World};

/// The jobs that were started, by the call that they name, with their endings: `None` if it has not ended.
type Jobs = HashMap<String, Vec<Option<Ending>>>;

/// Panics unless every call has the right result, and prints the figures.
pub(super) async fn hold(world: World, sizes: Sizes, load: &Load, done: Vec<Done>) {
    assert_eq!(done.len(), load.calls + 1, "calls that came to an end, and the one that ran beside them");
    told_the_same_again(&world, load, &done).await;
    let tasks = at_rest(&world, &done).await;
    let mut all = HashMap::new();
    for engine in EngineName::ALL {
        all.insert(engine.as_str(), jobs(&world, engine, &done).await);
    }
    let of = |call: &Done| {
        let jobs = &all[call.plan.engine.as_str()];
        jobs.get(&call.plan.name()).map_or(&[][..], Vec::as_slice)
    };
    figures::print(&world, &done, tasks, of);
    let wrong: Vec<String> = done
        .iter()
        .filter_map(|call| {
            Some(format!("{}: {call:?}, jobs: {:?}", came_true(call, of(call)).err()?, of(call)))
        })
        .collect();
    assert!(wrong.is_empty(), "{} calls came out wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(tasks, done.len(), "one task for each call");
    let of_calls: usize = done.iter().map(|call| of(call).len()).sum();
    let all: usize = all.values().flat_map(HashMap::values).map(Vec::len).sum();
    assert_eq!(of_calls, all, "jobs of no call, or in the wrong engine");
    it_did_break(&world, sizes).await;
    the_servers_are_well(&world).await;
}

/// Checks that the faults of the disk, the clocks and an adapter really happened.
async fn it_did_break(world: &World, sizes: Sizes) {
    let log = world.database.lock().await.log();
    let refused = log.matches("No space left on device").count() + log.matches("File too large").count();
    println!("chaos: {refused:6} writes of the database that found no room");
    assert!(sizes.fills == 0 || refused > 0, "the disk was never full");
    let healthz = world.replicas[0].url().replace("/mcp", "/healthz");
    let answer = reqwest::Client::builder().no_proxy().build().unwrap().get(healthz).send().await.unwrap();
    let date = answer.headers()["date"].to_str().unwrap();
    let shown: jiff::Timestamp = jiff::fmt::rfc2822::parse(date).unwrap().timestamp();
    let off = jiff::Timestamp::now().duration_since(shown).abs() > jiff::SignedDuration::from_hours(1);
    println!("chaos: the clock of one replica shows {date}");
    assert_eq!(off, sizes.jumps > 0, "its clock was set");
    let client = world.database.lock().await.client(&world.schema).await;
    let shown: i64 = client.query_one("SELECT moment(NULL)", &[]).await.unwrap().get(0);
    let ahead = shown / 1_000 - jiff::Timestamp::now().as_second();
    println!("chaos: the clock of the database is {ahead} s ahead");
    assert!((ahead - world.clock.ahead()).abs() < 5, "the database goes by another clock");
    let logged =
        |words: &str| world.replicas.iter().map(|replica| replica.logged(world, words)).sum::<usize>();
    let leaps = logged("the store's clock has leapt");
    println!("chaos: {leaps:6} leaps of the database's clock that replicas noticed");
    assert!(sizes.steps == 0 || leaps > 0, "no replica noticed that the database's clock was stepped");
    let panics = logged(PANIC);
    println!(
        "chaos: {panics:6} panics of the adapter in the logs, which leave out most that come soon after another"
    );
    assert!(sizes.panics + sizes.quiet == 0 || panics > 0, "the adapter did not panic");
}

/// Checks that a repeated call under the same key gets the same task and the same ending, and starts
/// nothing.
async fn told_the_same_again(world: &World, load: &Load, done: &[Done]) {
    let again = call_again(world, load, done).await;
    let again: HashMap<usize, Done> = again.into_iter().map(|call| (call.plan.number, call)).collect();
    for call in done {
        let now = &again[&call.plan.number];
        assert_eq!(now.ending, call.ending, "{call:?} was told something else when it asked again");
        // A client of the newer revision gets the result itself once it exists.
        let same = call.task.is_none() || call.plan.speaker == Speaker::New || now.task == call.task;
        assert!(same, "{call:?} has become another task: {now:?}");
    }
}

/// Waits until no work is pending, and returns the number of tasks.
async fn at_rest(world: &World, done: &[Done]) -> usize {
    // A job that was never found or was given up may run on, and may ask a question that is never answered.
    let unfollowed = |engine: EngineName| {
        let is_left = |call: &&Done| matches!(call.ending, Ending::Uncertain | Ending::GivenUp);
        done.iter().filter(|call| call.plan.engine == engine).filter(is_left).count()
    };
    let client = world.database.lock().await.client(&world.schema).await;
    let owed = "SELECT count(*), count(*) FILTER (WHERE due_at IS NOT NULL), count(*) FILTER (WHERE NOT closed) FROM tasks";
    let which = "SELECT concat_ws(' ', tool, 'due', due_at - moment(NULL), body) FROM tasks WHERE due_at IS NOT NULL OR NOT closed LIMIT 3";
    let until = Instant::now() + REST;
    loop {
        let row = client.query_one(owed, &[]).await.unwrap();
        let [tasks, due, open]: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
        let (mut running, mut too_many) = (Vec::new(), false);
        for engine in EngineName::ALL {
            let count = world.engine(engine).client.counts(None).await.unwrap().running;
            too_many |= count > unfollowed(engine);
            running.push(format!("{count} {}", engine.as_str()));
        }
        if due == 0 && open == 0 && !too_many {
            return usize::try_from(tasks).unwrap();
        }
        let left = format!("{due} tasks due, {open} open; jobs running: {}", running.join(", "));
        if Instant::now() > until {
            let rows = client.query(which, &[]).await.unwrap();
            let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            panic!("not at rest: {left}; such as:\n{}", rows.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the engine's own view of its jobs.
async fn jobs(world: &World, engine: EngineName, done: &[Done]) -> Jobs {
    let cannot_be_polled =
        done.iter().filter(|call| call.plan.work == Work::Panics).map(|call| call.plan.name());
    let cannot_be_polled: HashSet<String> = cannot_be_polled.collect();
    let engine = world.engine(engine);
    let (backend, mut jobs) = (engine.client.backend(), Jobs::new());
    for job in engine.process.journal() {
        if cannot_be_polled.contains(&job.text) {
            let unknown = Some(Ending::Other("a poll of this job makes the adapter panic".to_owned()));
            jobs.entry(job.text).or_default().push(unknown);
            continue;
        }
        let handle = [JobHandle::new(job.handle)];
        let state = loop {
            // The engine still loses requests.
            if let Some(Ok(seen)) =
                backend.observe_all(&GroupKey::new("all"), &Subject::watched(&handle)).await.pop()
            {
                break seen.state;
            }
        };
        let ended = match state {
            JobState::Succeeded(output) => Some(Ending::Succeeded(words(&output))),
            JobState::Failed(output) => Some(Ending::Failed(words(&output))),
            JobState::Cancelled(_) => Some(Ending::Cancelled),
            state if state.has_ended() => Some(Ending::Other(format!("{state:?}"))),
            _ => None,
        };
        jobs.entry(job.text).or_default().push(ended);
    }
    jobs
}

fn words(output: &Output) -> String {
    let texts = output.content.iter().filter_map(|content| match content {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Checks that a call's ending is that of its job.
fn came_true(call: &Done, jobs: &[Option<Ending>]) -> Result<(), &'static str> {
    let Done { plan, ending, .. } = call;
    match (ending, jobs) {
        (_, [_, _, ..]) => Err("several jobs"),
        // The reply to a repeated start may contain the job's end.
        (ending, [_]) if plan.work == Work::Panics && *ending == plan.expected() => Ok(()),
        (Ending::GivenUp, [_]) if plan.engine == EngineName::Crashing => Ok(()),
        (Ending::GivenUp, _) => Err("given up although its adapter does not panic, or there was no job"),
        (Ending::Succeeded(_) | Ending::Failed(_), [Some(ended)])
            if ended == ending && *ended == plan.expected() =>
        {
            Ok(())
        }
        (Ending::Succeeded(_) | Ending::Failed(_), _) => Err("a result that its job did not have"),
        // The task was cancelled before the start, or the job was asked to stop. A job that was finished by
        // then had ended by itself.
        (Ending::Cancelled, [] | [Some(_)]) if plan.is_cancelled() => Ok(()),
        (Ending::Cancelled, _) => Err("cancelled by nobody, or a job that runs on"),
        (Ending::Uncertain, [] | [_]) if !plan.engine.has_keys() => Ok(()),
        (Ending::Uncertain, _) => Err("uncertain although the engine knows keys"),
        (Ending::Other(_), _) => Err("an end that nothing explains"),
    }
}

/// The log message of an injected panic.
const PANIC: &str = "the reply of the simulated engine makes its adapter panic";

/// Checks that no server panicked by itself or found invalid data in the store, and that all stop when
/// requested.
async fn the_servers_are_well(world: &World) {
    for number in 0..REPLICAS {
        let log = world.log(number);
        let bad = |line: &&str| {
            ["panicked", "the adapter crashed", "the store is broken"].iter().any(|word| line.contains(word))
                && !line.contains(PANIC)
        };
        let bad: Vec<&str> = log.lines().filter(bad).take(20).collect();
        assert!(bad.is_empty(), "replica {number} says:\n{}", bad.join("\n"));
    }
    for replica in &world.replicas {
        let mut server = replica.server.lock().await.take().expect("all run again");
        let code = tokio::task::block_in_place(|| server.stop());
        assert_eq!(code, Some(0), "a replica stops when it is told to");
    }
}
