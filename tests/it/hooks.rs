//! Tests of `POST /hooks/{backend}`: an authenticated delivery triggers an early poll of a job, on whichever
//! server watches it. Other senders learn nothing.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use taskbridge_sdk::sim::SimClient;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, Server, SimProcess, TestDir, text};

const SECRET: &str = "only the engine knows";
/// Timeout of any step here, far shorter than the regular poll interval.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Duration in milliseconds of a job that starts before its group is watched. Such a job is polled once at
/// the start.
const LONG_JOB_MS: u64 = 2500;

/// The poll interval is so long that only a hint explains why a job's end was seen.
fn config(store: &str, engine: &SimProcess) -> String {
    let basics = BASICS.split("[store]").next().unwrap();
    format!(
        "{basics}[store]\n{store}\n[reconciler]\nlease = \"2s\"\nquickest_look = \"1h\"\nslowest_look = \"1h\"\n\
         [backends.forge]\nkind = \"sim\"\naddress = \"{}\"\nhook_secret = \"{SECRET}\"\n\
         [backends.deaf]\nkind = \"sim\"\naddress = \"{}\"\n\
         [tools.job]\nbackend = \"forge\"\ntarget = {{ text = \"all done\" }}\n\
         parameters.delay_ms.type = \"integer\"\n",
        engine.address, engine.address
    )
}

/// Posts to a hook with this secret. Returns the status and the body.
async fn post(server: &Server, backend: &str, secret: Option<&str>, body: String) -> (StatusCode, String) {
    let url = server.url().replace("/mcp", &format!("/hooks/{backend}"));
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = http.post(url).body(body);
    if let Some(secret) = secret {
        request = request.header("x-sim-secret", secret);
    }
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

/// Posts the head of a request with this content length, and no body. Returns the status line of the
/// response.
async fn send_head(server: &Server, bytes: usize) -> String {
    let address = server.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut socket = tokio::io::BufReader::new(socket);
    let head = format!(
        "POST /hooks/forge HTTP/1.1\r\nhost: {address}\r\nx-sim-secret: {SECRET}\r\ncontent-length: {bytes}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut line = String::new();
    tokio::time::timeout(TIMEOUT, socket.read_line(&mut line)).await.expect("it answers").unwrap();
    line.trim_end().to_owned()
}

fn delivery_body(id: &str, engine: &SimProcess) -> String {
    let jobs: Vec<Value> = engine.journal().iter().map(|job| json!(job.handle)).collect();
    json!({"id": id, "jobs": jobs}).to_string()
}

/// Waits until the engine has started this number of jobs and all of them have ended.
async fn wait_until_ended(engine: &SimProcess, jobs: usize) {
    let control = SimClient::new(engine.address.parse().unwrap());
    let ended = async {
        while engine.journal().len() < jobs || control.counts(None).await.unwrap().running > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, ended).await.expect("the job ends");
}

async fn result(client: &Client, task: &str) -> String {
    let result = tokio::time::timeout(TIMEOUT, client.result(task)).await;
    text(&result.expect("the job is looked at").unwrap())
}

/// A repeated, empty or unknown delivery is accepted and changes nothing.
#[tokio::test]
async fn hint_triggers_early_poll() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    let config_text = config("path = \"state/taskbridge.db\"", &engine);
    let config_text = config_text.replace(&format!("\"{SECRET}\""), "{ file = \"hook\" }");
    std::fs::write(dir.path("hook"), format!("{SECRET}\n")).unwrap();
    std::fs::write(dir.config(), config_text).unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let first = client.start("job", json!({ "delay_ms": LONG_JOB_MS })).await.unwrap();
    wait_until_ended(&engine, 1).await;
    assert_eq!(client.get(&first).await.unwrap()["status"], "working");
    let accepted = (StatusCode::ACCEPTED, String::new());
    assert_eq!(post(&server, "forge", Some(SECRET), delivery_body("1", &engine)).await, accepted);
    assert_eq!(result(&client, &first).await, "all done");

    // A repeated delivery, an empty one, or one about unknown jobs is accepted and changes nothing.
    let second = client.start("job", json!({"delay_ms": 300})).await.unwrap();
    let unknown_job = json!({"id": "2", "jobs": ["nobody's"]}).to_string();
    // The job has ended by now, so an early poll would be visible.
    wait_until_ended(&engine, 2).await;
    for body in
        [delivery_body("1", &engine), unknown_job, "{}".to_owned(), "no JSON".to_owned(), String::new()]
    {
        assert_eq!(post(&server, "forge", Some(SECRET), body).await, accepted);
    }
    for _ in 0..50 {
        assert_eq!(client.get(&second).await.unwrap()["status"], "working");
    }
    assert_eq!(post(&server, "forge", Some(SECRET), delivery_body("3", &engine)).await, accepted);
    assert_eq!(result(&client, &second).await, "all done");
}

/// A delivery may name a job by our key, and be posted to an address below the hook.
#[tokio::test]
async fn hint_by_key_triggers_early_poll() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    std::fs::write(dir.config(), config("path = \"state/taskbridge.db\"", &engine)).unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({ "delay_ms": LONG_JOB_MS })).await.unwrap();
    wait_until_ended(&engine, 1).await;
    assert_eq!(client.get(&task).await.unwrap()["status"], "working");
    let keys: Vec<String> = engine.journal().into_iter().map(|job| job.key).collect();
    let body = json!({"id": "1", "keys": keys}).to_string();
    let (status, _) = post(&server, "forge/of/a-job", Some(SECRET), body).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(result(&client, &task).await, "all done");
}

