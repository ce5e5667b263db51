//! Runs the behaviour suite on the simulated engine: both modes, in this process and over the wire.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use taskbridge_sdk::sim::{Config, Fault, Mode, Operation, SimClient, SimEngine, serve};
use taskbridge_sdk::suite::{
    Asking, Claims, Fixture, Leaving, Offering, Posted, Printing, Refusal, Repeat, Saying, Trouble,
    fresh_key, job,
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
    offered: Mutex<Vec<DiscoveredTool>>,
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
        Self { engine, backend, offered: Mutex::default(), _server: server }
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
        repeat: if UNKEYED { Repeat::OnlyLooks } else { Repeat::SameJob },
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
        troubles: &Trouble::ALL,
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn succeeds(&self) -> (JobSpec, String) {
        (simple(json!({"delay_ms": 5, "text": "all is well"})), "all is well".to_owned())
    }

    fn fails(&self) -> JobSpec {
        simple(json!({"delay_ms": 5, "outcome": "fail", "text": "out of paper"}))
    }

    fn runs_long(&self) -> JobSpec {
        simple(json!({"delay_ms": 60_000, "steps": 10}))
    }

    fn unknown(&self) -> JobHandle {
        JobHandle::new(format!("0.{}", fresh_key()))
    }

    fn asks(&self) -> Option<Asking> {
        let schema = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
        let target = json!({"delay_ms": 10, "question": {"message": "Which colour?", "schema": schema}});
        let answer = [("colour".to_owned(), json!("red"))].into_iter().collect();
        Some(Asking { job: simple(target), answer })
    }

    fn prints(&self) -> Option<Printing> {
        let lines = ["a first line", "and then Another", "the last of them"].map(str::to_owned).to_vec();
        Some(Printing { job: simple(json!({"delay_ms": 5, "lines": lines})), lines })
    }

    fn says(&self) -> Option<Saying> {
        let notes = ["it begins", "it goes on", "it is done"];
        let job = simple(json!({"delay_ms": 30, "notes": notes}));
        Some(Saying { job, notes: notes.map(|text| (Level::Info, json!(text))).to_vec() })
    }

    fn leaves(&self) -> Option<Leaving> {
        let (name, text) = ("out/report.txt", "figures and words");
        let job = simple(json!({"files": {name: text}}));
        Some(Leaving { job, name: name.to_owned(), bytes: text.into() })
    }

    fn refused(&self) -> Option<Refusal> {
        let words = "no such queue: \"night\"".to_owned();
        Some(Refusal { job: simple(json!({"outcome": "refuse", "text": words})), words })
    }

    async fn offers(&self) -> Option<Offering> {
        let mut offered = self.offered.lock();
        let name = format!("night_run_{}", offered.len());
        offered.push(DiscoveredTool {
            name: name.clone(),
            input_schema: schema(json!({"text": {"type": "string"}})),
            target: json!({"delay_ms": 5}),
            ..DiscoveredTool::default()
        });
        self.engine.offer(offered.clone());
        Some(Offering { tool: name, arguments: json!({"text": "well run"}), text: "well run".to_owned() })
    }

    async fn withdraws(&self, tool: &str) {
        let mut offered = self.offered.lock();
        offered.retain(|offered| offered.name != tool);
        self.engine.offer(offered.clone());
    }

    fn missing(&self) -> Option<Value> {
        Some(json!({"outcome": "refuse"}))
    }

    fn posts(&self, handle: &JobHandle) -> Option<Posted> {
        let body = json!({"id": "delivery-1", "jobs": [handle]}).to_string().into_bytes();
        let proof = "x-sim-secret".to_owned();
        let headers = vec![(proof.clone(), SECRET.to_owned())];
        Some(Posted { headers, body, proof, signs_the_body: false })
    }

    async fn starts(&self, key: &JobKey) -> usize {
        self.engine.starts(key)
    }

    async fn make(&self, trouble: Trouble) {
        let (operation, fault) = match trouble {
            Trouble::StartReplyLost => (Operation::Start, Fault::LostReply),
            Trouble::StartUnavailable => (Operation::Start, Fault::Outage),
            Trouble::StartLimited => (Operation::Start, Fault::Limited(Duration::from_secs(1))),
            Trouble::LookUnavailable | Trouble::CheckupUnavailable => (Operation::Observe, Fault::Outage),
            Trouble::JobUnlisted => (Operation::Observe, Fault::Unlisted),
            Trouble::DiscoveryUnavailable => (Operation::Discover, Fault::Outage),
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
