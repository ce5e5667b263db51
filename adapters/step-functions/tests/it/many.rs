//! Tests of polls of many executions: their number of calls, and their agreement with single polls.

use serde_json::json;
use taskbridge_sdk::{Delivery, ErrorKind, JobHandle, JobState, Subject};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{World, poll_until_ended, start};

/// Starts executions of one machine that keep running.
async fn start_running(world: &World, count: usize) -> Vec<JobHandle> {
    let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let mut handles = Vec::new();
    for _ in 0..count {
        handles.push(world.backend.start(&start(&machine, json!({}))).await.unwrap().handle);
    }
    world.proxy.take_counts();
    handles
}

async fn stop(world: &World, handles: &[JobHandle]) {
    for handle in handles {
        world.backend.cancel(handle).await.unwrap();
    }
}

/// One list call covers all running executions. Only the others are described one by one.
#[tokio::test(flavor = "multi_thread")]
async fn running_executions_share_one_list_call() {
    for kind in [Kind::LocalStack, Kind::MiniStack] {
        let world = World::with(kind, json!({"progress_calls_per_minute": 0})).await;
        let handles = start_running(&world, 20).await;
        let group = world.backend.group(&handles[0]);
        let results = world.backend.observe_all(&group, &Subject::watched(&handles)).await;
        assert!(results.iter().all(|result| result.as_ref().unwrap().state == JobState::Running), "{kind:?}");
        let counts = world.proxy.take_counts();
        assert_eq!((counts.len(), counts.get("ListExecutions")), (1, Some(&1)), "{kind:?}: {counts:?}");

        stop(&world, &handles[3..5]).await;
        for handle in &handles[3..5] {
            poll_until_ended(&*world.backend, handle).await;
        }
        world.proxy.take_counts();
        let results = world.backend.observe_all(&group, &Subject::watched(&handles)).await;
        let counts = world.proxy.take_counts();
        assert_eq!(counts.get("ListExecutions"), Some(&1), "{kind:?}: {counts:?}");
        assert_eq!(counts.get("DescribeExecution"), Some(&2), "{kind:?}: {counts:?}");
        for (handle, result) in handles.iter().zip(results) {
            assert_eq!(result.unwrap(), world.backend.observe(handle).await.unwrap(), "{kind:?}");
        }
        stop(&world, &handles).await;
    }
}

/// If the list call is denied, every execution is described by itself.
#[tokio::test(flavor = "multi_thread")]
async fn denied_list_falls_back_to_describe() {
    let world = World::with(Kind::MiniStack, json!({"progress_calls_per_minute": 0})).await;
    let handles = start_running(&world, 3).await;
    world.proxy.inject("ListExecutions", Fault::ErrorResponse(400, "AccessDeniedException", "no"));
    let results =
        world.backend.observe_all(&world.backend.group(&handles[0]), &Subject::watched(&handles)).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap().state == JobState::Running));
    assert_eq!(world.proxy.take_counts().get("DescribeExecution"), Some(&3));
    stop(&world, &handles).await;
}

/// If the list call is throttled, no other call is sent and every poll is rate limited.
#[tokio::test(flavor = "multi_thread")]
async fn throttled_list_stops_further_calls() {
    let world = World::with(Kind::MiniStack, json!({"progress_calls_per_minute": 0})).await;
    let handles = start_running(&world, 5).await;
    world.proxy.inject("ListExecutions", Fault::ErrorResponse(400, "ThrottlingException", "Rate exceeded"));
    let results =
        world.backend.observe_all(&world.backend.group(&handles[0]), &Subject::watched(&handles)).await;
    assert_eq!(results.len(), 5);
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Limited { .. }), "{error}");
    }
    let counts = world.proxy.take_counts();
    assert_eq!((counts.len(), counts.get("ListExecutions")), (1, Some(&1)), "{counts:?}");
    stop(&world, &handles).await;
}

/// Calls beyond a quota of the config are not sent. A quota of an unknown operation is an error.
#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_configured_quota_are_skipped() {
    let quotas = json!({"DescribeExecution": {"burst": 2, "per_second": 0.001}});
    let world = World::with(Kind::MiniStack, json!({"progress_calls_per_minute": 0, "quotas": quotas})).await;
    let handles = start_running(&world, 1).await;
    for allowed in [true, true, false, false] {
        let result = world.backend.observe(&handles[0]).await;
        assert_eq!(result.is_ok(), allowed);
        if let Err(error) = result {
            assert!(matches!(error.kind(), ErrorKind::Limited { after: Some(_) }), "{error}");
        }
    }
    assert_eq!(world.proxy.take_counts().get("DescribeExecution"), Some(&2));
    stop(&world, &handles).await;
    let error =
        world.try_connect_another(json!({"quotas": {"Describe": {"burst": 1, "per_second": 1}}})).await;
    assert!(error.is_err_and(|error| error.to_string().starts_with("quotas.Describe: no such operation")));
}

