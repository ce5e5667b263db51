//! Tests of `[[notify]]` with the real program. The receivers here verify each POST with their own
//! implementation.

mod receiver;
mod tls;

use std::time::Duration;

use serde_json::json;

use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, Server, TestDir, text};

use receiver::{OTHER_SECRET, Reply, SECRET, WebhookReceiver};

/// Timeout of any step here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Tools that end at once, one of them with a failure, and one that asks a question before it starts.
const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.say]
backend = "here"
target.command = ["echo", "{{ what }}"]
parameters.what.type = "string"

[tools.fail]
backend = "here"
target.command = ["false"]

[tools.ask]
backend = "here"
target.command = ["echo", "{{ what }}"]
parameters.what.type = "string"
confirm = "Say {{ what }}?"
"#;

fn notify(hooks: &WebhookReceiver, extra: &str) -> String {
    format!("[[notify]]\nurl = \"{}\"\nsecret = \"{SECRET}\"\ntimeout = \"1s\"\n{extra}\n", hooks.url())
}

/// Creates a folder with an SQLite store.
fn dir_with_sqlite(config: &str) -> TestDir {
    TestDir::new(&format!("{BASICS}{TOOLS}{config}"))
}

/// Creates a folder with a PostgreSQL store. Returns it and the name of its schema.
fn dir_with_postgres(config: &str) -> (TestDir, String) {
    let schema = schema();
    let store = format!(
        "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\n",
        shared().url()
    );
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let basics = BASICS.replace("[store]\npath = \"state/taskbridge.db\"\n", &store);
    let tools = TOOLS.replace("kind = \"local\"", &format!("kind = \"local\"\nhost = \"{host}\""));
    (TestDir::new(&format!("{basics}{tools}{config}")), schema)
}

async fn client(server: &Server) -> Client {
    Client::open(server.url()).await.unwrap()
}

async fn say(client: &Client, what: &str) -> String {
    client.start("say", json!({ "what": what })).await.unwrap()
}

