//! What cannot be timed with the real Toil (`tests/real/toil.rs`): the moment in which it starts a run's process.

use serde_json::{Value, json};
use taskbridge_sdk::{ErrorKind, JobHandle};

use crate::nasty::{Answer, Nasty};
use crate::world::{connect, fields};

/// Toil would not stop the process of a run that has no command yet, and says that the run is cancelled. Other
/// servers do not say when they start one.
#[tokio::test]
async fn cancel_waits_for_process_of_toil() {
    let (toil_begins, toil_runs, other) = (json!([""]), json!(["python workflow.py"]), Value::Null);
    for (state, command, requests) in [
        ("RUNNING", &toil_begins, 0),
        ("INITIALIZING", &toil_begins, 0),
        ("QUEUED", &toil_begins, 1),
        ("RUNNING", &toil_runs, 1),
        ("RUNNING", &other, 1),
        ("COMPLETE", &toil_runs, 0),
    ] {
        let nasty = Nasty::start().await;
        let run = json!({ "run_id": "run-1", "state": state, "run_log": { "cmd": command } });
        nasty.script("GET /ga4gh/wes/v1/runs/run-1", Answer::json(200, &run));
        nasty
            .script("POST /ga4gh/wes/v1/runs/run-1/cancel", Answer::json(200, &json!({ "run_id": "run-1" })));
        let backend = connect(fields(&nasty.address, &["preset = \"ga4gh-wes\""])).await.unwrap();
        let cancelled = backend.cancel(&JobHandle::new(json!({ "run": "run-1" }).to_string())).await;
        let waits = (requests == 0 && state != "COMPLETE").then_some(ErrorKind::Unavailable);
        assert_eq!(cancelled.err().map(|error| error.kind()), waits, "{state} {command}");
        assert_eq!(nasty.seen("POST").len(), requests, "{state} {command}");
    }
}
