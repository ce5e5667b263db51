//! Tests of `[[notify]]` with the real program. The receivers here verify each POST with their own
//! implementation.

mod receiver;
mod tls;

use std::time::Duration;

use serde_json::json;

use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, Place, Server, text};

use receiver::{Hooks, OTHER_SECRET, Reply, SECRET};

/// Timeout of any step here.
const PATIENCE: Duration = Duration::from_secs(60);

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

fn notify(hooks: &Hooks, more: &str) -> String {
    format!("[[notify]]\nurl = \"{}\"\nsecret = \"{SECRET}\"\ntimeout = \"1s\"\n{more}\n", hooks.url())
}

/// Creates a folder with an SQLite store.
fn place(config: &str) -> Place {
    Place::new(&format!("{BASICS}{TOOLS}{config}"))
}

/// Creates a folder with a PostgreSQL store. Returns it and the name of its schema.
fn shared_place(config: &str) -> (Place, String) {
    let schema = schema();
    let store = format!(
        "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\n",
        shared().url()
    );
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let basics = BASICS.replace("[store]\npath = \"state/taskbridge.db\"\n", &store);
    let tools = TOOLS.replace("kind = \"local\"", &format!("kind = \"local\"\nhost = \"{host}\""));
    (Place::new(&format!("{basics}{tools}{config}")), schema)
}

async fn client(server: &Server) -> Client {
    Client::open(server.url()).await.unwrap()
}

async fn say(client: &Client, what: &str) -> String {
    client.start("say", json!({ "what": what })).await.unwrap()
}

async fn log_says(place: &Place, words: &str) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !log(place).contains(words) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{words:?} is not in the log"));
}

fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("server.log")).unwrap_or_default()
}

