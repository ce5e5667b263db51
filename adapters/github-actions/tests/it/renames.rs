//! Tests of a repository that is renamed while tasks run: they continue, and new ones start under the new
//! name.

use serde_json::json;
use taskbridge_sdk::{JobHandle, JobSpec, JobState, Subject, Verdict};

use crate::world::{World, output, poll_until_ended, run, start, text, workflow};

#[tokio::test(flavor = "multi_thread")]
async fn renamed_repository_keeps_its_tasks() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("sleep 600")))]).await;
    let handle = world.backend.start(&start("work.yml", json!({}))).await.unwrap().handle;
    assert!(handle.as_str().contains("/work.yml@"), "{handle}");
    // A handle of an earlier version has no id.
    let run = handle.as_str().split('/').nth(3).unwrap().parse().unwrap();
    let old_handle = world.handle("work.yml", run);
    let new_name = format!("{}-renamed", world.repo);
    world.control("rename", json!({"to": new_name}));
    world.take_requests();
    for handle in [&handle, &old_handle] {
        let observation = world.backend.observe(handle).await.unwrap();
        assert_eq!(observation.state, JobState::Running, "{observation:?}");
    }
    let subjects = Subject::watched(&[handle.clone(), old_handle.clone()]);
    for result in world.backend.observe_all(&world.backend.group(&handle), &subjects).await {
        assert_eq!(result.unwrap().state, JobState::Running);
    }
    // A replica that knows only the old name starts a job once, and finds it.
    let other_backend = world.connect_another(json!({"token": world.token})).await.unwrap();
    let job = start("work.yml", json!({}));
    let started = other_backend.start(&job).await.unwrap().handle;
    assert!(started.as_str().starts_with(&new_name), "{started}");
    assert_eq!(world.count(job.key.as_str()), 1);
    let retry = JobSpec { may_exist: true, ..job };
    assert_eq!(other_backend.find(&retry).await.unwrap().unwrap().handle, started);
    // This backend connected before the rename.
    let job = start("work.yml", json!({}));
    let started = world.backend.start(&job).await.unwrap().handle;
    assert_eq!(world.count(job.key.as_str()), 1);

    for handle in [&started, &handle] {
        world.backend.cancel(handle).await.unwrap();
        let observation = poll_until_ended(&*world.backend, handle).await;
        assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
        assert!(text(output(&observation)).contains(&new_name), "{observation:?}");
    }
    let findings = world.backend.abilities().checkup.unwrap().check_up(&[]).await;
    let finding = findings.iter().find(|finding| finding.what.starts_with("repository")).unwrap();
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.says.contains(&new_name), "{finding:?}");
}

/// A run that began under the old name can be rerun under the new one.
#[tokio::test(flavor = "multi_thread")]
async fn renamed_run_can_be_rerun() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("exit 3")))]).await;
    let (handle, _) = world.run("work.yml", json!({})).await;
    let new_name = format!("{}-renamed", world.repo);
    world.control("rename", json!({"to": new_name}));
    let backend = world.connect_another(json!({"token": world.token, "repository": new_name})).await.unwrap();
    let target = json!({"workflow": "work.yml", "rerun": "{{ run }}"});
    let job = taskbridge_sdk::suite::job(target, json!({"run": handle.as_str()}));
    let rerun_handle: JobHandle = backend.start(&job).await.unwrap().handle;
    assert!(
        rerun_handle.as_str().starts_with(&new_name) && rerun_handle.as_str().ends_with("/2"),
        "{rerun_handle}"
    );
    assert!(matches!(poll_until_ended(&*backend, &rerun_handle).await.state, JobState::Failed(_)));
    let listed = world.control("listed", json!({}));
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}
