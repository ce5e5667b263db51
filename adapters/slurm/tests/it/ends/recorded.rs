//! Tests of states that the test cluster shows only on some machines. Recorded text replaces the real output
//! of sacct. The job is real.

use serde_json::json;
use taskbridge_sdk::JobState;

use crate::cluster::Fault;
use crate::harness::world::{World, assert_contains, job_number, poll_until_ended, wait_until_running};

/// `OUT_OF_MEMORY` needs control groups (`ends.rs` tests it on a real cluster, if the machine permits). This
/// is the output of Slurm 22.05 for a job that requested 30 MB, except for its number and name.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_oom_names_option_to_raise() {
    let world = World::new().await;
    let target = json!({"resources": {"memory": "30M"}});
    let job = world.job_with("greedy", "exec sleep 600", json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    let (id, key) = (job_number(&handle), job.key.as_str());
    let sacct_output = format!(
        "{id}|OUT_OF_MEMORY|0:125|1795357042|1795357042|1795357046|4|60||00:00.074|1|30M|node28459|{key}\n\
         {id}.batch|OUT_OF_MEMORY|0:125|1795357042|1795357042|1795357046|4||35516K|00:00.074|1||node28459|batch\n"
    );
    // The controller has forgotten it, and the accounting database returns this.
    world.commands.always("squeue", Fault::Says(""));
    world.commands.always("sacct", Fault::Says(&sacct_output));
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_contains(&observation, &["requested 30M of memory", "34.7 MB", "Raise `--mem`"]);
    world.cluster.run("scancel", &[&id]);
}
