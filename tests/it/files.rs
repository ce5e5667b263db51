//! Tests of server files that a caller names and that change while the call is queued, and of files that
//! jobs leave.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::json;

use crate::support::{BASICS, TestDir, text};

const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.read]
backend = "here"
max_running = 1
when_full = "queue"
parameters.doc = { type = "file", roots = ["in"], max_bytes = 1000 }
target.command = ["sh", "-c", 'while [ ! -e "$2" ]; do sleep 0.02; done; cat "$1"', "sh", "{{ doc }}", "GO"]
"#;

#[tokio::test]
async fn file_changed_while_queued_is_refused() {
    let dir = TestDir::new("");
    let go = dir.path("go");
    fs::write(dir.config(), format!("{BASICS}{}", TOOLS.replace("GO", go.to_str().unwrap()))).unwrap();
    let folder = dir.path("in");
    fs::create_dir(&folder).unwrap();
    fs::write(dir.path("secret"), "the secret").unwrap();
    let server = dir.serve();
    let client = crate::support::Client::open(server.url()).await.unwrap();
    let first = client.start("read", json!({"doc": {"content": "first"}})).await.unwrap();
    let mut queued = Vec::new();
    for name in ["kept", "grows", "link"] {
        fs::write(folder.join(name), "small").unwrap();
        let uri = format!("file://{}/{name}", folder.display());
        queued.push(client.start("read", json!({"doc": {"uri": uri}})).await.unwrap());
    }
    fs::write(folder.join("grows"), "x".repeat(5000)).unwrap();
    fs::remove_file(folder.join("link")).unwrap();
    symlink(dir.path("secret"), folder.join("link")).unwrap();
    fs::write(go, "").unwrap();
    assert_eq!(text(&client.result(&first).await.unwrap()), "first");
    assert_eq!(text(&client.result(&queued[0]).await.unwrap()), "small");
    for (task, part) in [
        (&queued[1], "grows has 5000 bytes, the limit is 1000"),
        (&queued[2], "the file `link` no longer exists"),
    ] {
        let outcome = format!("{:?}", client.result(task).await);
        assert!(
            outcome.contains(part) && !outcome.contains("the secret") && !outcome.contains("xxx"),
            "{outcome}"
        );
    }
}

const SHORT: &str = r#"
[lifetime]
min_ttl = "1s"
default_ttl = "1s"
keep_result = "3s"

[backends.here]
kind = "local"

[tools.leave]
backend = "here"
target.command = ["sh", "-c", "echo left >$TASKBRIDGE_ARTIFACTS/file; echo done"]
"#;

/// The folder of a job is deleted with its task, long before the backend's `keep` expires.
#[tokio::test]
async fn expired_task_loses_its_folder() {
    let dir = TestDir::new(&format!("{BASICS}{SHORT}"));
    let server = dir.serve();
    let client = crate::support::Client::open(server.url()).await.unwrap();
    let folders = || {
        let entries = fs::read_dir(dir.path("state/backends/here/jobs")).unwrap().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).count()
    };
    let task = client.start("leave", json!({})).await.unwrap();
    assert_eq!(text(&client.result(&task).await.unwrap()).trim_end(), "done");
    assert_eq!(folders(), 1);
    let deletion = async {
        while folders() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), deletion).await.expect("the folder goes with its task");
}
