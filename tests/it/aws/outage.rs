//! A test of an hour without AWS, on a clock that the test advances. The real loops use the adapter, and a
//! stand-in behind a proxy that can be shut. The stand-in runs in real time, so its executions continue while
//! the server's hour passes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge::clock::{Clock, System};
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::machine::CancelMode;
use taskbridge::tasks::notices::NoReceivers;
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::{Call, Service, WhenFull};
use taskbridge::tasks::store::Holder;
use taskbridge::tasks::store::time::StoreTime;
use taskbridge::tasks::task::{
    OnExpiry, OnRefusal, Origin, Outcome, Owner, Spec, Task, TaskId, TaskPolicy, TaskState,
};
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext};
use taskbridge_step_functions::StepFunctions;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::standin::Standin;
use crate::support::{PausedClock, PlainTools, Proxy, ProxyMode};

/// A duration that exceeds the outage and everything after it.
const DAY: Duration = Duration::from_secs(86_400);
/// Real time that the stand-in gets per second of the server's clock: while the proxy is open, and while it
/// is shut.
const REAL_TIME_WHILE_OPEN: Duration = Duration::from_millis(100);
const REAL_TIME_WHILE_SHUT: Duration = Duration::from_millis(2);
/// Timeout for an expected state, in seconds of the server's clock.
const MAX_WAIT_SECONDS: u32 = 600;

/// A server without its endpoint.
struct Node {
    service: Service,
    reconciler_task: tokio::task::JoinHandle<()>,
    owner: Owner,
}

impl Node {
    async fn start(backend: Arc<dyn Backend>, dir: &tempfile::TempDir) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock(Instant::now()));
        let store = SqliteStore::open(&dir.path().join("tasks.db"), clock, Mode::Inline).unwrap();
        let store = Arc::new(store);
        let time = StoreTime::of(store.clone() as _, Arc::new(PausedClock(Instant::now()))).await.unwrap();
        let holder = Holder("one".to_owned());
        let poll_intervals =
            PollIntervals { shortest: Duration::from_millis(100), longest: Duration::from_secs(30) };
        let writer = TaskWriter {
            store,
            watch: ChangeNotifier::default(),
            clock: time.clone(),
            tools: Arc::new(PlainTools),
            receivers: Arc::new(NoReceivers),
            nudge: Arc::new(ReconcilerSignals::default()),
            history_recorder: HistoryRecorder { replica: holder.clone(), enabled: true },
            meter: Arc::new(taskbridge::tasks::meter::Unmetered),
            audit: Arc::new(taskbridge::tasks::audit::LogOnlyAudit),
        };
        let engines = Engines::new(BTreeMap::from([("aws".to_owned(), backend)]), 16);
        let lease = Duration::from_secs(15);
        let tick = Duration::from_secs(5);
        let settings = Settings { lease, tick, poll_intervals, max_actions: 8, history: DAY };
        let reconciler = Reconciler::new(writer.clone(), engines, holder.clone(), settings).with_time(time);
        let service =
            Service::new(writer, System::entropy(), holder, lease, poll_intervals, reconciler.outbox());
        #[allow(clippy::disallowed_methods, reason = "the test is its own app")]
        let reconciler_task = tokio::spawn(reconciler.run(CancellationToken::new()));
        Self { service, reconciler_task, owner: Owner::new("ana") }
    }

    async fn call(&self, machine: &str, label: &str) -> TaskId {
        let terms = TaskPolicy {
            ttl: DAY,
            keep_result: DAY,
            max_runtime: DAY,
            max_wait: None,
            outcome_grace: Duration::from_secs(900),
            on_expiry: OnExpiry::Cancel,
            start_within: 2 * Duration::from_secs(3600),
            settle_window: Duration::from_secs(120),
            on_decline: OnRefusal::Tell,
            on_dismiss: OnRefusal::Tell,
            answer_within: None,
            four_eyes: false,
        };
        let spec = Spec {
            target: json!({"state_machine": machine}),
            arguments: json!({"label": label}),
            sealed: None,
            unresolved: Default::default(),
        };
        let call = Call {
            owner: self.owner.clone(),
            origin: Origin::default(),
            tool: "wait".to_owned(),
            backend: "aws".to_owned(),
            spec,
            references: Vec::new(),
            terms,
            slots: Vec::new(),
            when_full: WhenFull::Queue,
            quota: None,
            confirm: None,
            idempotency_key: None,
            kept_arguments: None,
            variant: None,
            blocking: None,
        };
        self.service.call(call).await.unwrap().into_task().id
    }

    async fn task(&self, id: &TaskId) -> Task {
        self.service.get(&self.owner, id).await.unwrap().unwrap().task
    }

    /// Advances the server's clock until a task is in this state.
    async fn wait_for(&self, id: &TaskId, expected: &str, condition: impl Fn(&Task) -> bool) {
        for _ in 0..MAX_WAIT_SECONDS {
            if condition(&self.task(id).await) {
                return;
            }
            advance(1, REAL_TIME_WHILE_OPEN).await;
        }
        panic!("never {expected}: {:?}", self.task(id).await);
    }
}

