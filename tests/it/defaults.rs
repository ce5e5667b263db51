//! Runs the tools of the default config for real, because new users try them first.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Client, Events, PROGRAM, Server, TestDir, text};

struct DefaultApp {
    server: Server,
    dir: TestDir,
}

impl DefaultApp {
    /// Starts the program as `cargo run` does, with its state in its own folder.
    fn start() -> Self {
        let dir = TestDir::new("");
        let mut command = Command::new(PROGRAM);
        dir.prepare(command.args(["--listen", "127.0.0.1:0"]));
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let mut server = Server::spawn(command, &dir.path("server.log"));
        server.wait_until_it_listens();
        Self { server, dir }
    }

    async fn client(&self) -> Client {
        Client::open(self.server.url()).await.unwrap()
    }

    /// Creates a folder with file names that break careless scripts.
    fn folder(&self) -> String {
        let folder = self.dir.path("a folder");
        fs::create_dir_all(folder.join("sub -n")).unwrap();
        for (name, content) in [("-e", "abc"), ("sub -n/two\nlines", "12345"), ("sub -n/$(x) \"q\"", "")] {
            fs::write(folder.join(name), content).unwrap();
        }
        folder.to_str().unwrap().to_owned()
    }
}

/// Answers the next question on a `tasks/result` stream. Returns the question and the result.
async fn answer_next(client: &Client, mut events: Events, answer: Value) -> (Value, Value) {
    let mut question = Value::Null;
    while let Some(message) = events.next().await.unwrap() {
        if message["method"] == "elicitation/create" {
            question = message["params"].clone();
            client
                .send_message(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}))
                .await
                .unwrap();
        } else if message.get("result").is_some() {
            return (question, message["result"].clone());
        }
    }
    panic!("the stream ended without a result, after {question}");
}

/// Reads the bytes of the artifact that a result links to.
async fn artifact(client: &Client, result: &Value, name: &str) -> Vec<u8> {
    let links = result["content"].as_array().unwrap().iter().filter(|block| block["type"] == "resource_link");
    let link = links.into_iter().find(|link| link["name"] == name);
    let uri = &link.unwrap_or_else(|| panic!("no link to {name}: {result}"))["uri"];
    let response = client.request("resources/read", json!({"uri": uri})).await.unwrap();
    let content = &response["contents"][0];
    match content["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(content["blob"].as_str().unwrap()).unwrap(),
    }
}

#[tokio::test]
async fn hash_tree_hashes_every_file() {
    let server = DefaultApp::start();
    let client = server.client().await;
    let folder = server.folder();
    let task = client.start("hash_tree", json!({"path": folder})).await.unwrap();
    let result = client.result(&task).await.unwrap();
    assert_ne!(result["isError"], true, "{result}");
    let structured = &result["structuredContent"];
    assert_eq!(
        (&structured["files"], &structured["bytes"], &structured["unreadable"]),
        (&json!(3), &json!(8), &json!(0))
    );
    assert!(text(&result).contains(structured["sha256"].as_str().unwrap()));

    let sums = String::from_utf8(artifact(&client, &result, "SHA256SUMS").await).unwrap();
    let mut check = Command::new("sha256sum");
    fs::write(server.dir.path("sums"), &sums).unwrap();
    let checked = check.args(["--check", "--status", "--strict"]).arg(server.dir.path("sums"));
    assert!(checked.current_dir(&folder).status().unwrap().success(), "{sums}");

    // The same tree has the same digest, and a changed tree has a different one.
    let repeated = client.call("hash_tree", json!({"path": folder})).await.unwrap();
    assert_eq!(repeated["structuredContent"], *structured);
    fs::write(Path::new(&folder).join("-e"), "abd").unwrap();
    let changed = client.call("hash_tree", json!({"path": folder})).await.unwrap();
    assert_ne!(changed["structuredContent"]["sha256"], structured["sha256"]);
    assert_eq!(changed["structuredContent"]["files"], 3);
}

