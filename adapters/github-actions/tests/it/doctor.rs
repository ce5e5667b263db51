//! Tests of the self-check, for faults that must be fixed at GitHub.

use serde_json::{Value, json};
use taskbridge_sdk::{Finding, ToolTarget, Verdict};

use crate::world::{World, run, workflow};

async fn run_checkup(world: &World, target: Value) -> Vec<Finding> {
    let tool = ToolTarget::new("deploy", target);
    let findings = world.backend.abilities().checkup.unwrap().check_up(&[tool]).await;
    assert!(findings.iter().all(|finding| !format!("{finding:?}").contains(&world.token)), "{findings:?}");
    findings
}

/// Asserts that there is such a finding with this verdict.
fn assert_finding(findings: &[Finding], verdict: Verdict, what: &str, text: &str) {
    let matches = |finding: &&Finding| finding.what == what && finding.says.contains(text);
    let finding = findings.iter().find(matches).unwrap_or_else(|| panic!("{what}: {text}: {findings:?}"));
    assert_eq!(finding.verdict, verdict, "{finding:?}");
}

/// A repository that cannot be read is one fault, which names all tools that need it.
async fn one_fault_for_many_tools(world: &World) {
    let tool = |tool: &str, repository: &str| {
        ToolTarget::new(tool, json!({"workflow": "work.yml", "repository": repository}))
    };
    let tools = [tool("one", "octo-org/none"), tool("two", "octo-org/none"), tool("three", &world.repo)];
    let findings = world.backend.abilities().checkup.unwrap().check_up(&tools).await;
    let faults: Vec<&Finding> = findings.iter().filter(|finding| finding.verdict == Verdict::Fault).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].what, "repository octo-org/none");
    assert!(faults[0].says.ends_with("; the tools `one`, `two` were not checked"), "{faults:?}");
    assert_finding(&findings, Verdict::Ok, "tool `three`", "starts work.yml");
}

/// The checkup names what to fix: token, workflow, webhook, rate limit and repository.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_faults_at_github() {
    let gated = workflow(&run("echo")).replace("runs-on:", "environment: production\n    runs-on:");
    let unmarked =
        workflow(&run("echo")).replace("run-name: test ${{ inputs.taskbridge_job }}", "run-name: test");
    let needs = workflow(&run("echo")).replace("inputs:\n", "inputs:\n      version: {required: true}\n");
    let files = [
        ("work.yml", workflow(&run("echo"))),
        ("gated.yml", gated),
        ("unmarked.yml", unmarked),
        ("needs.yml", needs),
    ];
    let world = World::with_settings(
        &files,
        json!({"environments": {"production": {}}}),
        json!({"webhook_secret": "s"}),
    )
    .await;
    let work = || json!({"workflow": "work.yml"});
    let healthy = run_checkup(&world, work()).await;
    assert!(healthy.iter().all(|finding| finding.verdict != Verdict::Fault), "{healthy:?}");
    assert_finding(&healthy, Verdict::Ok, "credential", "a classic token of a user with the scopes `repo`");
    assert_finding(&healthy, Verdict::Ok, "clock", "GitHub");
    assert_finding(&healthy, Verdict::Ok, "allowance", "of 5000 requests of this hour are left");
    assert_finding(&healthy, Verdict::Ok, "tool `deploy`", "starts work.yml");
    assert_finding(&healthy, Verdict::Warning, "webhook", "no webhook of");
    assert_finding(
        &run_checkup(&world, json!({"workflow": "unmarked.yml"})).await,
        Verdict::Warning,
        "tool `deploy`",
        "carry no mark",
    );
    assert_finding(
        &run_checkup(&world, json!({"workflow": "gated.yml"})).await,
        Verdict::Ok,
        "tool `deploy`",
        "a review of the environment production",
    );
    for (target, text) in [
        (json!({"workflow": "work.yml", "ref": "nowhere"}), "at nowhere"),
        (json!({"workflow": "work.yml", "inputs": {"vesion": "1"}}), "work.yml has no input `vesion`"),
        (json!({"workflow": "nowhere.yml"}), "no workflow nowhere.yml"),
    ] {
        assert_finding(&run_checkup(&world, target).await, Verdict::Fault, "tool `deploy`", text);
    }
    // Without `inputs`, the tool's parameters are the inputs.
    for (parameters, text) in [
        (json!({"vesion": {}}), "work.yml has no input `vesion`"),
        (json!({}), "needs.yml requires the input `version`, which no call gives"),
    ] {
        let file = text.split(' ').next().unwrap();
        let schema = json!({"properties": parameters, "additionalProperties": false});
        let tool = ToolTarget::new("deploy", json!({"workflow": file})).with_schema(&schema);
        let findings = world.backend.abilities().checkup.unwrap().check_up(&[tool]).await;
        assert_finding(&findings, Verdict::Fault, "tool `deploy`", text);
    }
    one_fault_for_many_tools(&world).await;
    let hook = |overrides: Value| {
        let mut hook = json!({"active": true, "events": ["workflow_run"],
            "config": {"url": "https://bridge.example.com/hooks/github", "content_type": "json"}});
        crate::world::merge(&mut hook, &overrides);
        json!({"webhooks": [hook]})
    };
    for (overrides, verdict, text) in [
        (json!({}), Verdict::Ok, "posts to /hooks/github"),
        (json!({"events": ["push"]}), Verdict::Warning, "does not send workflow runs"),
        (json!({"active": false}), Verdict::Warning, "is not active"),
    ] {
        world.control("change", hook(overrides));
        assert_finding(&run_checkup(&world, work()).await, verdict, "webhook", text);
    }
    world.control("change", json!({"push": false, "token": {"scopes": "read:org", "remaining": 100}}));
    let faulty = run_checkup(&world, work()).await;
    assert_finding(&faulty, Verdict::Fault, "credential", "it lacks `repo`");
    assert_finding(&faulty, Verdict::Warning, "allowance", "of 5000 requests");
    assert_finding(&faulty, Verdict::Fault, &format!("repository {}", world.repo), "cannot write");
}
