//! Two servers share a store, and their configs use one name for different engines. Neither ends the other's
//! tasks. The test uses the real binary; `engines.rs` tests the same of the loops, on a paused clock.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{BASICS, Client, PROGRAM, Server, TestDir, text};

const LOCAL: &str = r#"
[backends.engine]
kind = "local"
working_dir = "runs"

[tools.job]
backend = "engine"
target.command = ["sh", "-c", "echo begun >>begun; sleep 2; echo ran >>ran; echo the result"]
"#;

const OTHER: &str = r#"
[backends.engine]
kind = "sim"
identity = "another engine"

[tools.job]
backend = "engine"
target = { text = "of the other engine" }
"#;

/// A job runs while its server is gone and a server without that engine uses the store. The other server
/// must not query its own engine for the job.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_engine_leaves_the_job_alone() {
    let dir = TestDir::new(&format!("{BASICS}{LOCAL}"));
    std::fs::create_dir(dir.path("runs")).unwrap();
    let other = dir.path("other.toml");
    std::fs::write(&other, format!("{BASICS}{OTHER}")).unwrap();
    let with_other = |arguments: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(arguments).arg("--config").arg(&other);
        dir.prepare(&mut command);
        command
    };

    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    while !dir.path("runs/begun").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.kill();

    let mut foreign = Server::spawn(with_other(&["serve"]), &dir.path("other.log"));
    foreign.wait_until_it_listens();
    let other_client = client.at(foreign.url());
    let other_task = other_client.start("job", json!({})).await.unwrap();
    assert_eq!(text(&other_client.result(&other_task).await.unwrap()), "of the other engine");
    // The job has ended by now, unobserved by its own server.
    while !dir.path("runs/ran").exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(other_client.get(&task).await.unwrap()["status"], "working");
    let doctor = dir.run(with_other(&["doctor", "--json"])).await;
    let findings: Vec<Value> = serde_json::from_str(&doctor.stdout).unwrap_or_else(|_| panic!("{doctor:?}"));
    let finding =
        findings.iter().find(|one| one["what"] == "unfinished tasks").expect("the task is reported");
    assert!(finding.to_string().contains(&task), "{finding}");
    foreign.kill();

    let server = dir.serve();
    let result = client.at(server.url()).result(&task).await.unwrap();
    assert_eq!(text(&result).trim_end(), "the result");
    assert_eq!(std::fs::read_to_string(dir.path("runs/ran")).unwrap(), "ran\n");
}