/// A delivery with a wrong secret or for an unknown backend gets an error status without a body.
#[tokio::test]
async fn unauthenticated_hint_has_no_effect() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    std::fs::write(dir.config(), config("path = \"state/taskbridge.db\"", &engine)).unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({ "delay_ms": LONG_JOB_MS })).await.unwrap();
    wait_until_ended(&engine, 1).await;
    let body = delivery_body("1", &engine);
    for (backend, secret, status) in [
        ("nowhere", Some(SECRET), StatusCode::NOT_FOUND),
        ("deaf", Some(SECRET), StatusCode::NOT_FOUND),
        ("forge", None, StatusCode::UNAUTHORIZED),
        ("forge", Some(""), StatusCode::UNAUTHORIZED),
        ("forge", Some("only the engine know"), StatusCode::UNAUTHORIZED),
        ("forge", Some("only the engine knows!"), StatusCode::UNAUTHORIZED),
    ] {
        assert_eq!(
            post(&server, backend, secret, body.clone()).await,
            (status, String::new()),
            "{backend} {secret:?}"
        );
    }
    assert_eq!(send_head(&server, 2 * 1024 * 1024).await, "HTTP/1.1 413 Payload Too Large");
    assert_eq!(client.get(&task).await.unwrap()["status"], "working", "one of them was believed");
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(!log.contains(SECRET), "the secret is logged");
}

/// A replica passes a delivery on to the replica that polls the job.
#[tokio::test]
async fn hint_reaches_watching_replica() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    let store = format!(
        "kind = \"postgres\"\nurl = \"{}\"\nschema = \"{}\"\nbackends_dir = \"state\"",
        shared().url(),
        schema()
    );
    std::fs::write(dir.config(), config(&store, &engine)).unwrap();
    let watching_server = dir.serve();
    let client = Client::open(watching_server.url()).await.unwrap();
    let task = client.start("job", json!({ "delay_ms": LONG_JOB_MS })).await.unwrap();
    let other_dir = TestDir::new(&config(&store, &engine));
    let hinted_server = other_dir.serve();
    wait_until_ended(&engine, 1).await;
    assert_eq!(client.get(&task).await.unwrap()["status"], "working");
    let (status, _) = post(&hinted_server, "forge", Some(SECRET), delivery_body("1", &engine)).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(result(&client, &task).await, "all done");
}