/// All pages of the list are read. Executions that are on no page are described.
#[tokio::test(flavor = "multi_thread")]
async fn long_list_is_read_completely() {
    let world = World::with(Kind::MiniStack, json!({"progress_calls_per_minute": 0})).await;
    let handles = start_running(&world, 6).await;
    let page = |handles: &[JobHandle], next: Option<&str>| {
        let executions: Vec<_> = handles
            .iter()
            .map(|handle| {
                json!({
                    "executionArn": handle.as_str(), "stateMachineArn": "m", "name": "n", "status": "RUNNING",
                    "startDate": 1.5e9,
                })
            })
            .collect();
        Fault::Response(json!({"executions": executions, "nextToken": next}))
    };
    world.proxy.inject("ListExecutions", page(&handles[..2], Some("more")));
    world.proxy.inject("ListExecutions", page(&handles[2..4], None));
    let results =
        world.backend.observe_all(&world.backend.group(&handles[0]), &Subject::watched(&handles)).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap().state == JobState::Running));
    let requests = world.proxy.take_requests();
    let lists: Vec<_> = requests.iter().filter(|request| request.operation == "ListExecutions").collect();
    assert_eq!((lists.len(), requests.len()), (2, 4), "executions on no page are described");
    assert!(String::from_utf8_lossy(&lists[1].body).contains(r#""nextToken":"more""#));
    stop(&world, &handles).await;
}

/// Returns AWS's list of executions that have run for years.
fn old_list(arns: &[JobHandle]) -> Fault {
    let item = |arn: &JobHandle| {
        json!({
            "executionArn": arn.as_str(), "stateMachineArn": "m", "name": "n", "status": "RUNNING", "startDate": 1.5e9,
        })
    };
    Fault::Response(json!({"executions": arns.iter().map(item).collect::<Vec<_>>()}))
}

/// Polls of 2000 executions of 20 state machines need at most 40 calls a minute.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_executions_need_forty_calls() {
    let world = World::new(Kind::MiniStack).await;
    let groups: Vec<Vec<JobHandle>> = (0..20)
        .map(|machine| {
            let arn = |n| format!("arn:aws:states:us-east-1:000000000000:execution:many-{machine}:tb-{n}");
            (0..100).map(|n| JobHandle::new(arn(n))).collect()
        })
        .collect();
    let definition = json!({
        "stateMachineArn": "m", "name": "m", "type": "STANDARD", "definition": "{}", "roleArn": "r", "creationDate": 1.5e9,
    });
    for group in &groups {
        world.proxy.inject("ListExecutions", old_list(group));
        world.proxy.inject("DescribeStateMachine", Fault::Response(definition.clone()));
    }
    for _ in 0..20 {
        world.proxy.inject("GetExecutionHistory", Fault::Response(json!({"events": []})));
    }
    // Each execution is polled twice, as a server does: first together with others, then alone.
    let started_at = std::time::Instant::now();
    for size in [25, 1] {
        for group in &groups {
            for chunk in group.chunks(size) {
                let results = world
                    .backend
                    .observe_all(&world.backend.group(&chunk[0]), &Subject::watched(chunk))
                    .await;
                assert!(results.iter().all(|result| result.as_ref().unwrap().state == JobState::Running));
            }
        }
    }
    let counts = world.proxy.take_counts();
    // Calls that the bucket regained in the meantime, on a slow machine.
    let refilled = usize::try_from(started_at.elapsed().as_secs() / 6).unwrap() + 1;
    assert_eq!(counts["ListExecutions"], 20, "one list for each state machine in a minute");
    assert!((1..=10 + refilled).contains(&counts["GetExecutionHistory"]), "{counts:?}");
    // A definition is read again after a quarter of an hour.
    assert!(counts["DescribeStateMachine"] <= 20 && counts.len() == 3, "{counts:?}");
    let calls_per_minute = counts["ListExecutions"]
        + counts["GetExecutionHistory"].min(10)
        + counts["DescribeStateMachine"].div_ceil(15);
    assert!(calls_per_minute <= 40, "{counts:?}");
}

/// A cached list does not hide an execution that was cancelled here or reported by an event.
#[tokio::test(flavor = "multi_thread")]
async fn cached_list_does_not_hide_changes() {
    let config = json!({"progress_calls_per_minute": 0, "hook_secret": "s3cret"});
    let world = World::with(Kind::MiniStack, config).await;
    let handles = start_running(&world, 3).await;
    let group = world.backend.group(&handles[0]);
    let observe = async |subset: &[JobHandle]| -> Vec<bool> {
        let results = world.backend.observe_all(&group, &Subject::watched(subset)).await;
        results.into_iter().map(|result| result.unwrap().state.has_ended()).collect()
    };
    world.proxy.inject("ListExecutions", old_list(&handles));
    assert_eq!(observe(&handles).await, [false; 3]);
    world.proxy.take_counts();
    assert_eq!(observe(&handles).await, [false; 3]);
    assert_eq!(world.proxy.take_counts().len(), 0, "the cached list is used");
    // One execution is stopped from here. The other is stopped elsewhere, and an event reports it.
    world.backend.cancel(&handles[0]).await.unwrap();
    world.aws.stop_execution().execution_arn(handles[1].as_str()).send().await.unwrap();
    assert_eq!(observe(&handles[1..]).await, [false; 2]);
    let event = json!({"id": "1", "detail": {"executionArn": handles[1].as_str()}}).to_string();
    let headers = [("x-taskbridge-secret", "s3cret")];
    let delivery = Delivery { headers: &headers, body: event.as_bytes(), path: "" };
    world.backend.abilities().hooks.unwrap().read(&delivery).unwrap();
    for handle in &handles[..2] {
        poll_until_ended(&*world.backend, handle).await;
    }
    assert_eq!(observe(&handles).await, [true, true, false]);
    assert_eq!(observe(&handles[2..]).await, [false]);
    // With `0s`, no list is reused.
    let uncached_backend =
        world.connect_another(json!({"progress_calls_per_minute": 0, "list_every": "0s"})).await;
    world.proxy.take_counts();
    for _ in 0..2 {
        world.proxy.inject("ListExecutions", old_list(&handles[1..]));
        let results = uncached_backend.observe_all(&group, &Subject::watched(&handles[1..])).await;
        assert!(results.iter().all(|result| result.as_ref().unwrap().state == JobState::Running));
    }
    assert_eq!(world.proxy.take_counts().get("ListExecutions"), Some(&2));
    stop(&world, &handles[2..]).await;
}
