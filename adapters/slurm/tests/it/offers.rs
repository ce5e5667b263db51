//! Tests of discovery: the batch scripts of a folder as tools, with the qualities of service of a real
//! accounting database, and the findings of `taskbridge doctor`.

use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{JobState, ToolTarget, Verdict};

use crate::world::{Held, World, assert_says, ended};

/// An invalid script beside it is reported by the checkup, and so are wrong targets.
#[tokio::test(flavor = "multi_thread")]
async fn offered_script_has_allowed_qos() {
    let offered = json!({"discover": {"scripts": "tools", "qos": ["fast", "normal", "gold"]}});
    let world = World::on(Held::shared(), offered).await;
    world.script("tools/right.sh", "#SBATCH --time=1\necho with $SLURM_JOB_QOS");
    world.script("tools/wrong.sh", "#TASKBRIDGE nonsense\necho");
    let tools = world.backend.discovery().unwrap().discover().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["right"]);
    let (partition, minutes) =
        (&tools[0].input_schema["properties"]["partition"], &tools[0].input_schema["properties"]["minutes"]);
    assert_eq!(partition["enum"], json!(["main", "short"]), "the third is down: {partition}");
    assert_eq!(minutes["maximum"], json!(24 * 60), "{minutes}");
    let qos = &tools[0].input_schema["properties"]["qos"];
    assert_eq!(qos["enum"], json!(["fast", "normal"]), "{qos}");
    assert!(qos["description"].as_str().unwrap().contains("fast (at most 00:01:00)"), "{qos}");

    let asked = job(tools[0].target.clone(), json!({"qos": "fast"}));
    let handle = world.backend.start(&asked).await.unwrap().handle;
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
    assert_says(&seen, &["with fast"]);

    let tool = |name: &str, resources| {
        let target = json!({"script": "tools/right.sh", "resources": resources});
        ToolTarget { tool: name.to_owned(), target }
    };
    let tools = [
        tool("slow", json!({"qos": "fast", "time": "2"})),
        tool("quick", json!({"qos": "fast", "time": "1", "account": "lab"})),
        tool("golden", json!({"qos": "gold"})),
        tool("huge", json!({"gpus": "8"})),
    ];
    let found = world.backend.checkup().unwrap().check_up(&tools).await;
    let about = |what: &str| found.iter().find(|finding| finding.what.contains(what)).unwrap();
    assert!(about("wrong.sh").says.contains("`#TASKBRIDGE nonsense`"), "{found:?}");
    assert!(about("`slow`").says.contains("`fast`, which allows 00:01:00"), "{found:?}");
    assert!(about("`golden`").says.contains("no quality of service `gold`"), "{found:?}");
    assert!(about("`huge`").says.contains("Requested node configuration is not available"), "{found:?}");
    assert_eq!(about("`quick`").verdict, Verdict::Ok, "{found:?}");
}
