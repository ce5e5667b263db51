//! Tests for `taskbridge tasks`.

use serde_json::{Value, json};

use super::{Setup, start};
use crate::support::{BASICS, text};

/// The output shows the history of a task, but no text of the caller, the job or a person.
async fn assert_history_shown(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    let task = start(&client, "the-secret", 10).await;
    assert_eq!(text(&client.result(&task).await.unwrap()), "the-secret");
    let running = client.start("one_at_a_time", json!({"delay_ms": 3_600_000})).await.unwrap();
    let queued = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    setup.wait_for_task(&running, |view| view["job"] == "open").await;

    let table = setup.run_ok(&["tasks", "list"]).await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ID            STATE"), "{table}");
    assert!(lines[1].starts_with(&queued[..12]), "the newest first: {table}");
    assert!(lines[1].contains("queued") && lines[1].contains("waits for"), "{table}");
    assert!(lines[3].starts_with(&task[..12]) && lines[3].contains("succeeded  closed"), "{table}");
    let column = lines[0].find("TOOL").unwrap();
    assert!(lines[1..].iter().all(|line| &line[column - 1..column] == " " && &line[column..=column] != " "));

    let ids = |views: Vec<Value>| views.iter().map(|view| view["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(setup.list_tasks(&["--state", "succeeded"]).await), [json!(task)]);
    assert_eq!(ids(setup.list_tasks(&["--tool", "job", "--backend", "engine"]).await), [json!(task)]);
    assert_eq!(
        ids(setup.list_tasks(&["--state", "unended", "--since", "1h"]).await),
        [json!(queued), json!(running)]
    );
    let owner = setup.list_tasks(&[]).await[0]["owner"].as_str().unwrap().to_owned();
    assert_eq!(setup.list_tasks(&["--owner", &owner]).await.len(), 3);
    for filter in [&["--owner", &owner[1..]][..], &["--tool", "jo"], &["--trouble"], &["--since", "0s"]] {
        assert_eq!(setup.list_tasks(filter).await.len(), 0, "{filter:?}");
    }

    // The reading is written behind the answer.
    let mut output = setup.run_ok(&["tasks", "show", &task[..6]]).await;
    while !output.contains("result read by ") {
        output = setup.run_ok(&["tasks", "show", &task[..6]]).await;
    }
    for expected in [
        "state       succeeded",
        "created: job on engine",
        "start attempt 1",
        "accepted by the engine as ",
        "ended: succeeded",
        "[start: ",
        " ms]",
    ] {
        assert!(output.contains(expected), "no {expected:?} in {output}");
    }
    assert!(!output.contains("the-secret"), "{output}");
    let export = setup.run_ok(&["tasks", "export"]).await;
    assert!(!export.contains("the-secret"), "{export}");
    let lines: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exported = lines.iter().find(|line| line["id"] == task.as_str()).unwrap();
    let first = &exported["history"][0];
    assert_eq!(first["what"][0]["created"]["tool"], "job");
    assert_eq!((&first["version"], &first["what"][1]), (&json!(1), &json!({"attempt": 1})));
    assert!(first["at"].as_str().unwrap().ends_with('Z') && !first["replica"].as_str().unwrap().is_empty());
    let [.., end, reading] = &exported["history"].as_array().unwrap()[..] else { panic!("{exported}") };
    assert!(end["what"].as_array().unwrap().contains(&json!({"ended": "succeeded"})), "{exported}");
    assert_eq!(reading["what"], json!([{"result_read": {"by": owner}}]), "{exported}");

    // The command writes the cancellation into the row, and the server cancels the job.
    let cancelled = setup.run_ok(&["tasks", "cancel", &running]).await;
    assert_eq!(
        cancelled,
        format!("{running}: cancelled; a server cancels its job, and retries until it has ended\n")
    );
    assert_eq!(client.get(&running).await.unwrap()["status"], "cancelled");
    setup.wait_for_task(&running, |view| view["job"] == "closed").await;
    setup.wait_for_task(&queued, |view| view["state"] == "succeeded").await;
    let output = setup.run_ok(&["tasks", "show", &running]).await;
    assert!(
        output.contains("operator@") && output.contains("cancellation requested; ended: cancelled"),
        "{output}"
    );
    assert!(
        output.contains("the engine accepted the cancellation")
            && output.contains("no action on the engine is pending"),
        "{output}"
    );
    let refused = setup.run_refused(&["tasks", "cancel", &running]).await;
    assert!(refused.contains("has ended already: cancelled"), "{refused}");
    let refused = setup.run_refused(&["tasks", "retry-now", &running]).await;
    assert!(refused.contains("no action is pending for it"), "{refused}");
    assert_eq!(server.stop(), Some(0));
    assert!(setup.run_ok(&["store", "check"]).await.ends_with(": 3 tasks, nothing wrong\n"));
}

#[tokio::test]
async fn a_life_is_shown_on_sqlite() {
    assert_history_shown(Setup::sqlite()).await;
}

#[tokio::test]
async fn a_life_is_shown_on_postgres() {
    assert_history_shown(Setup::postgres()).await;
}

#[tokio::test]
async fn an_id_is_not_guessed() {
    let setup = Setup::sqlite();
    let missing = setup.run_refused(&["tasks", "list"]).await;
    assert!(missing.contains("taskbridge.db: there is no such file: no server has run"), "{missing}");
    assert!(!setup.dir.path("state/taskbridge.db").exists(), "nothing is made");
    let (mut server, client) = setup.serve().await;
    let task = start(&client, "x", 0).await;
    client.result(&task).await.unwrap();
    let unknown = setup.run_refused(&["tasks", "cancel", "nobody"]).await;
    assert!(unknown.contains("no task `nobody` in ") && unknown.contains("tasks list"), "{unknown}");
    let short = setup.run_refused(&["tasks", "show", &task[..3]]).await;
    assert!(short.contains("too short") && short.contains("4 characters"), "{short}");
    // Two histories whose rows were deleted.
    let entry = |id: &str| {
        format!(
            "INSERT INTO entries (task, version, at, replica, what)
             VALUES ('{id}', 1, 9000000000000, 'r', '{{\"what\":[\"queued\"]}}');"
        )
    };
    setup.execute_sql(&format!("{}{}", entry("0000-one"), entry("0000-other"))).await;
    let ambiguous = setup.run_refused(&["tasks", "show", "0000-o"]).await;
    assert!(ambiguous.contains("several tasks begin with `0000-o`: 0000-one, 0000-other"), "{ambiguous}");
    let deleted = setup.run_ok(&["tasks", "show", "0000-one"]).await;
    assert!(
        deleted.contains("only its history is left") && deleted.contains("waits for a free slot"),
        "{deleted}"
    );
    let deleted = setup.run_refused(&["tasks", "cancel", "0000-one"]).await;
    assert!(deleted.contains("was deleted"), "{deleted}");
    assert_eq!(server.stop(), Some(0));
    setup.execute_sql("PRAGMA user_version = 2").await;
    let older = setup.run_refused(&["tasks", "list"]).await;
    assert!(older.contains("version 2") && older.contains("start a server of this version"), "{older}");
    setup.execute_sql("PRAGMA user_version = 99; UPDATE taskbridge_schema SET oldest = 99").await;
    let newer = setup.run_refused(&["store", "check"]).await;
    assert!(newer.contains("version 99") && newer.contains("newer taskbridge"), "{newer}");
}

#[tokio::test]
async fn unmigrated_schema_is_left_alone() {
    let setup = Setup::postgres();
    let refused = setup.run_refused(&["tasks", "list"]).await;
    assert!(refused.contains("has version 0") && refused.contains("taskbridge migrate"), "{refused}");
    let client = shared_client().await;
    let exists = "SELECT to_regnamespace($1) IS NOT NULL";
    assert!(!client.query_one(exists, &[&setup.schema]).await.unwrap().get::<_, bool>(0));
}

async fn shared_client() -> tokio_postgres::Client {
    crate::support::postgres::shared().client("public").await
}

/// `tasks retry-now` does not wait for the next poll, which is an hour away.
#[tokio::test]
async fn retry_now_polls_job_at_once() {
    // The replica that watches the group polls an hour later.
    let poll_intervals = "quickest_look = \"1h\"\nslowest_look = \"1h\"";
    let setup = Setup::with(BASICS, poll_intervals, None);
    let (_server, client) = setup.serve().await;
    let task = start(&client, "found", 1_000).await;
    setup.wait_for_task(&task, |view| view["job"] == "open").await;
    let due = setup.run_ok(&["tasks", "retry-now", &task]).await;
    assert!(due.starts_with(&format!("{task}: due now; its job is polled")), "{due}");
    // A poll may come before the job's end.
    while setup.list_tasks(&[]).await[0]["state"] == "working" {
        setup.run(&["tasks", "retry-now", &task]).await;
    }
    assert_eq!(text(&client.result(&task).await.unwrap()), "found");
    let output = setup.run_ok(&["tasks", "show", &task]).await;
    assert!(output.contains("retry requested by an operator"), "{output}");
}

#[tokio::test]
async fn disabled_history_is_not_shown() {
    let setup = Setup::with(&format!("{BASICS}history = \"0s\"\n"), "", None);
    let (mut server, client) = setup.serve().await;
    let task = start(&client, "x", 0).await;
    client.result(&task).await.unwrap();
    let output = setup.run_ok(&["tasks", "show", &task]).await;
    assert!(output.contains("no history: [store] history is \"0s\""), "{output}");
    assert_eq!(server.stop(), Some(0));
}
