//! Tests for the files of a config: behind symlinks that are swapped, as Kubernetes does with a ConfigMap,
//! and files that the config names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::{ONE, hear, logged, logged_again, tools};
use crate::support::{BASICS, Client, Place};

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
    let place = Place::new("");
    fs::remove_file(place.config()).unwrap();
    version(&place.path("..one"), "first", "Be calm.");
    version(&place.path("..two"), "second", "Be calm.");
    symlink("..one", place.path("..data")).unwrap();
    for file in ["taskbridge.toml", "runbook.md"] {
        symlink(format!("..data/{file}"), place.path(file)).unwrap();
    }
    let server = place.serve();
    let session = Client::open(server.url()).await.unwrap();
    session.request("resources/subscribe", json!({"uri": "runbook:it"})).await.unwrap();
    let mut stream = session.listen().await.unwrap();
    assert_eq!(tools(&session).await, ["first"]);

    symlink("..two", place.path("..data.new")).unwrap();
    fs::rename(place.path("..data.new"), place.path("..data")).unwrap();
    assert_eq!(hear(&mut stream).await["method"], "notifications/tools/list_changed");
    assert_eq!(tools(&session).await, ["second"]);
    logged(&place, "config applied: tools added: second; tools removed: first").await;

    fs::write(place.path("..two/runbook.md"), "Be calm, and roll back.").unwrap();
    logged_again(&place, "config applied: resources changed: runbook", 1).await;
    loop {
        let message = hear(&mut stream).await;
        if message["method"] == "notifications/resources/updated" {
            assert_eq!(message["params"]["uri"], "runbook:it");
            break;
        }
    }
    let read = session.request("resources/read", json!({"uri": "runbook:it"})).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "Be calm, and roll back.");
}
