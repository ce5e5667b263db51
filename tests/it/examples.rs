//! Runs the examples as their READMEs describe.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Client, Fault, PROGRAM, Server, TestDir, text};

fn serve_local_example(dir: &TestDir) -> Server {
    let mut command = Command::new(PROGRAM);
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/local/taskbridge.toml");
    dir.prepare(command.args(["--listen", "127.0.0.1:0", "--config"]).arg(config));
    let mut server = Server::spawn(command, &dir.path("server.log"));
    server.wait_until_it_listens();
    server
}

/// Returns the contents of all files under a folder as one text.
fn all_file_contents(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            all.push_str(&all_file_contents(&entry));
        } else if entry.is_file() {
            all.push_str(&String::from_utf8_lossy(&fs::read(&entry).unwrap()));
        }
    }
    all
}

/// A client without a key is refused, and no caller sees the tasks of another.
#[tokio::test]
async fn api_keys_separate_callers() {
    let dir = TestDir::new("");
    let server = serve_local_example(&dir);
    match Client::open(server.url()).await {
        Err(Fault::Status(StatusCode::UNAUTHORIZED, _)) => {}
        other => panic!("without a key, {:?}", other.map(drop)),
    }
    let ann = Client::open_with_key(server.url(), "ann-key").await.unwrap();
    let bob = Client::open_with_key(server.url(), "bob-key").await.unwrap();
    let task = ann.start("sort_lines", json!({"text": {"content": "b\na\nb\n"}})).await.unwrap();
    assert!(matches!(bob.get(&task).await, Err(Fault::Refused { code: -32602, .. })));
    assert!(bob.list().await.unwrap().is_empty());
    assert!(text(&ann.result(&task).await.unwrap()).contains("2 different lines"));
}

/// A path that leads out of the inbox is refused.
#[tokio::test]
async fn file_parameter_reads_only_inbox() {
    let dir = TestDir::new("");
    let server = serve_local_example(&dir);
    let client = Client::open_with_key(server.url(), "ann-key").await.unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/local");
    let uri = |name: &str| json!({"text": {"uri": format!("file://{}/{name}", examples.display())}});
    let result = client.call("sort_lines", uri("inbox/fruit.txt")).await.unwrap();
    assert!(text(&result).contains("3 different lines"), "{result}");
    for outside in ["taskbridge.toml", "inbox/../taskbridge.toml", "inbox/%2e%2e/taskbridge.toml"] {
        let refused = format!("{:?}", client.call("sort_lines", uri(outside)).await);
        assert!(refused.contains("is not a file under a folder that this parameter allows"), "{refused}");
    }
}

#[tokio::test]
async fn a_route_is_planned_from_json() {
    let dir = TestDir::new("");
    let server = serve_local_example(&dir);
    let client = Client::open_with_key(server.url(), "ann-key").await.unwrap();
    let named_place = |name: &str, x: i64, y: i64| json!({"name": name, "x": x, "y": y});
    let places = json!({"places": [named_place("Home", 0, 0), named_place("Far End", 9, 0), named_place("Near", -3, 4)]});
    let result = client.call("plan_route", places).await.unwrap();
    assert_eq!(
        result["structuredContent"],
        json!({"order": ["Home", "Near", "Far End"], "length": 17.6}),
        "{result}"
    );
    let refused = format!("{:?}", client.call("plan_route", json!({"places": [{"name": "x"}]})).await);
    assert!(refused.contains("places[0]") && refused.contains("required"), "{refused}");
}

/// The token of a deployment is in no file, whether the task runs or is queued.
#[tokio::test]
async fn deployment_waits_for_approval() {
    let dir = TestDir::new("");
    let server = serve_local_example(&dir);
    let client = Client::open_with_key(server.url(), "ann-key").await.unwrap();
    let deploy =
        |services: Value| json!({"version": "v1.2.3", "token": "hunter2-hunter2", "services": services});
    let first = client.start("deploy", deploy(json!(["api"]))).await.unwrap();
    let second = client.start("deploy", deploy(json!(["web"]))).await.unwrap();

    let mut stream = client.stream("tasks/result", json!({"taskId": first})).await.unwrap();
    let question = loop {
        let message = stream.next().await.unwrap().expect("the job asks");
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(question["params"]["message"], "Deploy v1.2.3 of 1 services (api)?");
    let waiting = client.get(&second).await.unwrap();
    let expected = "waiting for a free slot, next in its owner's queue (owners take turns)";
    assert_eq!(waiting["statusMessage"], expected, "{waiting}");
    // One task runs and the other is queued. The secret of neither is readable in any file.
    assert!(!all_file_contents(&dir.path("")).contains("hunter2"));

    client.cancel(&second).await.unwrap();
    let answer = json!({"action": "accept", "content": {"reason": "tests"}});
    client.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await.unwrap();
    let result = client.result(&first).await.unwrap();
    assert!(text(&result).contains("api is now at v1.2.3"), "{result}");
    assert!(!all_file_contents(&dir.path("")).contains("hunter2"));
}

/// The prompt completes the name of the service, and its messages embed and link runbooks.
#[tokio::test]
async fn release_prompt_includes_runbook() {
    let dir = TestDir::new("");
    let server = serve_local_example(&dir);
    let client = Client::open_with_key(server.url(), "ann-key").await.unwrap();
    let prompt = json!({"type": "ref/prompt", "name": "release"});
    let params = json!({"ref": prompt, "argument": {"name": "service", "value": "w"}});
    let completed = client.request("completion/complete", params).await.unwrap();
    assert_eq!(completed["completion"]["values"], json!(["web", "worker"]));

    let arguments = json!({"version": "v1.4.0", "service": "worker", "notes": "on a Friday"});
    let prompt = json!({"name": "release", "arguments": arguments});
    let messages = client.request("prompts/get", prompt).await.unwrap()["messages"].clone();
    let message = messages[0]["content"]["text"].as_str().unwrap();
    assert!(message.starts_with("Release v1.4.0 of worker. First say"), "{message}");
    assert!(message.ends_with("do what the runbook says.\n\nKeep in mind: on a Friday"), "{message}");
    let service = &messages[1]["content"]["resource"];
    assert_eq!(
        (&service["uri"], &service["mimeType"]),
        (&json!("runbook://services/worker"), &json!("text/markdown"))
    );
    assert!(service["text"].as_str().unwrap().starts_with("# worker\n\nIt has no address"), "{service}");

    let runbook = messages[2]["content"]["uri"].clone();
    let response = client.request("resources/read", json!({ "uri": runbook })).await.unwrap();
    assert!(
        response["contents"][0]["text"].as_str().unwrap().starts_with("# When a deployment fails"),
        "{response}"
    );
    let listed = client.request("resources/list", json!({})).await.unwrap();
    assert!(listed["resources"][0]["annotations"]["lastModified"].is_string(), "{listed}");
}
