//! Tests of the self-check: findings without faults, and for each fault the cause and the fix.

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::{Finding, ToolTarget, Verdict};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{REGION, World};

fn tool(name: &str, machine: &str) -> ToolTarget {
    ToolTarget::new(name, json!({"state_machine": machine}))
}

async fn run_checkup(world: &World, tools: &[ToolTarget]) -> Vec<Finding> {
    world.backend.abilities().checkup.unwrap().check_up(tools).await
}

fn finding_about<'a>(findings: &'a [Finding], subject: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.what == subject)
        .unwrap_or_else(|| panic!("no finding about {subject}: {findings:#?}"))
}

/// Returns all findings that are not ok.
fn not_ok(findings: &[Finding]) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.verdict != Verdict::Ok).collect()
}

fn wait_states() -> Value {
    json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})
}

/// The checkup of a valid deployment finds no fault and starts no execution.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_passes_valid_setup_without_start() {
    for kind in [Kind::LocalStack, Kind::MiniStack] {
        let world = World::with(kind, json!({"hook_secret": "s3cret-hook"})).await;
        let machine = world.machine(wait_states()).await;
        let findings = run_checkup(&world, &[tool("deploy", &machine)]).await;
        let problems: Vec<_> =
            not_ok(&findings).into_iter().filter(|finding| finding.what != "clock").collect();
        assert_eq!(problems, Vec::<&Finding>::new(), "{kind:?}");
        assert_eq!(finding_about(&findings, "credentials").says, "from a profile; long-term");
        assert_eq!(finding_about(&findings, "Step Functions").says, format!("reachable in `{REGION}`"));
        assert_eq!(finding_about(&findings, "tool `deploy`").says, format!("starts `{machine}`, STANDARD"));
        for action in ["Start", "Stop", "Describe", "List"] {
            let subject =
                format!("permission states:{action}Execution{}", if action == "List" { "s" } else { "" });
            assert_eq!(finding_about(&findings, &subject).says, "allowed for tool `deploy`", "{kind:?}");
        }
        assert!(finding_about(&findings, "webhook").says.contains("/hooks/aws"));
        assert!(!format!("{findings:?}").contains("s3cret"), "{findings:?}");
        let executions = world.aws.list_executions().state_machine_arn(&machine).send().await.unwrap();
        assert_eq!(executions.executions.len(), 0, "{kind:?}");
    }
}

/// A denied call is reported with its consequence and with the policy that allows it.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_denied_call_and_policy() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(wait_states()).await;
    let executions = format!("{}:tb-*", machine.replacen(":stateMachine:", ":execution:", 1));
    let denial = "User: arn:aws:iam::000000000000:user/tests is not authorized to perform it";
    for (operation, verdict, resource, consequence) in [
        ("StartExecution", Verdict::Fault, &machine, "nothing is started"),
        ("StopExecution", Verdict::Fault, &executions, "tasks cannot be cancelled"),
        ("DescribeExecution", Verdict::Fault, &executions, "ends of executions are not detected"),
        ("ListExecutions", Verdict::Warning, &machine, "executions are polled one by one"),
        ("GetExecutionHistory", Verdict::Warning, &executions, "there is no progress"),
    ] {
        world.proxy.inject(operation, Fault::ErrorResponse(400, "AccessDeniedException", denial));
        let findings = run_checkup(&world, &[tool("deploy", &machine)]).await;
        let problems: Vec<_> =
            not_ok(&findings).into_iter().filter(|finding| finding.what != "clock").collect();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        let finding = finding_about(&findings, &format!("permission states:{operation}"));
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        let expected = format!(
            "denied for tool `deploy`: {operation}: AccessDeniedException: {denial}; without it, {consequence}"
        );
        assert!(finding.says.starts_with(&expected), "{finding:?}");
        let fix = finding.fix.as_deref().unwrap();
        assert!(fix.starts_with(&format!("allow `states:{operation}` on {resource};")), "{fix}");
        let policy: Value =
            serde_json::from_str(finding_about(&findings, "policy").fix.as_deref().unwrap()).unwrap();
        assert_eq!(
            policy["Statement"],
            json!([
                {"Effect": "Allow", "Resource": [&executions], "Action":
                    ["states:DescribeExecution", "states:GetExecutionHistory", "states:StopExecution"]},
                {"Effect": "Allow", "Resource": [&machine], "Action":
                    ["states:DescribeStateMachine", "states:ListExecutions", "states:StartExecution"]},
            ])
        );
    }
    world.proxy.inject("DescribeStateMachine", Fault::ErrorResponse(400, "AccessDeniedException", denial));
    let findings = run_checkup(&world, &[tool("deploy", &machine)]).await;
    assert!(finding_about(&findings, "tool `deploy`").says.contains("cannot be checked"), "{findings:#?}");
    assert_eq!(finding_about(&findings, "permission states:DescribeStateMachine").verdict, Verdict::Fault);
}

