//! What the log of the real program tells of tasks.

use std::fs;

use serde_json::json;

use crate::support::TestApp;

#[tokio::test]
async fn the_log_says_who_made_ended_and_fetched_which_task() {
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
    let text = fs::read_to_string(app.place.path("server.log")).unwrap();
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
