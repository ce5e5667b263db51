//! The same calls through every protocol path: tasks of 2025-11-25, the tasks extension of 2026-07-28, and
//! plain calls of both generations. Each path has its own store. Responses mean the same, and the resulting
//! rows are equal except for [`DIFFERENCES`].
//!
//! The comparison leaves out what differs between any two runs: ids, keys, times, versions, and the origin
//! of a call (session, progress token, stream of a question).

mod call_path;
mod rows;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{BASICS, TestApp, TestDir};
use call_path::{Call, CallPath};
use rows::Rows;

/// Allowed differences between the paths, with the reason for each.
const DIFFERENCES: [Difference; 4] = [
    Difference {
        scenario: "a cancel",
        path: CallPath::EXTENSION,
        // In 2025-11-25 a task is cancelled before the request is answered. The extension only requests the
        // cancellation, so the job determines the final state.
        equalize: |rows, _| {
            let [row] = rows.as_mut_slice() else { panic!("one row") };
            assert_eq!((&row["message"], &row["output"]), (&json!("cancelled on request"), &json!({})));
            row["message"] = json!("cancelled by request");
            row["output"] = Value::Null;
        },
    },
    Difference {
        scenario: "a cancel that the job outruns",
        path: CallPath::EXTENSION,
        // Same reason: the extension only requests cancellation, so the caller sees how the job ended.
        equalize: |rows, _| {
            let [row] = rows.as_mut_slice() else { panic!("one row") };
            assert_eq!(row["state"], json!({"ended": "succeeded"}));
            assert_eq!(row["output"]["content"][0]["text"], "done");
            row["state"] = json!({"ended": "cancelled"});
            row["message"] = json!("cancelled by request");
            row["output"] = Value::Null;
        },
    },
    Difference {
        scenario: "a consent",
        path: "of 2026-07-28",
        // In 2026-07-28 the consent is requested before a task exists, and the answer arrives with the call.
        // Only the name of the call remains, under which a duplicate of the call finds the same task.
        equalize: |rows, first| {
            let [row] = rows.as_mut_slice() else { panic!("one row") };
            assert_eq!((row.get("questions"), &row["once"]), (None, &json!(["nonce"])));
            row["once"] = json!([]);
            row["questions"] = first[0]["questions"].clone();
        },
    },
    Difference {
        scenario: "a consent that is not given",
        path: "of 2026-07-28",
        // No task existed yet, so no row remains.
        equalize: |rows, first| {
            assert_eq!(*rows, Vec::<Value>::new());
            assert_eq!(
                first[0]["job"],
                json!({"closed": {}}),
                "nor was a job started of the task that there was"
            );
            rows.extend_from_slice(first);
        },
    },
];

/// One allowed difference.
struct Difference {
    scenario: &'static str,
    /// Part of the names of the paths that differ from the first path.
    path: &'static str,
    /// Makes the rows of such a path equal to those of the first path.
    equalize: fn(&mut Vec<Value>, &[Value]),
}

/// Short waits, and companion tools for every caller.
const WAITS: &str = "[server]\ncall_budget = \"400ms\"\nquick_wait = \"50ms\"\ncompanion_tools = \"always\"";

const CONFIG: &str = r#"
[backends.engine]
kind = "sim"

[tools.job]
backend = "engine"
target = { steps = 2, notes = ["half", "whole"] }
input_schema = { type = "object" }

[tools.fails]
backend = "engine"
target = { outcome = "fail", text = "the disk is full", delay_ms = 100 }
input_schema = { type = "object" }

[tools.refused]
backend = "engine"
target = { outcome = "refuse", text = "no such cluster" }

[tools.breaks]
backend = "engine"
target = { outcome = "gone", delay_ms = 100 }

[tools.stubborn]
backend = "engine"
target = { delay_ms = 4000, ignore_cancel = true }

[tools.typed]
backend = "engine"
target = { structured = { rows = 3 }, delay_ms = 100 }
output_schema = { type = "object", required = ["rows"], properties = { rows = { type = "integer" } } }

[tools.mistyped]
backend = "engine"
target = { structured = { rows = "three" }, delay_ms = 100 }
output_schema = { type = "object", required = ["rows"], properties = { rows = { type = "integer" } } }

[tools.asks]
backend = "engine"
target = { delay_ms = 100, question = { message = "Which colour?", at_once = true, schema = { type = "object", required = ["colour"], properties = { colour = { type = "string" }, shade = { type = "string", default = "dark" } } } } }

