//! That a client looks at a task is told to whoever looks at its job: adapters read more of an engine where somebody
//! watches, and leave that out where nobody does.

use rusqlite::Connection;
use serde_json::json;

use super::bench::Server;

const CONFIG: &str = "[auth]\nsingle_user = true\n[store]\npath = \"tasks.db\"\n";

/// Has the job of the only task begun two minutes earlier, so that it is not watched for being new.
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
async fn a_poll_has_its_job_looked_at_as_one_that_is_watched() {
    let server = Server::replicated(1, "", &[], CONFIG).await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.looked_at(true).await;

    make_older(&server);
    let server = server.restart().await;
    let client = client.at(&server);
    job.looked_at(false).await;
    assert_eq!(client.task(&id).await["status"], "working");
    job.looked_at(true).await;
}
