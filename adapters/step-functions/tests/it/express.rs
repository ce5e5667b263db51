//! Tests of Express state machines: one call starts an execution and waits for its end, and nothing can be
//! searched afterwards.

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::{ErrorKind, JobSpec, JobState};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{World, failure, output, start};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];

#[tokio::test(flavor = "multi_thread")]
async fn a_start_waits_for_the_end() {
    for kind in BOTH {
        let world = World::new(kind).await;
        let passing_machine = world.express(json!({"First": {"Type": "Pass", "End": true}})).await;
        let started = world.backend.start(&start(&passing_machine, json!({"a": 1}))).await.unwrap();
        assert_eq!(output(&started.first.unwrap()).structured, Some(json!({"a": 1})), "{kind:?}");
        let counts = world.proxy.take_counts();
        assert_eq!(counts.get("StartSyncExecution"), Some(&1), "{kind:?}: {counts:?}");

        let failing_machine =
            world.express(json!({"First": {"Type": "Fail", "Error": "E", "Cause": "c"}})).await;
        let started = world.backend.start(&start(&failing_machine, json!({}))).await.unwrap();
        let observation = started.first.unwrap();
        assert_eq!(observation.message.as_deref(), Some("the execution failed: E: c"), "{kind:?}");
        assert_eq!(failure(&observation).structured.as_ref().unwrap()["status"], "FAILED");
        // It can no longer be described, and there is nothing to stop.
        world.backend.cancel(&started.handle).await.unwrap();
    }
}

/// A machine that may run longer than the server waits is started only with `unbounded = true`.
#[tokio::test(flavor = "multi_thread")]
async fn unbounded_express_machine_is_not_started() {
    let world = World::new(Kind::LocalStack).await;
    let states = json!({"First": {"Type": "Pass", "End": true}});
    for (timeout, part) in [(json!(300), "`TimeoutSeconds` is 300"), (Value::Null, "no `TimeoutSeconds`")] {
        let mut definition = json!({"TimeoutSeconds": timeout, "StartAt": "First", "States": states});
        definition.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let machine = world.define(definition.clone(), StateMachineType::Express).await;
        let job = start(&machine, json!({}));
        world.proxy.take_counts();
        let error = world.backend.start(&job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let message = error.to_string();
        assert!(message.contains(part) && message.contains("the server waits 120 s"), "{message}");
        assert!(
            message.contains("`\"TimeoutSeconds\": 119`") && message.contains("`unbounded = true`"),
            "{message}"
        );
        assert_eq!(world.proxy.take_counts().get("StartSyncExecution"), None, "nothing was started");
        // An earlier attempt may have started it, so the result is uncertain.
        let retry = JobSpec { may_exist: true, ..job.clone() };
        assert_eq!(world.backend.start(&retry).await.unwrap_err().kind(), ErrorKind::Uncertain);

        // The setting accepts the risk.
        let mut accepted = start(&machine, json!({}));
        accepted.target["unbounded"] = json!(true);
        assert!(world.backend.start(&accepted).await.unwrap().first.is_some());
        // A fixed definition takes effect immediately.
        definition["TimeoutSeconds"] = json!(60);
        let update = world.aws.update_state_machine().state_machine_arn(&machine);
        update.definition(definition.to_string()).send().await.unwrap();
        assert!(world.backend.start(&job).await.unwrap().first.is_some());
    }
}

/// After a lost reply, the start stays uncertain and is not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn lost_express_reply_is_never_repeated() {
    let world = World::new(Kind::LocalStack).await;
    let machine = world.express(json!({"First": {"Type": "Pass", "End": true}})).await;
    let job = start(&machine, json!({}));
    world.proxy.inject("StartSyncExecution", Fault::ReplyLost);
    // The error is final, because no search can find the execution. It points the user to the console.
    let page = format!(
        "https://us-east-1.console.aws.amazon.com/states/home?region=us-east-1#/statemachines/view/{machine}"
    );
    let is_final = |error: &taskbridge_sdk::Error| {
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
        assert!(error.is_final(), "{error}");
        let message = error.to_string();
        assert!(
            message.contains(&page) && message.contains(job.key.as_str()) && message.contains("Express"),
            "{message}"
        );
    };
    is_final(&world.backend.start(&job).await.unwrap_err());
    world.proxy.take_counts();
    let retry = JobSpec { may_exist: true, ..job.clone() };
    is_final(&world.backend.start(&retry).await.unwrap_err());
    is_final(&world.backend.find(&job).await.unwrap_err());
    assert_eq!(world.proxy.take_counts().len(), 0, "no request is sent");
}

/// A throttled, unavailable or rejected start is not uncertain.
#[tokio::test(flavor = "multi_thread")]
async fn refused_express_start_starts_nothing() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.express(json!({"First": {"Type": "Pass", "End": true}})).await;
    for (fault, kind) in [
        (
            Fault::ErrorResponse(400, "ThrottlingException", "Rate exceeded"),
            ErrorKind::Limited { after: None },
        ),
        (Fault::ErrorResponse(503, "ServiceUnavailable", ""), ErrorKind::Unavailable),
        (Fault::ErrorResponse(400, "InvalidExecutionInput", "bad"), ErrorKind::Rejected),
    ] {
        world.proxy.inject("StartSyncExecution", fault);
        let error = world.backend.start(&start(&machine, json!({}))).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// A poll of an Express execution reports it as gone, with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn express_execution_cannot_be_observed() {
    let world = World::new(Kind::MiniStack).await;
    let handle = taskbridge_sdk::JobHandle::new("arn:aws:states:us-east-1:000000000000:express:m:tb-x:1");
    let observation = world.backend.observe(&handle).await.unwrap();
    assert_eq!(observation.state, JobState::Gone);
    assert!(observation.message.is_some_and(|message| message.contains("Express")));
}
