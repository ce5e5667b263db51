//! What the batch script around a tool's script keeps to itself, and what it passes on, on a real cluster.

use serde_json::json;
use taskbridge_sdk::JobState;

use crate::world::{World, assert_says};

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_of_the_config_changes_nothing_but_the_scripts_environment() {
    let world = World::new().await;
    std::fs::create_dir(world.folder().join("dataset")).unwrap();
    let theirs = world.script("dataset/script", "echo 'another script ran'");
    let arguments = json!({"dataset": theirs.parent().unwrap()});
    let target = json!({"env": {"folder": "{{ dataset }}", "run": "1", "PATH": "/nowhere"}});
    let lines = r#"echo "ours ran, with $folder, $run and $PATH""#;
    let (_, seen) = world.run(&world.job_with("ours", lines, arguments.clone(), target)).await;
    assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
    let dataset = arguments["dataset"].as_str().unwrap();
    assert_says(&seen, &[&format!("ours ran, with {dataset}, 1 and /nowhere")]);
}
