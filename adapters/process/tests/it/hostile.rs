//! A table of hostile programs. After each, one job exists under its key, it has one outcome, and a backend
//! beside it is not affected.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Backend, Error, ErrorKind, JobSpec, JobState, Started};
use tokio::time::{Instant, sleep};

use crate::world::{World, run_rows};

/// Faults that a call survives: its answer is right in the end.
const HARMLESS: [&str; 53] = [
    "garbage",
    "binary",
    "half",
    "array",
    "number",
    "text",
    "null",
    "empty_object",
    "blank",
    "unknown_id",
    "text_id",
    "null_id",
    "float_id",
    "negative_id",
    "huge_id",
    "request",
    "notification",
    "changed_wrong",
    "changed_null",
    "changed_unknown",
    "note_wrong",
    "deep",
    "deep_object",
    "wide",
    "windows",
    "twice",
    "many_times",
    "slow_bytes",
    "members",
    "long_errors",
    "byte_order_mark",
    "nothing_but_nul",
    "two_on_a_line",
    "changed_many",
    "changed_long",
    "method_twice",
    "method_number",
    "zero_id",
    "exponent_id",
    "array_id",
    "batch",
    "invalid_utf8",
    "utf16",
    "surrogates",
    "version_1",
    "version_number",
    "no_version",
    "result_first",
    "spaces",
    "changed_beside",
    "changed_beside_wrong",
    "binary_errors",
    "close_errors",
];

/// Faults that a call does not survive.
const FATAL: [&str; 39] = [
    "die_before",
    "die_after",
    "half_line",
    "long_line",
    "close_output",
    "fork",
    "result_and_error",
    "neither",
    "wrong_text",
    "wrong_number",
    "wrong_array",
    "wrong_object",
    "wrong_true",
    "wrong_handle",
    "wrong_deep",
    "wrong_nan",
    "error_plain",
    "error_unknown_kind",
    "error_wrong_data",
    "error_text",
    "error_null",
    "error_huge",
    "stop",
    "other_id",
    "exec_sleep",
    "close_input",
    "never",
    "late",
    "exit_0",
    "crash",
    "deaf",
    "heir",
    "id_twice",
    "result_twice",
    "method_beside",
    "comma",
    "id_as_text",
    "lines",
    "no_newline",
];

/// Faults of a poll alone.
const OF_POLLS: [&str; 4] = ["wrong_states", "wrong_count", "wrong_null", "error_unavailable_kind"];

/// Floods, which a call survives, too.
const FLOODS: [&str; 6] =
    ["flood_errors", "flood_notes", "flood_changed", "flood_requests", "flood_answers", "flood_blank"];

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    let tables = [&HARMLESS[..], &FATAL, &OF_POLLS, &FLOODS];
    tables.into_iter().flatten().map(|fault| format!("program {fault}")).collect()
}

/// Time of a call to a program that may never answer. Other programs have more.
const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// True if only the time of the call ends it.
fn ends_by_time(fault: &str) -> bool {
    matches!(
        fault,
        "other_id"
            | "exec_sleep"
            | "close_input"
            | "never"
            | "wrong_nan"
            | "stop"
            | "late"
            | "deaf"
            | "id_twice"
    ) || matches!(fault, "result_twice" | "method_beside" | "comma" | "id_as_text" | "lines" | "no_newline")
}

