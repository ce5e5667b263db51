//! Tests for backends that are added, changed and removed while tasks run on them.

use serde_json::json;

use super::{
    ONE, release_jobs, replace_config, start, tools, wait_for_job_start, wait_for_log, wait_for_nth_log,
    waiting_tool,
};
use crate::support::{Client, SimProcess, TestApp, text};

#[tokio::test]
async fn added_backend_runs_its_tools() {
    let app = start("");
    let session = app.client().await;
    let sim = SimProcess::start(&app.dir, "keyed");
    let added = format!(
        "[backends.forge]\nkind = \"sim\"\naddress = \"{}\"\n\
         [tools.made]\nbackend = \"forge\"\ntarget = {{}}\n",
        sim.address
    );
    replace_config(&app.dir, &format!("{ONE}{added}"));
    wait_for_log(&app.dir, "config applied: backends added: forge; tools added: made").await;
    let task = session.start("made", json!({})).await.unwrap();
    session.result(&task).await.unwrap();
    assert_eq!(sim.started().len(), 1);
}

#[tokio::test]
async fn unusable_backend_refuses_config() {
    let app = start("");
    let session = app.client().await;
    let invalid = "[backends.forge]\nkind = \"sim\"\naddress = \"192.0.2.1:9\"\n\
                 [tools.more]\nbackend = \"here\"\ntarget.command = [\"true\"]\n";
    replace_config(&app.dir, &format!("{ONE}{invalid}"));
    wait_for_log(&app.dir, "config refused").await;
    let line = wait_for_log(&app.dir, "backends.forge: ").await;
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
    replace_config(&app.dir, &sim("one"));
    wait_for_log(&app.dir, "config applied: backends added: forge").await;
    replace_config(&app.dir, &sim("another"));
    let line = wait_for_log(&app.dir, "backends.forge: identity changed from sim one").await;
    assert!(line.contains("sim another") && line.contains("give the new backend another name"), "{line}");
    wait_for_log(&app.dir, "config refused, the previous one stays in force").await;
    let task = session.start("made", json!({})).await.unwrap();
    session.result(&task).await.unwrap();
}

/// It stays connected until then. It can be added again, but not as another kind.
#[tokio::test]
async fn removed_backend_finishes_its_tasks() {
    let away =
        format!("[backends.away]\nkind = \"local\"\nworking_dir = \".\"\n{}", waiting_tool("slow", "away"));
    let app = start(&away);
    let session = app.client().await;
    let task = session.start("slow", json!({})).await.unwrap();
    replace_config(&app.dir, ONE);
    wait_for_log(&app.dir, "config applied: backends removed: away; tools removed: slow").await;
    wait_for_log(&app.dir, "backend `away` is no longer in the config: it stays connected").await;
    assert_eq!(tools(&session).await, ["hello"]);
    assert_eq!(session.get(&task).await.unwrap()["status"], "working");
    // It can be cancelled like any other task, and its backend can be added again unchanged.
    let other = session.start("hello", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&other).await.unwrap()), "hello\n");
    release_jobs(&app.dir);
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
    let log = format!("taskbridge://tasks/{task}/log");
    let response = session.request("resources/read", json!({ "uri": log })).await.unwrap();
    assert_eq!(response["contents"][0]["text"], "over\n");

    let kind = "[backends.away]\nkind = \"sim\"\n";
    replace_config(&app.dir, &format!("{ONE}{kind}"));
    let line = wait_for_log(&app.dir, "backends.away.kind: changed from `local`").await;
    assert!(line.contains("give the new backend another name"), "{line}");
    replace_config(&app.dir, &format!("{ONE}{away}"));
    wait_for_log(&app.dir, "config applied: backends added: away; tools added: slow").await;
    let task = session.start("slow", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
}

/// The server started without the backend, and a reload adds it.
#[tokio::test]
async fn returned_backend_resumes_its_tasks() {
    let away = format!("[backends.away]\nkind = \"local\"\n{}", waiting_tool("slow", "away"));
    let TestApp { mut server, dir } = start(&away);
    let session = Client::open(server.url()).await.unwrap();
    let task = session.start("slow", json!({})).await.unwrap();
    wait_for_job_start(&dir).await;
    assert_eq!(server.stop(), Some(0));
    replace_config(&dir, ONE);
    let server = dir.serve();
    let session = session.at(server.url());
    release_jobs(&dir);
    // A job of another backend completes meanwhile.
    let other = session.start("hello", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&other).await.unwrap()), "hello\n");
    assert_eq!(session.get(&task).await.unwrap()["status"], "working");
    replace_config(&dir, &format!("{ONE}{away}"));
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
}

/// The log contains no value of its environment.
#[tokio::test]
async fn changed_backend_keeps_its_tasks() {
    let app = start(&waiting_tool("slow", "here"));
    let session = app.client().await;
    let task = session.start("slow", json!({})).await.unwrap();
    let cancelled = session.start("slow", json!({})).await.unwrap();
    let greets = "[tools.greets]\nbackend = \"here\"\ntarget.command = [\"printenv\", \"WORD\"]\n";
    let changed = ONE.replace("kind = \"local\"", "kind = \"local\"\nenv = { WORD = \"private words\" }");
    replace_config(&app.dir, &format!("{changed}{}{greets}", waiting_tool("slow", "here")));
    wait_for_log(&app.dir, "config applied: backends changed: here; tools added: greets").await;
    let greeted = session.start("greets", json!({})).await.unwrap();
    assert_eq!(text(&session.result(&greeted).await.unwrap()), "private words\n");
    assert_eq!(session.cancel(&cancelled).await.unwrap()["status"], "cancelled");
    release_jobs(&app.dir);
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
    replace_config(&app.dir, &format!("{ONE}{}", waiting_tool("slow", "here")));
    wait_for_nth_log(&app.dir, "config applied", 2).await;
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert!(!log.contains("private words"));
}
