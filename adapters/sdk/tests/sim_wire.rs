//! Tests the simulated engine over its wire protocol: lost replies, and an unreachable engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::sim::{Fault, Mode, Operation, Sim, SimClient, SimEngine, serve};
use taskbridge_sdk::{Backend, ConnectContext, ErrorKind, JobKey, JobSpec, JobState, Registry, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An engine and its server, which stops when this value is dropped.
struct ServedEngine {
    engine: SimEngine,
    client: SimClient,
    address: SocketAddr,
    server: JoinSet<()>,
}

impl ServedEngine {
    async fn new(mode: Mode) -> Self {
        let engine = SimEngine::new(mode);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let mut server = JoinSet::new();
        let served = engine.clone();
        server.spawn(async move { panic!("the listener failed: {}", serve(listener, served).await) });
        Self { engine, client: SimClient::new(address), address, server }
    }
}

fn job(n: u8, target: Value) -> JobSpec {
    let key = JobKey::from_bytes([n; 16]);
    JobSpec { key, ..taskbridge_sdk::suite::job(target, json!({})) }
}

fn with_may_exist(job: &JobSpec) -> JobSpec {
    JobSpec { may_exist: true, ..job.clone() }
}

/// The start can be repeated, and still makes one job.
#[tokio::test]
async fn lost_reply_over_wire_is_uncertain() {
    let served = ServedEngine::new(Mode::Keyed).await;
    let (backend, spec) = (served.client.backend(), job(1, json!({})));
    served.client.inject(Operation::Start, Fault::LostReply).await.unwrap();
    assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Uncertain);
    assert!(backend.start(&with_may_exist(&spec)).await.is_ok());
    let counts = served.client.counts(Some(&spec.key)).await.unwrap();
    assert_eq!((counts.mode, counts.starts, counts.total_starts, counts.running), (Mode::Keyed, 1, 1, 0));
}

#[tokio::test]
async fn lost_poll_is_unavailable() {
    let served = ServedEngine::new(Mode::Keyed).await;
    let backend = served.client.backend();
    let handle = backend.start(&job(1, json!({}))).await.unwrap().handle;
    for fault in [Fault::LostReply, Fault::LostBefore, Fault::Outage] {
        served.engine.inject(Operation::Observe, fault);
        assert_eq!(backend.observe(&handle).await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    let after = Some(Duration::from_secs(3));
    served.engine.inject(Operation::Observe, Fault::Limited(Duration::from_secs(3)));
    assert_eq!(backend.observe(&handle).await.unwrap_err().kind(), ErrorKind::Limited { after });
}

/// A start while the engine is down is certain to have no effect.
#[tokio::test]
async fn unavailable_engine_starts_nothing() {
    let mut served = ServedEngine::new(Mode::Keyed).await;
    let backend = served.client.backend();
    backend.start(&job(1, json!({}))).await.unwrap();
    served.server.shutdown().await;
    assert_eq!(backend.start(&job(2, json!({}))).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn outage_over_wire_begins_and_ends() {
    let served = ServedEngine::new(Mode::Keyed).await;
    let (backend, spec) = (served.client.backend(), job(1, json!({})));
    served.client.set_outage(true).await.unwrap();
    assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Unavailable);
    served.client.set_outage(false).await.unwrap();
    assert!(backend.start(&spec).await.is_ok());
}

/// Two hundred concurrent starts over the wire all succeed.
#[tokio::test]
async fn concurrent_calls_share_connections() {
    let served = ServedEngine::new(Mode::Unkeyed).await;
    let backend = served.client.backend();
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let backend = backend.clone();
        calls.spawn(async move { backend.start(&job(n, json!({"delay_ms": 60_000}))).await.unwrap() });
    }
    assert_eq!(calls.join_all().await.len(), 200);
    assert_eq!((served.engine.total_starts(), served.engine.running().len()), (200, 200));
}

/// The response to an unknown request names the variant that is not known.
#[tokio::test]
async fn invalid_request_is_answered() {
    let served = ServedEngine::new(Mode::Keyed).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"{\"request\": {\"do\": \"dance\"}}\n").await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.contains("not a request: unknown variant `dance`"), "{response}");
}

async fn connect(config: Value) -> Result<Arc<dyn Backend>> {
    let context = ConnectContext {
        name: "sim".to_owned(),
        config_dir: PathBuf::from("/"),
        state_dir: PathBuf::from("/nowhere"),
        program: PathBuf::from("/nowhere"),
        call_timeout: Duration::from_secs(5),
    };
    let registry = Registry::new().with::<Sim>();
    (registry.get("sim").expect("just added").connect)(config, context).await
}

/// A config with fields that belong to an engine in this process is refused.
#[tokio::test]
async fn config_connects_to_engine_process() {
    let served = ServedEngine::new(Mode::Unkeyed).await;
    let address = served.address.to_string();
    let backend = connect(json!({"address": address})).await.unwrap();
    let started = backend.start(&job(1, json!({}))).await.unwrap();
    assert!(matches!(started.first.map(|observation| observation.state), Some(JobState::Succeeded(_))));
    assert_eq!(served.engine.total_starts(), 1);

    let wrong = [
        (json!({"address": address, "mode": "keyed"}), "mode: the engine at"),
        (json!({"address": address, "faults": {"outage": 0.5}}), "remember, seed and faults belong"),
        (json!({"address": "192.0.2.1:80"}), "write a loopback address"),
    ];
    for (config, expected) in wrong {
        let error = connect(config).await.err().expect("this config is wrong");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Connecting succeeds without the engine process, and a start is unavailable.
#[tokio::test]
async fn unreachable_engine_is_no_config_error() {
    let mut served = ServedEngine::new(Mode::Keyed).await;
    served.server.shutdown().await;
    let backend = connect(json!({"address": served.address.to_string()})).await.unwrap();
    assert_eq!(backend.start(&job(1, json!({}))).await.unwrap_err().kind(), ErrorKind::Unavailable);
}
