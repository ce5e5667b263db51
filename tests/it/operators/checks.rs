//! Tests for `taskbridge store check`: SQL plants one breach of an invariant at a time, in both stores, and
//! the check reports exactly that one.

use serde_json::json;

use super::{Setup, start};

/// A breach: the SQL that plants it, with `ID` for the task, and the words of the finding. `open` selects the
/// task whose job is open; otherwise it is the task that succeeded.
struct Breach {
    open: bool,
    sql: &'static str,
    expected: &'static [&'static str],
}

const fn on_ended(sql: &'static str, expected: &'static [&'static str]) -> Breach {
    Breach { open: false, sql, expected }
}

const fn on_open(sql: &'static str, expected: &'static [&'static str]) -> Breach {
    Breach { open: true, sql, expected }
}

const BREACHES: [Breach; 26] = [
    on_ended("UPDATE tasks SET body = '{}' WHERE id = 'ID'", &["task ID: the task in row", "cannot be understood"]),
    on_ended("UPDATE tasks SET owner = 'eve' WHERE id = 'ID'", &["something else than `owner`"]),
    on_ended("UPDATE tasks SET digest = 'd', waiting_until = 1 WHERE id = 'ID'", &["than `digest`, `waiting_until`"]),
    on_open("UPDATE tasks SET handle = 'other' WHERE id = 'ID'", &["something else than `handle`", "due_at = 0"]),
    on_open("UPDATE tasks SET due_at = NULL WHERE id = 'ID'", &["something else than `due_at`"]),
    on_open("DELETE FROM slots WHERE task = 'ID'", &["something else than `slots`"]),
    on_ended("INSERT INTO slots (slot, task) VALUES ('tool:x', 'ID')", &["something else than `slots`"]),
    on_ended("INSERT INTO slots (slot, task) VALUES ('tool:one_at_a_time', 'ID')", &[
        "slot tool:one_at_a_time: 2 tasks hold it, and the config has 1 of it",
        "none starts until enough of them have ended",
    ]),
    on_ended("DELETE FROM outputs WHERE task = 'ID'", &["it succeeded, and no result is kept", "cannot have the result"]),
    on_open("INSERT INTO outputs (task, body) VALUES ('ID', '{}')", &["a result is kept, and it has not ended"]),
    on_ended(
        "UPDATE tasks SET lease_holder = 'r', lease_until = 9000000000000 WHERE id = 'ID'",
        &["r has it leased until 2255", "nobody else acts"],
    ),
    on_open("UPDATE tasks SET lease_holder = NULL, lease_until = 5 WHERE id = 'ID'", &["its lease has no holder"]),
    on_ended("UPDATE tasks SET version = 0 WHERE id = 'ID'", &["its version is 0"]),
    on_open("UPDATE tasks SET body = replace(body, '\"due_at\":', '\"was_due_at\":') WHERE id = 'ID'", &[
        "its job may run, and nothing is due",
        "nobody will ever act on it again",
    ]),
    on_ended("UPDATE tasks SET body = replace(body, '\"ended_at\":', '\"was_ended_at\":') WHERE id = 'ID'", &[
        "whether it has ended and when do not agree",
    ]),
    on_open("UPDATE tasks SET body = replace(body, '\"state\":\"working\"', '\"state\":\"input_required\"') WHERE id = 'ID'", &[
        "its state and its open questions do not agree",
    ]),
    on_ended(
        "UPDATE tasks SET body = replace(body, '\"state\":{\"ended\":\"succeeded\"}', '\"state\":\"working\"') WHERE id = 'ID'",
        &["its job is over, and it has not ended", "waits for ever"],
    ),
    on_ended("INSERT INTO groups (backend, grp, holder, until) VALUES ('b', 'g', 'r', 9000000000000)", &["group ", "watches it until 2255"]),
    on_ended("UPDATE entries SET version = 4711 WHERE task = 'ID'", &["tells of version 4711", "old copy of it was put back"]),
    on_ended(
        "INSERT INTO sessions (nonce, forget_after, settings) VALUES ('noncenonce', 9000000000000,
         '{\"held\":[{\"task\":\"nowhere\",\"key\":\"q1\",\"n\":1,\"id\":\"x\",\"since\":1,\"stage\":\"working\",\"every\":{\"secs\":1,\"nanos\":0}}]}')",
        &["session noncenon: its client holds a task", "nowhere, which there never was"],
    ),
    on_ended(
        "INSERT INTO sessions (nonce, forget_after, settings) VALUES ('noncenonce', 9000000000000, '{\"level\":7}')",
        &["session noncenon: what it has set cannot be understood"],
    ),
    on_ended("UPDATE entries SET what = '{\"what\":7}' WHERE task = 'ID'", &[
        "history of task ID: an entry cannot be understood",
        "leaves it out",
    ]),
    on_ended("INSERT INTO notices (id, receiver, since, due_at, body) VALUES ('n', 'ci', 1, 1, '{}')", &[
        "notice n: for ci: the notice n cannot be understood",
        "never sent",
    ]),
    on_ended(
        "INSERT INTO notices (id, receiver, since, due_at, body)
         VALUES ('n', 'ci', 1, 9000000000000, '{\"task\":\"t\",\"tool\":\"x\",\"at\":1,\"ended\":\"succeeded\"}')",
        &["notice n: for ci: it is due at 2255", "hears nothing before that"],
    ),
    on_ended(
        "INSERT INTO deliveries (task, key, n, until, over) VALUES ('ID', 'q1', 1, 9999999999999, FALSE)",
        &["question q1 of task ID: a stream has it until 2286", "no other stream asks it"],
    ),
    on_ended("UPDATE entries SET at = 1000000000000", &["history: its first entry is of 2001", "start a server"]),
];

/// Breaches that can only occur where the database does not prevent them.
const ORPHANS: [(&str, &str); 4] = [
    ("INSERT INTO slots (slot, task) VALUES ('s', 'nobody')", "slots of task nobody: there is no such task"),
    (
        "INSERT INTO outputs (task, body) VALUES ('nobody', '{}')",
        "outputs of task nobody: there is no such task",
    ),
    (
        "INSERT INTO once (scope, key, digest, task) VALUES ('s', 'k', 'd', 'nobody')",
        "once of task nobody: there is no such task",
    ),
    (
        "INSERT INTO deliveries (task, key, n, until, over) VALUES ('nobody', 'q1', 1, 0, FALSE)",
        "deliveries of task nobody: there is no such task",
    ),
];

const TABLES: [&str; 9] =
    ["tasks", "outputs", "slots", "once", "deliveries", "groups", "sessions", "entries", "notices"];

/// Returns SQL that copies all tables, so that they can be restored after each breach.
fn backup_sql() -> String {
    TABLES.map(|table| format!("CREATE TABLE kept_{table} AS SELECT * FROM {table};")).concat()
}

/// Returns SQL that restores all tables, because the next check would report the planted rows again.
fn restore_sql(on_postgres: bool) -> String {
    let delete = TABLES.iter().rev().map(|table| format!("DELETE FROM {table};"));
    let identity = |table: &str| on_postgres && ["tasks", "entries"].contains(&table);
    let insert = TABLES.iter().map(|table| {
        let overriding = if identity(table) { "OVERRIDING SYSTEM VALUE" } else { "" };
        format!("INSERT INTO {table} {overriding} SELECT * FROM kept_{table};")
    });
    delete.chain(insert).collect()
}

async fn assert_breaches_found(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    let done = start(&client, "x", 0).await;
    client.result(&done).await.unwrap();
    let running = client.start("one_at_a_time", json!({"delay_ms": 3_600_000})).await.unwrap();
    setup.wait_for_task(&running, |view| view["job"] == "open").await;
    let clean = setup.run_ok(&["store", "check"]).await;
    assert!(clean.ends_with(": 2 tasks, nothing wrong\n"), "{clean}");
    server.kill();
    let on_postgres = setup.schema.is_some();
    setup.execute_sql(&backup_sql()).await;
    for Breach { open, sql, expected } in &BREACHES {
        let id = if *open { &running } else { &done };
        setup.execute_sql(&sql.replace("ID", id)).await;
        let checked = setup.run(&["store", "check"]).await;
        assert_eq!((checked.code, checked.stderr.as_str()), (Some(1), ""), "{sql}: {}", checked.stdout);
        for word in *expected {
            let word = word.replace("ID", id);
            assert!(checked.stdout.contains(&word), "no {word:?} in {}", checked.stdout);
        }
        assert!(checked.stdout.contains("\n  means: ") && checked.stdout.contains("\n  do:    "));
        setup.execute_sql(&restore_sql(on_postgres)).await;
    }
    for (sql, expected) in ORPHANS {
        if on_postgres {
            // The database rejects these rows unless this setting disables its constraints.
            setup.execute_sql(&format!("SET session_replication_role = replica; {sql}")).await;
        } else {
            setup.execute_sql(sql).await;
        }
        let checked = setup.run(&["store", "check"]).await;
        assert!(checked.code == Some(1) && checked.stdout.contains(expected), "{expected}: {checked:?}");
        assert!(checked.stdout.ends_with(": 2 tasks, 1 finding\n"), "{}", checked.stdout);
        setup.execute_sql(&restore_sql(on_postgres)).await;
    }
    let clean = setup.run_ok(&["store", "check"]).await;
    assert!(clean.ends_with(": 2 tasks, nothing wrong\n"), "{clean}");
}

#[tokio::test]
async fn breaches_are_found_on_sqlite() {
    assert_breaches_found(Setup::sqlite()).await;
}

#[tokio::test]
async fn breaches_are_found_on_postgres() {
    assert_breaches_found(Setup::postgres()).await;
}
