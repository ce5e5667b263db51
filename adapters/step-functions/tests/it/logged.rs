//! Tests of the logs in CloudWatch: those of an Express execution, and those of a Standard one whose history
//! is not readable.

use std::time::{Duration, Instant};

use aws_sdk_sfn::types::{
    CloudWatchLogsLogGroup, LogDestination, LogLevel, LoggingConfiguration, StateMachineType,
};
use serde_json::{Value, json};
use taskbridge_sdk::{Backend, ErrorKind, JobHandle, LogRequest, LogText, ToolTarget, Verdict};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{World, poll_until_ended, start};

const ALL: LogRequest = LogRequest { max_bytes: 100_000, search: None };

/// Creates a state machine that logs everything, and a log group with the same name.
async fn create_logging_machine(world: &World, kind: StateMachineType) -> (String, String) {
    let name = format!("logs-{}", &taskbridge_sdk::suite::fresh_key().as_str()[3..13]);
    world.logs.create_log_group().log_group_name(&name).send().await.unwrap();
    let arn = format!("arn:aws:logs:us-east-1:000000000000:log-group:{name}:*");
    let group = CloudWatchLogsLogGroup::builder().log_group_arn(arn).build();
    let destination = LogDestination::builder().cloud_watch_logs_log_group(group).build();
    let logging = LoggingConfiguration::builder()
        .level(LogLevel::All)
        .include_execution_data(true)
        .destinations(destination)
        .build();
    let items = json!({"StartAt": "Each", "States": {"Each": {"Type": "Pass", "End": true}}});
    let states = json!({
        "First": {"Type": "Map", "ItemsPath": "$.list", "MaxConcurrency": 1, "ItemProcessor": items, "Next": "Second"},
        "Second": {"Type": "Fail", "Error": "NoPaper", "Cause": "empty"},
    });
    let definition = json!({"TimeoutSeconds": 60, "StartAt": "First", "States": states});
    let request = world.aws.create_state_machine().name(&name).definition(definition.to_string());
    let request = request.r#type(kind).logging_configuration(logging);
    let machine = request.role_arn("arn:aws:iam::000000000000:role/tests").send().await.unwrap();
    (machine.state_machine_arn, name)
}

