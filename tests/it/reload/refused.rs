//! Tests for an invalid config: it changes nothing, and the log has the errors of `taskbridge check`.
//! Settings that need a restart are reported, and the rest is applied.

use serde_json::json;

use super::{ONE, replace_config, start, tools, wait_for_log, wait_for_nth_log};
use crate::support::{BASICS, text};

/// The log has the messages of `taskbridge check`, and no secret.
#[tokio::test]
async fn invalid_config_keeps_old_one() {
    let app = start("");
    let session = app.client().await;
    let wrong = "[tools.other]\nbackend = \"hree\"\ntarget.command = []\n\
                 [[auth.keys]]\nprincipal = \"ann\"\nsha256 = \"my-secret-key\"\n";
    replace_config(&app.dir, &format!("{}{wrong}", ONE.replace("Says hello.", "Greets.")));
    wait_for_log(&app.dir, "config refused, the previous one stays in force").await;
    let check = app.dir.run(app.dir.command("check")).await;
    assert_eq!(check.code, Some(1));
    let lines: Vec<&str> = check.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let entry = wait_for_log(&app.dir, line).await;
        assert!(entry.contains("ERROR"), "{entry}");
    }
    assert_eq!(tools(&session).await, ["hello"]);
    assert_eq!(text(&session.call("hello", json!({})).await.unwrap()), "hello\n");
    let listed = session.request("tools/list", json!({})).await.unwrap();
    let hello = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "hello").unwrap();
    assert_eq!(hello["description"], "Says hello.", "nothing of it is in force");

    std::fs::write(app.dir.config(), "").unwrap();
    wait_for_log(&app.dir, "the file has no tables, perhaps because a write is in progress").await;
    assert_eq!(tools(&session).await, ["hello"]);
    std::fs::remove_file(app.dir.config()).unwrap();
    wait_for_log(&app.dir, "the config file cannot be read").await;
    replace_config(&app.dir, &ONE.replace("Says hello.", "Greets."));
    wait_for_log(&app.dir, "config applied: tools changed: hello").await;
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert!(!log.contains("my-secret-key"));
}

/// Settings that need a restart are reported once, and the others are applied.
#[tokio::test]
async fn restart_settings_are_reported() {
    let app = start("");
    let session = app.client().await;
    let basics = BASICS
        .replace("127.0.0.1:0", "127.0.0.1:1")
        .replace("state/taskbridge.db", "elsewhere/taskbridge.db");
    let more = "[tools.more]\nbackend = \"here\"\ntarget.command = [\"echo\", \"more\"]\n[reconciler]\nlease = \"5s\"\n";
    std::fs::write(app.dir.config(), format!("{basics}{ONE}{more}")).unwrap();
    let line = wait_for_log(&app.dir, "takes effect after a restart").await;
    assert!(line.ends_with("[reconciler] lease; [server] listen; [store] path"), "{line}");
    let line = wait_for_log(&app.dir, "config applied").await;
    assert!(line.ends_with("tools added: more"), "{line}");
    assert_eq!(text(&session.call("more", json!({})).await.unwrap()), "more\n");
    assert!(!app.dir.path("elsewhere").exists());

    replace_config(&app.dir, ONE);
    wait_for_nth_log(&app.dir, "config applied", 2).await;
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert_eq!(log.matches("takes effect after").count(), 1, "it is as it was at the start again");
}