async fn wait_for_log(dir: &TestDir, expected: &str) {
    let logged = tokio::time::timeout(TIMEOUT, async {
        while !log(dir).contains(expected) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    logged.await.unwrap_or_else(|_| panic!("{expected:?} is not in the log"));
}

fn log(dir: &TestDir) -> String {
    std::fs::read_to_string(dir.path("server.log")).unwrap_or_default()
}

/// A notice contains no arguments and no results. By default it contains only a digest of the task id.
#[tokio::test]
async fn end_and_question_are_notified_once() {
    let (all, failures) = (WebhookReceiver::start().await, WebhookReceiver::start().await);
    let failures_config = notify(
        &failures,
        "on = [\"ended\"]\ntools = [\"fail\"]\nsource = \"https://bridge.example\"\ntask_id = true",
    );
    let dir = dir_with_sqlite(&format!("{}{failures_config}", notify(&all, "")));
    let mut server = dir.serve();
    let client = client(&server).await;
    let task = say(&client, "swordfish").await;
    let ended = all.next().await;
    let digest = receiver::sha256_hex(task.as_bytes());
    let expected = json!({
        "specversion": "1.0", "id": ended.id, "source": "/taskbridge", "type": "io.taskbridge.task.ended",
        "subject": digest, "time": ended.event["time"], "datacontenttype": "application/json",
        "data": {"tool": "say", "status": "succeeded"},
    });
    assert_eq!(ended.event, expected);
    assert!(ended.event["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert!(!ended.body.contains("swordfish") && !ended.body.contains(&task), "{}", ended.body);

    let asking_task = client.start("ask", json!({"what": "swordfish"})).await.unwrap();
    let question_notice = all.next().await;
    assert_eq!(question_notice.event["type"], "io.taskbridge.task.asks");
    assert_eq!(question_notice.event["subject"], json!(receiver::sha256_hex(asking_task.as_bytes())));
    assert_eq!(
        question_notice.event["data"],
        json!({"tool": "ask", "status": "input_required", "question": "q1"})
    );
    assert!(!question_notice.body.contains("swordfish"), "{}", question_notice.body);
    let yes = json!({"action": "accept", "content": {}});
    let result =
        client.request_with_reply("tasks/result", json!({"taskId": asking_task}), &yes).await.unwrap();
    assert_eq!(text(&result), "swordfish\n");
    let ended = all.next().await;
    assert_eq!(
        (&ended.event["subject"], &ended.event["data"]["status"]),
        (&question_notice.event["subject"], &json!("succeeded"))
    );

    let failed = client.start("fail", json!({})).await.unwrap();
    let notice = failures.next().await;
    let links = json!({"log": format!("taskbridge://tasks/{failed}/log")});
    let data = json!({"tool": "fail", "status": "failed", "taskId": failed, "links": links});
    assert_eq!((&notice.event["data"], &notice.event["source"]), (&data, &json!("https://bridge.example")));
    assert_eq!(all.next().await.id, notice.id, "both hear of the same event");
    let cancelled = client.start("ask", json!({"what": "no"})).await.unwrap();
    all.next().await;
    client.cancel(&cancelled).await.unwrap();
    assert_eq!(all.next().await.event["data"]["status"], "cancelled");
    assert_eq!(server.stop(), Some(0));
    assert_eq!((all.count(), failures.count()), (6, 1), "each was told once");
    assert!(!log(&dir).contains("whsec") && !log(&dir).contains("/hook"), "{}", log(&dir));
}

/// A receiver that is handling a POST when the server is killed gets it again. So does a receiver that
/// refused one.
async fn assert_survives_kill(dir: &TestDir, hooks: &WebhookReceiver) {
    hooks.replies([Reply::Status(503), Reply::Hang]);
    let mut server = dir.serve();
    let first_client = client(&server).await;
    let task = say(&first_client, "once").await;
    let refused = hooks.next().await;
    let hung = hooks.next().await;
    server.kill();
    let mut server = dir.serve();
    let repeated = hooks.next().await;
    assert_eq!((&refused.id, &refused.body), (&hung.id, &hung.body));
    assert_eq!((&repeated.id, &repeated.body), (&hung.id, &hung.body));
    assert_eq!(text(&first_client.at(server.url()).result(&task).await.unwrap()), "once\n");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(hooks.count(), 3, "it has it");
}

#[tokio::test]
async fn pending_notice_survives_kill() {
    let hooks = WebhookReceiver::start().await;
    assert_survives_kill(&dir_with_sqlite(&notify(&hooks, "")), &hooks).await;
}

#[tokio::test]
async fn pending_notice_survives_kill_on_postgresql() {
    let hooks = WebhookReceiver::start().await;
    let (dir, schema) = dir_with_postgres(&notify(&hooks, ""));
    assert_survives_kill(&dir, &hooks).await;
    let remaining =
        shared().client(&schema).await.query_one("SELECT count(*) FROM notices", &[]).await.unwrap();
    assert_eq!(remaining.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn two_servers_send_each_notice_once() {
    let hooks = WebhookReceiver::start().await;
    let (dir, _) = dir_with_postgres(&notify(&hooks, "on = [\"ended\"]"));
    let (mut a, mut b) = (dir.serve(), dir.serve());
    let client_a = client(&a).await;
    let client_b = client_a.at(b.url());
    for n in 0..10 {
        let (one, other) = (format!("a{n}"), format!("b{n}"));
        tokio::join!(say(&client_a, &one), say(&client_b, &other));
    }
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(hooks.next().await.id);
    }
    assert_eq!((a.stop(), b.stop()), (Some(0), Some(0)));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), hooks.count()), (20, 20));
}

/// A `Retry-After` header delays every notice to its receiver.
#[tokio::test]
async fn retry_after_delays_all_notices() {
    let hooks = WebhookReceiver::start().await;
    hooks.replies([Reply::After(3)]);
    let dir = dir_with_sqlite(&notify(&hooks, ""));
    let server = dir.serve();
    let client = client(&server).await;
    say(&client, "one").await;
    let first = hooks.next().await;
    say(&client, "two").await;
    let (second, third) = (hooks.next().await, hooks.next().await);
    assert!(second.at - first.at >= Duration::from_secs(3), "{:?}", second.at - first.at);
    assert!(third.at - first.at >= Duration::from_secs(3), "the other waits as well");
    assert!(log(&dir).contains("notices are not accepted; retrying"));
}

/// Status 410 ends all notices to a receiver, and those to others continue.
#[tokio::test]
async fn gone_receiver_gets_no_more_notices() {
    let (gone, other) = (WebhookReceiver::start().await, WebhookReceiver::start().await);
    gone.replies([Reply::Status(410)]);
    let dir = dir_with_sqlite(&format!("{}{}", notify(&gone, ""), notify(&other, "")));
    let mut server = dir.serve();
    let client = client(&server).await;
    say(&client, "one").await;
    wait_for_log(&dir, "410 Gone").await;
    say(&client, "two").await;
    let notices = [other.next().await, other.next().await];
    assert_ne!(notices[0].id, notices[1].id);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(gone.count(), 1);
}

/// A receiver that never responds delays no calls and has at most eight requests in flight.
#[tokio::test]
async fn hanging_receiver_delays_no_other() {
    let (slow, quick) = (WebhookReceiver::start().await, WebhookReceiver::start().await);
    slow.always(Reply::Hang);
    let dir = dir_with_sqlite(&format!("{}{}", notify(&slow, ""), notify(&quick, "")));
    let mut server = dir.serve();
    let client = client(&server).await;
    for n in 0..30 {
        let task = say(&client, &n.to_string()).await;
        assert_eq!(text(&client.result(&task).await.unwrap()), format!("{n}\n"));
    }
    for _ in 0..30 {
        quick.next().await;
    }
    assert!(slow.max_in_flight() <= 8, "{}", slow.max_in_flight());
    assert_eq!(server.stop(), Some(0));
}

/// Ten thousand notices to a failing receiver delay no calls and no other receiver, and none is lost.
#[tokio::test]
async fn notice_backlog_delays_no_other() {
    let (failing, quick) = (WebhookReceiver::start().await, WebhookReceiver::start().await);
    failing.always(Reply::Status(500));
    let dir = dir_with_sqlite(&format!("{}{}", notify(&failing, ""), notify(&quick, "")));
    let mut server = dir.serve();
    say(&client(&server).await, "first").await;
    failing.next().await;
    quick.next().await;
    assert_eq!(server.stop(), Some(0));
    let database = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    let insert_many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
                INSERT INTO notices (id, receiver, since, due_at, body)
                SELECT id || n, receiver, since, 0, body FROM notices, n";
    assert_eq!(database.execute(insert_many, []).unwrap(), 10_000);
    let before = failing.count();
    let mut server = dir.serve();
    let client = client(&server).await;
    for n in 0..20 {
        let task = say(&client, &n.to_string()).await;
        assert_eq!(text(&client.result(&task).await.unwrap()), format!("{n}\n"));
        quick.next().await;
    }
    assert_eq!(server.stop(), Some(0));
    // A few concurrent attempts at first, then single ones with growing pauses.
    let attempts = failing.count() - before;
    assert!((1..50).contains(&attempts), "{attempts}");
    let stored: u64 = database.query_row("SELECT count(*) FROM notices", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 10_021, "nothing of it is lost");
}

/// The notices to a removed receiver are dropped. A changed secret file is a changed config.
#[tokio::test]
async fn config_reload_replaces_receivers() {
    let (removed, added) = (WebhookReceiver::start().await, WebhookReceiver::start().await);
    removed.always(Reply::Status(500));
    let dir = dir_with_sqlite(&notify(&removed, ""));
    let server = dir.serve();
    let client = client(&server).await;
    say(&client, "one").await;
    removed.next().await;
    let secrets = format!("[\"{OTHER_SECRET}\", {{ file = \"old\" }}]");
    std::fs::write(dir.path("old"), format!("{SECRET}\n")).unwrap();
    let config = notify(&added, "").replace(&format!("\"{SECRET}\""), &secrets);
    std::fs::write(dir.path("new.toml"), format!("{BASICS}{TOOLS}{config}")).unwrap();
    std::fs::rename(dir.path("new.toml"), dir.config()).unwrap();
    wait_for_log(&dir, "config applied: [[notify]]").await;
    wait_for_log(&dir, "notices are dropped: the receiver was removed from the config").await;
    say(&client, "two").await;
    let notice = added.next().await;
    assert_eq!(notice.signatures, 2, "one for each secret");
    // A secret file is part of the config: a changed secret is a changed config.
    std::fs::write(dir.path("old"), format!("{OTHER_SECRET}\n")).unwrap();
    wait_for_log(&dir, "config applied: [[notify]]").await;
}

#[tokio::test]
async fn invalid_receiver_error_names_fix() {
    let invalid = r#"
[[notify]]
url = "http://hooks.example.com/TOKEN"
secret = "hunter2"
tools = ["sya"]
on = ["end"]

[[notify]]
url = "ftp://example.com/TOKEN"
secret = { env = "NOT_SET" }
on = []
"#;
    let dir = dir_with_sqlite(invalid);
    let checked = dir.run(dir.command("check")).await;
    assert_eq!(checked.code, Some(1));
    for expected in [
        "notify[0].url: others on the network could read and change it: use https, or set `allow_plain = true`",
        "notify[0].secret: not a Standard Webhooks secret: write `whsec_` and 24 to 64 random bytes in Base64",
        "notify[0].tools[0]: unknown tool `sya`; did you mean `say`?",
        "notify[0].on[0]: unknown value \"end\"; did you mean \"ended\"? (known: \"ended\", \"asks\")",
        "notify[1].url: not an HTTP URL",
        "notify[1].secret: environment variable NOT_SET is not set",
        "notify[1].on: must not be empty",
    ] {
        assert!(checked.stderr.contains(expected), "{expected}\n{}", checked.stderr);
    }
    assert!(!checked.stderr.contains("TOKEN") && !checked.stderr.contains("hunter2"), "{}", checked.stderr);
}
