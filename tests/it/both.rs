//! The same calls through every protocol path: tasks of 2025-11-25, the tasks extension of 2026-07-28, and
//! plain calls of both generations. Each path has its own store. Responses mean the same, and the resulting
//! rows are equal except for [`DIFFERENCES`].
//!
//! The comparison leaves out what differs between any two runs: ids, keys, times, versions, and the origin
//! of a call (session, progress token, stream of a question).

mod rows;
mod ways;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{BASICS, Place, TestApp};
use rows::Rows;
use ways::{Call, Way};

/// Allowed differences between the paths, with the reason for each.
const DIFFERENCES: [Difference; 4] = [
    Difference {
        scenario: "a cancel",
        way: Way::EXTENSION,
        // In 2025-11-25 a task is cancelled before the request is answered. The extension only requests the
        // cancellation, so the job determines the final state.
        made_equal: |rows, _| {
            let [row] = rows.as_mut_slice() else { panic!("one row") };
            assert_eq!((&row["message"], &row["output"]), (&json!("cancelled on request"), &json!({})));
            row["message"] = json!("cancelled by request");
            row["output"] = Value::Null;
        },
    },
    Difference {
        scenario: "a cancel that the job outruns",
        way: Way::EXTENSION,
        // Same reason: the extension only requests cancellation, so the caller sees how the job ended.
        made_equal: |rows, _| {
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
        way: "of 2026-07-28",
        // In 2026-07-28 the consent is requested before a task exists, and the answer arrives with the call.
        // Only the name of the call remains, under which a duplicate of the call finds the same task.
        made_equal: |rows, first| {
            let [row] = rows.as_mut_slice() else { panic!("one row") };
            assert_eq!((row.get("questions"), &row["once"]), (None, &json!(["nonce"])));
            row["once"] = json!([]);
            row["questions"] = first[0]["questions"].clone();
        },
    },
    Difference {
        scenario: "a consent that is not given",
        way: "of 2026-07-28",
        // No task existed yet, so no row remains.
        made_equal: |rows, first| {
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
    way: &'static str,
    /// Makes the rows of such a path equal to those of the first path.
    made_equal: fn(&mut Vec<Value>, &[Value]),
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

type Scenario = for<'a> fn(&'a Way, &'a TestApp) -> BoxFuture<'a, Vec<Value>>;

/// The scenarios: each with its name, the final states of its tasks, and the calls. A scenario returns the
/// responses that the caller got, which must be the same on all paths.
const SCENARIOS: [(&str, &[&str], Scenario); 18] = [
    ("a call as a task", &["succeeded"], |way, _| {
        Box::pin(async { vec![way.run(Call::of("job", json!({"delay_ms": 700}))).await] })
    }),
    ("a quick call", &["succeeded"], |way, _| {
        Box::pin(async { vec![way.run(Call::of("job", json!({}))).await] })
    }),
    ("a plain call within the budget", &["succeeded"], |way, _| {
        Box::pin(async { vec![way.run(Call::plain("job", json!({"delay_ms": 100}))).await] })
    }),
    ("a plain call that outlives the budget", &["succeeded"], |way, _| {
        Box::pin(async {
            let begun = way.begin(Call::plain("job", json!({"delay_ms": 1200}))).await;
            begun.task();
            vec![way.end(begun, &Value::Null).await]
        })
    }),
    ("a job that fails", &["failed"], |way, _| {
        Box::pin(async { vec![way.run(Call::of("fails", json!({}))).await] })
    }),
    ("a job that the engine refuses", &["failed"], |way, _| {
        Box::pin(async { vec![way.run(Call::plain("refused", json!({}))).await] })
    }),
    ("a job that breaks", &["broken"], |way, _| {
        Box::pin(async { vec![way.run(Call::of("breaks", json!({}))).await] })
    }),
    ("a cancel", &["cancelled"], |way, app| {
        Box::pin(async {
            let begun = way.begin(Call::of("fails", json!({"delay_ms": 60_000}))).await;
            Rows::running(app).await;
            way.cancel(begun.task()).await;
            vec![way.end(begun, &Value::Null).await]
        })
    }),
    ("a cancel that the job outruns", &["cancelled"], |way, app| {
        Box::pin(async {
            let begun = way.begin(Call::of("stubborn", json!({}))).await;
            Rows::running(app).await;
            way.cancel(begun.task()).await;
            way.end(begun, &Value::Null).await;
            vec![]
        })
    }),
    ("an answered question", &["succeeded"], |way, _| {
        Box::pin(async {
            let begun = way.begin(Call::of("asks", json!({}))).await;
            vec![way.end(begun, &json!({"action": "accept", "content": {"colour": "blue"}})).await]
        })
    }),
    ("a declined question", &["failed"], |way, _| {
        Box::pin(async {
            let begun = way.begin(Call::plain("asks", json!({}))).await;
            vec![way.end(begun, &json!({"action": "decline"})).await]
        })
    }),
    ("a consent", &["succeeded"], |way, _| {
        Box::pin(async {
            let begun = way.begin(Call::of("consents", json!({}))).await;
            vec![way.end(begun, &json!({"action": "accept", "content": {}})).await]
        })
    }),
    ("a consent that is not given", &["cancelled"], |way, _| {
        Box::pin(async {
            let begun = way.begin(Call::of("consents", json!({}))).await;
            let told = way.end(begun, &json!({"action": "decline"})).await;
            assert!(told == "cancelled" || told["is_error"] == true, "{told}");
            vec![]
        })
    }),
    ("a typed result", &["succeeded", "failed"], |way, _| {
        Box::pin(async {
            vec![
                way.run(Call::of("typed", json!({}))).await,
                way.run(Call::plain("mistyped", json!({}))).await,
            ]
        })
    }),
    ("a file and a secret", &["succeeded", "succeeded"], |way, app| {
        Box::pin(async {
            let holder = way.begin(Call::of("holds", json!({}))).await;
            let document = json!({"content": "a;b", "name": "list.csv"});
            let arguments = json!({"document": document, "token": "hunter2"});
            let waiting = way.begin(Call::of("secrets", arguments)).await;
            waiting.task();
            // The job spec is in the row only while the task waits.
            let in_line = Rows::of(app).last();
            assert!(!in_line.to_string().contains("hunter2") && !in_line.to_string().contains("a;b"));
            assert_eq!(in_line["job"]["pending"]["spec"]["sealed"], "set");
            let yes = json!({"action": "accept", "content": {}});
            vec![in_line, way.end(holder, &yes).await, way.end(waiting, &yes).await]
        })
    }),
    ("a key", &["succeeded"], |way, _| {
        Box::pin(async {
            let call = || Call::of("job", json!({"delay_ms": 1500})).once("k");
            let first = way.begin(call()).await;
            let second = way.begin(call()).await;
            assert_eq!(first.task(), second.task());
            let other = Call::of("job", json!({"delay_ms": 1})).once("k");
            vec![way.end(first, &Value::Null).await, way.run(other).await]
        })
    }),
    ("a line", &["succeeded", "succeeded"], |way, _| {
        Box::pin(async {
            let call = |text| Call::of("line", json!({"delay_ms": 500, "text": text}));
            let (one, two) = (way.begin(call("one")).await, way.begin(call("two")).await);
            vec![way.end(two, &Value::Null).await, way.end(one, &Value::Null).await]
        })
    }),
    ("a full house", &["succeeded"], |way, _| {
        Box::pin(async {
            let holder = way.begin(Call::of("holds", json!({}))).await;
            let refused = way.run(Call::of("full", json!({}))).await;
            vec![refused, way.end(holder, &json!({"action": "accept", "content": {}})).await]
        })
    }),
];

/// Runs every scenario on one path. Returns the caller's responses and the resulting rows of each scenario.
async fn play(name: &'static str) -> Vec<(Vec<Value>, Vec<Value>)> {
    let place = Place::new(&format!("{}{CONFIG}", BASICS.replace("[server]", WAITS)));
    let app = TestApp { server: place.serve(), place };
    let way = Way::open(name, app.server.url()).await;
    let (mut played, mut before) = (Vec::new(), 0);
    for (_, _, scenario) in SCENARIOS {
        let told = scenario(&way, &app).await;
        let rows = Rows::settled(&app).await.after(before);
        before += rows.len();
        played.push((told, rows));
    }
    played
}

#[tokio::test]
async fn every_way_leaves_the_same_rows() {
    let mut playing = JoinSet::new();
    for name in Way::ALL {
        playing.spawn(async move { (name, play(name).await) });
    }
    let mut played = playing.join_all().await;
    played.sort_by_key(|(name, _)| Way::ALL.iter().position(|way| way == name));
    let mut used = [false; DIFFERENCES.len()];
    let (_, first) = played.remove(0);
    for ((scenario, ends, _), (told, rows)) in SCENARIOS.iter().zip(&first) {
        let ended: Vec<_> = rows.iter().map(|row| row["state"]["ended"].as_str().unwrap()).collect();
        assert_eq!(ended, *ends, "{scenario}: {told:?}");
        assert!(rows.iter().all(|row| row.get("undelivered").is_none()), "{scenario}: somebody was told");
    }
    for (name, other) in played {
        for (n, (scenario, _, _)) in SCENARIOS.iter().enumerate() {
            let (told, mut rows) = other[n].clone();
            for (difference, used) in DIFFERENCES.iter().zip(&mut used) {
                if difference.scenario == *scenario && name.contains(difference.way) {
                    *used = true;
                    (difference.made_equal)(&mut rows, &first[n].1);
                }
            }
            same(&first[n].0, &told, &format!("{scenario}, {name}: what the caller is told"));
            same(&first[n].1, &rows, &format!("{scenario}, {name}: the rows"));
        }
    }
    assert_eq!(used, [true; DIFFERENCES.len()], "a difference that is none any more");
}

fn same(one: &[Value], other: &[Value], what: &str) {
    let show = |values: &[Value]| serde_json::to_string_pretty(values).unwrap();
    assert!(one == other, "{what}:\n{}\nand by the first way:\n{}", show(other), show(one));
}
