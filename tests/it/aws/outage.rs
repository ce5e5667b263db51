//! A test of an hour without AWS, on a clock that the test advances. The real loops use the adapter, and a
//! stand-in behind a proxy that can be shut. The stand-in runs in real time, so its executions continue while
//! the server's hour passes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use taskbridge::clock::{Clock, System, Uptime};
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::machine::Cancel;
use taskbridge::tasks::notices::{Occasion, Receivers};
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::{Call, Service, WhenFull};
use taskbridge::tasks::store::{Holder, SlotLimit};
use taskbridge::tasks::task::{
    OnExpiry, OnRefusal, Origin, Outcome, Owner, Spec, Task, TaskId, TaskPolicy, TaskState,
};
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::time::StoreTime;
use taskbridge::tasks::tools::{OpenedSpec, ToolCatalog};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge_sdk::{Adapter as _, Backend, Connect, Output, Result, Timestamp};
use taskbridge_step_functions::StepFunctions;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::standin::Standin;
use crate::support::{Proxy, Way};

/// A duration that exceeds the outage and everything after it.
const DAY: Duration = Duration::from_secs(86_400);
/// Real time that the stand-in gets per second of the server's clock: while the proxy is open, and while it
/// is shut.
const OPEN: Duration = Duration::from_millis(100);
const SHUT: Duration = Duration::from_millis(2);
/// Timeout for an expected state, in seconds of the server's clock.
const SOON: u32 = 600;

/// The clock of the runtime, which is paused and advances only when a test advances it.
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000) + self.0.elapsed()
    }
}

impl Uptime for Paused {
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn boot(&self) -> String {
        String::new()
    }
}

struct Nobody;

impl Receivers for Nobody {
    fn wanting(&self, _tool: &str, _occasion: Occasion) -> Vec<String> {
        Vec::new()
    }
}

/// Tools without sealed arguments, output limits or slots.
struct Plain;

#[async_trait]
impl ToolCatalog for Plain {
    fn open(&self, spec: &Spec) -> Result<OpenedSpec> {
        Ok(OpenedSpec { arguments: spec.arguments.clone(), files: Vec::new() })
    }

    async fn judge(&self, _tool: &str, _output: &Output) -> std::result::Result<(), String> {
        Ok(())
    }

    fn limits(&self, _slots: &[String]) -> Vec<SlotLimit> {
        Vec::new()
    }
}

/// A server without its endpoint.
struct Node {
    service: Service,
    running: tokio::task::JoinHandle<()>,
    owner: Owner,
}

impl Node {
    async fn start(backend: Arc<dyn Backend>, dir: &tempfile::TempDir) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(Paused(Instant::now()));
        let store = SqliteStore::open(&dir.path().join("tasks.db"), clock, Mode::Inline).unwrap();
        let store = Arc::new(store);
        let time = StoreTime::of(store.clone() as _, Arc::new(Paused(Instant::now()))).await.unwrap();
        let holder = Holder("one".to_owned());
        let pace = PollIntervals { quickest: Duration::from_millis(100), slowest: Duration::from_secs(30) };
        let ledger = TaskWriter {
            store,
            watch: ChangeNotifier::default(),
            clock: time.clone(),
            tools: Arc::new(Plain),
            receivers: Arc::new(Nobody),
            nudge: Arc::new(ReconcilerSignals::default()),
            scribe: HistoryRecorder { replica: holder.clone(), keeps: true },
            meter: Arc::new(taskbridge::tasks::meter::Unmetered),
            audit: Arc::new(taskbridge::tasks::audit::InTheLog),
        };
        let engines = Engines::new(BTreeMap::from([("aws".to_owned(), backend)]), 16);
        let lease = Duration::from_secs(15);
        let tick = Duration::from_secs(5);
        let settings = Settings { lease, tick, pace, max_acts: 8, history: DAY };
        let reconciler = Reconciler::new(ledger.clone(), engines, holder.clone(), settings).keeping(time);
        let service = Service::new(ledger, System::entropy(), holder, lease, pace, reconciler.outbox());
        #[allow(clippy::disallowed_methods, reason = "the test is its own app")]
        let running = tokio::spawn(reconciler.run(CancellationToken::new()));
        Self { service, running, owner: Owner::new("ana") }
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
            most_kept: None,
            confirm: None,
            once: None,
            plain: None,
        };
        self.service.call(call).await.unwrap().into_task().id
    }

    async fn task(&self, id: &TaskId) -> Task {
        self.service.get(&self.owner, id).await.unwrap().unwrap().task
    }

    /// Advances the server's clock until a task is in this state.
    async fn until(&self, id: &TaskId, what: &str, holds: impl Fn(&Task) -> bool) {
        for _ in 0..SOON {
            if holds(&self.task(id).await) {
                return;
            }
            pass(1, OPEN).await;
        }
        panic!("never {what}: {:?}", self.task(id).await);
    }
}

