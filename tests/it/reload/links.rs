//! Tests for the files of a config: behind symlinks that are swapped, as Kubernetes does with a ConfigMap,
//! and files that the config names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::{ONE, next_message, tools, wait_for_log, wait_for_nth_log};
use crate::support::{BASICS, Client, TestDir};

/// Writes a version of all files into its own folder.
fn version(folder: &Path, tool: &str, runbook: &str) {
    fs::create_dir(folder).unwrap();
    let resource = "[resources.runbook]\nuri = \"runbook:it\"\nfile = \"runbook.md\"\n";
    let config = format!("{BASICS}{}{resource}", ONE.replace("tools.hello", &format!("tools.{tool}")));
    fs::write(folder.join("taskbridge.toml"), config).unwrap();
    fs::write(folder.join("runbook.md"), runbook).unwrap();
}

/// A file that the config names is read again as well.
#[tokio::test]
async fn swapped_symlink_reloads_config() {
    let dir = TestDir::new("");
    fs::remove_file(dir.config()).unwrap();
    version(&dir.path("..one"), "first", "Be calm.");
    version(&dir.path("..two"), "second", "Be calm.");
    symlink("..one", dir.path("..data")).unwrap();
    for file in ["taskbridge.toml", "runbook.md"] {
        symlink(format!("..data/{file}"), dir.path(file)).unwrap();
    }
    let server = dir.serve();
    let session = Client::open(server.url()).await.unwrap();
    session.request("resources/subscribe", json!({"uri": "runbook:it"})).await.unwrap();
    let mut stream = session.listen().await.unwrap();
    assert_eq!(tools(&session).await, ["first"]);

    symlink("..two", dir.path("..data.new")).unwrap();
    fs::rename(dir.path("..data.new"), dir.path("..data")).unwrap();
    assert_eq!(next_message(&mut stream).await["method"], "notifications/tools/list_changed");
    assert_eq!(tools(&session).await, ["second"]);
    wait_for_log(&dir, "config applied: tools added: second; tools removed: first").await;

    fs::write(dir.path("..two/runbook.md"), "Be calm, and roll back.").unwrap();
    wait_for_nth_log(&dir, "config applied: resources changed: runbook", 1).await;
    loop {
        let message = next_message(&mut stream).await;
        if message["method"] == "notifications/resources/updated" {
            assert_eq!(message["params"]["uri"], "runbook:it");
            break;
        }
    }
    let read = session.request("resources/read", json!({"uri": "runbook:it"})).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "Be calm, and roll back.");
}
