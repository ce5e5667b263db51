//! Tests of `taskbridge presets try` as a command.

use std::process::Command;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::any;
use serde_json::json;

use crate::support::{BASICS, PROGRAM, ProgramOutput, TestDir};

const NAME: &str = "secret-process-name";

/// Starts an engine with one process. It answers polls of any job with this status and this state.
async fn start_engine(status: StatusCode, state: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |uri: Uri| async move {
        let (status, body) = match uri.path() {
            "/conformance" => (StatusCode::OK, json!({"conformsTo": []})),
            "/processes" => (StatusCode::OK, json!({"processes": [{"id": NAME, "title": "A process"}]})),
            path if path == format!("/processes/{NAME}") => {
                (StatusCode::OK, json!({"id": NAME, "inputs": {}}))
            }
            path if path.starts_with("/jobs/") => (status, json!({"jobID": "x", "status": state})),
            _ => (StatusCode::IM_A_TEAPOT, json!({})),
        };
        (status, axum::Json(body))
    };
    #[allow(clippy::disallowed_methods, reason = "a test's own engine needs somebody to drive it")]
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(answer))).await.unwrap() });
    url
}

async fn try_preset(config: &str, name: &str) -> ProgramOutput {
    let dir = TestDir::new(&format!("{BASICS}{config}"));
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(["presets", "try", name, "--config"]).arg(dir.config()));
    dir.run(command).await
}

/// All that can be read is read, and what is to be reported names nothing of the user.
#[tokio::test]
async fn trial_reads_and_reports() {
    let base = start_engine(StatusCode::NOT_FOUND, "").await;
    let config = format!(
        "[backends.processes]\npreset = \"ogc-processes\"\nbase = \"{base}\"\n[backends.processes.discover]\n\
         [tools.one]\ndescription = \"One.\"\nbackend = \"processes\"\ntarget.process = \"{NAME}\"\n"
    );
    let ended = try_preset(&config, "ogc-processes").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for expected in [
        "ok       backend processes: discovery: offers 1 tool\n",
        "ok       backend processes: tool `one`: the engine has its target\n",
        r#"ok       backend processes: poll of the unknown job {"job":"7f3a"}: is gone"#,
        r#"ok       backend processes: poll of the unknown job {"job":"7f3a"}, in a list: is gone"#,
        "0 faults, 0 warnings\n",
    ] {
        assert!(ended.stdout.contains(expected), "{expected} is missing: {}", ended.stdout);
    }
    let (_, report) = ended.stdout.split_once("Please report this").unwrap();
    for check in
        ["connection", "credentials", "discovery", "poll in a list", "poll of the unknown job", "tool"]
    {
        assert!(
            report.lines().any(|line| line.starts_with(check) && line.ends_with("ok")),
            "{check}: {report}"
        );
    }
    assert!(!report.contains("127.0.0.1") && !report.contains(NAME), "{report}");
}

/// An engine that answers otherwise than the one of the tests is found out.
#[tokio::test]
async fn trial_finds_other_replies() {
    for (status, state, verdict, code) in
        [(StatusCode::OK, "running", "warning", 0), (StatusCode::BAD_GATEWAY, "", "fault", 1)]
    {
        let base = start_engine(status, state).await;
        let config = format!("[backends.p]\npreset = \"ogc-processes\"\nbase = \"{base}\"\n");
        let ended = try_preset(&config, "ogc-processes").await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(
            ended.stdout.contains(&format!("{verdict:<8} backend p: poll of the unknown job")),
            "{ended:?}"
        );
    }
}

/// Without a backend of the preset, the error shows the lines to add.
#[tokio::test]
async fn trial_without_backend_shows_config() {
    let ended = try_preset("", "airflow-3").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let says = "no backend uses the preset `airflow-3`; add one:\n\n    [backends.NAME]\n    preset = \"airflow-3\"\n";
    assert!(ended.stderr.contains(says), "{ended:?}");
    let ended = try_preset("", "airflow").await;
    assert!(ended.stderr.contains("unknown preset `airflow` (known: `"), "{ended:?}");
}