/// Repeats a start as the server does: with `may_exist` once an attempt was uncertain.
pub(crate) async fn start_as_server(backend: &dyn Backend, job: &JobSpec) -> (Started, Vec<ErrorKind>) {
    let (mut job, mut kinds, began) = (job.clone(), Vec::new(), Instant::now());
    loop {
        match backend.start(&job).await {
            Ok(started) => return (started, kinds),
            Err(error) => {
                assert_is_repeated(&error);
                kinds.push(error.kind());
                job.may_exist |= error.kind() == ErrorKind::Uncertain;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the job never started: {kinds:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn assert_is_repeated(error: &Error) {
    let kind = error.kind();
    assert!(kind.is_transient() || kind == ErrorKind::Uncertain, "{error} ({kind})");
    assert!(error.to_string().len() < 4096, "a long message");
}

pub(crate) async fn end_as_server(backend: &dyn Backend, started: &Started) -> JobState {
    let began = Instant::now();
    loop {
        match backend.observe(&started.handle).await {
            Ok(observation) if observation.state.has_ended() => return observation.state,
            Ok(_) => {}
            Err(error) => assert_is_repeated(&error),
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the job never ended");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a job over a program with a fault at one method, beside a healthy backend.
async fn survive(method: &str, fault: &str, healthy: Arc<dyn Backend>) {
    let world = World::new();
    let limit = if ends_by_time(fault) { SHORT } else { LONG };
    let mode = world.config(json!({"mode": format!("{method}:{fault}"), "mode_once": "mode.done"}));
    // A machine may be too busy to start a program within the short time.
    let began = Instant::now();
    let backend: Arc<dyn Backend> = loop {
        match world.try_connect(mode.clone(), limit).await {
            Ok(backend) => break backend,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the program never started");
    };

    let spec = job(json!({"text": "result"}), json!({}));
    let (started, kinds) = start_as_server(&*backend, &spec).await;
    if HARMLESS.contains(&fault) || FLOODS.contains(&fault) {
        assert!(kinds.is_empty(), "{method}:{fault}: {kinds:?}");
    } else if method == "start" {
        // Nothing says that the job did not start.
        assert_eq!(kinds.first(), Some(&ErrorKind::Uncertain), "{method}:{fault}");
    }
    let state = end_as_server(&*backend, &started).await;
    assert!(matches!(state, JobState::Succeeded(_)), "{method}:{fault}: {state:?}");
    let (again, _) = start_as_server(&*backend, &JobSpec { may_exist: true, ..spec.clone() }).await;
    assert_eq!((again.handle, world.starts(&spec.key)), (started.handle, 1), "{method}:{fault}");

    let beside = healthy.start(&job(json!({"text": "beside"}), json!({}))).await.unwrap();
    let state = healthy.observe(&beside.handle).await.unwrap().state;
    assert!(matches!(state, JobState::Succeeded(_)), "{state:?}");
}

/// Runs a list of faults, eight at a time. Those that end by time only wait, so they run together.
fn survive_all(method: &'static str, faults: &'static [&'static str]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let healthy = world.connect(json!({})).await;
        let (slow, quick): (Vec<&str>, Vec<&str>) = faults.iter().partition(|fault| ends_by_time(fault));
        let row =
            |fault: &'static str| (format!("{method}:{fault}"), survive(method, fault, Arc::clone(&healthy)));
        run_rows(8, quick.into_iter().map(row)).await;
        run_rows(slow.len(), slow.into_iter().map(row)).await;
    });
}

#[test]
fn start_survives_harmless_lines() {
    survive_all("start", &HARMLESS);
}

#[test]
fn start_survives_broken_programs() {
    survive_all("start", &FATAL);
}

#[test]
fn poll_survives_harmless_lines() {
    survive_all("observe_all", &HARMLESS);
}

#[test]
fn poll_survives_broken_programs() {
    survive_all("observe_all", &FATAL);
    survive_all("observe_all", &OF_POLLS);
}

#[test]
fn initialize_survives_harmless_lines() {
    survive_all("initialize", &HARMLESS);
}

#[test]
fn initialize_survives_broken_programs() {
    survive_all(
        "initialize",
        &["die_before", "half_line", "neither", "wrong_text", "wrong_object", "error_plain"],
    );
}

#[test]
fn floods_are_survived() {
    for method in ["start", "observe_all"] {
        survive_all(method, &FLOODS);
    }
}

/// A program without keys never gets a repeated start.
#[tokio::test(flavor = "multi_thread")]
async fn unkeyed_program_is_only_searched() {
    let world = World::new();
    let backend = world.connect(json!({"once": "none"})).await;
    let spec = JobSpec { may_exist: true, ..job(json!({}), json!({})) };
    let error = backend.start(&spec).await.unwrap_err();
    assert_eq!((error.kind(), error.is_final()), (ErrorKind::Uncertain, false), "{error}");
    assert_eq!(world.starts(&spec.key), 0);
    let first = JobSpec { may_exist: false, ..spec.clone() };
    let started = backend.start(&first).await.unwrap();
    assert_eq!(backend.start(&spec).await.unwrap().handle, started.handle);
    assert_eq!(world.starts(&spec.key), 1);
}

/// The server learns how long a key can be trusted: half of what the program says.
#[tokio::test(flavor = "multi_thread")]
async fn age_of_key_is_passed_on() {
    let world = World::new();
    let backend = world.connect(json!({"initialize": {"key_lasts_ms": 3_600_000}})).await;
    assert_eq!(backend.key_lifetime(), Some(Duration::from_secs(1800)));
    assert_eq!(world.connect(json!({})).await.key_lifetime(), None);
}

/// A program that lies about its abilities answers with an unknown method, which fails only that call.
#[tokio::test(flavor = "multi_thread")]
async fn lies_about_itself_are_harmless() {
    let world = World::new();
    for (lie, kind) in [
        (json!({"protocol": 2}), ErrorKind::Unavailable),
        (json!({"protocol": "1"}), ErrorKind::Unavailable),
        (json!({"once": "perhaps"}), ErrorKind::Unavailable),
        (json!({"abilities": "all"}), ErrorKind::Unavailable),
        (json!({"identity": "two\nlines"}), ErrorKind::Unavailable),
        (json!({"identity": "x".repeat(100_000)}), ErrorKind::Unavailable),
        (json!({"start_lag_ms": -1}), ErrorKind::Unavailable),
    ] {
        let config = world.config(json!({"initialize": lie.clone()}));
        let error = world.try_connect(config, LONG).await.err().unwrap();
        assert_eq!(error.kind(), kind, "{lie}: {error}");
    }
    let backend = world.connect(json!({"initialize": {"abilities": ["fly", "log"]}})).await;
    assert!(backend.abilities().logs.is_some() && backend.abilities().questions.is_none());
    let forever = world.connect(json!({"initialize": {"start_lag_ms": u64::MAX}})).await;
    assert!(forever.start_lag() <= Duration::from_secs(366 * 24 * 3600));
}

/// The program's own words about its config reach the operator, and its kind decides.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_config_is_named() {
    let world = World::new();
    let mut config = world.config(json!({}));
    config["config"] = json!({});
    let error = world.try_connect(config, LONG).await.err().unwrap();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Config, "folder: missing"));
    let missing = json!({"command": ["/no/such/program"]});
    let error = world.try_connect(missing, LONG).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
