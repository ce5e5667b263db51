//! What the test cluster cannot show, by what sacct prints of it elsewhere: text in place of the real command. Only the text is not
//! real; the job is.

use serde_json::json;
use taskbridge_sdk::JobState;

use crate::cluster::Fault;
use crate::world::{World, assert_says, ended, number, runs};

/// `OUT_OF_MEMORY` comes from cgroups. Its exit code is `0:125`, and it is that of the batch step, too.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_accounting_text_of_a_job_out_of_memory_is_told_with_what_to_raise() {
    let world = World::new().await;
    let target = json!({"resources": {"memory": "1G"}});
    let job = world.job_with("greedy", "exec sleep 600", json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    let (id, key) = (number(&handle), job.key.as_str());
    let recorded = format!(
        "{id}|OUT_OF_MEMORY|0:125|1795339653|1795339655|1795339714|59|60||00:41.120|1|1G|n1|{key}\n\
         {id}.batch|OUT_OF_MEMORY|0:125|1795339655|1795339655|1795339714|59||1048112K|00:41.120|1||n1|batch"
    );
    // The controller has forgotten it, and the accounting says this.
    world.commands.always("squeue", Fault::Says(""));
    world.commands.always("sacct", Fault::Says(&recorded));
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Failed(_)), "{seen:?}");
    assert_says(&seen, &["asked for 1G of memory", "1023.5 MB", "Raise `--mem`"]);
    world.cluster.run("scancel", &[&id]);
}
