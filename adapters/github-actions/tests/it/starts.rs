//! Tests of starts: the run of a dispatch, lost responses, and rejections before the dispatch.

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobSpec, JobState};

use crate::world::{World, output, poll_until_ended, run, start, text, workflow};

const DISPATCH: &str = "actions/create-workflow-dispatch";
const RUNS: &str = "actions/list-workflow-runs";

/// Returns a workflow with inputs of every type.
fn release() -> String {
    let inputs = "      version: {type: string, required: true}\n      dry: {type: boolean, default: false}\n      count: {type: number}\n      \
                  where: {type: choice, options: [staging, production]}\n      taskbridge_job: {type: string}";
    workflow(&run("echo ${{ inputs.version }} ${{ inputs.dry }} ${{ inputs.count }} ${{ inputs.where }}"))
        .replace("      taskbridge_job: {type: string}", inputs)
}

fn dispatch_count(world: &World) -> usize {
    world.take_requests().iter().filter(|(operation, _)| operation == DISPATCH).count()
}

/// Text, boolean, number and choice inputs reach the run with their values.
#[tokio::test(flavor = "multi_thread")]
async fn inputs_reach_run_as_declared() {
    let world = World::with_workflows(&[("release.yml", release())]).await;
    let (handle, observation) = world
        .run("release.yml", json!({"version": "1.4", "dry": true, "count": 2.5, "where": "staging"}))
        .await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    let request = taskbridge_sdk::LogRequest { max_bytes: 1000, search: None };
    let log = world.backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap();
    assert!(log.text.ends_with("1.4 true 2.5 staging\n"), "{}", log.text);
}

/// A start that GitHub would refuse is rejected with the reason before the dispatch.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_start_is_refused_without_dispatch() {
    let unstartable = release().replace("workflow_dispatch", "workflow_call");
    let world = World::with_workflows(&[("release.yml", release()), ("other.yml", unstartable)]).await;
    world.control("change", json!({"branches": ["release/1.4"]}));
    world.take_requests();
    let target = |overrides: Value| {
        let mut target = json!({"workflow": "release.yml"});
        crate::world::merge(&mut target, &overrides);
        target
    };
    let unknown_branch = json!({"version": "1", "branch": "nowhere"});
    let version = json!({"version": "{{ version }}"});
    for (target, arguments, kind, expected) in [
        (target(json!({})), json!({}), ErrorKind::Rejected, "needs the input `version`"),
        (
            target(json!({})),
            json!({"version": "1", "where": "moon"}),
            ErrorKind::Rejected,
            "must be one of `staging`, `production`",
        ),
        (
            target(json!({})),
            json!({"version": "1", "count": "many"}),
            ErrorKind::Rejected,
            "the input `count` must be a number",
        ),
        (
            target(json!({})),
            json!({"version": "1", "dry": "perhaps"}),
            ErrorKind::Rejected,
            "the input `dry` must be true or false",
        ),
        (
            target(json!({"workflow": "none.yml"})),
            json!({}),
            ErrorKind::Config,
            "the workflow none.yml at main",
        ),
        (target(json!({"workflow": "other.yml"})), json!({}), ErrorKind::Config, "no `workflow_dispatch`"),
        (target(json!({"ref": "nowhere"})), json!({"version": "1"}), ErrorKind::Config, "at nowhere"),
        (
            target(json!({"ref": "{{ branch }}", "inputs": version})),
            unknown_branch.clone(),
            ErrorKind::Rejected,
            "at nowhere",
        ),
        (
            target(json!({"ref": "{{ branch }}", "inputs": version, "allowed_refs": ["main", "release/*"]})),
            unknown_branch,
            ErrorKind::Rejected,
            "not among the allowed refs",
        ),
        (
            target(json!({"repository": "octo-org/none"})),
            json!({}),
            ErrorKind::Config,
            "it does not exist, or the token may not see it",
        ),
    ] {
        let error = world.backend.start(&job(target.clone(), arguments)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{target}: {error}");
        assert!(error.to_string().contains(expected), "{target}: {error}");
    }
    assert_eq!(dispatch_count(&world), 0);
    let allowed_job = job(
        target(json!({"ref": "{{ branch }}", "inputs": version})),
        json!({"version": "1", "branch": "release/1.4"}),
    );
    world.backend.start(&allowed_job).await.unwrap();
    assert_eq!(dispatch_count(&world), 1);
}

