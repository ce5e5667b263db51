//! Tests of the wrapper on a real cluster: variables that must not affect it, and signals that it passes on.

use serde_json::json;
use taskbridge_sdk::JobState;
use taskbridge_sdk::suite::job;

use crate::harness::world::{World, assert_contains, job_number, poll_until_ended, wait_for_script};

/// The variables of the config do not affect the wrapper that runs the script.
#[tokio::test(flavor = "multi_thread")]
async fn config_variable_changes_only_script_environment() {
    let world = World::new().await;
    std::fs::create_dir(world.folder().join("dataset")).unwrap();
    let other_script = world.script("dataset/script", "echo 'another script ran'");
    let arguments = json!({"dataset": other_script.parent().unwrap()});
    let target = json!({"env": {"folder": "{{ dataset }}", "run": "1", "PATH": "/nowhere"}});
    let lines = r#"echo "ours ran, with $folder, $run and $PATH""#;
    let (_, observation) = world.run(&world.job_with("ours", lines, arguments.clone(), target)).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    let dataset = arguments["dataset"].as_str().unwrap();
    assert_contains(&observation, &[&format!("ours ran, with {dataset}, 1 and /nowhere")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn script_receives_sent_signals() {
    let world = World::new().await;
    for signal in ["INT", "QUIT", "URG"] {
        let begun_file = world.folder().join(signal);
        let lines = format!(
            "trap 'echo heard {signal}; exit 0' {signal}; touch {}; while :; do sleep 0.1; done",
            begun_file.display()
        );
        let handle = world.backend.start(&world.job("hears", &lines)).await.unwrap().handle;
        wait_for_script(&*world.backend, &handle, &begun_file).await;
        let target = json!({"signal": {"job": "{{ job }}", "name": signal}});
        world.backend.start(&job(target, json!({"job": job_number(&handle)}))).await.unwrap();
        let observation = poll_until_ended(&*world.backend, &handle).await;
        assert!(matches!(observation.state, JobState::Succeeded(_)), "{signal}: {observation:?}");
        assert_contains(&observation, &[&format!("heard {signal}")]);
    }
}