[tools.consents]
backend = "engine"
target = { delay_ms = 100 }
confirm = "Go?"

[tools.line]
backend = "engine"
target = { delay_ms = 100 }
max_running = 1
input_schema = { type = "object" }

[tools.secrets]
backend = "engine"
target = { delay_ms = 100 }
concurrency_group = "house"
[tools.secrets.parameters]
text = { type = "string", default = "opened" }
document = { type = "file" }
token = { type = "string", sensitive = true }

[tools.holds]
backend = "engine"
concurrency_group = "house"
[tools.holds.target]
question = { message = "Done?", at_once = true }

[tools.full]
backend = "engine"
target = {}
concurrency_group = "house"
when_full = "refuse"
"#;

type Scenario = for<'a> fn(&'a CallPath, &'a TestApp) -> BoxFuture<'a, Vec<Value>>;

/// The scenarios: each with its name, the final states of its tasks, and the calls. A scenario returns the
/// responses that the caller got, which must be the same on all paths.
const SCENARIOS: [(&str, &[&str], Scenario); 18] = [
    ("a call as a task", &["succeeded"], |path, _| {
        Box::pin(async { vec![path.run(Call::of("job", json!({"delay_ms": 700}))).await] })
    }),
    ("a quick call", &["succeeded"], |path, _| {
        Box::pin(async { vec![path.run(Call::of("job", json!({}))).await] })
    }),
    ("a plain call within the budget", &["succeeded"], |path, _| {
        Box::pin(async { vec![path.run(Call::plain("job", json!({"delay_ms": 100}))).await] })
    }),
    ("a plain call that outlives the budget", &["succeeded"], |path, _| {
        Box::pin(async {
            let state = path.begin(Call::plain("job", json!({"delay_ms": 5000}))).await;
            state.task();
            vec![path.end(state, &Value::Null).await]
        })
    }),
    ("a job that fails", &["failed"], |path, _| {
        Box::pin(async { vec![path.run(Call::of("fails", json!({}))).await] })
    }),
    ("a job that the engine refuses", &["failed"], |path, _| {
        Box::pin(async { vec![path.run(Call::plain("refused", json!({}))).await] })
    }),
    ("a job that breaks", &["broken"], |path, _| {
        Box::pin(async { vec![path.run(Call::of("breaks", json!({}))).await] })
    }),
    ("a cancel", &["cancelled"], |path, app| {
        Box::pin(async {
            let state = path.begin(Call::of("fails", json!({"delay_ms": 60_000}))).await;
            Rows::wait_until_running(app).await;
            path.cancel(state.task()).await;
            vec![path.end(state, &Value::Null).await]
        })
    }),
    ("a cancel that the job outruns", &["cancelled"], |path, app| {
        Box::pin(async {
            let state = path.begin(Call::of("stubborn", json!({}))).await;
            Rows::wait_until_running(app).await;
            path.cancel(state.task()).await;
            path.end(state, &Value::Null).await;
            vec![]
        })
    }),
    ("an answered question", &["succeeded"], |path, _| {
        Box::pin(async {
            let state = path.begin(Call::of("asks", json!({}))).await;
            vec![path.end(state, &json!({"action": "accept", "content": {"colour": "blue"}})).await]
        })
    }),
    ("a declined question", &["failed"], |path, _| {
        Box::pin(async {
            let state = path.begin(Call::plain("asks", json!({}))).await;
            vec![path.end(state, &json!({"action": "decline"})).await]
        })
    }),
    ("a consent", &["succeeded"], |path, _| {
        Box::pin(async {
            let state = path.begin(Call::of("consents", json!({}))).await;
            vec![path.end(state, &json!({"action": "accept", "content": {}})).await]
        })
    }),
    ("a consent that is not given", &["cancelled"], |path, _| {
        Box::pin(async {
            let state = path.begin(Call::of("consents", json!({}))).await;
            let result = path.end(state, &json!({"action": "decline"})).await;
            assert!(result == "cancelled" || result["is_error"] == true, "{result}");
            vec![]
        })
    }),
    ("a typed result", &["succeeded", "failed"], |path, _| {
        Box::pin(async {
            vec![
                path.run(Call::of("typed", json!({}))).await,
                path.run(Call::plain("mistyped", json!({}))).await,
            ]
        })
    }),
    ("a file and a secret", &["succeeded", "succeeded"], |path, app| {
        Box::pin(async {
            let holder = path.begin(Call::of("holds", json!({}))).await;
            let document = json!({"content": "a;b", "name": "list.csv"});
            let arguments = json!({"document": document, "token": "hunter2"});
            let waiting = path.begin(Call::of("secrets", arguments)).await;
            waiting.task();
            // The job spec is in the row only while the task waits.
            let queued_row = Rows::read(app).last();
            assert!(!queued_row.to_string().contains("hunter2") && !queued_row.to_string().contains("a;b"));
            assert_eq!(queued_row["job"]["pending"]["spec"]["sealed"], "set");
            let yes = json!({"action": "accept", "content": {}});
            vec![queued_row, path.end(holder, &yes).await, path.end(waiting, &yes).await]
        })
    }),
    ("a key", &["succeeded"], |path, _| {
        Box::pin(async {
            let call = || Call::of("job", json!({"delay_ms": 5000})).once("k");
            let first = path.begin(call()).await;
            let second = path.begin(call()).await;
            assert_eq!(first.task(), second.task());
            let other = Call::of("job", json!({"delay_ms": 1})).once("k");
            vec![path.end(first, &Value::Null).await, path.run(other).await]
        })
    }),
    ("a line", &["succeeded", "succeeded"], |path, _| {
        Box::pin(async {
            let call = |text| Call::of("line", json!({"delay_ms": 500, "text": text}));
            let (one, two) = (path.begin(call("one")).await, path.begin(call("two")).await);
            vec![path.end(two, &Value::Null).await, path.end(one, &Value::Null).await]
        })
    }),
    ("a full house", &["succeeded"], |path, _| {
        Box::pin(async {
            let holder = path.begin(Call::of("holds", json!({}))).await;
            let refused = path.run(Call::of("full", json!({}))).await;
            vec![refused, path.end(holder, &json!({"action": "accept", "content": {}})).await]
        })
    }),
];

