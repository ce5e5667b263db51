//! Tests for backends that are added, changed and removed while tasks run on them.

use serde_json::json;

use super::{ONE, begins, go, logged, logged_again, put, start, tools, waiting};
use crate::support::{Client, SimProcess, TestApp, text};

#[tokio::test]
async fn added_backend_runs_its_tools() {
    let app = start("");
    let session = app.client().await;
    let sim = SimProcess::start(&app.place, "keyed");
    let added = format!(
        "[backends.forge]\nkind = \"sim\"\naddress = \"{}\"\n\
         [tools.made]\nbackend = \"forge\"\ntarget = {{}}\n",
        sim.address
    );
    put(&app.place, &format!("{ONE}{added}"));
    logged(&app.place, "config applied: backends added: forge; tools added: made").await;
    let task = session.start("made", json!({})).await.unwrap();
    session.result(&task).await.unwrap();
    assert_eq!(sim.started().len(), 1);
}

#[tokio::test]
async fn unusable_backend_refuses_config() {
    let app = start("");
    let session = app.client().await;
    let wrong = "[backends.forge]\nkind = \"sim\"\naddress = \"192.0.2.1:9\"\n\
                 [tools.more]\nbackend = \"here\"\ntarget.command = [\"true\"]\n";
    put(&app.place, &format!("{ONE}{wrong}"));
    logged(&app.place, "config refused").await;
    let line = logged(&app.place, "backends.forge: ").await;
    assert!(line.contains("taskbridge.toml:") && line.contains("loopback"), "{line}");
    assert_eq!(tools(&session).await, ["hello"]);
}

/// Its tasks are jobs of the engine that it was connected to, and another engine would not know them.
#[tokio::test]
async fn other_identity_refuses_reload() {
    let sim = |identity: &str| {
        format!(
            "{ONE}[backends.forge]\nkind = \"sim\"\nidentity = \"{identity}\"\n\
             [tools.made]\nbackend = \"forge\"\ntarget = {{}}\n"
        )
    };
    let app = start("");
    let session = app.client().await;
    put(&app.place, &sim("one"));
    logged(&app.place, "config applied: backends added: forge").await;
    put(&app.place, &sim("another"));
    let line = logged(&app.place, "backends.forge: it is connected to sim one").await;
    assert!(line.contains("sim another") && line.contains("give the new backend another name"), "{line}");
    logged(&app.place, "config refused, the one before stays in force").await;
    let task = session.start("made", json!({})).await.unwrap();
    session.result(&task).await.unwrap();
}

/// It stays connected until then. It can be added again, but not as another kind.
#[tokio::test]
async fn removed_backend_finishes_its_tasks() {
    let away = format!("[backends.away]\nkind = \"local\"\nworking_dir = \".\"\n{}", waiting("slow", "away"));
    let app = start(&away);
    let session = app.client().await;
    let task = session.start("slow", json!({})).await.unwrap();
    put(&app.place, ONE);
    logged(&app.place, "config applied: backends removed: away; tools removed: slow").await;
    logged(&app.place, "backend `away` is not in the config any more: it stays connected").await;
    assert_eq!(tools(&session).await, ["hello"]);
    assert_eq!(session.get(&task).await.unwrap()["status"], "working");
    // It can be cancelled like any other task, and its backend can be added again unchanged.
    let other = session.start("hello", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&other).await.unwrap()), "hello\n");
    go(&app.place);
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
    let log = format!("taskbridge://tasks/{task}/log");
    let read = session.request("resources/read", json!({ "uri": log })).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "over\n");

    let kind = "[backends.away]\nkind = \"sim\"\n";
    put(&app.place, &format!("{ONE}{kind}"));
    let line = logged(&app.place, "backends.away.kind: it was `local`").await;
    assert!(line.contains("give the new backend another name"), "{line}");
    put(&app.place, &format!("{ONE}{away}"));
    logged(&app.place, "config applied: backends added: away; tools added: slow").await;
    let task = session.start("slow", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
}

/// The server started without the backend, and a reload adds it.
#[tokio::test]
async fn returned_backend_resumes_its_tasks() {
    let away = format!("[backends.away]\nkind = \"local\"\n{}", waiting("slow", "away"));
    let TestApp { mut server, place } = start(&away);
    let session = Client::open(server.url()).await.unwrap();
    let task = session.start("slow", json!({})).await.unwrap();
    begins(&place).await;
    assert_eq!(server.stop(), Some(0));
    put(&place, ONE);
    let server = place.serve();
    let session = session.at(server.url());
    go(&place);
    // A job of another backend completes meanwhile.
    let other = session.start("hello", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&other).await.unwrap()), "hello\n");
    assert_eq!(session.get(&task).await.unwrap()["status"], "working");
    put(&place, &format!("{ONE}{away}"));
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
}

/// The log contains no value of its environment.
#[tokio::test]
async fn changed_backend_keeps_its_tasks() {
    let app = start(&waiting("slow", "here"));
    let session = app.client().await;
    let task = session.start("slow", json!({})).await.unwrap();
    let cancelled = session.start("slow", json!({})).await.unwrap();
    let greets = "[tools.greets]\nbackend = \"here\"\ntarget.command = [\"printenv\", \"WORD\"]\n";
    let changed = ONE.replace("kind = \"local\"", "kind = \"local\"\nenv = { WORD = \"private words\" }");
    put(&app.place, &format!("{changed}{}{greets}", waiting("slow", "here")));
    logged(&app.place, "config applied: backends changed: here; tools added: greets").await;
    let greeted = session.start("greets", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&greeted).await.unwrap()), "private words\n");
    assert_eq!(session.cancel(&cancelled).await.unwrap()["status"], "cancelled");
    go(&app.place);
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
    put(&app.place, &format!("{ONE}{}", waiting("slow", "here")));
    logged_again(&app.place, "config applied", 2).await;
    let log = std::fs::read_to_string(app.place.path("server.log")).unwrap();
    assert!(!log.contains("private words"));
}