/// A notice contains no arguments and no results. By default it contains only a digest of the task id.
#[tokio::test]
async fn end_and_question_are_notified_once() {
    let (all, failures) = (Hooks::start().await, Hooks::start().await);
    let some = notify(
        &failures,
        "on = [\"ended\"]\ntools = [\"fail\"]\nsource = \"https://bridge.example\"\ntask_id = true",
    );
    let place = place(&format!("{}{some}", notify(&all, "")));
    let mut server = place.serve();
    let client = client(&server).await;
    let said = say(&client, "swordfish").await;
    let ended = all.next().await;
    let digest = receiver::sha256_hex(said.as_bytes());
    let expected = json!({
        "specversion": "1.0", "id": ended.id, "source": "/taskbridge", "type": "io.taskbridge.task.ended",
        "subject": digest, "time": ended.event["time"], "datacontenttype": "application/json",
        "data": {"tool": "say", "status": "succeeded"},
    });
    assert_eq!(ended.event, expected);
    assert!(ended.event["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert!(!ended.body.contains("swordfish") && !ended.body.contains(&said), "{}", ended.body);

    let asks = client.start("ask", json!({"what": "swordfish"})).await.unwrap();
    let asked = all.next().await;
    assert_eq!(asked.event["type"], "io.taskbridge.task.asks");
    assert_eq!(asked.event["subject"], json!(receiver::sha256_hex(asks.as_bytes())));
    assert_eq!(asked.event["data"], json!({"tool": "ask", "status": "input_required", "question": "q1"}));
    assert!(!asked.body.contains("swordfish"), "{}", asked.body);
    let yes = json!({"action": "accept", "content": {}});
    let result = client.converse("tasks/result", json!({"taskId": asks}), &yes).await.unwrap();
    assert_eq!(text(&result), "swordfish\n");
    let ended = all.next().await;
    assert_eq!(
        (&ended.event["subject"], &ended.event["data"]["status"]),
        (&asked.event["subject"], &json!("succeeded"))
    );

    let failed = client.start("fail", json!({})).await.unwrap();
    let told = failures.next().await;
    let links = json!({"log": format!("taskbridge://tasks/{failed}/log")});
    let data = json!({"tool": "fail", "status": "failed", "taskId": failed, "links": links});
    assert_eq!((&told.event["data"], &told.event["source"]), (&data, &json!("https://bridge.example")));
    assert_eq!(all.next().await.id, told.id, "both hear of the same event");
    let cancelled = client.start("ask", json!({"what": "no"})).await.unwrap();
    all.next().await;
    client.cancel(&cancelled).await.unwrap();
    assert_eq!(all.next().await.event["data"]["status"], "cancelled");
    assert_eq!(server.stop(), Some(0));
    assert_eq!((all.count(), failures.count()), (6, 1), "each was told once");
    assert!(!log(&place).contains("whsec") && !log(&place).contains("/hook"), "{}", log(&place));
}

/// A receiver that is handling a POST when the server is killed gets it again. So does a receiver that
/// refused one.
async fn outlives_a_kill(place: &Place, hooks: &Hooks) {
    hooks.replies([Reply::Status(503), Reply::Hang]);
    let mut server = place.serve();
    let at_first = client(&server).await;
    let task = say(&at_first, "once").await;
    let refused = hooks.next().await;
    let hung = hooks.next().await;
    server.kill();
    let mut server = place.serve();
    let again = hooks.next().await;
    assert_eq!((&refused.id, &refused.body), (&hung.id, &hung.body));
    assert_eq!((&again.id, &again.body), (&hung.id, &hung.body));
    assert_eq!(text(&at_first.at(server.url()).result(&task).await.unwrap()), "once\n");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(hooks.count(), 3, "it has it");
}

#[tokio::test]
async fn pending_notice_survives_kill() {
    let hooks = Hooks::start().await;
    outlives_a_kill(&place(&notify(&hooks, "")), &hooks).await;
}

#[tokio::test]
async fn pending_notice_survives_kill_on_postgresql() {
    let hooks = Hooks::start().await;
    let (place, schema) = shared_place(&notify(&hooks, ""));
    outlives_a_kill(&place, &hooks).await;
    let left = shared().client(&schema).await.query_one("SELECT count(*) FROM notices", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn two_servers_send_each_notice_once() {
    let hooks = Hooks::start().await;
    let (place, _) = shared_place(&notify(&hooks, "on = [\"ended\"]"));
    let (mut a, mut b) = (place.serve(), place.serve());
    let at_a = client(&a).await;
    let at_b = at_a.at(b.url());
    for n in 0..10 {
        let (one, other) = (format!("a{n}"), format!("b{n}"));
        tokio::join!(say(&at_a, &one), say(&at_b, &other));
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
    let hooks = Hooks::start().await;
    hooks.replies([Reply::After(3)]);
    let place = place(&notify(&hooks, ""));
    let server = place.serve();
    let client = client(&server).await;
    say(&client, "one").await;
    let first = hooks.next().await;
    say(&client, "two").await;
    let (second, third) = (hooks.next().await, hooks.next().await);
    assert!(second.at - first.at >= Duration::from_secs(3), "{:?}", second.at - first.at);
    assert!(third.at - first.at >= Duration::from_secs(3), "the other waits as well");
    assert!(log(&place).contains("notices are not taken; they are kept and sent again"));
}

/// Status 410 ends all notices to a receiver, and those to others continue.
#[tokio::test]
async fn gone_receiver_gets_no_more_notices() {
    let (gone, other) = (Hooks::start().await, Hooks::start().await);
    gone.replies([Reply::Status(410)]);
    let place = place(&format!("{}{}", notify(&gone, ""), notify(&other, "")));
    let mut server = place.serve();
    let client = client(&server).await;
    say(&client, "one").await;
    log_says(&place, "410 Gone").await;
    say(&client, "two").await;
    let told = [other.next().await, other.next().await];
    assert_ne!(told[0].id, told[1].id);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(gone.count(), 1);
}

/// A receiver that never responds delays no calls and has at most eight requests in flight.
#[tokio::test]
async fn hanging_receiver_delays_no_other() {
    let (slow, quick) = (Hooks::start().await, Hooks::start().await);
    slow.always(Reply::Hang);
    let place = place(&format!("{}{}", notify(&slow, ""), notify(&quick, "")));
    let mut server = place.serve();
    let client = client(&server).await;
    for n in 0..30 {
        let task = say(&client, &n.to_string()).await;
        assert_eq!(text(&client.result(&task).await.unwrap()), format!("{n}\n"));
    }
    for _ in 0..30 {
        quick.next().await;
    }
    assert!(slow.most_at_once() <= 8, "{}", slow.most_at_once());
    assert_eq!(server.stop(), Some(0));
}

/// Ten thousand notices to a failing receiver delay no calls and no other receiver, and none is lost.
#[tokio::test]
async fn notice_backlog_delays_no_other() {
    let (dead, quick) = (Hooks::start().await, Hooks::start().await);
    dead.always(Reply::Status(500));
    let place = place(&format!("{}{}", notify(&dead, ""), notify(&quick, "")));
    let mut server = place.serve();
    say(&client(&server).await, "first").await;
    dead.next().await;
    quick.next().await;
    assert_eq!(server.stop(), Some(0));
    let database = rusqlite::Connection::open(place.path("state/taskbridge.db")).unwrap();
    let more = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
                INSERT INTO notices (id, receiver, since, due_at, body)
                SELECT id || n, receiver, since, 0, body FROM notices, n";
    assert_eq!(database.execute(more, []).unwrap(), 10_000);
    let before = dead.count();
    let mut server = place.serve();
    let client = client(&server).await;
    for n in 0..20 {
        let task = say(&client, &n.to_string()).await;
        assert_eq!(text(&client.result(&task).await.unwrap()), format!("{n}\n"));
        quick.next().await;
    }
    assert_eq!(server.stop(), Some(0));
    // A few concurrent attempts at first, then single ones with growing pauses.
    let tried = dead.count() - before;
    assert!((1..50).contains(&tried), "{tried}");
    let kept: u64 = database.query_row("SELECT count(*) FROM notices", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 10_021, "nothing of it is lost");
}

/// The notices to a removed receiver are dropped. A changed secret file is a changed config.
#[tokio::test]
async fn config_reload_replaces_receivers() {
    let (leaves, comes) = (Hooks::start().await, Hooks::start().await);
    leaves.always(Reply::Status(500));
    let place = place(&notify(&leaves, ""));
    let server = place.serve();
    let client = client(&server).await;
    say(&client, "one").await;
    leaves.next().await;
    let secrets = format!("[\"{OTHER_SECRET}\", {{ file = \"old\" }}]");
    std::fs::write(place.path("old"), format!("{SECRET}\n")).unwrap();
    let config = notify(&comes, "").replace(&format!("\"{SECRET}\""), &secrets);
    std::fs::write(place.path("new.toml"), format!("{BASICS}{TOOLS}{config}")).unwrap();
    std::fs::rename(place.path("new.toml"), place.config()).unwrap();
    log_says(&place, "config applied: [[notify]]").await;
    log_says(&place, "notices are dropped: the config does not have it any more").await;
    say(&client, "two").await;
    let told = comes.next().await;
    assert_eq!(told.signatures, 2, "one for each secret");
    // A secret file is part of the config: a changed secret is a changed config.
    std::fs::write(place.path("old"), format!("{OTHER_SECRET}\n")).unwrap();
    log_says(&place, "config applied: [[notify]]").await;
}

#[tokio::test]
async fn invalid_receiver_error_names_fix() {
    let wrong = r#"
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
    let place = place(wrong);
    let checked = place.run(place.command("check")).await;
    assert_eq!(checked.code, Some(1));
    for words in [
        "notify[0].url: others on the way could read and change it: use https, or say `allow_plain = true`",
        "notify[0].secret: it is no secret of Standard Webhooks: `whsec_` and 24 to 64 random bytes in Base64",
        "notify[0].tools[0]: unknown tool `sya`; did you mean `say`?",
        "notify[0].on[0]: \"end\" is not one of its values; did you mean \"ended\"? (known: \"ended\", \"asks\")",
        "notify[1].url: it is no address by HTTP",
        "notify[1].secret: the environment variable NOT_SET is not set",
        "notify[1].on: it is empty",
    ] {
        assert!(checked.stderr.contains(words), "{words}\n{}", checked.stderr);
    }
    assert!(!checked.stderr.contains("TOKEN") && !checked.stderr.contains("hunter2"), "{}", checked.stderr);
}