/// Invalid credentials, a wrong region and a wrong clock are each reported as such.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_distinguishes_credentials_region_and_clock() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(wait_states()).await;
    let tools = [tool("deploy", &machine)];
    for code in ["ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException"] {
        world
            .proxy
            .inject("ListStateMachines", Fault::ErrorResponse(400, code, "The token T0KEN is no good"));
        let findings = run_checkup(&world, &tools).await;
        let fault = findings.last().unwrap();
        assert_eq!((fault.what.as_str(), fault.verdict), ("credentials", Verdict::Fault), "{findings:#?}");
        assert!(
            fault.says.contains(code) && fault.says.contains("check that they have not expired"),
            "{fault:?}"
        );
        assert!(fault.fix.as_deref().unwrap().contains("aws sso login") && !fault.says.contains("T0KEN"));
    }

    world.proxy.inject("ListStateMachines", Fault::DatedResponse("Thu, 01 Jan 2026 00:00:00 GMT"));
    let clock = finding_about(&run_checkup(&world, &tools).await, "clock").clone();
    assert_eq!(clock.verdict, Verdict::Fault, "{clock:?}");
    assert!(clock.says.contains("ahead of AWS's") && clock.fix.unwrap().contains("NTP"), "{}", clock.says);

    let address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unreachable = world
        .connect_another(json!({"endpoint": format!("http://{address}"), "region": "eu-nowhere-1"}))
        .await;
    let findings = unreachable.abilities().checkup.unwrap().check_up(&tools).await;
    let fault = finding_about(&findings, "Step Functions");
    assert!(fault.says.starts_with(&format!("in `eu-nowhere-1`, at http://{address}: ")), "{fault:?}");
    assert!(
        fault.says.contains("cannot be reached") && fault.fix.as_deref().unwrap().contains("`region`"),
        "{fault:?}"
    );

    let other = machine.replace(REGION, "eu-west-1");
    let findings = self::run_checkup(&world, &[tool("elsewhere", &other)]).await;
    let fault = finding_about(&findings, "tool `elsewhere`");
    assert!(fault.verdict == Verdict::Fault && fault.says.contains("another region"), "{fault:?}");
}

/// Every target is looked up. A missing or unbounded machine and an invalid target are faults.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_target_that_cannot_work() {
    let world = World::new(Kind::LocalStack).await;
    let good = world.machine(wait_states()).await;
    let deleted = world.machine(wait_states()).await;
    world.aws.delete_state_machine().state_machine_arn(&deleted).send().await.unwrap();
    let quick = |timeout: Value| json!({"TimeoutSeconds": timeout, "StartAt": "First", "States": {"First": {"Type": "Pass", "End": true}}});
    let bounded = world.define(quick(json!(60)), StateMachineType::Express).await;
    let late = world.define(quick(json!(300)), StateMachineType::Express).await;
    let endless = world
        .define(
            json!({"StartAt": "First", "States": {"First": {"Type": "Pass", "End": true}}}),
            StateMachineType::Express,
        )
        .await;
    let mut accepted = tool("accepted", &endless);
    accepted.target["unbounded"] = json!(true);
    let mut follows = tool("follows", &bounded);
    follows.target["attach"] = json!("{{ execution }}");
    let tools = [
        tool("good", &good),
        tool("by_name", good.rsplit(':').next().unwrap()),
        tool("gone", &deleted),
        tool("nobody", "no-such-machine"),
        tool("bounded", &bounded),
        tool("late", &late),
        tool("endless", &endless),
        accepted,
        follows,
        ToolTarget::new("odd", json!({"machine": "x"})),
    ];
    let findings = run_checkup(&world, &tools).await;
    for (name, part, fix) in [
        ("gone", "StateMachineDoesNotExist", "create the state machine"),
        ("nobody", "there is no state machine `no-such-machine` in the region", "create the state machine"),
        ("late", "its `TimeoutSeconds` is 300: the server waits 120 s", "\"TimeoutSeconds\": 119"),
        ("endless", "has no `TimeoutSeconds`, so it may take five minutes", "raise `lease`"),
        ("follows", "an execution of an Express state machine cannot be followed", "remove `attach`"),
        ("odd", "unknown field `machine`", "taskbridge check"),
    ] {
        let fault = finding_about(&findings, &format!("tool `{name}`"));
        assert_eq!(fault.verdict, Verdict::Fault, "{fault:?}");
        assert!(fault.says.contains(part) && fault.fix.as_deref().unwrap().contains(fix), "{fault:?}");
    }
    for name in ["good", "by_name", "bounded", "accepted"] {
        assert_eq!(finding_about(&findings, &format!("tool `{name}`")).verdict, Verdict::Ok);
    }
    assert_eq!(finding_about(&findings, "permission states:StartSyncExecution").verdict, Verdict::Ok);
    assert!(
        finding_about(&findings, "permission states:ListStateMachines")
            .says
            .contains("whose state machine is a name")
    );
}

