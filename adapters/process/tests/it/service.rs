//! Hostile services. After each fault, one job exists under its key, and it has one outcome.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobState};

use crate::hostile::{end_as_server, start_as_server};
use crate::remote::Remote;
use crate::world::{LIMIT, World};

/// Faults that a call survives: its answer is right in the end.
const HARMLESS: [&str; 3] = ["pretty", "members", "chunked"];

/// Faults after which nobody knows whether the call took effect.
const UNKNOWN: [&str; 23] = [
    "status_500",
    "status_502",
    "status_503",
    "status_204",
    "status_202",
    "redirect",
    "close_before",
    "close_after",
    "empty",
    "html",
    "array",
    "two",
    "other_id",
    "text_id",
    "notification",
    "request",
    "deep",
    "binary",
    "nan",
    "wrong",
    "half",
    "huge",
    "huge_unsaid",
];

/// Faults that say that nothing was done, with the kind of the error.
const NOTHING_DONE: [(&str, ErrorKind); 4] = [
    ("status_401", ErrorKind::Denied),
    ("status_403", ErrorKind::Denied),
    ("status_404", ErrorKind::Unavailable),
    ("forget_sessions", ErrorKind::Unavailable),
];

/// Runs a job over a service with a fault at one method.
async fn survive(method: &str, fault: &str, limit: Duration) -> Option<ErrorKind> {
    let (world, remote) = (World::new(), Remote::new());
    let mode = json!({"mode": format!("{method}:{fault}"), "mode_once": "mode.done"});
    let backend = world.try_connect(remote.config(&world, mode), limit).await.unwrap();
    let mut spec = job(json!({"text": "result"}), json!({}));
    let first = match method {
        "start" => backend.start(&spec).await.err(),
        _ => None,
    };
    spec.may_exist = first.as_ref().is_some_and(|error| error.kind() == ErrorKind::Uncertain);
    let (started, _) = start_as_server(&*backend, &spec).await;
    let state = end_as_server(&*backend, &started).await;
    assert!(matches!(state, JobState::Succeeded(_)), "{method}:{fault}: {state:?}");
    assert_eq!(world.starts(&spec.key), 1, "{method}:{fault}");
    first.map(|error| error.kind())
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_replies_are_read() {
    for fault in HARMLESS {
        assert_eq!(survive("start", fault, LIMIT).await, None, "{fault}");
        survive("observe_all", fault, LIMIT).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_replies_to_start_are_uncertain() {
    for fault in UNKNOWN {
        assert_eq!(survive("start", fault, LIMIT).await, Some(ErrorKind::Uncertain), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_replies_to_poll_are_no_state() {
    for fault in UNKNOWN.into_iter().chain(["gzip"]) {
        survive("observe_all", fault, LIMIT).await;
    }
    for (fault, _) in NOTHING_DONE.into_iter().filter(|(_, kind)| *kind != ErrorKind::Denied) {
        survive("observe_all", fault, LIMIT).await;
    }
}

/// A service that refuses a call before it does anything says so by its status, and nothing is uncertain.
#[tokio::test(flavor = "multi_thread")]
async fn refused_start_is_certain() {
    for (fault, kind) in NOTHING_DONE {
        assert_eq!(survive("start", fault, LIMIT).await, Some(kind), "{fault}");
    }
    let limited = survive("start", "status_429", LIMIT).await;
    assert_eq!(limited, Some(ErrorKind::Limited { after: Some(Duration::ZERO) }));
}

/// The time of a call bounds a reply that never comes or never ends.
#[tokio::test(flavor = "multi_thread")]
async fn slow_replies_end_in_time() {
    let limit = Duration::from_secs(10);
    let (never, slow) = tokio::join!(survive("start", "never", limit), survive("start", "slow", limit));
    assert_eq!((never, slow), (Some(ErrorKind::Uncertain), Some(ErrorKind::Uncertain)));
}

/// A service that is away fails a start for certain, and is used again when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn service_away_is_unavailable() {
    let (world, remote) = (World::new(), Remote::new());
    let config = remote.config(&world, json!({}));
    let backend = world.try_connect(config.clone(), LIMIT).await.unwrap();
    drop(remote);
    let spec = job(json!({}), json!({}));
    assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(world.try_connect(config, LIMIT).await.err().unwrap().kind(), ErrorKind::Unavailable);
}

/// Returns a certificate for `localhost` and its key.
fn certificate(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}

/// TLS is verified against `ca_file`, and against the machine's own certificates without it.
#[tokio::test(flavor = "multi_thread")]
async fn tls_is_verified() {
    let world = World::new();
    let (pem, key) = certificate(world.folder());
    let remote = Remote::with_tls(&pem, &key);
    let mut config = remote.config(&world, json!({}));
    let error = world.try_connect(config.clone(), LIMIT).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    config["ca_file"] = json!("cert.pem");
    let backend = world.try_connect(config, LIMIT).await.unwrap();
    backend.start(&job(json!({}), json!({}))).await.unwrap();
}

/// A wrong config names its field, and no message contains the secret.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_service_config_is_named() {
    let (world, remote) = (World::new(), Remote::new());
    let good = remote.config(&world, json!({}));
    let with = |field: &str, value: Value| {
        let mut config = good.clone();
        config[field] = value;
        config
    };
    for (config, kind, text) in [
        (with("auth", json!({"bearer": "hunter22"})), ErrorKind::Denied, "401"),
        (with("auth", json!({})), ErrorKind::Config, "auth:"),
        (with("auth", json!({"hmac": "hunter22"})), ErrorKind::Config, "auth.hmac:"),
        (with("url", json!("http://169.254.169.254/")), ErrorKind::Config, "url:"),
        (with("url", json!("http://jobs.example.com/")), ErrorKind::Config, "https"),
        (with("ca_file", json!("none.pem")), ErrorKind::Config, "ca_file:"),
    ] {
        let error = world.try_connect(config, LIMIT).await.err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text) && !error.to_string().contains("hunter22"), "{error}");
    }
}