/// Advances the clock in steps of 100 ms, which are shorter than any timeout of a call. External processes
/// get `each` of real time per second.
async fn pass(seconds: u32, each: Duration) {
    for _ in 0..10 * seconds {
        tokio::time::advance(Duration::from_millis(100)).await;
        wait(each / 10).await;
    }
}

/// Waits in real time.
#[allow(clippy::disallowed_methods, reason = "the clock of the runtime stands still")]
async fn wait(time: Duration) {
    tokio::task::spawn_blocking(move || std::thread::sleep(time)).await.unwrap();
}

async fn connect(dir: &tempfile::TempDir, way: &Proxy) -> Arc<dyn Backend> {
    let credentials = "[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = s3cr3t\n";
    fs::write(dir.path().join("aws"), credentials).unwrap();
    let config = json!({
        "region": "us-east-1", "profile": "tester", "config_file": "aws",
        "endpoint": format!("http://{}", way.address()),
    });
    let context = Connect {
        name: "aws".to_owned(),
        config_dir: dir.path().to_owned(),
        state_dir: dir.path().join("state"),
        program: "/nowhere".into(),
        call_limit: Duration::from_secs(30),
    };
    StepFunctions::connect(serde_json::from_value(config).unwrap(), &context).await.unwrap()
}

fn runs(task: &Task) -> bool {
    task.state == TaskState::Working && task.handle().is_some()
}

fn label(execution: &Value) -> Value {
    let input: Value = serde_json::from_str(execution["input"].as_str().unwrap()).unwrap();
    input["label"].clone()
}

async fn an_hour_passes() {
    let standin = Standin::start("ministack");
    let wait_state = |seconds: u32| json!({"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": seconds, "End": true}}});
    let short = standin.machine("short", wait_state(5)).await;
    let long = standin.machine("long", wait_state(3600)).await;
    let way = Proxy::to(standin.url.trim_start_matches("http://").parse().ok()).await;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(connect(&dir, &way).await, &dir).await;

    let [ends, goes_on, stopped, cancelled] = [
        node.call(&short, "ends").await,
        node.call(&long, "goes on").await,
        node.call(&long, "stopped").await,
        node.call(&long, "cancelled").await,
    ];
    for id in [&ends, &goes_on, &stopped, &cancelled] {
        node.until(id, "running", runs).await;
    }

    way.set(Way::Shut);
    way.reset();
    let late = node.call(&short, "late").await;
    node.service.cancel(&node.owner, &cancelled, Cancel::Request).await.unwrap();
    let executions = standin.executions(&long).await;
    for execution in executions {
        let described =
            standin.call("DescribeExecution", json!({"executionArn": execution["executionArn"]})).await;
        if label(&described) == "stopped" {
            standin.call("StopExecution", json!({"executionArn": execution["executionArn"]})).await;
        }
    }
    for _ in 0..60 {
        pass(60, SHUT).await;
        for id in [&ends, &goes_on, &stopped, &cancelled, &late] {
            let task = node.task(id).await;
            assert!(task.outcome().is_none(), "AWS cannot have said so: {task:?}");
        }
    }
    assert_eq!(standin.executions(&short).await.len(), 1, "nothing came through");

    way.set(Way::Open);
    for id in [&ends, &late] {
        node.until(id, "succeeded", |task| task.outcome() == Some(Outcome::Succeeded)).await;
    }
    for id in [&stopped, &cancelled] {
        node.until(id, "cancelled", |task| task.outcome() == Some(Outcome::Cancelled)).await;
    }
    assert!(runs(&node.task(&goes_on).await));
    let (short, long) = (standin.executions(&short).await, standin.executions(&long).await);
    assert_eq!((short.len(), long.len()), (2, 3), "one execution for each call");
    let aborted = long.iter().filter(|execution| execution["status"] == "ABORTED").count();
    assert_eq!(aborted, 2, "{long:?}");
    node.running.abort();
}

/// Stops the thread that keeps the clock from advancing, also when the test fails.
struct Still(Arc<AtomicBool>);

impl Drop for Still {
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
        let still = Still(Arc::new(AtomicBool::new(true)));
        let holds = still.0.clone();
        tokio::task::spawn_blocking(move || {
            while holds.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        an_hour_passes().await;
    });
}
