//! What an engine can report beyond the state of a job: a new name, a wait before the next attempt, that it
//! cannot stop a job, that it has forgotten a key, and that it does not list a job.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_core::tasks::machine::CancelMode;
use taskbridge_core::tasks::task::{CANNOT_BE_CANCELLED, Job, Outcome, Owner, Task, TaskId};
use taskbridge_sdk::Backend;
use taskbridge_sdk::sim::{Config, Fault, Mode, Operation, SimEngine};

use super::fixture::{Fixture, call_with};
use super::node::{LEASE, Node};

/// Creates a fixture whose engine has these settings, and a backend that declares them.
fn with_engine(config: &Config) -> (Fixture, Arc<dyn Backend>) {
    let mut fixture = Fixture::new();
    fixture.engine = SimEngine::from_config(config);
    let backend = fixture.engine.backend_as(config);
    (fixture, backend)
}

async fn start_job(node: &Node, arguments: Value) -> TaskId {
    let call_result = node.service.call(call_with(arguments)).await;
    call_result.expect("the store is there").into_task().id
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// The new name is stored, with the group in which it is polled, so that another process goes on under it.
#[tokio::test(start_paused = true)]
async fn new_name_survives_kill() {
    let fixture = Fixture::new();
    let node = fixture.start("first").await;
    let id = start_job(&node, json!({"delay_ms": 60_000, "renames": true})).await;
    seconds(5).await;
    let task = fixture.row(&id).await;
    let Job::Open { handle, group, .. } = &task.job else { panic!("{task:?}") };
    assert!(handle.as_str().ends_with(".run"), "{handle}");
    assert_eq!(group.as_str(), "g1", "the group of the new name");
    drop(node);
    let _node = fixture.start("second").await;
    seconds(60 + 2 * LEASE.as_secs()).await;
    let task = fixture.row(&id).await;
    assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
    assert!(task.handle().is_some_and(|handle| handle.as_str().ends_with(".run")), "{task:?}");
}

/// The reply to the start is lost, and the engine is away until it may have forgotten the key. The job is then
/// searched for, and not started again.
#[tokio::test(start_paused = true)]
async fn start_under_old_key_is_not_repeated() {
    let lifetime = Duration::from_secs(60);
    let (fixture, backend) = with_engine(&Config { key_lifetime: Some(lifetime), ..Config::default() });
    let node = fixture.start_with_backend("one", &Arc::default(), backend).await;
    fixture.engine.inject(Operation::Start, Fault::LostReply);
    // More than fit into the lifetime of the key: attempts are at most ten seconds apart.
    (0..20).for_each(|_| fixture.engine.inject(Operation::Start, Fault::Outage));
    let id = start_job(&node, json!({"delay_ms": 200_000})).await;
    seconds(200 + 2 * LEASE.as_secs()).await;
    let task = fixture.row(&id).await;
    assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
    assert_eq!(fixture.engine.total_starts(), 1);
}

/// A start whose job never came to be is not repeated once its key may be forgotten. The task says so.
#[tokio::test(start_paused = true)]
async fn lost_start_under_old_key_is_uncertain() {
    let lifetime = Duration::from_secs(10);
    let (fixture, backend) = with_engine(&Config { key_lifetime: Some(lifetime), ..Config::default() });
    let node = fixture.start_with_backend("one", &Arc::default(), backend).await;
    fixture.engine.inject(Operation::Start, Fault::LostBefore);
    (0..20).for_each(|_| fixture.engine.inject(Operation::Start, Fault::Outage));
    let id = start_job(&node, json!({"delay_ms": 1_000})).await;
    seconds(600).await;
    let task = fixture.row(&id).await;
    assert_eq!(task.outcome(), Some(Outcome::Broken), "{task:?}");
    let message = task.status_message().unwrap_or_default();
    assert!(message.contains("uncertain") && message.contains("key"), "{message}");
    assert_eq!(fixture.engine.total_starts(), 0);
}

/// An engine that is busy for a minute is not polled in that time. A longer wait is cut to 15 minutes.
#[tokio::test(start_paused = true)]
async fn busy_engine_is_left_alone() {
    for (asked, at_most) in [(60, 60), (86_400, 900)] {
        let fixture = Fixture::new();
        let node = fixture.start("one").await;
        let id = start_job(&node, json!({"delay_ms": 10_000})).await;
        seconds(5).await;
        fixture.engine.inject(Operation::Observe, Fault::Busy(Duration::from_secs(asked)));
        seconds(at_most - 10).await;
        assert_eq!(fixture.row(&id).await.outcome(), None, "polled after less than {at_most} s");
        seconds(40).await;
        assert_eq!(fixture.row(&id).await.outcome(), Some(Outcome::Succeeded));
    }
}

/// A busy engine delays a start for as long as it asks.
#[tokio::test(start_paused = true)]
async fn busy_engine_delays_start() {
    let fixture = Fixture::new();
    let node = fixture.start("one").await;
    fixture.engine.inject(Operation::Start, Fault::Busy(Duration::from_secs(90)));
    let id = start_job(&node, json!({"delay_ms": 1_000})).await;
    seconds(85).await;
    assert_eq!(fixture.engine.total_starts(), 0);
    seconds(10 + 2 * LEASE.as_secs()).await;
    assert_eq!(fixture.row(&id).await.outcome(), Some(Outcome::Succeeded));
}

/// Cancels a job that its engine cannot stop. Returns the row shortly after that, and after the job's end.
async fn cancel_unstoppable_job(mode: CancelMode) -> (Task, Task) {
    let fixture = Fixture::new();
    let node = fixture.start("one").await;
    let job = json!({"delay_ms": 120_000, "steps": 10, "cannot_cancel": true});
    let id = start_job(&node, job).await;
    seconds(5).await;
    node.service.cancel(&Owner::new("ana"), &id, mode).await.expect("the store is there");
    seconds(30).await;
    let early = fixture.row(&id).await;
    seconds(120 + 2 * LEASE.as_secs()).await;
    (early, fixture.row(&id).await)
}

/// The client reads that its job goes on, and gets the result.
#[tokio::test(start_paused = true)]
async fn unstoppable_job_delivers_result() {
    let (early, late) = cancel_unstoppable_job(CancelMode::Request).await;
    assert_eq!(early.outcome(), None);
    let message = early.status_message().unwrap_or_default();
    assert!(message.starts_with(CANNOT_BE_CANCELLED) && message.contains("step"), "{message}");
    assert_eq!(late.outcome(), Some(Outcome::Succeeded), "{late:?}");
    assert!(matches!(late.job, Job::Closed { .. }), "{late:?}");
}

/// A client that cancelled the task at once reads that its job goes on. The job is polled to its end.
#[tokio::test(start_paused = true)]
async fn cancelled_task_reports_unstoppable_job() {
    let (early, late) = cancel_unstoppable_job(CancelMode::Immediate).await;
    for task in [&early, &late] {
        assert_eq!(task.outcome(), Some(Outcome::Cancelled), "{task:?}");
        let message = task.status_message().unwrap_or_default();
        assert_eq!(message, format!("cancelled by request; {CANNOT_BE_CANCELLED}"));
    }
    assert!(matches!(early.job, Job::Open { .. }), "{early:?}");
    assert!(matches!(late.job, Job::Closed { .. }), "{late:?}");
}

/// A job that the engine no longer lists is lost after five polls, a quarter of the lag apart. An outage of the
/// engine starts the count over.
#[tokio::test(start_paused = true)]
async fn outage_starts_count_of_lost_job_over() {
    for has_outage in [false, true] {
        let config = Config { start_lag: Duration::from_secs(60), ..Config::default() };
        let mut fixture = Fixture::new();
        fixture.engine = SimEngine::new(Mode::Keyed);
        let backend = fixture.engine.backend_as(&config);
        let node = fixture.start_with_backend("one", &Arc::default(), backend).await;
        let id = start_job(&node, json!({"delay_ms": 86_400_000u64})).await;
        seconds(300).await;
        let handle = fixture.row(&id).await.handle().expect("it runs").clone();
        fixture.engine.forget(&handle);
        seconds(55).await;
        assert_eq!(fixture.row(&id).await.outcome(), None, "the polls are 15 s apart");
        if has_outage {
            fixture.engine.set_outage(true);
            seconds(120).await;
            fixture.engine.set_outage(false);
            // The first poll after the outage may be made at once.
            seconds(55).await;
            assert_eq!(fixture.row(&id).await.outcome(), None, "the outage counts");
        }
        seconds(300).await;
        let task = fixture.row(&id).await;
        assert_eq!(task.outcome(), Some(Outcome::Broken), "{task:?}");
    }
}

/// A job that is found again was never lost.
#[tokio::test(start_paused = true)]
async fn unlisted_job_is_found_again() {
    let config = Config { start_lag: Duration::from_secs(20), ..Config::default() };
    let (fixture, backend) = with_engine(&Config::default());
    drop(backend);
    let node = fixture.start_with_backend("one", &Arc::default(), fixture.engine.backend_as(&config)).await;
    let id = start_job(&node, json!({"delay_ms": 600_000})).await;
    seconds(60).await;
    for _ in 0..20 {
        // Four polls in a row miss it, the next one finds it.
        (0..4).for_each(|_| fixture.engine.inject(Operation::Observe, Fault::Unlisted));
        seconds(60).await;
        fixture.engine.clear_faults();
        seconds(60).await;
        if fixture.row(&id).await.has_ended() {
            break;
        }
    }
    let task = fixture.row(&id).await;
    assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
}
