//! Tests of the logs in CloudWatch: those of an Express execution, and those of a Standard one whose history
//! is not readable.

use std::time::{Duration, Instant};

use aws_sdk_sfn::types::{
    CloudWatchLogsLogGroup, LogDestination, LogLevel, LoggingConfiguration, StateMachineType,
};
use serde_json::{Value, json};
use taskbridge_sdk::{Backend, ErrorKind, JobHandle, LogRequest, LogText, ToolTarget, Verdict};

use crate::proxy::Fault;
use crate::standin::Kind;
use crate::world::{World, ended, start};

const ALL: LogRequest = LogRequest { max_bytes: 100_000, search: None };

/// Creates a state machine that logs everything, and a log group with the same name.
async fn logging(world: &World, kind: StateMachineType) -> (String, String) {
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
    let made = world.aws.create_state_machine().name(&name).definition(definition.to_string());
    let made = made.r#type(kind).logging_configuration(logging);
    let made = made.role_arn("arn:aws:iam::000000000000:role/tests").send().await.unwrap();
    (made.state_machine_arn, name)
}

/// Waits until the log contains the end of the execution, and returns it.
async fn whole(backend: &dyn Backend, handle: &JobHandle) -> LogText {
    let begun = Instant::now();
    loop {
        let log = backend.logs().unwrap().tail(handle, &ALL).await.unwrap();
        if log.text.contains("the execution failed") {
            return log;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the end is never logged: {log:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Returns the lines without their times.
fn words(log: &LogText) -> Vec<&str> {
    log.text.lines().map(|line| line.split_once(' ').unwrap().1).collect()
}

fn input() -> Value {
    json!({"list": [1, 2]})
}

/// The log of an Express execution comes from the log group of its state machine.
#[tokio::test(flavor = "multi_thread")]
async fn express_execution_reads_cloudwatch_log() {
    let world = World::new(Kind::LocalStack).await;
    let (machine, _) = logging(&world, StateMachineType::Express).await;
    let mut handles = Vec::new();
    for _ in 0..2 {
        handles.push(world.backend.start(&start(&machine, input())).await.unwrap().handle);
    }
    for handle in &handles {
        let log = whole(&*world.backend, handle).await;
        let said = words(&log);
        assert_eq!(
            said[..3],
            ["the execution started", "entered First", "a map of 2 items began"],
            "{log:?}"
        );
        assert!(said.contains(&"item 1 of First succeeded") && !log.cut, "{log:?}");
        assert_eq!(said.iter().filter(|words| **words == "entered Each").count(), 2, "{log:?}");
        assert_eq!(said.last(), Some(&"the execution failed: NoPaper: empty"));
        // Handles of older versions contain no start time.
        let arn = handle.as_str().splitn(3, ':').last().unwrap();
        assert!(arn.starts_with("arn:aws:states:"), "{handle:?}");
        let before = world.backend.logs().unwrap().tail(&JobHandle::new(arn), &ALL).await.unwrap();
        assert_eq!(before, log);
    }
    let request = LogRequest { max_bytes: 100_000, search: Some("NOPAPER".to_owned()) };
    let found = world.backend.logs().unwrap().tail(&handles[0], &request).await.unwrap();
    assert!(words(&found).iter().all(|words| words.contains("NoPaper")) && !found.text.is_empty());
    let asked = world.proxy.asked();
    let asked = asked.iter().rfind(|asked| asked.operation == "FilterLogEvents").unwrap();
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    assert!(body["startTime"].as_i64() > Some(1_704_067_200_000) && body["startFromHead"] == false, "{body}");

    let silent = world.express(json!({"First": {"Type": "Pass", "End": true}})).await;
    let handle = world.backend.start(&start(&silent, json!({}))).await.unwrap().handle;
    assert_eq!(world.backend.logs().unwrap().tail(&handle, &ALL).await.unwrap(), LogText::default());
}

/// If the history may not be read, the log group of the state machine gives the same lines.
#[tokio::test(flavor = "multi_thread")]
async fn denied_history_falls_back_to_cloudwatch() {
    let world = World::new(Kind::LocalStack).await;
    let (machine, _) = logging(&world, StateMachineType::Standard).await;
    let handle = world.backend.start(&start(&machine, input())).await.unwrap().handle;
    ended(&*world.backend, &handle).await;
    let history = whole(&*world.backend, &handle).await;
    assert_eq!(world.proxy.counts().get("FilterLogEvents"), None, "the history has all of it");
    let denied = Fault::Answered(400, "AccessDeniedException", "not authorized");
    let logs = world.backend.logs().unwrap();
    world.proxy.make("GetExecutionHistory", denied.clone());
    let logged = logs.tail(&handle, &ALL).await.unwrap();
    assert_eq!(logged, history);

    world.proxy.make("GetExecutionHistory", denied.clone());
    world.proxy.make("FilterLogEvents", Fault::Answered(400, "ThrottlingException", "Rate exceeded"));
    let limited = logs.tail(&handle, &ALL).await.unwrap_err();
    assert!(matches!(limited.kind(), ErrorKind::Limited { .. }), "{limited}");

    let silent = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    let handle = world.backend.start(&start(&silent, json!({}))).await.unwrap().handle;
    world.proxy.make("GetExecutionHistory", denied);
    let error = logs.tail(&handle, &ALL).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// The checkup tests whether the log groups of Express machines can be read.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_log_group_access() {
    let world = World::new(Kind::LocalStack).await;
    let (express, group) = logging(&world, StateMachineType::Express).await;
    let (standard, _) = logging(&world, StateMachineType::Standard).await;
    let tool =
        |name: &str, arn: &str| ToolTarget { tool: name.to_owned(), target: json!({"state_machine": arn}) };
    let tools = [tool("quick", &express), tool("slow", &standard)];
    let what = "permission logs:FilterLogEvents";
    let checkup = world.backend.checkup().unwrap();
    let found = checkup.check_up(&tools).await;
    let finding = found.iter().find(|finding| finding.what == what).unwrap();
    assert_eq!((finding.verdict, finding.says.as_str()), (Verdict::Ok, "allowed for tool `quick`"));
    let quick = found.iter().find(|finding| finding.what == "tool `quick`").unwrap();
    assert!(quick.says.ends_with(&format!("EXPRESS; it logs to `{group}`")), "{quick:?}");

    world.proxy.make("FilterLogEvents", Fault::Answered(400, "AccessDeniedException", "no"));
    let found = checkup.check_up(&tools).await;
    let finding = found.iter().find(|finding| finding.what == what).unwrap();
    assert_eq!(finding.verdict, Verdict::Warning, "{finding:?}");
    assert!(finding.says.ends_with("without it, tasks have no log"), "{finding:?}");
    let policy = found.iter().find(|finding| finding.what == "policy").unwrap().fix.as_deref().unwrap();
    assert!(policy.contains(&format!("arn:aws:logs:us-east-1:000000000000:log-group:{group}:*")), "{policy}");
}
