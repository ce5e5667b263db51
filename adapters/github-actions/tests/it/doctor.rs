//! Tests of the self-check, for faults that must be fixed at GitHub.

use serde_json::{Value, json};
use taskbridge_sdk::{Finding, ToolTarget, Verdict};

use crate::world::{World, run, workflow};

async fn found(world: &World, target: Value) -> Vec<Finding> {
    let tool = ToolTarget { tool: "deploy".to_owned(), target };
    let found = world.backend.checkup().unwrap().check_up(&[tool]).await;
    assert!(found.iter().all(|finding| !format!("{finding:?}").contains(&world.token)), "{found:?}");
    found
}

/// Asserts that there is such a finding with this verdict.
fn says(found: &[Finding], verdict: Verdict, what: &str, words: &str) {
    let is_it = |finding: &&Finding| finding.what == what && finding.says.contains(words);
    let finding = found.iter().find(is_it).unwrap_or_else(|| panic!("{what}: {words}: {found:?}"));
    assert_eq!(finding.verdict, verdict, "{finding:?}");
}

/// A repository that cannot be read is one fault, which names all tools that need it.
async fn one_fault_for_many_tools(world: &World) {
    let tool = |tool: &str, repository: &str| ToolTarget {
        tool: tool.to_owned(),
        target: json!({"workflow": "work.yml", "repository": repository}),
    };
    let tools = [tool("one", "octo-org/none"), tool("two", "octo-org/none"), tool("three", &world.repo)];
    let found = world.backend.checkup().unwrap().check_up(&tools).await;
    let faults: Vec<&Finding> = found.iter().filter(|finding| finding.verdict == Verdict::Fault).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].what, "repository octo-org/none");
    assert!(faults[0].says.ends_with("; the tools `one`, `two` were not checked"), "{faults:?}");
    says(&found, Verdict::Ok, "tool `three`", "it starts work.yml");
}

/// The checkup names what to fix: token, workflow, webhook, rate limit and repository.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_faults_at_github() {
    let gated = workflow(&run("echo")).replace("runs-on:", "environment: production\n    runs-on:");
    let unmarked =
        workflow(&run("echo")).replace("run-name: test ${{ inputs.taskbridge_job }}", "run-name: test");
    let files = [("work.yml", workflow(&run("echo"))), ("gated.yml", gated), ("unmarked.yml", unmarked)];
    let world =
        World::of(&files, json!({"environments": {"production": {}}}), json!({"webhook_secret": "s"})).await;
    let work = || json!({"workflow": "work.yml"});
    let right = found(&world, work()).await;
    assert!(right.iter().all(|finding| finding.verdict != Verdict::Fault), "{right:?}");
    says(&right, Verdict::Ok, "credential", "a classic token of a user with the scopes `repo`");
    says(&right, Verdict::Ok, "clock", "GitHub");
    says(&right, Verdict::Ok, "allowance", "of 5000 requests of this hour are left");
    says(&right, Verdict::Ok, "tool `deploy`", "it starts work.yml");
    says(&right, Verdict::Warning, "webhook", "no webhook of");
    says(
        &found(&world, json!({"workflow": "unmarked.yml"})).await,
        Verdict::Warning,
        "tool `deploy`",
        "carry no mark",
    );
    says(
        &found(&world, json!({"workflow": "gated.yml"})).await,
        Verdict::Ok,
        "tool `deploy`",
        "a review of the environment production",
    );
    for (target, words) in [
        (json!({"workflow": "work.yml", "ref": "nowhere"}), "at nowhere"),
        (json!({"workflow": "work.yml", "inputs": {"vesion": "1"}}), "gives the input `vesion`"),
        (json!({"workflow": "nowhere.yml"}), "no workflow nowhere.yml"),
    ] {
        says(&found(&world, target).await, Verdict::Fault, "tool `deploy`", words);
    }
    one_fault_for_many_tools(&world).await;
    let hook = |more: Value| {
        let mut hook = json!({"active": true, "events": ["workflow_run"],
            "config": {"url": "https://bridge.example.com/hooks/github", "content_type": "json"}});
        crate::world::merge(&mut hook, &more);
        json!({"webhooks": [hook]})
    };
    for (more, verdict, words) in [
        (json!({}), Verdict::Ok, "posts to /hooks/github"),
        (json!({"events": ["push"]}), Verdict::Warning, "does not tell of runs"),
        (json!({"active": false}), Verdict::Warning, "is not active"),
    ] {
        world.control("change", hook(more));
        says(&found(&world, work()).await, verdict, "webhook", words);
    }
    world.control("change", json!({"push": false, "token": {"scopes": "read:org", "remaining": 100}}));
    let wrong = found(&world, work()).await;
    says(&wrong, Verdict::Fault, "credential", "it lacks `repo`");
    says(&wrong, Verdict::Warning, "allowance", "of 5000 requests");
    says(&wrong, Verdict::Fault, &format!("repository {}", world.repo), "may not write");
}