/// Runs every scenario on one path. Returns the caller's responses and the resulting rows of each scenario.
async fn run_scenarios(name: &'static str) -> Vec<(Vec<Value>, Vec<Value>)> {
    let dir = TestDir::new(&format!("{}{CONFIG}", BASICS.replace("[server]", WAITS)));
    let app = TestApp { server: dir.serve(), dir };
    let path = CallPath::open(name, app.server.url()).await;
    let (mut results, mut before) = (Vec::new(), 0);
    for (_, _, scenario) in SCENARIOS {
        let responses = scenario(&path, &app).await;
        let rows = Rows::wait_until_closed(&app).await.after(before);
        before += rows.len();
        results.push((responses, rows));
    }
    results
}

#[tokio::test]
async fn every_way_leaves_the_same_rows() {
    let mut runs = JoinSet::new();
    for name in CallPath::ALL {
        runs.spawn(async move { (name, run_scenarios(name).await) });
    }
    let mut results = runs.join_all().await;
    results.sort_by_key(|(name, _)| CallPath::ALL.iter().position(|path| path == name));
    let mut used = [false; DIFFERENCES.len()];
    let (_, first) = results.remove(0);
    for ((scenario, expected_states, _), (responses, rows)) in SCENARIOS.iter().zip(&first) {
        let states: Vec<_> = rows.iter().map(|row| row["state"]["ended"].as_str().unwrap()).collect();
        assert_eq!(states, *expected_states, "{scenario}: {responses:?}");
        assert!(rows.iter().all(|row| row.get("undelivered").is_none()), "{scenario}: somebody was told");
    }
    for (name, other) in results {
        for (n, (scenario, _, _)) in SCENARIOS.iter().enumerate() {
            let (responses, mut rows) = other[n].clone();
            for (difference, used) in DIFFERENCES.iter().zip(&mut used) {
                if difference.scenario == *scenario && name.contains(difference.path) {
                    *used = true;
                    (difference.equalize)(&mut rows, &first[n].1);
                }
            }
            assert_same(&first[n].0, &responses, &format!("{scenario}, {name}: what the caller is told"));
            assert_same(&first[n].1, &rows, &format!("{scenario}, {name}: the rows"));
        }
    }
    assert_eq!(used, [true; DIFFERENCES.len()], "a difference that is none any more");
}

fn assert_same(expected: &[Value], actual: &[Value], label: &str) {
    let show = |values: &[Value]| serde_json::to_string_pretty(values).unwrap();
    assert!(expected == actual, "{label}:\n{}\nand by the first way:\n{}", show(actual), show(expected));
}
