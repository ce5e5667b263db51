//! Tests of the tokens of callers: each person's runs are theirs at GitHub, reads use the backend's own
//! token, and no request uses another person's token.

use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, AnswerOutcome, Backend, ErrorKind, JobHandle, JobSpec, JobState, OnBehalfOf};

use crate::world::{World, poll_until, poll_until_ended, run, start, workflow};

/// Operations that change something at GitHub.
const MUTATIONS: [&str; 5] = [
    "actions/create-workflow-dispatch",
    "actions/cancel-workflow-run",
    "actions/re-run-workflow",
    "actions/re-run-workflow-failed-jobs",
    "actions/review-pending-deployments-for-run",
];

/// Returns a person with an issuer, whose name another person has too.
fn bob() -> OnBehalfOf {
    let (issuer, subject) = (Some("https://id.example".to_owned()), Some("7".to_owned()));
    OnBehalfOf { issuer, subject, ..OnBehalfOf::named("ann") }
}

fn job_for(person: &OnBehalfOf, job: JobSpec) -> JobSpec {
    JobSpec { on_behalf_of: Some(person.clone()), ..job }
}

/// Creates a repository with its own user, ann and bob, and a backend that acts on their behalf.
async fn world_with_callers(workflows: &[(&str, String)], repository: Value) -> (World, Arc<dyn Backend>) {
    let world = World::with_settings(workflows, repository, json!({})).await;
    let token = |login: &str| world.control("users", json!({"login": login}))["token"].clone();
    let tokens = json!({"ann": token("ann"), "https://id.example#7": token("bob")});
    let config = json!({"token": world.token, "per_caller": {"tokens": tokens}});
    let backend = world.connect_another(config).await.unwrap();
    world.control("asked", json!({}));
    (world, backend)
}

fn run_of(handle: &JobHandle) -> u64 {
    handle.as_str().split('/').nth(3).unwrap().parse().unwrap()
}

fn find_run(world: &World, handle: &JobHandle) -> Value {
    let runs = world.control("listed", json!({}));
    runs.as_array().unwrap().iter().find(|entry| entry["id"] == run_of(handle)).unwrap().clone()
}

/// Dispatch, rerun and cancel use the caller's token. Polls use the token of the backend.
#[tokio::test(flavor = "multi_thread")]
async fn actions_use_token_of_caller() {
    let (world, backend) = world_with_callers(&[("work.yml", workflow(&run("sleep 60")))], json!({})).await;
    let ann = OnBehalfOf::named("ann");
    let mut handles = Vec::new();
    for (person, login) in [(&ann, "ann"), (&bob(), "bob")] {
        let handle = backend.start(&job_for(person, start("work.yml", json!({})))).await.unwrap().handle;
        assert_eq!(find_run(&world, &handle)["actor"], login);
        backend.observe(&handle).await.unwrap();
        backend.cancel_for(&handle, Some(person)).await.unwrap();
        poll_until_ended(&*backend, &handle).await;
        assert_eq!(find_run(&world, &handle)["cancelled_by"], login);
        handles.push(handle);
    }
    // Bob reruns ann's run.
    let target = json!({"workflow": "work.yml", "rerun": "{{ run }}"});
    let rerun_job = taskbridge_sdk::suite::job(target, json!({"run": run_of(&handles[0]).to_string()}));
    let rerun_handle = backend.start(&job_for(&bob(), rerun_job)).await.unwrap().handle;
    let entry = find_run(&world, &rerun_handle);
    assert_eq!((&entry["actor"], &entry["triggering_actor"]), (&json!("ann"), &json!("bob")));
    backend.cancel_for(&rerun_handle, Some(&bob())).await.unwrap();

    let requests = world.take_requests_by_user();
    let logins = |operation: &str| -> Vec<&str> {
        requests.iter().filter(|(name, _)| name == operation).map(|(_, login)| login.as_str()).collect()
    };
    assert_eq!(logins("actions/create-workflow-dispatch"), ["ann", "bob"]);
    assert_eq!(logins("actions/re-run-workflow"), ["bob"]);
    for (operation, login) in
        requests.iter().filter(|(operation, _)| !MUTATIONS.contains(&operation.as_str()))
    {
        assert_eq!(login, "octocat", "{operation}");
    }
}

