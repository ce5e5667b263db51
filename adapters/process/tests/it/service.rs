//! Hostile services. After each fault, one job exists under its key, and it has one outcome.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_process::{Config, describe};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobState};

use crate::hostile::{end_as_server, start_as_server};
use crate::remote::Remote;
use crate::world::{LIMIT, World, run_rows};

/// Faults that a call survives: its answer is right in the end.
const HARMLESS: [&str; 7] =
    ["pretty", "members", "chunked", "wrong_type", "until_close", "old_version", "early_hints"];

/// Faults after which nobody knows whether the call took effect.
const UNKNOWN: [&str; 41] = [
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
    "redirect_to_get",
    "redirect_for_ever",
    "redirect_to_metadata",
    "redirect_to_file",
    "short_length",
    "two_lengths",
    "text_length",
    "bad_chunk",
    "endless_chunk",
    "no_http",
    "odd_version",
    "text_status",
    "long_header",
    "many_headers",
    "byte_order_mark",
    "invalid_utf8",
    "switch",
    "zip_bomb",
];

/// Faults that only the time of the call ends.
const ENDLESS: [&str; 3] = ["never", "slow", "slow_headers"];

/// Faults that say that nothing was done, with the kind of the error.
const NOTHING_DONE: [(&str, ErrorKind); 7] = [
    ("status_401", ErrorKind::Denied),
    ("status_403", ErrorKind::Denied),
    ("status_404", ErrorKind::Unavailable),
    ("forget_sessions", ErrorKind::Unavailable),
    ("status_429", ErrorKind::Limited { after: Some(Duration::ZERO) }),
    ("wait_of_an_age", ErrorKind::Limited { after: None }),
    ("wait_as_date", ErrorKind::Limited { after: None }),
];

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    let nothing_done = NOTHING_DONE.map(|(fault, _)| fault);
    let tables = [&HARMLESS[..], &UNKNOWN, &ENDLESS, &["gzip"], &nothing_done];
    tables.into_iter().flatten().map(|fault| format!("service {fault}")).collect()
}

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

/// Runs a fault at each of these methods. A start fails with this kind of error, if any.
async fn check(fault: &'static str, expected: Option<ErrorKind>, methods: &'static [&'static str]) {
    let limit = if ENDLESS.contains(&fault) { Duration::from_secs(10) } else { LIMIT };
    for method in methods {
        let kind = survive(method, fault, limit).await;
        assert!(*method != "start" || kind == expected, "{method}:{fault}: {kind:?}");
    }
}

async fn check_all(
    rows: impl IntoIterator<Item = (&'static str, Option<ErrorKind>, &'static [&'static str])>,
) {
    let rows = rows.into_iter().map(|(fault, kind, methods)| (fault.to_owned(), check(fault, kind, methods)));
    run_rows(8, rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_replies_are_read() {
    check_all(HARMLESS.map(|fault| (fault, None, &["start", "observe_all"][..]))).await;
}

/// A broken reply to a start is uncertain, and one to a poll is no state.
#[tokio::test(flavor = "multi_thread")]
async fn broken_replies_are_unknown() {
    check_all(UNKNOWN.map(|fault| (fault, Some(ErrorKind::Uncertain), &["start", "observe_all"][..]))).await;
    check_all([("gzip", None, &["observe_all"][..])]).await;
}

/// A service that refuses a call before it does anything says so by its status, and nothing is uncertain.
#[tokio::test(flavor = "multi_thread")]
async fn refused_start_is_certain() {
    check_all(NOTHING_DONE.map(|(fault, kind)| {
        let methods: &[&str] = if kind == ErrorKind::Denied { &["start"] } else { &["start", "observe_all"] };
        (fault, Some(kind), methods)
    }))
    .await;
}

/// The time of a call bounds a reply that never comes or never ends.
#[tokio::test(flavor = "multi_thread")]
async fn slow_replies_end_in_time() {
    check_all(ENDLESS.map(|fault| (fault, Some(ErrorKind::Uncertain), &["start"][..]))).await;
}

/// The answer to `initialize` has more time than those to other calls.
#[tokio::test(flavor = "multi_thread")]
async fn late_first_answer_is_awaited() {
    assert_eq!(survive("initialize", "late", Duration::from_secs(3)).await, None);
}

/// A program and a service describe themselves without a config.
#[tokio::test(flavor = "multi_thread")]
async fn manifest_needs_no_config() {
    let (world, remote) = (World::new(), Remote::new());
    let ask = async |config: Value| {
        let config: Config = serde_json::from_value(config).unwrap();
        describe(&config.endpoint, &world.context(LIMIT)).await
    };
    let mut service = remote.config(&world, json!({}));
    for config in [world.config(json!({})), service.clone()] {
        let description = ask(config).await.unwrap();
        assert_eq!(description.name.as_deref(), Some("test"));
        assert!(description.schemas.config.is_some());
    }
    service["auth"]["bearer"] = json!("wrong");
    assert_eq!(ask(service).await.unwrap_err().kind(), ErrorKind::Denied);
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
