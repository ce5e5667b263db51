//! Tests of a repository that is renamed while tasks run: they continue, and new ones start under the new
//! name.

use serde_json::json;
use taskbridge_sdk::{JobHandle, JobSpec, JobState, Subject, Verdict};

use crate::world::{World, ended, output, run, start, text, workflow};

#[tokio::test(flavor = "multi_thread")]
async fn renamed_repository_keeps_its_tasks() {
    let world = World::with(&[("work.yml", workflow(&run("sleep 600")))]).await;
    let handle = world.backend.start(&start("work.yml", json!({}))).await.unwrap().handle;
    assert!(handle.as_str().contains("/work.yml@"), "{handle}");
    // A handle of an earlier version has no id.
    let run = handle.as_str().split('/').nth(3).unwrap().parse().unwrap();
    let older = world.handle("work.yml", run);
    let renamed = format!("{}-renamed", world.repo);
    world.control("rename", json!({"to": renamed}));
    world.asked();
    for handle in [&handle, &older] {
        let seen = world.backend.observe(handle).await.unwrap();
        assert_eq!(seen.state, JobState::Running, "{seen:?}");
    }
    let subjects = Subject::watched(&[handle.clone(), older.clone()]);
    for seen in world.backend.observe_all(&world.backend.group(&handle), &subjects).await {
        assert_eq!(seen.unwrap().state, JobState::Running);
    }
    // A replica that knows only the old name starts a job once, and finds it.
    let other = world.another(json!({"token": world.token})).await.unwrap();
    let job = start("work.yml", json!({}));
    let started = other.start(&job).await.unwrap().handle;
    assert!(started.as_str().starts_with(&renamed), "{started}");
    assert_eq!(world.count(job.key.as_str()), 1);
    let again = JobSpec { may_exist: true, ..job };
    assert_eq!(other.find(&again).await.unwrap().unwrap().handle, started);
    // This backend connected before the rename.
    let job = start("work.yml", json!({}));
    let started = world.backend.start(&job).await.unwrap().handle;
    assert_eq!(world.count(job.key.as_str()), 1);

    for handle in [&started, &handle] {
        world.backend.cancel(handle).await.unwrap();
        let seen = ended(&*world.backend, handle).await;
        assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
        assert!(text(output(&seen)).contains(&renamed), "{seen:?}");
    }
    let found = world.backend.checkup().unwrap().check_up(&[]).await;
    let finding = found.iter().find(|finding| finding.what.starts_with("repository")).unwrap();
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.says.contains(&renamed), "{finding:?}");
}

/// A run that began under the old name can be rerun under the new one.
#[tokio::test(flavor = "multi_thread")]
async fn renamed_run_can_be_rerun() {
    let world = World::with(&[("work.yml", workflow(&run("exit 3")))]).await;
    let (handle, _) = world.run("work.yml", json!({})).await;
    let renamed = format!("{}-renamed", world.repo);
    world.control("rename", json!({"to": renamed}));
    let backend = world.another(json!({"token": world.token, "repository": renamed})).await.unwrap();
    let target = json!({"workflow": "work.yml", "rerun": "{{ run }}"});
    let job = taskbridge_sdk::suite::job(target, json!({"run": handle.as_str()}));
    let again: JobHandle = backend.start(&job).await.unwrap().handle;
    assert!(again.as_str().starts_with(&renamed) && again.as_str().ends_with("/2"), "{again}");
    assert!(matches!(ended(&*backend, &again).await.state, JobState::Failed(_)));
    let listed = world.control("listed", json!({}));
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}