/// A caller without a token can neither start a run nor cancel that of another caller.
#[tokio::test(flavor = "multi_thread")]
async fn action_without_caller_token_is_refused() {
    let (world, backend) = world_with_callers(&[("work.yml", workflow(&run("sleep 60")))], json!({})).await;
    let job = start("work.yml", json!({}));
    let unknown_callers = [
        None,
        Some(OnBehalfOf::named("cid")),
        Some(OnBehalfOf::named("https://id.example#7")),
        Some(OnBehalfOf { subject: Some("8".to_owned()), ..bob() }),
        Some(OnBehalfOf { tenant: Some("acme".to_owned()), ..bob() }),
        Some(OnBehalfOf { issuer: Some("https://evil.example".to_owned()), ..bob() }),
    ];
    for person in unknown_callers {
        let error =
            backend.start(&JobSpec { on_behalf_of: person.clone(), ..job.clone() }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{person:?}: {error}");
        assert!(error.to_string().contains("per_caller"), "{error}");
    }
    // A run of another person is not stopped either.
    let ann = OnBehalfOf::named("ann");
    let handle = backend.start(&job_for(&ann, job)).await.unwrap().handle;
    world.control("asked", json!({}));
    for person in [None, Some(OnBehalfOf::named("cid"))] {
        let error = backend.cancel_for(&handle, person.as_ref()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }
    assert_eq!(backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(
        world.take_requests_by_user().iter().all(|(operation, _)| !MUTATIONS.contains(&operation.as_str()))
    );
    backend.cancel_for(&handle, Some(&ann)).await.unwrap();
    poll_until_ended(&*backend, &handle).await;
}

/// If GitHub rejects a caller's token, the token of the backend still works.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_caller_token_affects_only_caller() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("true")))]).await;
    let tokens = json!({"ann": "ghp_s3cret-of-nobody"});
    let config = json!({"token": world.token, "per_caller": {"tokens": tokens}});
    let backend = world.connect_another(config).await.unwrap();
    let error =
        backend.start(&job_for(&OnBehalfOf::named("ann"), start("work.yml", json!({})))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    assert_eq!(world.count("test"), 0);
    // The backend's own token still works.
    let own_handle = world.backend.start(&start("work.yml", json!({}))).await.unwrap().handle;
    poll_until_ended(&*backend, &own_handle).await;

    let invalid_config = json!({"token": world.token, "per_caller": {"tokens": {"ann": "s3cret\nx: y"}}});
    let Err(error) = world.connect_another(invalid_config).await else {
        panic!("an invalid token is accepted")
    };
    assert!(error.to_string().contains("per_caller.tokens.ann") && !error.to_string().contains("s3cret"));
}

/// A review is sent with the caller's token. A caller who may not review is refused.
#[tokio::test(flavor = "multi_thread")]
async fn review_is_sent_as_permitted_caller() {
    let gated = workflow(&run("echo deployed")).replace("runs-on:", "environment: production\n    runs-on:");
    let repository = json!({"environments": {"production": {"reviewers": ["ann"]}}});
    let (world, backend) = world_with_callers(&[("deploy.yml", gated)], repository).await;
    let handle = backend.start(&job_for(&bob(), start("deploy.yml", json!({})))).await.unwrap().handle;
    let question =
        poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned())
            .await;
    let questions = backend.abilities().questions.unwrap();
    let answer = Answer::Accept(serde_json::Map::new());
    let error = questions.answer(&handle, &question.id, &answer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let outcome = questions.answer_for(&handle, &question.id, &answer, Some(&bob())).await.unwrap();
    assert_eq!(outcome, AnswerOutcome::NotAllowed, "bob may not review");
    let ann = OnBehalfOf::named("ann");
    let outcome = questions.answer_for(&handle, &question.id, &answer, Some(&ann)).await.unwrap();
    assert_eq!(outcome, AnswerOutcome::Accepted);
    assert!(matches!(poll_until_ended(&*backend, &handle).await.state, JobState::Succeeded(_)));
    let reviews: Vec<String> = world
        .take_requests_by_user()
        .into_iter()
        .filter_map(|(operation, login)| (operation == MUTATIONS[4]).then_some(login))
        .collect();
    assert_eq!(reviews, ["ann"]);
}
