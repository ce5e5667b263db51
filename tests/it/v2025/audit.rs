//! Tests for the audit log of the real program: its lines about tasks.

use std::fs;

use serde_json::json;

use crate::support::TestApp;

/// The log has no arguments and no whole ids.
#[tokio::test]
async fn audit_log_names_owner_and_task() {
    let app = TestApp::start(
        r#"
        [backends.sim]
        kind = "sim"

        [tools.job]
        backend = "sim"
        target = {}
        input_schema = { type = "object" }
        "#,
    );
    let client = app.client().await;
    let id = client.start("job", json!({"text": "s3cret"})).await.unwrap();
    client.result(&id).await.unwrap();
    client.get("guessed-guessed").await.unwrap_err();
    let text = fs::read_to_string(app.dir.path("server.log")).unwrap();
    let short = format!("task={}..", &id[..8]);
    for (event, task) in [
        ("task created", short.as_str()),
        ("task ended", short.as_str()),
        ("result retrieved", short.as_str()),
        ("task not found", "task=guessed-.."),
    ] {
        let line =
            text.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {text}"));
        assert!(line.contains(task) && line.contains("owner=") && line.contains("audit:"), "{line}");
    }
    assert!(!text.contains(&id) && !text.contains("s3cret"), "{text}");
}