/// An empty folder has a result, a missing folder is an error, and a relative path is refused.
#[tokio::test]
async fn hash_tree_reports_missing_folder() {
    let server = DefaultApp::start();
    let client = server.client().await;
    let empty = server.dir.path("empty");
    fs::create_dir(&empty).unwrap();
    let result = client.call("hash_tree", json!({"path": empty})).await.unwrap();
    assert_eq!(result["structuredContent"]["files"], 0, "{result}");
    let result = client.call("hash_tree", json!({"path": server.dir.path("none")})).await.unwrap();
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("there is no folder"), "{result}");
    let refused = client.call("hash_tree", json!({"path": "relative"})).await;
    assert!(
        format!("{refused:?}").contains("`path`: \\\"relative\\\" does not match \\\"^/\\\""),
        "{refused:?}"
    );
}

/// The archive unpacks to the same files. A large one is created only with consent.
#[tokio::test]
async fn archive_folder_asks_before_large_archive() {
    let server = DefaultApp::start();
    let client = server.client().await;
    let folder = server.folder();
    let check_archive = |archive: &[u8], flag: &str| {
        let target = server.dir.path("unpacked");
        fs::create_dir(&target).unwrap();
        fs::write(server.dir.path("archive"), archive).unwrap();
        let mut tar = Command::new("tar");
        tar.arg(flag).arg(server.dir.path("archive")).arg("-C").arg(&target);
        assert!(tar.status().unwrap().success());
        assert_eq!(fs::read_to_string(target.join("sub -n/two\nlines")).unwrap(), "12345");
        fs::remove_dir_all(target).unwrap();
    };

    let result = client.call("archive_folder", json!({"path": folder})).await.unwrap();
    assert_ne!(result["isError"], true, "{result}");
    check_archive(&artifact(&client, &result, "a folder.tar.gz").await, "-xzf");

    let large = json!({"path": folder, "compression": "none", "ask_above_mib": 0});
    for (answer, packs) in
        [(json!({"action": "accept", "content": {}}), true), (json!({"action": "decline"}), false)]
    {
        let task = client.start("archive_folder", large.clone()).await.unwrap();
        let events = client.stream("tasks/result", json!({"taskId": task})).await.unwrap();
        let (question, result) = answer_next(&client, events, answer).await;
        assert!(question["message"].as_str().unwrap().contains("Archive it all the same?"), "{question}");
        if packs {
            check_archive(&artifact(&client, &result, "a folder.tar").await, "-xf");
        } else {
            assert!(text(&result).contains("Not archived"), "{result}");
        }
    }
}

#[tokio::test]
async fn disk_speed_starts_only_with_consent() {
    let server = DefaultApp::start();
    let client = server.client().await;
    for (answer, runs) in
        [(json!({"action": "accept", "content": {}}), true), (json!({"action": "decline"}), false)]
    {
        let task = client.start("disk_speed", json!({"size_mib": 1})).await.unwrap();
        assert_eq!(client.get(&task).await.unwrap()["status"], "input_required");
        let events = client.stream("tasks/result", json!({"taskId": task})).await.unwrap();
        let (question, result) = answer_next(&client, events, answer).await;
        assert_eq!(question["message"], "Write 1 MiB to the disk, and delete them again?");
        if runs {
            assert!(result["structuredContent"]["write_mib_per_second"].is_u64(), "{result}");
        } else {
            assert_eq!(client.get(&task).await.unwrap()["status"], "cancelled");
        }
    }
}

#[tokio::test]
async fn word_count_takes_a_text() {
    let server = DefaultApp::start();
    let client = server.client().await;
    let text = json!({"text": {"content": "one two\nthree\n", "name": "a.txt"}});
    let result = client.call("word_count", text).await.unwrap();
    assert_eq!(result["structuredContent"], json!({"lines": 2, "words": 3, "bytes": 14}), "{result}");
}

#[tokio::test]
async fn countdown_counts_and_can_be_cancelled() {
    let server = DefaultApp::start();
    let client = server.client().await;
    let result = client.call("countdown", json!({"seconds": 0})).await.unwrap();
    assert_eq!(text(&result).trim(), "Lift-off after 0 seconds.");
    let task = client.start("countdown", json!({"seconds": 3600})).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_counting =
        |task: &Value| task["statusMessage"].as_str().is_some_and(|s| s.ends_with("seconds left"));
    while !is_counting(&client.get(&task).await.unwrap()) {
        assert!(Instant::now() < deadline, "the job never says how far it is");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(client.cancel(&task).await.unwrap()["status"], "cancelled");
    let is_running = || server.dir.processes().iter().any(|process| process.contains("countdown.sh"));
    while is_running() {
        assert!(Instant::now() < deadline, "the job goes on although it was cancelled");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
