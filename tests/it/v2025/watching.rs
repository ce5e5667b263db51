//! A test that a client's poll of a task marks its job as watched: adapters read more from an engine for
//! watched jobs, and less for the others.

use rusqlite::Connection;
use serde_json::json;

use super::bench::Server;

const CONFIG: &str = "[auth]\nsingle_user = true\n[store]\npath = \"tasks.db\"\n";

/// Moves the start of the only job back by two minutes, so that it is not treated as watched because it is
/// new.
fn make_older(server: &Server) {
    const EARLIER: i64 = 120_000;
    let database = Connection::open(server.folder().join("tasks.db")).unwrap();
    let changed = database.execute(
        "UPDATE tasks SET opened_at = opened_at - ?1,
             body = json_set(body, '$.job.open.started_at', json_extract(body, '$.job.open.started_at') - ?1)
         WHERE opened_at IS NOT NULL",
        [EARLIER],
    );
    assert_eq!(changed.unwrap(), 1);
}

#[tokio::test]
async fn poll_marks_job_as_watched() {
    let server = Server::replicated(1, "", &[], CONFIG).await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.wait_for_poll(true).await;

    make_older(&server);
    let server = server.restart().await;
    let client = client.at(&server);
    job.wait_for_poll(false).await;
    assert_eq!(client.task(&id).await["status"], "working");
    job.wait_for_poll(true).await;
}
