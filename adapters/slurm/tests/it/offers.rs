//! Tests of discovery: the batch scripts of a folder as tools, with the qualities of service of a real
//! accounting database, and the findings of `taskbridge doctor`.

use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{JobState, ToolTarget, Verdict};

use crate::harness::world::{TestCluster, World, assert_contains, poll_until_ended};

/// An invalid script beside it is reported by the checkup, and so are wrong targets.
#[tokio::test(flavor = "multi_thread")]
async fn offered_script_has_allowed_qos() {
    let config = json!({"discover": {"scripts": "tools", "qos": ["fast", "normal", "gold"]}});
    let world = World::on(TestCluster::shared(), config).await;
    world.script("tools/right.sh", "#SBATCH --time=1\necho with $SLURM_JOB_QOS");
    world.script("tools/wrong.sh", "#TASKBRIDGE nonsense\necho");
    let tools = world.backend.abilities().discovery.unwrap().discover().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["right"]);
    let (partition, minutes) =
        (&tools[0].input_schema["properties"]["partition"], &tools[0].input_schema["properties"]["minutes"]);
    assert_eq!(partition["enum"], json!(["main", "short"]), "the third is down: {partition}");
    assert_eq!(minutes["maximum"], json!(24 * 60), "{minutes}");
    let qos = &tools[0].input_schema["properties"]["qos"];
    assert_eq!(qos["enum"], json!(["fast", "normal"]), "{qos}");
    assert!(qos["description"].as_str().unwrap().contains("fast (at most 00:01:00)"), "{qos}");

    let call = job(tools[0].target.clone(), json!({"qos": "fast"}));
    let handle = world.backend.start(&call).await.unwrap().handle;
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    assert_contains(&observation, &["with fast"]);

    let tool = |name: &str, resources| {
        let target = json!({"script": "tools/right.sh", "resources": resources});
        ToolTarget::new(name, target)
    };
    let tools = [
        tool("slow", json!({"qos": "fast", "time": "2"})),
        tool("quick", json!({"qos": "fast", "time": "1", "account": "lab"})),
        tool("golden", json!({"qos": "gold"})),
        tool("huge", json!({"gpus": "8"})),
    ];
    let findings = world.backend.abilities().checkup.unwrap().check_up(&tools).await;
    let finding_for = |name: &str| findings.iter().find(|finding| finding.what.contains(name)).unwrap();
    assert!(finding_for("wrong.sh").says.contains("`#TASKBRIDGE nonsense`"), "{findings:?}");
    assert!(finding_for("`slow`").says.contains("`fast`, which allows 00:01:00"), "{findings:?}");
    assert!(finding_for("`golden`").says.contains("no quality of service `gold`"), "{findings:?}");
    assert!(
        finding_for("`huge`").says.contains("Requested node configuration is not available"),
        "{findings:?}"
    );
    assert_eq!(finding_for("`quick`").verdict, Verdict::Ok, "{findings:?}");
}