/// Advances the clock in steps of 100 ms, which are shorter than any timeout of a call. External processes
/// get `real_time` per second.
async fn advance(seconds: u32, real_time: Duration) {
    for _ in 0..10 * seconds {
        tokio::time::advance(Duration::from_millis(100)).await;
        wait(real_time / 10).await;
    }
}

/// Waits in real time.
#[allow(clippy::disallowed_methods, reason = "the clock of the runtime stands still")]
async fn wait(time: Duration) {
    tokio::task::spawn_blocking(move || std::thread::sleep(time)).await.unwrap();
}

async fn connect(dir: &tempfile::TempDir, proxy: &Proxy) -> Arc<dyn Backend> {
    let credentials = "[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = s3cr3t\n";
    fs::write(dir.path().join("aws"), credentials).unwrap();
    let config = json!({
        "region": "us-east-1", "profile": "tester", "config_file": "aws",
        "endpoint": format!("http://{}", proxy.address()),
    });
    let context = ConnectContext {
        name: "aws".to_owned(),
        config_dir: dir.path().to_owned(),
        state_dir: dir.path().join("state"),
        program: "/nowhere".into(),
        call_timeout: Duration::from_secs(30),
    };
    StepFunctions::connect(serde_json::from_value(config).unwrap(), &context).await.unwrap()
}

fn is_running(task: &Task) -> bool {
    task.state == TaskState::Working && task.handle().is_some()
}

fn label(execution: &Value) -> Value {
    let input: Value = serde_json::from_str(execution["input"].as_str().unwrap()).unwrap();
    input["label"].clone()
}

async fn run_outage_hour() {
    let standin = Standin::start("ministack");
    let wait_state = |seconds: u32| json!({"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": seconds, "End": true}}});
    let short = standin.machine("short", wait_state(5)).await;
    let long = standin.machine("long", wait_state(3600)).await;
    let proxy = Proxy::to(standin.url.trim_start_matches("http://").parse().ok()).await;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(connect(&dir, &proxy).await, &dir).await;

    let [short_task, long_task, stopped, cancelled] = [
        node.call(&short, "ends").await,
        node.call(&long, "goes on").await,
        node.call(&long, "stopped").await,
        node.call(&long, "cancelled").await,
    ];
    for id in [&short_task, &long_task, &stopped, &cancelled] {
        node.wait_for(id, "running", is_running).await;
    }

    proxy.set(ProxyMode::Shut);
    proxy.reset();
    let late = node.call(&short, "late").await;
    node.service.cancel(&node.owner, &cancelled, CancelMode::Request).await.unwrap();
    let executions = standin.executions(&long).await;
    for execution in executions {
        let described =
            standin.call("DescribeExecution", json!({"executionArn": execution["executionArn"]})).await;
        if label(&described) == "stopped" {
            standin.call("StopExecution", json!({"executionArn": execution["executionArn"]})).await;
        }
    }
    for _ in 0..60 {
        advance(60, REAL_TIME_WHILE_SHUT).await;
        for id in [&short_task, &long_task, &stopped, &cancelled, &late] {
            let task = node.task(id).await;
            assert!(task.outcome().is_none(), "AWS cannot have said so: {task:?}");
        }
    }
    assert_eq!(standin.executions(&short).await.len(), 1, "nothing came through");

    proxy.set(ProxyMode::Open);
    for id in [&short_task, &late] {
        node.wait_for(id, "succeeded", |task| task.outcome() == Some(Outcome::Succeeded)).await;
    }
    for id in [&stopped, &cancelled] {
        node.wait_for(id, "cancelled", |task| task.outcome() == Some(Outcome::Cancelled)).await;
    }
    assert!(is_running(&node.task(&long_task).await));
    let (short, long) = (standin.executions(&short).await, standin.executions(&long).await);
    assert_eq!((short.len(), long.len()), (2, 3), "one execution for each call");
    let aborted = long.iter().filter(|execution| execution["status"] == "ABORTED").count();
    assert_eq!(aborted, 2, "{long:?}");
    node.reconciler_task.abort();
}

/// Stops the thread that keeps the clock from advancing, also when the test fails.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a thread that keeps the clock from moving by itself")]
fn an_hour_without_aws_loses_nothing() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        // A paused clock does not advance to the next timer by itself while a blocking task runs.
        let stop_guard = StopOnDrop(Arc::new(AtomicBool::new(true)));
        let running = stop_guard.0.clone();
        tokio::task::spawn_blocking(move || {
            while running.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        run_outage_hour().await;
    });
}