/// Waits until the log contains the end of the execution, and returns it.
async fn wait_for_full_log(backend: &dyn Backend, handle: &JobHandle) -> LogText {
    let started_at = Instant::now();
    loop {
        let log = backend.abilities().logs.unwrap().tail(handle, &ALL).await.unwrap();
        if log.text.contains("the execution failed") {
            return log;
        }
        assert!(started_at.elapsed() < Duration::from_secs(120), "the end is not logged in time: {log:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Returns the lines without their times.
fn log_messages(log: &LogText) -> Vec<&str> {
    log.text.lines().map(|line| line.split_once(' ').unwrap().1).collect()
}

fn input() -> Value {
    json!({"list": [1, 2]})
}

/// The log of an Express execution comes from the log group of its state machine.
#[tokio::test(flavor = "multi_thread")]
async fn express_execution_reads_cloudwatch_log() {
    let world = World::new(Kind::LocalStack).await;
    let (machine, _) = create_logging_machine(&world, StateMachineType::Express).await;
    let mut handles = Vec::new();
    for _ in 0..2 {
        handles.push(world.backend.start(&start(&machine, input())).await.unwrap().handle);
    }
    for handle in &handles {
        let log = wait_for_full_log(&*world.backend, handle).await;
        let messages = log_messages(&log);
        assert_eq!(
            messages[..3],
            ["the execution started", "entered First", "a map of 2 items began"],
            "{log:?}"
        );
        assert!(messages.contains(&"item 1 of First succeeded") && !log.cut, "{log:?}");
        assert_eq!(messages.iter().filter(|message| **message == "entered Each").count(), 2, "{log:?}");
        assert_eq!(messages.last(), Some(&"the execution failed: NoPaper: empty"));
        // Handles of older versions contain no start time.
        let arn = handle.as_str().splitn(3, ':').last().unwrap();
        assert!(arn.starts_with("arn:aws:states:"), "{handle:?}");
        let legacy_log =
            world.backend.abilities().logs.unwrap().tail(&JobHandle::new(arn), &ALL).await.unwrap();
        assert_eq!(legacy_log, log);
    }
    let request = LogRequest { max_bytes: 100_000, search: Some("NOPAPER".to_owned()) };
    let matching = world.backend.abilities().logs.unwrap().tail(&handles[0], &request).await.unwrap();
    assert!(
        log_messages(&matching).iter().all(|message| message.contains("NoPaper"))
            && !matching.text.is_empty()
    );
    let requests = world.proxy.take_requests();
    let request = requests.iter().rfind(|request| request.operation == "FilterLogEvents").unwrap();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert!(body["startTime"].as_i64() > Some(1_704_067_200_000) && body["startFromHead"] == false, "{body}");

    let unlogged_machine = world.express(json!({"First": {"Type": "Pass", "End": true}})).await;
    let handle = world.backend.start(&start(&unlogged_machine, json!({}))).await.unwrap().handle;
    assert_eq!(
        world.backend.abilities().logs.unwrap().tail(&handle, &ALL).await.unwrap(),
        LogText::default()
    );
}

/// If the history may not be read, the log group of the state machine gives the same lines.
#[tokio::test(flavor = "multi_thread")]
async fn denied_history_falls_back_to_cloudwatch() {
    let world = World::new(Kind::LocalStack).await;
    let (machine, _) = create_logging_machine(&world, StateMachineType::Standard).await;
    let handle = world.backend.start(&start(&machine, input())).await.unwrap().handle;
    poll_until_ended(&*world.backend, &handle).await;
    let history = wait_for_full_log(&*world.backend, &handle).await;
    assert_eq!(world.proxy.take_counts().get("FilterLogEvents"), None, "the history is complete");
    let denied = Fault::ErrorResponse(400, "AccessDeniedException", "not authorized");
    let logs = world.backend.abilities().logs.unwrap();
    world.proxy.inject("GetExecutionHistory", denied.clone());
    let log = logs.tail(&handle, &ALL).await.unwrap();
    assert_eq!(log, history);

    world.proxy.inject("GetExecutionHistory", denied.clone());
    world.proxy.inject("FilterLogEvents", Fault::ErrorResponse(400, "ThrottlingException", "Rate exceeded"));
    let limited = logs.tail(&handle, &ALL).await.unwrap_err();
    assert!(matches!(limited.kind(), ErrorKind::Limited { .. }), "{limited}");

    let unlogged_machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    let handle = world.backend.start(&start(&unlogged_machine, json!({}))).await.unwrap().handle;
    world.proxy.inject("GetExecutionHistory", denied);
    let error = logs.tail(&handle, &ALL).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// The checkup tests whether the log groups of Express machines can be read.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_log_group_access() {
    let world = World::new(Kind::LocalStack).await;
    let (express, group) = create_logging_machine(&world, StateMachineType::Express).await;
    let (standard, _) = create_logging_machine(&world, StateMachineType::Standard).await;
    let tool = |name: &str, arn: &str| ToolTarget::new(name, json!({"state_machine": arn}));
    let tools = [tool("quick", &express), tool("slow", &standard)];
    let subject = "permission logs:FilterLogEvents";
    let checkup = world.backend.abilities().checkup.unwrap();
    let findings = checkup.check_up(&tools).await;
    let finding = findings.iter().find(|finding| finding.what == subject).unwrap();
    assert_eq!((finding.verdict, finding.says.as_str()), (Verdict::Ok, "allowed for tool `quick`"));
    let quick = findings.iter().find(|finding| finding.what == "tool `quick`").unwrap();
    assert!(quick.says.ends_with(&format!("EXPRESS; it logs to `{group}`")), "{quick:?}");

    world.proxy.inject("FilterLogEvents", Fault::ErrorResponse(400, "AccessDeniedException", "no"));
    let findings = checkup.check_up(&tools).await;
    let finding = findings.iter().find(|finding| finding.what == subject).unwrap();
    assert_eq!(finding.verdict, Verdict::Warning, "{finding:?}");
    assert!(finding.says.ends_with("without it, tasks have no log"), "{finding:?}");
    let policy = findings.iter().find(|finding| finding.what == "policy").unwrap().fix.as_deref().unwrap();
    assert!(policy.contains(&format!("arn:aws:logs:us-east-1:000000000000:log-group:{group}:*")), "{policy}");
}
