//! Tests of the tokens of callers: each person's runs are theirs at GitHub, reads use the backend's own
//! token, and no request uses another person's token.

use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Backend, ErrorKind, JobHandle, JobSpec, JobState, OnBehalfOf, Taken};

use crate::world::{World, ended, run, start, until, workflow};

/// Operations that change something at GitHub.
const ACTS: [&str; 5] = [
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

fn of(whom: &OnBehalfOf, job: JobSpec) -> JobSpec {
    JobSpec { on_behalf_of: Some(whom.clone()), ..job }
}

/// Creates a repository with its own user, ann and bob, and a backend that acts on their behalf.
async fn with(workflows: &[(&str, String)], repository: Value) -> (World, Arc<dyn Backend>) {
    let world = World::of(workflows, repository, json!({})).await;
    let token = |login: &str| world.control("users", json!({"login": login}))["token"].clone();
    let tokens = json!({"ann": token("ann"), "https://id.example#7": token("bob")});
    let own = json!({"token": world.token, "per_caller": {"tokens": tokens}});
    let backend = world.another(own).await.unwrap();
    world.control("asked", json!({}));
    (world, backend)
}

fn run_of(handle: &JobHandle) -> u64 {
    handle.as_str().split('/').nth(3).unwrap().parse().unwrap()
}

fn listed(world: &World, handle: &JobHandle) -> Value {
    let all = world.control("listed", json!({}));
    all.as_array().unwrap().iter().find(|one| one["id"] == run_of(handle)).unwrap().clone()
}

/// Dispatch, rerun and cancel use the caller's token. Polls use the token of the backend.
#[tokio::test(flavor = "multi_thread")]
async fn actions_use_token_of_caller() {
    let (world, backend) = with(&[("work.yml", workflow(&run("sleep 60")))], json!({})).await;
    let ann = OnBehalfOf::named("ann");
    let mut handles = Vec::new();
    for (whom, login) in [(&ann, "ann"), (&bob(), "bob")] {
        let handle = backend.start(&of(whom, start("work.yml", json!({})))).await.unwrap().handle;
        assert_eq!(listed(&world, &handle)["actor"], login);
        backend.observe(&handle).await.unwrap();
        backend.cancel_for(&handle, Some(whom)).await.unwrap();
        ended(&*backend, &handle).await;
        assert_eq!(listed(&world, &handle)["cancelled_by"], login);
        handles.push(handle);
    }
    // Bob reruns ann's run.
    let target = json!({"workflow": "work.yml", "rerun": "{{ run }}"});
    let again = taskbridge_sdk::suite::job(target, json!({"run": run_of(&handles[0]).to_string()}));
    let again = backend.start(&of(&bob(), again)).await.unwrap().handle;
    let seen = listed(&world, &again);
    assert_eq!((&seen["actor"], &seen["triggering_actor"]), (&json!("ann"), &json!("bob")));
    backend.cancel_for(&again, Some(&bob())).await.unwrap();

    let asked = world.asked_by();
    let who = |operation: &str| -> Vec<&str> {
        asked.iter().filter(|(name, _)| name == operation).map(|(_, login)| login.as_str()).collect()
    };
    assert_eq!(who("actions/create-workflow-dispatch"), ["ann", "bob"]);
    assert_eq!(who("actions/re-run-workflow"), ["bob"]);
    for (operation, login) in asked.iter().filter(|(operation, _)| !ACTS.contains(&operation.as_str())) {
        assert_eq!(login, "octocat", "{operation}");
    }
}

/// A caller without a token can neither start a run nor cancel that of another caller.
#[tokio::test(flavor = "multi_thread")]
async fn action_without_caller_token_is_refused() {
    let (world, backend) = with(&[("work.yml", workflow(&run("sleep 60")))], json!({})).await;
    let job = start("work.yml", json!({}));
    let strangers = [
        None,
        Some(OnBehalfOf::named("cid")),
        Some(OnBehalfOf::named("https://id.example#7")),
        Some(OnBehalfOf { subject: Some("8".to_owned()), ..bob() }),
        Some(OnBehalfOf { tenant: Some("acme".to_owned()), ..bob() }),
        Some(OnBehalfOf { issuer: Some("https://evil.example".to_owned()), ..bob() }),
    ];
    for whom in strangers {
        let error = backend.start(&JobSpec { on_behalf_of: whom.clone(), ..job.clone() }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{whom:?}: {error}");
        assert!(error.to_string().contains("per_caller"), "{error}");
    }
    // A run of another person is not stopped either.
    let ann = OnBehalfOf::named("ann");
    let handle = backend.start(&of(&ann, job)).await.unwrap().handle;
    world.control("asked", json!({}));
    for whom in [None, Some(OnBehalfOf::named("cid"))] {
        let error = backend.cancel_for(&handle, whom.as_ref()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }
    assert_eq!(backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(world.asked_by().iter().all(|(operation, _)| !ACTS.contains(&operation.as_str())));
    backend.cancel_for(&handle, Some(&ann)).await.unwrap();
    ended(&*backend, &handle).await;
}

/// If GitHub rejects a caller's token, the token of the backend still works.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_caller_token_affects_only_caller() {
    let world = World::with(&[("work.yml", workflow(&run("true")))]).await;
    let tokens = json!({"ann": "ghp_s3cret-of-nobody"});
    let own = json!({"token": world.token, "per_caller": {"tokens": tokens}});
    let backend = world.another(own).await.unwrap();
    let error =
        backend.start(&of(&OnBehalfOf::named("ann"), start("work.yml", json!({})))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    assert_eq!(world.count("test"), 0);
    // The backend's own token still works.
    let plain = world.backend.start(&start("work.yml", json!({}))).await.unwrap().handle;
    ended(&*backend, &plain).await;

    let wrong = json!({"token": world.token, "per_caller": {"tokens": {"ann": "s3cret\nx: y"}}});
    let Err(error) = world.another(wrong).await else { panic!("it is no token") };
    assert!(error.to_string().contains("per_caller.tokens.ann") && !error.to_string().contains("s3cret"));
}

/// A review is sent with the caller's token. A caller who may not review is refused.
#[tokio::test(flavor = "multi_thread")]
async fn review_is_sent_as_permitted_caller() {
    let gated = workflow(&run("echo deployed")).replace("runs-on:", "environment: production\n    runs-on:");
    let repository = json!({"environments": {"production": {"reviewers": ["ann"]}}});
    let (world, backend) = with(&[("deploy.yml", gated)], repository).await;
    let handle = backend.start(&of(&bob(), start("deploy.yml", json!({})))).await.unwrap().handle;
    let question = until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    let questions = backend.questions().unwrap();
    let answer = Answer::Accept(serde_json::Map::new());
    let refused = questions.answer(&handle, &question.id, &answer).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    let taken = questions.answer_for(&handle, &question.id, &answer, Some(&bob())).await.unwrap();
    assert_eq!(taken, Taken::NotAllowed, "bob may not");
    let ann = OnBehalfOf::named("ann");
    let taken = questions.answer_for(&handle, &question.id, &answer, Some(&ann)).await.unwrap();
    assert_eq!(taken, Taken::Accepted);
    assert!(matches!(ended(&*backend, &handle).await.state, JobState::Succeeded(_)));
    let reviews: Vec<String> = world
        .asked_by()
        .into_iter()
        .filter_map(|(operation, login)| (operation == ACTS[4]).then_some(login))
        .collect();
    assert_eq!(reviews, ["ann"]);
}
