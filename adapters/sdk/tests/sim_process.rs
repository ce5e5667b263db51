//! Tests the simulated engine in the adapter's helper role: a killed process leaves a journal of the starts
//! that it accepted.
//!
//! This test has no harness, because the program plays both roles: with `helper` as its first argument, it is
//! the engine.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use serde_json::json;
use taskbridge_sdk::sim::{Mode, Sim, SimClient};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Adapter as _, Backend as _, JobKey, JobSpec};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "helper") {
        let helper = Sim::HELPER.expect("the sim has a helper role");
        return helper(&arguments[1..]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(a_killed_engine_leaves_its_journal());
    a_wrong_argument_is_refused();
    ExitCode::SUCCESS
}

/// Child process that is killed at the end of its test.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.kill().expect("a child that was not waited for can be killed");
        self.0.wait().expect("a killed child ends");
    }
}

fn helper(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.arg("helper").args(arguments);
    command
}

async fn a_killed_engine_leaves_its_journal() {
    let journal = std::env::temp_dir().join(format!("taskbridge-sim-process-{}", std::process::id()));
    let path = journal.to_str().expect("the path is plain");
    let mut command = helper(&["--listen", "127.0.0.1:0", "--mode", "unkeyed", "--journal", path]);
    let mut engine = Engine(command.stdout(Stdio::piped()).spawn().expect("the helper starts"));
    let mut line = String::new();
    let stdout = engine.0.stdout.take().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut line).expect("the helper says where it listens");
    let address = line.trim_end().strip_prefix("listening on ").expect("its first line");

    let client = SimClient::new(address.parse().expect("an address"));
    let backend = client.backend();
    let mut lines = Vec::new();
    for n in 0..5 {
        let key = JobKey::from_bytes([n; 16]);
        let target = json!({"delay_ms": 60_000});
        let job = JobSpec { key, ..job(target, json!({})) };
        let started = backend.start(&job).await.expect("it starts");
        lines.push(format!("{} {} \"\"", job.key, started.handle));
    }
    let counts = client.counts(None).await.expect("the engine is there");
    assert_eq!((counts.mode, counts.total_starts, counts.running), (Mode::Unkeyed, 5, 5));
    drop(engine);
    let journal_text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::remove_file(&journal).expect("it can be removed");
    assert_eq!(journal_text.lines().collect::<Vec<_>>(), lines);
}

fn a_wrong_argument_is_refused() {
    let output = helper(&["--listen", "0.0.0.0:0"]).output().expect("the helper runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("write a loopback address") && stderr.contains("usage:"), "{stderr}");
}
