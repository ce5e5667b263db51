//! A table of lies: answers of the right shape of JSON-RPC with a wrong or a dangerous content. Each row is one
//! lie. None of them ends the program, affects another job of the same message, or reaches a caller unbounded.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::FutureExt as _;
use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Answer, Backend, Error, JobHandle, JobSpec, LogRequest, Observation, Result, Subject};

use crate::world::{LIMIT, World};

/// Most bytes that a caller asks for in a log or an artifact.
const MAX_BYTES: usize = 1000;

/// What must come of a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// The call fails with an error that can be shown.
    Error,
    /// The call has a result that is safe to use.
    Result,
}

/// A row: the method, the name of the lie, its answers in order, and what must come of them.
struct Lie {
    method: &'static str,
    name: &'static str,
    answers: Vec<String>,
    expect: Expect,
}

impl Lie {
    fn row(&self) -> String {
        format!("{} {}", self.method, self.name)
    }
}

fn deep(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Entries of `observe_all`: the other job of the message is polled in any case.
fn entries() -> Vec<Lie> {
    use Expect::{Error, Result};
    let long = "x".repeat(100_000);
    let many = |entry: &str, count| vec![entry; count].join(",");
    let running = |more: String| format!(r#"{{"state":"running",{more}}}"#);
    let succeeded = |output: &str| format!(r#"{{"state":{{"succeeded":{output}}}}}"#);
    let question = r#"{"id":"q","message":"?","schema":{"type":"object"}}"#;
    let rows = [
        ("unknown state", r#"{"state":"exploded"}"#.to_owned(), Error),
        ("state in capitals", r#"{"state":"RUNNING"}"#.to_owned(), Error),
        ("no state", "{}".to_owned(), Error),
        ("null state", r#"{"state":null}"#.to_owned(), Error),
        ("number as state", r#"{"state":1}"#.to_owned(), Error),
        ("two states", r#"{"state":{"succeeded":{},"failed":{}}}"#.to_owned(), Error),
        ("end without output", r#"{"state":"succeeded"}"#.to_owned(), Error),
        ("running with output", r#"{"state":{"running":{}}}"#.to_owned(), Error),
        ("state twice", r#"{"state":"running","state":"gone"}"#.to_owned(), Error),
        ("null entry", "null".to_owned(), Error),
        ("text as entry", "\"running\"".to_owned(), Error),
        ("array as entry", "[]".to_owned(), Error),
        ("deep entry", deep(100_000), Error),
        ("text as progress", running(r#""progress":"half""#.to_owned()), Error),
        ("progress without done", running(r#""progress":{"total":3}"#.to_owned()), Error),
        ("infinite progress", running(r#""progress":{"done":1e999}"#.to_owned()), Error),
        ("negative progress", running(r#""progress":{"done":-5,"total":-1}"#.to_owned()), Result),
        ("message of lines", running(r#""message":"a\nb\u001b[31m\u0000\u202e""#.to_owned()), Result),
        ("long message", running(format!(r#""message":"{long}""#)), Result),
        ("half a surrogate", running(r#""message":"\ud800""#.to_owned()), Error),
        ("number as message", running(r#""message":7"#.to_owned()), Error),
        ("time as text", running(r#""since":"today""#.to_owned()), Error),
        ("far future", running(r#""since":9223372036854775807"#.to_owned()), Result),
        ("time beyond numbers", running(r#""since":99999999999999999999"#.to_owned()), Error),
        ("script as link", running(r#""link":"javascript:alert(1)""#.to_owned()), Result),
        ("link with a password", running(r#""link":"https://user:pass@a.example/""#.to_owned()), Result),
        ("long link", running(format!(r#""link":"https://a.example/{long}""#)), Result),
        ("number as new name", running(r#""renamed_to":7"#.to_owned()), Error),
        ("empty new name", running(r#""renamed_to":"""#.to_owned()), Result),
        ("long new name", running(format!(r#""renamed_to":"{long}""#)), Result),
        ("text as questions", running(r#""questions":"all""#.to_owned()), Error),
        ("question of nothing", running(r#""questions":[{"id":"q","message":"?"}]"#.to_owned()), Error),
        ("many questions", running(format!(r#""questions":[{}]"#, many(question, 1000))), Result),
        ("level of a note", running(r#""notes":[{"n":1,"level":"loud","data":1}]"#.to_owned()), Error),
        ("negative note", running(r#""notes":[{"n":-1,"level":"info","data":1}]"#.to_owned()), Error),
        ("negative log", running(r#""log_bytes":-1"#.to_owned()), Error),
        ("negative wait", running(r#""retry_after":{"secs":-1,"nanos":0}"#.to_owned()), Error),
        ("unknown block", succeeded(r#"{"content":[{"type":"hologram"}]}"#), Error),
        ("text without text", succeeded(r#"{"content":[{"type":"text"}]}"#), Error),
        (
            "many blocks",
            succeeded(&format!(r#"{{"content":[{}]}}"#, many(r#"{"type":"text","text":"x"}"#, 10_000))),
            Result,
        ),
        ("raw beyond blocks", succeeded(r#"{"raw":[0,7,18446744073709551615]}"#), Result),
        ("negative raw", succeeded(r#"{"raw":[-1]}"#), Error),
        ("deep result", succeeded(&format!(r#"{{"structured":{}}}"#, deep(100_000))), Result),
        ("artifact above", succeeded(r#"{"artifacts":[{"name":"../../etc/passwd"}]}"#), Result),
        ("negative artifact", succeeded(r#"{"artifacts":[{"name":"a","size":-1}]}"#), Error),
        ("error of nothing", r#"{"error":{}}"#.to_owned(), Error),
        ("text as error", r#"{"error":"no"}"#.to_owned(), Error),
        ("error beside state", r#"{"error":{"kind":"rejected"},"state":"gone"}"#.to_owned(), Error),
        ("error of no kind", r#"{"error":{"kind":"exploded","message":"m"}}"#.to_owned(), Error),
        ("long error", format!(r#"{{"error":{{"kind":"unavailable","message":"{long}"}}}}"#), Error),
    ];
    let lie = |(name, answer, expect)| Lie { method: "observe", name, answers: vec![answer], expect };
    rows.into_iter().map(lie).collect()
}

/// Whole answers.
fn answers() -> Vec<Lie> {
    use Expect::{Error, Result};
    let long = "x".repeat(100_000);
    let text = |text: &str| vec![format!(r#""result":{text}"#)];
    let error = |text: &str| vec![format!(r#""error":{text}"#)];
    let kind = |kind: &str| error(&format!(r#"{{"code":-32000,"message":"m","data":{{{kind}}}}}"#));
    let part = |data: &str, size: &str| text(&format!(r#"{{"data":"{data}","size":{size}}}"#));
    let parts = |all: &[(&str, &str)]| all.iter().flat_map(|(data, size)| part(data, size)).collect();
    let tool = r#"{"name":"t","input_schema":{},"target":{}}"#;
    let rows: Vec<(&str, &str, Vec<String>, Expect)> = vec![
        ("all", "null", text("null"), Error),
        ("all", "an object", text(r#"{"state":"running"}"#), Error),
        ("all", "too few", text("[]"), Error),
        ("all", "too many", text(r#"[{"state":"running"},{"state":"gone"},{"state":"gone"}]"#), Error),
        ("all", "huge", text(&format!("[{}1]", "1,".repeat(300_000))), Error),
        ("start", "no handle", text("{}"), Error),
        ("start", "empty handle", text(r#"{"handle":""}"#), Error),
        ("start", "null handle", text(r#"{"handle":null}"#), Error),
        ("start", "long handle", text(&format!(r#"{{"handle":"{long}"}}"#)), Error),
        ("start", "handle of lines", text(r#"{"handle":"a\nb\u0000"}"#), Error),
        ("start", "handle twice", text(r#"{"handle":"a","handle":"b"}"#), Error),
        ("start", "unknown first state", text(r#"{"handle":"a","first":{"state":"exploded"}}"#), Error),
        ("start", "an array", text("[]"), Error),
        ("start", "negative wait", kind(r#""kind":"limited","after_ms":-1"#), Error),
        ("start", "wait of an age", kind(r#""kind":"limited","after_ms":18446744073709551615"#), Error),
        ("start", "wait as text", kind(r#""kind":"limited","after_ms":"soon""#), Error),
        ("start", "cannot be cancelled", kind(r#""kind":"unsupported""#), Error),
        ("start", "code as text", error(r#"{"code":"x","message":"m"}"#), Error),
        ("start", "error of lines", error(r#"{"code":1,"message":"a\nb\u001b[31m\u0000"}"#), Error),
        ("find", "false", text("false"), Error),
        ("find", "empty", text("{}"), Error),
        ("find", "long handle", text(&format!(r#"{{"handle":"{long}"}}"#)), Error),
        ("cancel", "a number", text("7"), Result),
        ("cancel", "deep", text(&deep(100_000)), Result),
        ("cancel", "error of everything", error("[1,2,3]"), Error),
        ("forget", "a text", text(r#""no""#), Result),
        ("answer", "perhaps", text(r#""perhaps""#), Error),
        ("answer", "null", text("null"), Error),
        ("answer", "an object", text(r#"{"accepted":true}"#), Error),
        ("log", "null", text("null"), Error),
        ("log", "number", text(r#"{"text":7,"cut":false}"#), Error),
        ("log", "longer than asked", text(&format!(r#"{{"text":"{long}","cut":false}}"#)), Result),
        ("log", "cut as text", text(r#"{"text":"","cut":"no"}"#), Error),
        ("log", "always cut", text(r#"{"text":"","cut":true}"#), Result),
        ("artifact", "no Base64", part("%%%", "3"), Error),
        ("artifact", "negative size", part("", "-1"), Error),
        ("artifact", "size beyond numbers", part("", "99999999999999999999"), Error),
        ("artifact", "larger than asked", part("YWJj", "1000000000000"), Error),
        ("artifact", "more data than size", part("YWJj", "1"), Error),
        ("artifact", "data of nothing", part("YWJj", "0"), Error),
        ("artifact", "never more", part("", "9"), Error),
        ("artifact", "grows", parts(&[("YWJj", "6"), ("YWJj", "9")]), Error),
        ("artifact", "shrinks", parts(&[("YWJj", "9"), ("YWJj", "6")]), Error),
        ("artifact", "vanishes", [part("YWJj", "6"), text("null")].concat(), Error),
        ("artifact", "type of lines", text(r#"{"data":"","size":0,"mime_type":"a/b\r\nX: y"}"#), Result),
        ("discover", "null", text("null"), Error),
        ("discover", "no name", text(r#"[{"input_schema":{},"target":{}}]"#), Error),
        ("discover", "number as schema", text(r#"[{"name":"t","input_schema":7,"target":{}}]"#), Error),
        ("discover", "same name", text(&format!("[{}]", vec![tool; 1000].join(","))), Result),
        ("check_up", "null", text("null"), Result),
        ("check_up", "great", text(r#"[{"what":"w","verdict":"great","says":"s"}]"#), Result),
        ("check_up", "fault without fix", text(r#"[{"what":"w","verdict":"fault","says":"s"}]"#), Result),
    ];
    let lie = |(method, name, answers, expect)| Lie { method, name, answers, expect };
    rows.into_iter().map(lie).collect()
}

fn lies() -> Vec<Lie> {
    [entries(), answers()].into_iter().flatten().collect()
}

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    lies().iter().map(Lie::row).collect()
}

fn check_text(text: &str, max: usize) {
    assert!(text.len() <= max, "{} bytes", text.len());
    assert!(!text.chars().any(|c| c.is_control()), "{text:?}");
}

/// Checks what the server keeps of an observation.
fn check_observation(observation: Observation) {
    let observation = observation.sanitized();
    check_text(observation.message.as_deref().unwrap_or_default(), 4096);
    assert!(observation.link.is_none(), "{:?}", observation.link);
    assert!(observation.renamed_to.is_none(), "{:?}", observation.renamed_to);
}

/// Makes the call of a row.
async fn call(backend: &dyn Backend, lie: &Lie) -> Result<()> {
    let (row, abilities) = (lie.row(), backend.abilities());
    let handle = JobHandle::new(row.clone());
    let spec = JobSpec { may_exist: true, ..job(json!({ "row": row }), json!({})) };
    match lie.method {
        "observe" | "all" => {
            let handles = [handle.clone(), JobHandle::new("good")];
            let mut seen = backend.observe_all(&backend.group(&handle), &Subject::watched(&handles)).await;
            assert_eq!(seen.len(), 2);
            let good = seen.pop().unwrap();
            assert!(lie.method == "all" || good.is_ok(), "{good:?}");
            seen.pop().unwrap().map(check_observation)
        }
        "start" => backend.start(&spec).await.map(drop),
        "find" => backend.find(&spec).await.map(drop),
        "cancel" => backend.cancel(&handle).await,
        "forget" => backend.forget(&handle).await,
        "answer" => abilities.questions.unwrap().answer(&handle, "q", &Answer::Decline).await.map(drop),
        "log" => {
            let request = LogRequest { max_bytes: MAX_BYTES, search: None };
            let log = abilities.logs.unwrap().tail(&handle, &request).await?;
            assert!(log.text.len() <= MAX_BYTES);
            Ok(())
        }
        "artifact" => {
            let read = abilities.artifacts.unwrap().read(&handle, "a.txt", MAX_BYTES as u64).await?;
            check_text(read.unwrap().mime_type.as_deref().unwrap_or_default(), 4096);
            Ok(())
        }
        "discover" => abilities.discovery.unwrap().discover().await.map(drop),
        "check_up" => {
            let tool = taskbridge_sdk::ToolTarget::new("t", json!({ "row": row }));
            let findings = abilities.checkup.unwrap().check_up(&[tool]).await;
            assert!(findings.len() < 10_000);
            Ok(())
        }
        other => panic!("no method {other}"),
    }
}

fn problem_of(lie: &Lie, outcome: Result<()>) -> Option<String> {
    let shown = |error: &Error| {
        check_text(&error.to_string(), 4096);
        error.to_string()
    };
    match (&outcome, lie.expect) {
        (Ok(()), Expect::Result) => None,
        (Err(error), Expect::Error) => {
            shown(error);
            None
        }
        (Ok(()), Expect::Error) => Some("it was believed".to_owned()),
        (Err(error), Expect::Result) => Some(shown(error)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lie_does_harm() {
    let world = World::new();
    let lies = lies();
    let mut rows: serde_json::Map<String, serde_json::Value> = serde_json::Map::new();
    for lie in &lies {
        // A call of `discover` has no row: its lies come in the order of the table.
        let row = if lie.method == "discover" { lie.method.to_owned() } else { lie.row() };
        let answers = rows.entry(row).or_insert_with(|| json!([]));
        answers.as_array_mut().unwrap().extend(lie.answers.iter().map(|answer| json!(answer)));
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/liar.py");
    let config = json!({"command": ["python3", program], "config": {"rows": rows}});
    let backend: Arc<dyn Backend> = world.try_connect(config, LIMIT).await.unwrap();
    let mut problems = Vec::new();
    for lie in &lies {
        let outcome = AssertUnwindSafe(async { problem_of(lie, call(&*backend, lie).await) });
        let problem = outcome.catch_unwind().await;
        let problem = problem.unwrap_or_else(|_| Some("a check failed, as printed above".to_owned()));
        problems.extend(problem.map(|problem| format!("{}: {problem}", lie.row())));
        // The program is the same one, and answers.
        backend.observe(&JobHandle::new("good")).await.unwrap();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
