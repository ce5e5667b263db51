//! Tests of `taskbridge dev`: its tools, and that nothing stays behind.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::{program, run};
use crate::support::{Client, Server, TestDir, text};

/// Starts the demo; its temporary files are in the folder `tmp`.
fn start(dir: &TestDir) -> Server {
    fs::create_dir_all(dir.path("tmp")).unwrap();
    let mut command: Command = program(dir, &["dev", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", dir.path("tmp"));
    let mut server = Server::spawn(command, &dir.path("server.log"));
    server.wait_until_it_listens();
    server
}

fn count_entries(dir: &TestDir, folder: &str) -> usize {
    fs::read_dir(dir.path(folder)).unwrap().count()
}

/// The four tools show progress, ask, fail and leave files. SIGTERM ends it, and all its files are gone.
#[tokio::test]
async fn demo_tools_show_what_tasks_can_do() {
    let dir = TestDir::new("");
    let before = count_entries(&dir, "");
    let mut server = start(&dir);
    let client = Client::open(server.url()).await.unwrap();

    let mut stream = client
        .stream(
            "tools/call",
            json!({
                "name": "count_stars", "arguments": {"delay_ms": 60_000}, "_meta": {"progressToken": "p"}
            }),
        )
        .await
        .unwrap();
    loop {
        let message = stream.next().await.unwrap().expect("progress before the result");
        assert!(message.get("result").is_none(), "{message}");
        if message["method"] == "notifications/progress" && message["params"]["total"].as_f64() == Some(40.0)
        {
            break;
        }
    }
    drop(stream);
    let counted = client.call("count_stars", json!({"delay_ms": 0})).await.unwrap();
    assert_eq!(counted["structuredContent"], json!({"stars": 40}), "{counted}");

    let task = client.start("book_table", json!({})).await.unwrap();
    let mut stream = client.stream("tasks/result", json!({"taskId": task})).await.unwrap();
    let question = loop {
        let message = stream.next().await.unwrap().expect("a question");
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(question["params"]["message"], "For how many people, and where?");
    let answer = json!({"action": "accept", "content": {"people": 3, "place": "garden"}});
    client.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await.unwrap();
    assert!(client.result(&task).await.unwrap().to_string().contains("garden"));

    let failed = client.call("break_down", json!({})).await.unwrap();
    assert_eq!(failed["isError"], true, "{failed}");
    assert!(text(&failed).contains("wait for a clear night"), "{failed}");

    let saved = ["call", "--url", server.url(), "write_report", "--save", "out"];
    let saved = run(&dir, &saved).await;
    assert_eq!(saved.code, Some(0), "{}", saved.stderr);
    let report = run_find(&dir, "report.md").await;
    assert!(report.contains("report.md"), "{report}");

    assert_eq!(count_entries(&dir, "tmp"), 1);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(count_entries(&dir, "tmp"), 0);
    // The rest is of this test: its folder for temporary files, the log, what was saved, and the client's history.
    assert_eq!(count_entries(&dir, ""), before + 4);
}

async fn run_find(dir: &TestDir, name: &str) -> String {
    let mut find = Command::new("find");
    dir.prepare(find.args(["out", "-name", name]));
    dir.run(find).await.stdout
}

/// `kill -9` leaves the folder, and the next demo removes it; that of a running one stays.
#[tokio::test]
async fn next_demo_cleans_up_after_kill() {
    let dir = TestDir::new("");
    let mut killed = start(&dir);
    killed.kill();
    assert_eq!(count_entries(&dir, "tmp"), 1);
    let (mut one, mut two) = (start(&dir), start(&dir));
    assert_eq!(count_entries(&dir, "tmp"), 2);
    assert_eq!((one.stop(), two.stop()), (Some(0), Some(0)));
    assert_eq!(count_entries(&dir, "tmp"), 0);
}

/// The commands that it prints are commands of this program.
#[tokio::test]
async fn printed_commands_are_valid() {
    let dir = TestDir::new("");
    let mut server = start(&dir);
    let url = server.url().to_owned();
    assert_eq!(server.stop(), Some(0));
    let printed = server.read_stdout();
    let commands: Vec<Vec<&str>> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| line.split(" #").next().unwrap_or_default().split_whitespace().skip(1).collect())
        .collect();
    assert_eq!(commands.len(), 6, "{printed}");
    for arguments in commands {
        assert!(arguments[0] == "init" || arguments.contains(&url.as_str()), "{arguments:?}");
        let help = run(&dir, &[arguments.as_slice(), &["--help"]].concat()).await;
        assert_eq!(help.code, Some(0), "{arguments:?}: {}", help.stderr);
    }
}
