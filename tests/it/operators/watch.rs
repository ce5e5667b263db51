//! Tests for `taskbridge tasks watch`, and for the usual duration and the link of a task where else they are
//! shown: on both stores, and in both generations of the protocol.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use super::{Setup, start};
use crate::support::{BASICS, CTRL_C, Client, ModernClient, PROGRAM, Pty};

/// Timeout for expected output.
const TIMEOUT: Duration = Duration::from_secs(60);
const LINK: &str = "https://engine.example/runs/4711";
/// Five durations of the tool `job`, in milliseconds: 4 to 6 minutes.
const DURATIONS: &str = "INSERT INTO history (tool, took, median)
     VALUES ('job', '[240000,240000,240000,300000,360000]', 240000)";

impl Setup {
    /// Returns the command `taskbridge tasks watch`.
    fn watch_command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["tasks", "watch", "--interval", "100ms"]).args(options);
        command.arg("--config").arg(self.dir.config());
        self.dir.prepare(&mut command);
        command
    }
}

async fn start_linked(client: &Client) -> String {
    let arguments = json!({"text": "x", "delay_ms": 3_600_000, "link": LINK});
    client.start("linked", arguments).await.unwrap()
}

/// Without a terminal each change is a line, without control sequences. Ctrl-C ends it also where SIGINT was
/// ignored at the start, as for a command in the background of a shell.
#[tokio::test]
async fn watch_prints_changes_until_interrupted() {
    let setup = Setup::sqlite();
    let (mut server, client) = setup.serve().await;
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "trap '' INT; exec \"$0\" \"$@\"", PROGRAM, "tasks", "watch"]);
    command.args(["--interval", "100ms", "--tool", "job", "--config"]).arg(setup.dir.config());
    setup.dir.prepare(command.as_std_mut());
    let mut watch = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let task = start(&client, "done", 200).await;
    let other = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    client.result(&other).await.unwrap();
    let mut printed = Vec::new();
    let has_ended = timeout(TIMEOUT, async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let has_ended = line.contains(&format!("{task}  succeeded  job"));
            printed.push(line);
            if has_ended {
                return true;
            }
        }
        false
    });
    assert!(has_ended.await.unwrap_or(false), "{printed:#?}");
    assert!(printed.iter().all(|line| line.contains(&task) && !line.contains('\u{1b}')), "{printed:#?}");
    kill_process(Pid::from_raw(watch.id().unwrap().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    let status = timeout(TIMEOUT, watch.wait()).await.expect("Ctrl-C ends it").unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(server.stop(), Some(0));
}

/// Other programs may close the output, as `head` does.
#[tokio::test]
async fn watch_ends_when_output_closes() {
    let setup = Setup::sqlite();
    let (mut server, client) = setup.serve().await;
    let mut command = tokio::process::Command::from(setup.watch_command(&[]));
    let mut watch = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    drop(watch.stdout.take());
    start(&client, "x", 0).await;
    let status = timeout(TIMEOUT, watch.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(server.stop(), Some(0));
}

/// On a terminal there is a table, with colors unless they are turned off, and the terminal is restored.
async fn assert_table_is_live(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    setup.execute_sql(DURATIONS).await;
    for no_color in ["", "1"] {
        let mut command = setup.watch_command(&[]);
        command.env("NO_COLOR", no_color);
        let mut watch = Pty::start_at(&command, 160);
        watch.wait_for("Ctrl-C ends").await;
        let task = start(&client, "x", 3_600_000).await;
        watch.wait_for(&task[..12]).await;
        watch.wait_for("usually 4 to 6 min, about 4 min left").await;
        client.cancel(&task).await.unwrap();
        watch.wait_for("cancelled").await;
        let colored = watch.written().windows(5).any(|bytes| bytes == b"\x1b[36m");
        assert_eq!(colored, no_color.is_empty());
        watch.type_keys(CTRL_C);
        let bytes = timeout(TIMEOUT, watch.recording()).await.expect("Ctrl-C ends it");
        let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(60)..]).into_owned();
        assert!(end.contains("\u{1b}[?25h") && end.contains("\u{1b}[?1049l"), "{end:?}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn watched_table_is_live_on_sqlite() {
    assert_table_is_live(Setup::sqlite()).await;
}

#[tokio::test]
async fn watched_table_is_live_on_postgres() {
    assert_table_is_live(Setup::postgres()).await;
}

/// The usual duration is that of calls with similar arguments, where the tool says which ones matter. A call whose
/// like has not been seen five times has that of the whole tool.
#[tokio::test]
async fn usual_duration_is_of_similar_calls() {
    let tool = "\n[tools.sized]\nbackend = \"engine\"\ntarget = {}\nparameters.delay_ms.type = \"integer\"\n\
                duration_depends_on = [\"delay_ms\"]\n";
    let setup = Setup::with(BASICS, tool, None);
    let (mut server, client) = setup.serve().await;
    let mut short = Vec::new();
    for _ in 0..5 {
        short.push(client.start("sized", json!({"delay_ms": 1_100})).await.unwrap());
    }
    for task in &short {
        client.result(task).await.unwrap();
    }
    // Of all other calls, the tool has kept long durations.
    let others = DURATIONS.replace("INSERT", "INSERT OR REPLACE").replace("'job'", "'sized'");
    setup.execute_sql(&others).await;
    let (long, similar) = (json!({"delay_ms": 2_000_000}), json!({"delay_ms": 2_000}));
    for (arguments, unit) in [(similar, " s"), (long, " min")] {
        let task = client.start("sized", arguments.clone()).await.unwrap();
        // Durations are cached for ten seconds, and written behind the end of a job.
        loop {
            let seen = client.get(&task).await.unwrap();
            let usual = &seen["_meta"]["io.taskbridge/usual-duration"]["text"];
            if usual.as_str().is_some_and(|text| text.starts_with("usually ") && text.ends_with(unit)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(server.stop(), Some(0));
}

/// A task has the link of its job and the usual duration of its tool in its status and metadata, in both
/// generations; `taskbridge call` shows them.
#[tokio::test]
async fn task_shows_link_and_usual_duration() {
    let tool = "\n[tools.linked]\nbackend = \"engine\"\ntarget = {}\nparameters.text.type = \"string\"\n\
                parameters.delay_ms.type = \"integer\"\nparameters.link.type = \"string\"\n";
    let setup = Setup::with(BASICS, tool, None);
    let (mut server, client) = setup.serve().await;
    setup.execute_sql(&DURATIONS.replace("'job'", "'linked'")).await;
    let task = start_linked(&client).await;
    let mut old = client.get(&task).await.unwrap();
    // The link comes with the first look at the job.
    while old["_meta"]["io.taskbridge/link"] == Value::Null {
        tokio::time::sleep(Duration::from_millis(50)).await;
        old = client.get(&task).await.unwrap();
    }
    let modern = ModernClient::with_tasks(server.url());
    let new = modern.request("tasks/get", json!({"taskId": task})).await.unwrap();
    for found in [&old, &new] {
        assert_eq!(found["statusMessage"], "usually 4 to 6 min", "{found:#}");
        assert_eq!(found["_meta"]["io.taskbridge/link"], LINK);
        let usual = &found["_meta"]["io.taskbridge/usual-duration"];
        let facts = json!({"medianMs": 240_000, "p90Ms": 360_000, "jobs": 5, "text": "usually 4 to 6 min"});
        for (name, value) in facts.as_object().unwrap() {
            assert_eq!(&usual[name], value, "{found:#}");
        }
        assert!(usual["estimate"].as_str().unwrap().ends_with(" left"), "{found:#}");
        let end: jiff::Timestamp = usual["expectedEnd"].as_str().unwrap().parse().unwrap();
        let created: jiff::Timestamp = found["createdAt"].as_str().unwrap().parse().unwrap();
        assert!((240..=360).contains(&end.duration_since(created).as_secs()), "{found:#}");
    }
    let url = server.url().to_owned();
    let mut command = Command::new(PROGRAM);
    command.args(["call", "--url", &url, "--task", &task]);
    setup.dir.prepare(&mut command);
    let mut call = Pty::start_at(&command, 160);
    call.wait_for(LINK).await;
    call.wait_for("min left").await;
    client.cancel(&task).await.unwrap();
    let (code, output) = call.wait_for_end().await;
    assert!(code == Some(1) && output.contains("(usually 4 to 6 min)"), "{code:?} {output}");
    let ended = client.get(&task).await.unwrap();
    let usual = &ended["_meta"]["io.taskbridge/usual-duration"];
    assert!(usual["text"] == "usually 4 to 6 min" && usual["estimate"] == Value::Null, "{ended:#}");
    assert_eq!(client.result(&task).await.unwrap()["_meta"]["io.taskbridge/link"], LINK);
    assert_eq!(server.stop(), Some(0));
}
