//! Tests of how executions end, each kind of end with an emulator that implements it correctly.

use std::time::{Duration, Instant};

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::{ErrorKind, JobHandle, JobState, Subject};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{World, failure, output, poll_until, poll_until_ended, start, text};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];

/// A failed execution reports the state that failed, its input, the error and the cause.
#[tokio::test(flavor = "multi_thread")]
async fn failure_names_state_and_its_input() {
    for kind in BOTH {
        let world = World::new(kind).await;
        let states = json!({
            "First": {"Type": "Pass", "Result": {"page": 7}, "Next": "Print"},
            "Print": {"Type": "Fail", "Error": "NoPaper", "Cause": "the tray\nis empty"},
        });
        let observation = world.run(states, json!({})).await;
        let message = "the execution failed in state `Print`: NoPaper: the tray is empty";
        assert_eq!(observation.message.as_deref(), Some(message), "{kind:?}");
        let data = json!({
            "status": "FAILED", "error": "NoPaper", "cause": "the tray\nis empty", "state": "Print", "input": {"page": 7},
        });
        assert_eq!(failure(&observation).structured, Some(data), "{kind:?}");
        assert!(text(failure(&observation)).contains("the tray\nis empty"), "{kind:?}");
    }
}

/// The message names the state of the branch that failed.
#[tokio::test(flavor = "multi_thread")]
async fn failure_inside_parallel_branch_is_found() {
    let world = World::new(Kind::LocalStack).await;
    let branch = |name: &str, state: Value| json!({"StartAt": name, "States": {name: state}});
    let states = json!({"First": {"Type": "Parallel", "End": true, "Branches": [
        branch("Left", json!({"Type": "Pass", "End": true})),
        branch("Right", json!({"Type": "Fail", "Error": "Broken", "Cause": "of course"})),
    ]}});
    let observation = world.run(states, json!({})).await;
    assert_eq!(
        observation.message.as_deref(),
        Some("the execution failed in state `Right`: Broken: of course")
    );
}

/// If the history may not be read, the failure is reported without its state.
#[tokio::test(flavor = "multi_thread")]
async fn failure_without_history_access_omits_state() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Fail", "Error": "E", "Cause": "c"}})).await;
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    let complete = poll_until_ended(&*world.backend, &handle).await;
    assert_eq!(complete.message.as_deref(), Some("the execution failed in state `First`: E: c"));
    world.proxy.inject("GetExecutionHistory", Fault::ErrorResponse(400, "AccessDeniedException", "no"));
    let partial = world.backend.observe(&handle).await.unwrap();
    assert_eq!(partial.message.as_deref(), Some("the execution failed: E: c"));
}

/// The end waits for the history, but not for long: the other facts about the end matter more.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_history_delays_no_end() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Fail", "Error": "E", "Cause": "c"}})).await;
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    poll_until_ended(&*world.backend, &handle).await;
    let started_at = Instant::now();
    let observation = loop {
        world
            .proxy
            .inject("GetExecutionHistory", Fault::ErrorResponse(400, "ThrottlingException", "Rate exceeded"));
        match world.backend.observe(&handle).await {
            Ok(observation) => break observation,
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Limited { .. }), "{error}"),
        }
        assert!(started_at.elapsed() < Duration::from_secs(60), "the end is not reported");
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    assert!(started_at.elapsed() > Duration::from_secs(10), "the end waits for the history");
    let reason = "the failed state is unknown, because the history cannot be read: GetExecutionHistory: ThrottlingException: \
               Rate exceeded";
    assert_eq!(observation.message.as_deref(), Some(&*format!("the execution failed: E: c ({reason})")));
    assert_eq!(
        failure(&observation).structured,
        Some(json!({"status": "FAILED", "error": "E", "cause": "c"}))
    );
    // Later, the history can be read.
    let complete = world.backend.observe(&handle).await.unwrap();
    assert_eq!(complete.message.as_deref(), Some("the execution failed in state `First`: E: c"));
}

/// An execution that times out has failed, with the status `TIMED_OUT`.
#[tokio::test(flavor = "multi_thread")]
async fn timed_out_execution_is_failed() {
    let world = World::new(Kind::LocalStack).await;
    let definition = json!({
        "StartAt": "First", "TimeoutSeconds": 1, "States": {"First": {"Type": "Wait", "Seconds": 60, "End": true}},
    });
    let machine = world.define(definition, StateMachineType::Standard).await;
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    let observation = poll_until_ended(&*world.backend, &handle).await;
    let message = observation.message.clone().unwrap();
    assert!(message.starts_with("the execution timed out"), "{message}");
    assert_eq!(failure(&observation).structured.as_ref().unwrap()["status"], "TIMED_OUT");
}

/// An execution that is stopped elsewhere is cancelled, with the error and the cause of the stop.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_execution_is_cancelled_with_reason() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    let stop = world.aws.stop_execution().execution_arn(handle.as_str());
    stop.error("TooDear").cause("we need the money").send().await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    assert_eq!(observation.message.as_deref(), Some("the execution was stopped: TooDear: we need the money"));

    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert_eq!(
        observation.message.as_deref(),
        Some("the execution was stopped, because its task was cancelled")
    );
}