/// The checkup covers discovered machines, activities and the queue.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_discovery_and_question_channels() {
    let prefix = format!("c{}", &taskbridge_sdk::suite::fresh_key().as_str()[3..13]);
    let activity = format!("arn:aws:states:{REGION}:000000000000:activity:{prefix}");
    let world = World::new(Kind::LocalStack).await;
    let queue = world.sqs.create_queue().queue_name(&prefix).send().await.unwrap().queue_url.unwrap();
    let path = queue.split("/000000000000/").last().unwrap();
    let queue = format!("http://127.0.0.1:{}/000000000000/{path}", world.proxy.port);
    let config = |queue: &str| json!({"discover": {"starting_with": prefix, "tags": {"ours": ""}}, "activities": [activity], "queue": queue});
    let backend = world.connect_another(config(&queue)).await;
    let tags = [("ours", "x")];
    let define = |comment: &str| json!({"Comment": comment, "StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}});
    let name = |rest: &str| format!("{prefix}-{rest}");
    world.create_named(&name("good"), define(""), StateMachineType::Standard, &tags).await;
    world.create_named(&name("bad"), define("``` [1] ```"), StateMachineType::Standard, &tags).await;
    world.create_named(&name("quick"), define(""), StateMachineType::Express, &tags).await;
    backend.abilities().discovery.unwrap().discover().await.unwrap();
    let findings = backend.abilities().checkup.unwrap().check_up(&[]).await;
    let activity_fault = finding_about(&findings, &format!("activity `{activity}`"));
    assert!(activity_fault.says.contains("ActivityDoesNotExist"), "{activity_fault:?}");
    assert_eq!(finding_about(&findings, "queue").verdict, Verdict::Ok);
    let bad = finding_about(&findings, &format!("state machine `{}`", name("bad")));
    assert!(bad.verdict == Verdict::Warning && bad.says.contains("not a JSON object"), "{bad:?}");
    let quick = finding_about(&findings, &format!("state machine `{}`", name("quick")));
    assert!(quick.says.starts_with("not offered as a tool: the state machine is Express"), "{quick:?}");
    for action in
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "states:SendTaskSuccess", "states:ListTagsForResource"]
    {
        assert_eq!(
            finding_about(&findings, &format!("permission {action}")).verdict,
            Verdict::Ok,
            "{findings:#?}"
        );
    }
    world.aws.create_activity().name(&prefix).send().await.unwrap();
    let other_backend = world.connect_another(config(&queue.replace(&prefix, "nowhere"))).await;
    world.proxy.inject("ListTagsForResource", Fault::ErrorResponse(400, "AccessDeniedException", "no tags"));
    let findings = other_backend.abilities().checkup.unwrap().check_up(&[]).await;
    assert_eq!(finding_about(&findings, &format!("activity `{activity}`")).verdict, Verdict::Ok);
    let fault = finding_about(&findings, "queue");
    assert!(fault.verdict == Verdict::Fault && fault.says.contains("nowhere"), "{fault:?}");
}
