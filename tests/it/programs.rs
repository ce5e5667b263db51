//! Adapters in other languages, with the real server: a program of `[adapters.NAME]` and the server are killed
//! in the middle of a start, and the job still exists once and has one result.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{BASICS, Client, TestDir, text};

/// The program that the tests of `adapters/process` use.
const ENGINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/adapters/process/tests/it/engine.py");

fn config(folder: &Path, mode: &str) -> String {
    format!(
        r#"{BASICS}
[reconciler]
lease = "2s"
quickest_look = "20ms"
slowest_look = "1s"

[adapters.folders]
command = ["python3", "{ENGINE}"]

[backends.jobs]
kind = "folders"
folder = "{}"
mode = "{mode}"
mode_once = "mode.done"

[tools.run]
backend = "jobs"
target = {{ text = "it ran", seconds = 1 }}
"#,
        folder.display()
    )
}

/// The program dies when its engine has accepted the job, and the server is killed then.
#[tokio::test(flavor = "multi_thread")]
async fn killed_program_and_server_make_one_job() {
    for mode in ["start:die_after", "start:die_before", "observe_all:half_line"] {
        let dir = TestDir::new("");
        let folder = dir.path("engine");
        fs::create_dir(&folder).unwrap();
        fs::write(dir.config(), config(&folder, mode)).unwrap();
        let mut server = dir.serve();
        let client = Client::open(server.url()).await.unwrap();
        let task = client.start("run", json!({})).await.unwrap();
        server.kill();

        let mut server = dir.serve();
        let client = client.at(server.url());
        let result = client.result(&task).await.unwrap();
        assert_eq!(text(&result).trim_end(), "it ran", "{mode}");
        let starts = fs::read_to_string(folder.join("starts.log")).unwrap();
        assert_eq!(starts.lines().count(), 1, "{mode}: {starts}");
        assert_eq!(server.stop(), Some(0), "{mode}");
    }
}

/// A program that imports much before its first answer is no reason to refuse the config: no job waits under a
/// lease yet. The lease of 2 s gives its other calls less than a second.
#[tokio::test(flavor = "multi_thread")]
async fn slow_first_answer_is_awaited() {
    let dir = TestDir::new("");
    let folder = dir.path("engine");
    fs::create_dir(&folder).unwrap();
    let slow = config(&folder, "").replace(r#"["python3", "#, r#"["sh", "-c", "sleep 3; exec python3 $0", "#);
    fs::write(dir.config(), slow).unwrap();
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("run", json!({})).await.unwrap();
    assert_eq!(text(&client.result(&task).await.unwrap()).trim_end(), "it ran");
    assert_eq!(server.stop(), Some(0));
}
