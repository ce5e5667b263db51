//! Several engines, and several servers that are connected to different engines. The real loops run over the
//! real store with simulated engines, on a paused clock. One engine's faults must not affect tasks of the
//! others.

mod node;

use std::time::Duration;

use taskbridge::tasks::task::{Job, Outcome, TaskState};
use taskbridge_sdk::Backend as _;
use taskbridge_sdk::sim::{Config, Mode as Keys, SimEngine};
use tokio::time::Instant;

use node::{Connection, Node};

/// One engine hangs with many tasks. Another engine still starts its jobs as quickly. No task whose start
/// was never sent is reported as uncertain; those tasks end at their deadline.
#[tokio::test(start_paused = true)]
async fn hung_engine_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine = SimEngine::new(Keys::Unkeyed);
    let (hung, quick) = (Connection::new(&engine, None, true), Connection::new(&engine, None, false));
    let node = Node::start("one", dir.path(), &[("hung", &hung), ("quick", &quick)]).await;
    let quiet = node.median_start("quick").await;
    let mut waiting = Vec::new();
    for _ in 0..5_000 {
        waiting.push(node.call("hung", Duration::ZERO).await);
    }
    for _ in 0..5 {
        let busy = node.median_start("quick").await;
        assert!(
            busy <= quiet.max(Duration::from_millis(5)) * 2,
            "{busy:?} beside a hung engine, {quiet:?} without"
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut unsent = 0;
    for id in &waiting {
        let task = node.task(id).await;
        if hung.has_sent(&task.key) {
            continue;
        }
        unsent += 1;
        assert_eq!(task.state, TaskState::Ended(Outcome::Broken), "{task:?}");
        let message = task.message.unwrap_or_default();
        assert!(message.starts_with("not started"), "{message}");
        assert!(matches!(task.job, Job::Closed { handle: None }), "{:?}", task.job);
    }
    assert!(unsent > 4_000, "most were never sent: {unsent}");
    node.stop().await;
}

/// A replica that takes over a job polls it before the engine lists it, and the task continues. A job that
/// the engine has really lost ends its task after the lag.
#[tokio::test(start_paused = true)]
async fn new_job_survives_takeover() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { start_lag: Duration::from_secs(10), ..Config::default() };
    let engine = SimEngine::from_config(&config);
    let connection = || Connection::over(engine.backend_as(&config), None, false);
    let one = Node::start("one", dir.path(), &[("engine", &connection())]).await;
    let id = one.call("engine", Duration::from_secs(20)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(one.task(&id).await.handle().is_some());
    one.stop().await;
    let two = Node::start("two", dir.path(), &[("engine", &connection())]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(two.task(&id).await.state, TaskState::Working);
    assert_eq!(two.wait_for_end(&id).await, TaskState::Ended(Outcome::Succeeded));

    let (lost, started_at) = (two.call("engine", Duration::from_secs(80)).await, Instant::now());
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.forget(two.task(&lost).await.handle().unwrap());
    assert_eq!(two.wait_for_end(&lost).await, TaskState::Ended(Outcome::Broken));
    assert!(started_at.elapsed() >= config.start_lag, "{:?}", started_at.elapsed());
    two.stop().await;
}

/// Two servers share a store but have different engines under one name. Neither changes the other's tasks.
#[tokio::test(start_paused = true)]
async fn other_identity_leaves_tasks_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (SimEngine::new(Keys::Keyed), SimEngine::new(Keys::Keyed));
    let first = Connection::new(&one, Some("sim one"), false);
    let second = Connection::new(&two, Some("sim two"), false);
    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    let running = node.call("engine", Duration::from_secs(40)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(node.task(&running).await.handle().is_some());
    node.stop().await;

    let other = Node::start("two", dir.path(), &[("engine", &second)]).await;
    let own_task = other.call("engine", Duration::from_secs(5)).await;
    let third = Node::start("three", dir.path(), &[("engine", &first)]).await;
    let third_task = third.call("engine", Duration::from_secs(5)).await;
    assert_eq!(other.wait_for_end(&own_task).await, TaskState::Ended(Outcome::Succeeded));
    assert_eq!(third.wait_for_end(&third_task).await, TaskState::Ended(Outcome::Succeeded));
    third.stop().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(other.task(&running).await.state, TaskState::Working);
    assert_eq!((one.total_starts(), two.total_starts()), (2, 1));
    other.stop().await;

    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    assert_eq!(node.wait_for_end(&running).await, TaskState::Ended(Outcome::Succeeded));
    node.stop().await;
}

/// The second server learns its engine's identity only from the first poll. An unknown job of the other
/// engine ends no task.
#[tokio::test(start_paused = true)]
async fn identity_learned_late_leaves_tasks_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (SimEngine::new(Keys::Keyed), SimEngine::new(Keys::Keyed));
    let first = Connection::new(&one, Some("sim one"), false);
    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    let running = node.call("engine", Duration::from_secs(40)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.stop().await;

    let late = Connection::with_late_identity(&two, "sim two");
    let other = Node::start("two", dir.path(), &[("engine", &late)]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(late.identity().is_some(), "it was never polled");
    assert_eq!(other.task(&running).await.state, TaskState::Working);
    let own = other.call("engine", Duration::from_secs(5)).await;
    assert_eq!(other.wait_for_end(&own).await, TaskState::Ended(Outcome::Succeeded));
    other.stop().await;

    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    assert_eq!(node.wait_for_end(&running).await, TaskState::Ended(Outcome::Succeeded));
    node.stop().await;
}

/// A server that has not connected a backend leaves the backend's tasks to servers that have.
#[tokio::test(start_paused = true)]
async fn unconnected_backend_keeps_its_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let engine = SimEngine::new(Keys::Keyed);
    let connection = Connection::new(&engine, None, false);
    let unconnected = Node::start("one", dir.path(), &[("old", &connection)]).await;
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(unconnected.call("new", Duration::from_secs(5)).await);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for id in &tasks {
        assert_eq!(unconnected.task(id).await.state, TaskState::Working);
    }
    let connected = Node::start("two", dir.path(), &[("old", &connection), ("new", &connection)]).await;
    for id in &tasks {
        assert_eq!(unconnected.wait_for_end(id).await, TaskState::Ended(Outcome::Succeeded));
    }
    connected.stop().await;
    unconnected.stop().await;
}