/// The error says that the workflow must be enabled at GitHub, and nothing runs.
#[tokio::test(flavor = "multi_thread")]
async fn disabled_workflow_is_config_error() {
    let world = World::with_workflows(&[("release.yml", release())]).await;
    world.control("change", json!({"state": {"release.yml": "disabled_manually"}}));
    let error = world.backend.start(&start("release.yml", json!({"version": "1"}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("enable release.yml at GitHub"), "{error}");
    assert_eq!(world.count(""), 0, "nothing runs");
}

/// A denied dispatch names the permission that the token lacks, and nothing runs.
#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_is_named_without_dispatch() {
    let world = World::with_workflows(&[("release.yml", release())]).await;
    let refusal = json!({"kind": "answer", "status": 403, "message": "Resource not accessible by personal access token",
        "headers": {"x-accepted-github-permissions": "actions=write"}});
    world.inject_fault(DISPATCH, refusal);
    let error = world.backend.start(&start("release.yml", json!({"version": "1"}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().ends_with("; give the token the permission actions=write"), "{error}");
    assert_eq!(world.count(""), 0);
}

/// A second start sends only the dispatch, until the workflow file changes.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_start_needs_only_dispatch() {
    let world = World::with_workflows(&[("release.yml", release())]).await;
    world.take_requests();
    let release_1 = || start("release.yml", json!({"version": "1"}));
    let start_and_list = async |job: JobSpec| {
        let started = world.backend.start(&job).await;
        (started, world.take_requests().into_iter().map(|(operation, _)| operation).collect::<Vec<_>>())
    };
    // The repository was read when the backend connected.
    assert_eq!(start_and_list(release_1()).await.1, ["repos/get-content", DISPATCH]);
    assert_eq!(start_and_list(release_1()).await.1, [DISPATCH]);
    // A search for a run requests only the list of runs.
    let (result, operations) = start_and_list(JobSpec { may_exist: true, ..release_1() }).await;
    assert_eq!((result.unwrap_err().kind(), operations), (ErrorKind::Uncertain, vec![RUNS.to_owned()]));

    // A new input is used. After a refusal because of a changed file, the next start uses the new file.
    let extended = release().replace("      count:", "      more: {type: string}\n      count:");
    world.control("change", json!({"files": {".github/workflows/release.yml": extended}}));
    let extended_job = start("release.yml", json!({"version": "1", "more": "of it"}));
    assert_eq!(start_and_list(extended_job).await.1, ["repos/get", "repos/get-content", DISPATCH]);
    world.control(
        "change",
        json!({"files": {".github/workflows/release.yml": release().replace("taskbridge_job", "job")}}),
    );
    let (result, operations) = start_and_list(release_1()).await;
    assert_eq!(operations, [DISPATCH, "repos/get", "repos/get-content"]);
    assert_eq!(
        result.unwrap_err().kind(),
        ErrorKind::Unavailable,
        "nothing was started, so the start can be retried"
    );
    assert_eq!(start_and_list(release_1()).await.1, [DISPATCH]);
    let renamed = release().replace("version:", "number:").replace("inputs.version", "inputs.number");
    world.control("change", json!({"files": {".github/workflows/release.yml": renamed}}));
    let error = world.backend.start(&start("release.yml", json!({"version": "1"}))).await.unwrap_err();
    assert!(error.to_string().contains("no input `version`; it has"), "{error}");
}

/// A failure before the dispatch can be retried. An existing run is found even if the file changed.
#[tokio::test(flavor = "multi_thread")]
async fn failure_before_dispatch_starts_nothing() {
    let world = World::with_workflows(&[("release.yml", release())]).await;
    let mut job = start("release.yml", json!({"version": "1"}));
    world.inject_fault("repos/get-content", json!({"kind": "reply_lost"}));
    assert_eq!(world.backend.start(&job).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(dispatch_count(&world), 0);
    let handle = world.backend.start(&job).await.unwrap().handle;
    // An existing run is found even if the file has changed.
    world.control("change", json!({"files": {".github/workflows/release.yml": "on: push\njobs: {}"}}));
    job.may_exist = true;
    assert_eq!(world.backend.start(&job).await.unwrap().handle, handle);
    assert_eq!(world.backend.find(&job).await.unwrap().unwrap().handle, handle);
    assert_eq!(dispatch_count(&world), 1);
}

/// If the server returns no run id, the run is found by the mark of the job.
#[tokio::test(flavor = "multi_thread")]
async fn unnamed_run_is_found_by_mark() {
    for details in ["unknown", "never"] {
        let world =
            World::with_settings(&[("release.yml", release())], json!({"run_details": details}), json!({}))
                .await;
        for round in 0..2 {
            world.take_requests();
            let job = start("release.yml", json!({"version": "1"}));
            let handle = world.backend.start(&job).await.unwrap().handle;
            let statuses: Vec<u64> = world
                .take_requests()
                .into_iter()
                .filter(|(operation, _)| operation == DISPATCH)
                .map(|(_, status)| status)
                .collect();
            let expected: &[u64] = if details == "unknown" && round == 0 { &[422, 204] } else { &[204] };
            assert_eq!(statuses, expected, "{details}");
            assert_eq!(world.count(job.key.as_str()), 1);
            poll_until_ended(&*world.backend, &handle).await;
        }
    }
}

/// A workflow without a mark is dispatched only if the server returns run ids.
#[tokio::test(flavor = "multi_thread")]
async fn unmarked_workflow_is_not_dispatched() {
    let unmarked =
        "on: workflow_dispatch\njobs: {work: {runs-on: ubuntu-latest, steps: [{run: echo}]}}".to_owned();
    let world = World::with_settings(
        &[("plain.yml", unmarked.clone())],
        json!({"run_details": "unknown"}),
        json!({}),
    )
    .await;
    let error = world.backend.start(&start("plain.yml", json!({}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("declare the input `taskbridge_job`"), "{error}");
    assert_eq!(world.count(""), 0, "nothing was dispatched");

    // If GitHub returns run ids, it is dispatched. After a lost response, it stays uncertain forever instead
    // of being guessed.
    let world = World::with_workflows(&[("plain.yml", unmarked)]).await;
    world.backend.start(&start("plain.yml", json!({}))).await.unwrap();
    world.inject_fault(DISPATCH, json!({"kind": "reply_lost"}));
    let mut job = start("plain.yml", json!({}));
    for may_exist in [false, true] {
        job.may_exist = may_exist;
        let error = world.backend.start(&job).await.unwrap_err();
        assert_eq!((error.kind(), error.is_final()), (ErrorKind::Uncertain, true), "no poll can learn more");
        let link = format!("/{}/actions/workflows/plain.yml", world.repo);
        assert!(error.to_string().contains("carry no mark") && error.to_string().ends_with(&link), "{error}");
    }
    let error = world.backend.find(&job).await.unwrap_err();
    assert!(error.is_final() && error.to_string().contains("carry no mark"), "{error}");
    assert_eq!(world.count(""), 2);
}

/// A run is found among many by its mark. Two runs with the same mark are uncertain.
#[tokio::test(flavor = "multi_thread")]
async fn duplicate_run_mark_is_uncertain() {
    let world = World::with_workflows(&[("release.yml", release())]).await;
    let job = start("release.yml", json!({"version": "1"}));
    let handle = world.backend.start(&job).await.unwrap().handle;
    world.control("runs", json!({"workflow": "release.yml", "count": 250}));
    assert_eq!(world.backend.find(&job).await.unwrap().unwrap().handle, handle);
    let duplicate = json!({"workflow": "release.yml", "display_title": format!("test {}", job.key)});
    world.control("runs", duplicate.clone());
    world.control("runs", duplicate);
    let error = world.backend.find(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    assert!(error.to_string().contains("two runs carry this job's key"), "{error}");
}

/// A run that was started elsewhere is attached by its number or its URL.
#[tokio::test(flavor = "multi_thread")]
async fn attached_run_is_never_cancelled() {
    let world = World::with_workflows(&[("release.yml", release()), ("other.yml", release())]).await;
    let number =
        |world: &World| world.control("runs", json!({"workflow": "release.yml"}))[0].as_u64().unwrap();
    let run = number(&world);
    let attach =
        |run: &str| job(json!({"workflow": "release.yml", "attach": "{{ run }}"}), json!({"run": run}));
    let address = format!("https://github.com/{}/actions/runs/{run}", world.repo);
    for reference in [run.to_string(), address] {
        let handle = world.backend.start(&attach(&reference)).await.unwrap().handle;
        world.backend.cancel(&handle).await.unwrap();
        assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
    }
    let other = world.control("runs", json!({"workflow": "other.yml"}))[0].to_string();
    for (reference, expected) in [
        ("7", "has no run 7"),
        ("latest", "is neither the number"),
        (other.as_str(), "is not a run of release.yml"),
    ] {
        let error = world.backend.start(&attach(reference)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    world.control("run", json!({"id": run, "status": "completed", "conclusion": "success"}));
    let handle = world.backend.start(&attach(&run.to_string())).await.unwrap().handle;
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(text(output(&observation)).starts_with("The run succeeded"), "{observation:?}");
}
