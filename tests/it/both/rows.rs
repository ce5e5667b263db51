//! [`Rows`]: the tasks in a server's database with their related rows, without values that differ between any
//! two runs.

use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};

use crate::support::TestApp;

/// Timeout for jobs to end after their callers have finished.
const TIMEOUT: Duration = Duration::from_secs(20);

/// All rows, oldest first.
pub(super) struct Rows(Vec<Value>);

impl Rows {
    /// Reads the rows of a running server.
    pub(super) fn read(app: &TestApp) -> Self {
        let path = app.dir.path("state/taskbridge.db");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let texts = |sql: &str, id: &str| -> Vec<String> {
            let mut query = database.prepare(sql).unwrap();
            let values = query.query_map([id], |row| row.get(0)).unwrap();
            values.map(Result::unwrap).collect()
        };
        let mut query = database.prepare("SELECT id, body FROM tasks ORDER BY n").unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows = rows.map(Result::unwrap).map(|(id, body): (String, String)| {
            let mut row = normalize(serde_json::from_str(&body).unwrap());
            let output = texts("SELECT body FROM outputs WHERE task = ?", &id).pop();
            row["output"] = output.map_or(Value::Null, |output| serde_json::from_str(&output).unwrap());
            row["held"] = texts("SELECT slot FROM slots WHERE task = ? ORDER BY slot", &id).into();
            row["once"] = texts(
                "SELECT iif(scope = 'nonce', scope, scope || ' ' || key) FROM once WHERE task = ? ORDER BY key",
                &id,
            )
            .into();
            row
        });
        Self(rows.collect())
    }

    /// Waits until every job is closed, and returns the rows.
    pub(super) async fn wait_until_closed(app: &TestApp) -> Self {
        Self::wait_until(app, "a job never ends", |rows| {
            rows.iter().all(|row| row["job"].get("closed").is_some())
        })
        .await
    }

    /// Waits until the job of the newest call runs.
    pub(super) async fn wait_until_running(app: &TestApp) {
        let is_running = |rows: &[Value]| rows.last().is_some_and(|row| row["job"].get("open").is_some());
        Self::wait_until(app, "a job never starts", is_running).await;
    }

    /// Waits until the rows satisfy a condition, and returns them.
    async fn wait_until(app: &TestApp, failure: &str, condition: impl Fn(&[Value]) -> bool) -> Self {
        let polls = async {
            loop {
                let rows = Self::read(app);
                if condition(&rows.0) {
                    return rows;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(TIMEOUT, polls).await {
            Ok(rows) => rows,
            Err(_) => panic!("{failure}: {:#?}", Self::read(app).last()),
        }
    }

    /// Returns the rows without the first `count`.
    pub(super) fn after(self, count: usize) -> Vec<Value> {
        self.0.into_iter().skip(count).collect()
    }

    /// Returns the newest row.
    pub(super) fn last(mut self) -> Value {
        self.0.pop().expect("there is a row")
    }
}

/// Returns a row without values that differ between runs: ids and times become `set`.
fn normalize(mut row: Value) -> Value {
    for name in ["id", "key", "created_at", "changed_at", "ended_at", "due_at"] {
        set(&mut row, name);
    }
    for name in ["session", "progress_token"] {
        row["origin"].as_object_mut().unwrap().remove(name);
    }
    let job = row["job"].as_object_mut().unwrap().values_mut().next().unwrap();
    for name in ["handle", "started_at", "not_before"] {
        set(job, name);
    }
    if job.get("spec").is_some() {
        set(&mut job["spec"], "sealed");
    }
    if let Some(cancel) = row.get_mut("cancel") {
        // A poll can find the job stopped before the engine's answer to the cancellation is written.
        for name in ["at", "not_before", "taken"] {
            set(cancel, name);
        }
    }
    if let Some(undelivered) = row.get_mut("undelivered") {
        set(undelivered, "digest");
        set(undelivered, "waiting_until");
    }
    // That a result was read is written behind the answer.
    row.as_object_mut().unwrap().remove("result_read_at");
    for note in members(&mut row, "notes") {
        set(note, "seen_at");
    }
    for question in members(&mut row, "questions") {
        set(question, "at");
        // The time when the engine accepted the answer can be written after the job's end.
        question.as_object_mut().unwrap().remove("settled_at");
    }
    row
}

fn members<'a>(row: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    row.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Replaces a member by `set` if it exists.
fn set(object: &mut Value, name: &str) {
    let members: &mut Map<String, Value> = object.as_object_mut().unwrap();
    if let Some(member) = members.get_mut(name) {
        *member = json!("set");
    }
}