/// Objects, texts, lists, numbers and booleans are returned as data and as text.
#[tokio::test(flavor = "multi_thread")]
async fn every_output_is_data_and_text() {
    for kind in BOTH {
        let world = World::new(kind).await;
        for (result, shown) in [
            (json!({"rows": [1, 2]}), None),
            (json!("all done"), Some("all done")),
            (json!([1, "x"]), None),
            (json!(3.5), Some("3.5")),
            (json!(false), Some("false")),
        ] {
            let states = json!({"First": {"Type": "Pass", "Result": result, "End": true}});
            let observation = world.run(states, json!({})).await;
            assert_eq!(output(&observation).structured, Some(result.clone()), "{kind:?}");
            let shown = shown.map_or_else(|| result.clone(), |shown| json!(shown));
            let text = text(output(&observation));
            let parsed: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            assert!(parsed == shown || json!(text) == shown, "{kind:?}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_and_output_reach_256_kib() {
    // The limit of LocalStack is lower, because it counts a space that it inserts between name and value.
    for (kind, max_bytes) in [(Kind::LocalStack, 262_142), (Kind::MiniStack, 262_144)] {
        let world = World::new(kind).await;
        let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
        let arguments = json!({"t": "x".repeat(max_bytes - 8)});
        assert_eq!(arguments.to_string().len(), max_bytes);
        let started = world.backend.start(&start(&machine, arguments.clone())).await.unwrap();
        let observation = poll_until_ended(&*world.backend, &started.handle).await;
        assert!(output(&observation).structured == Some(arguments), "{kind:?}");
    }
}

/// A redriven execution and one with an unknown status have not ended.
/// No emulator implements redrive, so the proxy returns the responses of AWS's documentation.
#[tokio::test(flavor = "multi_thread")]
async fn redriven_or_unknown_status_is_active() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Fail", "Error": "E", "Cause": "c"}})).await;
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    poll_until_ended(&*world.backend, &handle).await;
    let set_status = |status: &str| {
        let response = json!({
            "executionArn": handle.as_str(), "stateMachineArn": machine, "name": "n", "status": status,
            "startDate": 1.5e9, "redriveCount": 1, "redriveDate": 1.6e9, "redriveStatus": "NOT_REDRIVABLE",
        });
        world.proxy.inject("DescribeExecution", Fault::Response(response));
    };
    for (status, state, expected) in [
        ("PENDING_REDRIVE", JobState::Queued, Some("the execution waits to be redriven")),
        ("PAUSED_BY_MOON", JobState::Running, Some("PAUSED_BY_MOON")),
    ] {
        set_status(status);
        let observation = world.backend.observe(&handle).await.unwrap();
        assert_eq!(observation.state, state);
        let message = observation.message.unwrap();
        assert!(expected.is_some_and(|expected| message.ends_with(expected)), "{message}");
        assert_eq!(observation.since.map(|since| since.as_millis()), Some(1_600_000_000_000));
    }
    set_status("RUNNING");
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
}

/// An execution that AWS does not know yet is unavailable. It is gone only after the start lag.
#[tokio::test(flavor = "multi_thread")]
async fn new_unknown_execution_is_not_gone() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let unknown = || Fault::ErrorResponse(400, "ExecutionDoesNotExist", "Execution Does Not Exist");
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    // The server reports a job as lost only if it is older than the lag.
    world.proxy.inject("DescribeExecution", unknown());
    let new = Subject { handle: handle.clone(), watched: true, age: Duration::ZERO };
    let error = new.confirm(world.backend.start_lag(), world.backend.observe(&handle).await).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    poll_until(&*world.backend, &handle, "it runs", |observation| {
        (observation.state == JobState::Running).then_some(())
    })
    .await;
    // It repeats a cancellation during that time.
    world.proxy.inject("StopExecution", unknown());
    world.backend.cancel(&handle).await.unwrap();
    world.proxy.inject("DescribeExecution", unknown());
    let old = Subject { age: world.backend.start_lag(), ..new };
    let observation = old.confirm(world.backend.start_lag(), world.backend.observe(&handle).await).unwrap();
    assert_eq!(observation.state, JobState::Gone);
    assert!(observation.message.is_some_and(|message| message.contains("90 days")));
    world.backend.cancel(&handle).await.unwrap();
}

/// A handle of another region is a config error, and one of another backend is gone.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_handle_is_rejected_without_call() {
    let world = World::new(Kind::MiniStack).await;
    let foreign_handle = JobHandle::new("arn:aws:states:eu-west-1:000000000000:execution:m:tb-x");
    let error = world.backend.observe(&foreign_handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("`eu-west-1`"), "{error}");
    assert_eq!(world.backend.observe(&JobHandle::new("local:h:b:k")).await.unwrap().state, JobState::Gone);
    assert_eq!(world.proxy.take_counts().len(), 0, "no request is sent");
}
