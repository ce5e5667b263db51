//! Runs the behaviour suite on the simulated engine: both modes, in this process and over the wire.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use taskbridge_sdk::sim::{Config, Fault, Mode, Operation, SimClient, SimEngine, serve};
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, DiscoverableTool, Fixture, HookRequest, InjectedFault, KeyHookRequest, LogJob,
    NotesJob, QuestionJob, RefusedJob, RepeatedStart, fresh_key, job,
};
use taskbridge_sdk::{Backend, DiscoveredTool, JobHandle, JobKey, JobSpec, Level};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Shared secret of deliveries.
const SECRET: &str = "only the engine knows";

/// Simulated engine: without keys if `UNKEYED`, over the wire protocol if `WIRE`.
struct SimFixture<const UNKEYED: bool, const WIRE: bool> {
    engine: SimEngine,
    backend: Arc<dyn Backend>,
    tools: Mutex<Vec<DiscoveredTool>>,
    /// Stops serving when it is dropped.
    _server: JoinSet<()>,
}

impl<const UNKEYED: bool, const WIRE: bool> SimFixture<UNKEYED, WIRE> {
    async fn new() -> Self {
        let engine = SimEngine::new(if UNKEYED { Mode::Unkeyed } else { Mode::Keyed });
        let mut server = JoinSet::new();
        let backend: Arc<dyn Backend> = if WIRE {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("a bound listener has an address");
            let served = engine.clone();
            server.spawn(async move { panic!("the listener failed: {}", serve(listener, served).await) });
            SimClient::new(address).backend_as(&config())
        } else {
            engine.backend_as(&config())
        };
        Self { engine, backend, tools: Mutex::default(), _server: server }
    }
}

/// Returns the settings of the backend itself.
fn config() -> Config {
    let start_lag = Duration::from_secs(60);
    Config { hook_secret: Some(SECRET.into()), start_lag, ..Config::default() }
}

fn schema(properties: Value) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), properties)])
}

fn simple(target: Value) -> JobSpec {
    job(target, json!({}))
}

#[async_trait]
impl<const UNKEYED: bool, const WIRE: bool> Fixture for SimFixture<UNKEYED, WIRE> {
    const CLAIMS: Claims = Claims {
        repeated_start: if UNKEYED { RepeatedStart::SearchOnly } else { RepeatedStart::SameJob },
        questions: true,
        notes: true,
        logs: true,
        artifacts: true,
        wakeups: !WIRE,
        discovery: true,
        checkup: true,
        hooks: true,
        refuses: true,
        counts_starts: true,
        faults: &InjectedFault::ALL,
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (simple(json!({"delay_ms": 5, "text": "all is well"})), "all is well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        simple(json!({"delay_ms": 5, "outcome": "fail", "text": "out of paper"}))
    }

    fn long_job(&self) -> JobSpec {
        simple(json!({"delay_ms": 60_000, "steps": 10}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(format!("0.{}", fresh_key()))
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let schema = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
        let target = json!({"delay_ms": 10, "question": {"message": "Which colour?", "schema": schema}});
        let answer = [("colour".to_owned(), json!("red"))].into_iter().collect();
        Some(QuestionJob { job: simple(target), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["a first line", "and then Another", "the last of them"].map(str::to_owned).to_vec();
        Some(LogJob { job: simple(json!({"delay_ms": 5, "lines": lines})), lines })
    }

    fn notes_job(&self) -> Option<NotesJob> {
        let notes = ["it begins", "it goes on", "it is done"];
        let job = simple(json!({"delay_ms": 30, "notes": notes}));
        Some(NotesJob { job, notes: notes.map(|text| (Level::Info, json!(text))).to_vec() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let (name, text) = ("out/report.txt", "figures and words");
        let job = simple(json!({"files": {name: text}}));
        Some(ArtifactJob { job, name: name.to_owned(), bytes: text.into() })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "no such queue: \"night\"".to_owned();
        Some(RefusedJob { job: simple(json!({"outcome": "refuse", "text": message})), message })
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let mut tools = self.tools.lock();
        let name = format!("night_run_{}", tools.len());
        tools.push(DiscoveredTool {
            name: name.clone(),
            input_schema: schema(json!({"text": {"type": "string"}})),
            target: json!({"delay_ms": 5}),
            ..DiscoveredTool::default()
        });
        self.engine.offer(tools.clone());
        Some(DiscoverableTool {
            tool: name,
            arguments: json!({"text": "well run"}),
            text: "well run".to_owned(),
        })
    }

    async fn remove_tool(&self, tool: &str) {
        let mut tools = self.tools.lock();
        tools.retain(|candidate| candidate.name != tool);
        self.engine.offer(tools.clone());
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({"outcome": "refuse"}))
    }

    fn hook_request(&self, handle: &JobHandle) -> Option<HookRequest> {
        let body = json!({"id": "delivery-1", "jobs": [handle]}).to_string().into_bytes();
        let proof_header = "x-sim-secret".to_owned();
        let headers = vec![(proof_header.clone(), SECRET.to_owned())];
        Some(HookRequest { headers, body, proof_header, signs_body: false })
    }

    fn key_hook_request(&self, key: &JobKey) -> Option<KeyHookRequest> {
        let (body, proof_header) = (json!({"keys": [key]}).to_string(), "x-sim-secret".to_owned());
        let headers = vec![(proof_header.clone(), SECRET.to_owned())];
        Some(KeyHookRequest { headers, body: body.into_bytes(), path: String::new(), proof_header })
    }

    fn renamed_job(&self) -> Option<JobSpec> {
        Some(simple(json!({"delay_ms": 30, "renames": true})))
    }

    fn unstoppable_job(&self) -> Option<JobSpec> {
        Some(simple(json!({"delay_ms": 60_000, "cannot_cancel": true})))
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.engine.starts(key)
    }

    async fn inject(&self, injected: InjectedFault) {
        let (operation, fault) = match injected {
            InjectedFault::StartReplyLost => (Operation::Start, Fault::LostReply),
            InjectedFault::StartUnavailable => (Operation::Start, Fault::Outage),
            InjectedFault::StartLimited => (Operation::Start, Fault::Limited(Duration::from_secs(1))),
            InjectedFault::PollUnavailable | InjectedFault::CheckupUnavailable => {
                (Operation::Observe, Fault::Outage)
            }
            InjectedFault::JobUnlisted => (Operation::Observe, Fault::Unlisted),
            InjectedFault::DiscoveryUnavailable => (Operation::Discover, Fault::Outage),
        };
        self.engine.inject(operation, fault);
    }
}

mod keyed {
    taskbridge_sdk::behaviour_suite!(super::SimFixture::<false, false>::new().await);
}

mod unkeyed {
    taskbridge_sdk::behaviour_suite!(super::SimFixture::<true, false>::new().await);
}

mod keyed_wire {
    taskbridge_sdk::behaviour_suite!(super::SimFixture::<false, true>::new().await);
}

mod unkeyed_wire {
    taskbridge_sdk::behaviour_suite!(super::SimFixture::<true, true>::new().await);
}
