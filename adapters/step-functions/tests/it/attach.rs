//! Tests of tasks for executions that were started elsewhere.

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobSpec, JobState, Subject};

use crate::harness::standin::Kind;
use crate::harness::world::{World, output, poll_until_ended};

/// Returns a job that follows an execution.
fn attach_job(machine: &str, execution: &str) -> JobSpec {
    job(json!({"state_machine": machine, "attach": "{{ execution }}"}), json!({"execution": execution}))
}

fn wait_states(seconds: u32) -> Value {
    json!({"First": {"Type": "Wait", "Seconds": seconds, "End": true}})
}

/// An execution that was started elsewhere is attached by its ARN or its name.
#[tokio::test(flavor = "multi_thread")]
async fn attached_execution_is_followed_to_end() {
    for kind in [Kind::LocalStack, Kind::MiniStack] {
        let world = World::new(kind).await;
        let machine = world.machine(wait_states(1)).await;
        let request =
            world.aws.start_execution().state_machine_arn(&machine).name("by-hand").input(r#"{"a":1}"#);
        let arn = request.send().await.unwrap().execution_arn;
        world.proxy.take_counts();
        let by_arn = world.backend.start(&attach_job(&machine, &arn)).await.unwrap();
        let by_name = world.backend.start(&attach_job(&machine, "by-hand")).await.unwrap();
        assert_eq!(by_arn.handle, by_name.handle, "{kind:?}");
        assert_eq!(world.proxy.take_counts().get("StartExecution"), None, "{kind:?}");
        let group = world.backend.group(&by_arn.handle);
        assert_eq!(group.as_str(), machine);
        let end = poll_until_ended(&*world.backend, &by_arn.handle).await;
        assert_eq!(output(&end).structured, Some(json!({"a": 1})), "{kind:?}");
        let both = [by_arn.handle.clone(), by_name.handle];
        for result in world.backend.observe_all(&group, &Subject::watched(&both)).await {
            assert_eq!(result.unwrap(), end, "{kind:?}");
        }
        let found = world.backend.find(&attach_job(&machine, &arn)).await.unwrap().unwrap();
        assert_eq!((found.handle, found.first), (by_arn.handle, Some(end)), "{kind:?}");
    }
}

/// The cancellation of an attached execution sends no call, and the execution goes on.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_attached_execution_does_nothing() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(wait_states(600)).await;
    let started =
        world.aws.start_execution().state_machine_arn(&machine).name("by-hand").send().await.unwrap();
    let handle = world.backend.start(&attach_job(&machine, &started.execution_arn)).await.unwrap().handle;
    world.proxy.take_counts();
    world.backend.cancel(&handle).await.unwrap();
    assert_eq!(world.proxy.take_counts().len(), 0);
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
    world.aws.stop_execution().execution_arn(started.execution_arn).send().await.unwrap();
}

/// An execution of another state machine, and one that does not exist, cannot be attached.
#[tokio::test(flavor = "multi_thread")]
async fn attach_requires_execution_of_target_machine() {
    let world = World::new(Kind::MiniStack).await;
    let (machine, other) = (world.machine(wait_states(600)).await, world.machine(wait_states(600)).await);
    let started = world.aws.start_execution().state_machine_arn(&other).name("by-hand").send().await.unwrap();
    for (execution, message) in [
        (started.execution_arn.as_str(), "is no execution of the state machine"),
        ("a:b", "is no execution of the state machine"),
        ("", "is no execution of the state machine"),
        ("by-hand", "there is no execution"),
    ] {
        let error = world.backend.start(&attach_job(&machine, execution)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(world.backend.find(&attach_job(&machine, execution)).await.unwrap(), None);
    }
    world.aws.stop_execution().execution_arn(started.execution_arn).send().await.unwrap();
}
