//! The checks at the end of a run. The engines' journals contain the starts, their jobs the ends, and the
//! database the tasks. The clients have the responses of the run and of repeated calls.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::{Backend as _, Content, GroupKey, JobHandle, JobState, Output, Subject};
use tokio::time::Instant;

use super::callers::{FinishedCall, SETTLE_TIMEOUT, repeat_calls};
use super::faults::Sizes;
use super::figures;
use super::load::Load;
use super::plan::{ClientKind, Ending, EngineName, Work};
use super::world::{REPLICAS, World};

/// The jobs that were started, by the call that they name, with their endings: `None` if it has not ended.
type Jobs = HashMap<String, Vec<Option<Ending>>>;

/// Panics unless every call has the right result, and prints the figures.
pub(super) async fn check_all(world: World, sizes: Sizes, load: &Load, finished: Vec<FinishedCall>) {
    assert_eq!(finished.len(), load.calls + 1, "calls that came to an end, and the one that ran beside them");
    check_repeated_calls(&world, load, &finished).await;
    let tasks = wait_until_idle(&world, &finished).await;
    let mut jobs_by_engine = HashMap::new();
    for engine in EngineName::ALL {
        jobs_by_engine.insert(engine.as_str(), jobs(&world, engine, &finished).await);
    }
    let jobs_of = |call: &FinishedCall| {
        let jobs = &jobs_by_engine[call.plan.engine.as_str()];
        jobs.get(&call.plan.name()).map_or(&[][..], Vec::as_slice)
    };
    figures::print(&world, &finished, tasks, jobs_of);
    let failures: Vec<String> = finished
        .iter()
        .filter_map(|call| {
            Some(format!(
                "{}: {call:?}, jobs: {:?}",
                check_outcome(call, jobs_of(call)).err()?,
                jobs_of(call)
            ))
        })
        .collect();
    assert!(failures.is_empty(), "{} calls came out wrong:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(tasks, finished.len(), "one task for each call");
    let call_jobs: usize = finished.iter().map(|call| jobs_of(call).len()).sum();
    let total_jobs: usize = jobs_by_engine.values().flat_map(HashMap::values).map(Vec::len).sum();
    assert_eq!(call_jobs, total_jobs, "jobs of no call, or in the wrong engine");
    check_faults_happened(&world, sizes).await;
    check_servers_healthy(&world).await;
}

/// Checks that the faults of the disk, the clocks and an adapter really happened.
async fn check_faults_happened(world: &World, sizes: Sizes) {
    let log = world.database.lock().await.log();
    let failed_writes =
        log.matches("No space left on device").count() + log.matches("File too large").count();
    println!("chaos: {failed_writes:6} writes of the database that found no room");
    assert!(sizes.fills == 0 || failed_writes > 0, "the disk was never full");
    let healthz = world.replicas[0].url().replace("/mcp", "/healthz");
    let response = reqwest::Client::builder().no_proxy().build().unwrap().get(healthz).send().await.unwrap();
    let date = response.headers()["date"].to_str().unwrap();
    let server_time: jiff::Timestamp = jiff::fmt::rfc2822::parse(date).unwrap().timestamp();
    let clock_was_set =
        jiff::Timestamp::now().duration_since(server_time).abs() > jiff::SignedDuration::from_hours(1);
    println!("chaos: the clock of one replica shows {date}");
    assert_eq!(clock_was_set, sizes.jumps > 0, "its clock was set");
    let client = world.database.lock().await.client(&world.schema).await;
    let database_ms: i64 = client.query_one("SELECT moment(NULL)", &[]).await.unwrap().get(0);
    let offset = database_ms / 1_000 - jiff::Timestamp::now().as_second();
    println!("chaos: the clock of the database is {offset} s ahead");
    assert!((offset - world.clock.offset()).abs() < 5, "the database goes by another clock");
    let count_logged =
        |text: &str| world.replicas.iter().map(|replica| replica.count_logged(world, text)).sum::<usize>();
    let leaps = count_logged("the store's clock has leapt");
    println!("chaos: {leaps:6} leaps of the database's clock that replicas noticed");
    assert!(sizes.steps == 0 || leaps > 0, "no replica noticed that the database's clock was stepped");
    let panics = count_logged(PANIC);
    println!(
        "chaos: {panics:6} panics of the adapter in the logs, which leave out most that come soon after another"
    );
    assert!(sizes.panics + sizes.quiet == 0 || panics > 0, "the adapter did not panic");
}

/// Checks that a repeated call under the same key gets the same task and the same ending, and starts
/// nothing.
async fn check_repeated_calls(world: &World, load: &Load, finished: &[FinishedCall]) {
    let repeated = repeat_calls(world, load, finished).await;
    let repeated: HashMap<usize, FinishedCall> =
        repeated.into_iter().map(|call| (call.plan.number, call)).collect();
    for call in finished {
        let repeat = &repeated[&call.plan.number];
        assert_eq!(repeat.ending, call.ending, "{call:?} was told something else when it asked again");
        // A client of the newer revision gets the result itself once it exists.
        let is_same_task =
            call.task.is_none() || call.plan.client_kind == ClientKind::New || repeat.task == call.task;
        assert!(is_same_task, "{call:?} has become another task: {repeat:?}");
    }
}

/// Waits until no work is pending, and returns the number of tasks.
async fn wait_until_idle(world: &World, finished: &[FinishedCall]) -> usize {
    // A job that was never found or was given up may run on, and may ask a question that is never answered.
    let abandoned_calls = |engine: EngineName| {
        let is_abandoned = |call: &&FinishedCall| matches!(call.ending, Ending::Uncertain | Ending::GivenUp);
        finished.iter().filter(|call| call.plan.engine == engine).filter(is_abandoned).count()
    };
    let client = world.database.lock().await.client(&world.schema).await;
    let counts_query = "SELECT count(*), count(*) FILTER (WHERE due_at IS NOT NULL), count(*) FILTER (WHERE NOT closed) FROM tasks";
    let sample_query = "SELECT concat_ws(' ', tool, 'due', due_at - moment(NULL), body) FROM tasks WHERE due_at IS NOT NULL OR NOT closed LIMIT 3";
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let row = client.query_one(counts_query, &[]).await.unwrap();
        let [tasks, due, open]: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
        let (mut running, mut too_many) = (Vec::new(), false);
        for engine in EngineName::ALL {
            let count = world.engine(engine).client.counts(None).await.unwrap().running;
            too_many |= count > abandoned_calls(engine);
            running.push(format!("{count} {}", engine.as_str()));
        }
        if due == 0 && open == 0 && !too_many {
            return usize::try_from(tasks).unwrap();
        }
        let pending = format!("{due} tasks due, {open} open; jobs running: {}", running.join(", "));
        if Instant::now() > deadline {
            let rows = client.query(sample_query, &[]).await.unwrap();
            let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            panic!("not at rest: {pending}; such as:\n{}", rows.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the engine's own view of its jobs.
async fn jobs(world: &World, engine: EngineName, finished: &[FinishedCall]) -> Jobs {
    let unpollable =
        finished.iter().filter(|call| call.plan.work == Work::Panics).map(|call| call.plan.name());
    let unpollable: HashSet<String> = unpollable.collect();
    let engine = world.engine(engine);
    let (backend, mut jobs) = (engine.client.backend(), Jobs::new());
    for job in engine.process.journal() {
        if unpollable.contains(&job.text) {
            let unknown = Some(Ending::Other("a poll of this job makes the adapter panic".to_owned()));
            jobs.entry(job.text).or_default().push(unknown);
            continue;
        }
        let handle = [JobHandle::new(job.handle)];
        let state = loop {
            // The engine still loses requests.
            if let Some(Ok(observation)) =
                backend.observe_all(&GroupKey::new("all"), &Subject::watched(&handle)).await.pop()
            {
                break observation.state;
            }
        };
        let ending = match state {
            JobState::Succeeded(output) => Some(Ending::Succeeded(output_text(&output))),
            JobState::Failed(output) => Some(Ending::Failed(output_text(&output))),
            JobState::Cancelled(_) => Some(Ending::Cancelled),
            state if state.has_ended() => Some(Ending::Other(format!("{state:?}"))),
            _ => None,
        };
        jobs.entry(job.text).or_default().push(ending);
    }
    jobs
}

fn output_text(output: &Output) -> String {
    let texts = output.content.iter().filter_map(|content| match content {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Checks that a call's ending is that of its job.
fn check_outcome(call: &FinishedCall, jobs: &[Option<Ending>]) -> Result<(), &'static str> {
    let FinishedCall { plan, ending, .. } = call;
    match (ending, jobs) {
        (_, [_, _, ..]) => Err("several jobs"),
        // The reply to a repeated start may contain the job's end.
        (ending, [_]) if plan.work == Work::Panics && *ending == plan.expected_ending() => Ok(()),
        (Ending::GivenUp, [_]) if plan.engine == EngineName::Crashing => Ok(()),
        (Ending::GivenUp, _) => Err("given up although its adapter does not panic, or there was no job"),
        (Ending::Succeeded(_) | Ending::Failed(_), [Some(job_ending)])
            if job_ending == ending && *job_ending == plan.expected_ending() =>
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
const PANIC: &str = "the simulated engine requests a panic of its adapter";

/// Checks that no server panicked by itself or found invalid data in the store, and that all stop when
/// requested.
async fn check_servers_healthy(world: &World) {
    for number in 0..REPLICAS {
        let log = world.log(number);
        let is_problem = |line: &&str| {
            ["panicked", "the adapter crashed", "the store is broken"].iter().any(|word| line.contains(word))
                && !line.contains(PANIC)
        };
        let problems: Vec<&str> = log.lines().filter(is_problem).take(20).collect();
        assert!(problems.is_empty(), "replica {number} says:\n{}", problems.join("\n"));
    }
    for replica in &world.replicas {
        let mut server = replica.server.lock().await.take().expect("all run again");
        let code = tokio::task::block_in_place(|| server.stop());
        assert_eq!(code, Some(0), "a replica stops when it is told to");
    }
}
