//! Tests specific to slurmrestd: credentials, the API version, and lists that are not sent again while
//! nothing changes.

use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{ErrorKind, JobState};

use crate::proxy::{Fault, Proxy};
use crate::world::{Held, World, assert_says, ended, in_time, merge, runs};

/// slurmrestd answers 304 until a job changes.
#[tokio::test(flavor = "multi_thread")]
async fn unchanged_job_list_is_not_resent() {
    let cluster = Held::own(&["--rest"]);
    let proxy = Proxy::on_tcp(&cluster.rest().address).await;
    let rest = json!({"url": proxy.place, "user": cluster.user, "token": cluster.rest().token});
    let world = World::on(cluster, json!({"rest": rest})).await;
    let handle = world.backend.start(&world.job("waits", "exec sleep 600")).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    // The controller's clock is known to the second.
    in_time("the list is not sent again", async {
        let unchanged = |seen: &(String, u16)| seen.0.contains("/jobs?update_time=") && seen.1 == 304;
        while !proxy.seen().iter().any(unchanged) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
        }
    })
    .await;
    world.backend.cancel(&handle).await.unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "the change was seen: {seen:?}");
}

/// The accounting is down when the server starts, and its usage is in the result later.
#[tokio::test(flavor = "multi_thread")]
async fn late_accounting_is_queried_again() {
    let cluster = Held::own(&["--rest", "--accounting"]);
    let proxy = Proxy::on_tcp(&cluster.rest().address).await;
    let rest = json!({"url": proxy.place, "user": cluster.user, "token": cluster.rest().token});
    cluster.order("stop slurmdbd");
    let world = World::on(cluster, json!({"rest": rest, "accounting_wait": "60s"})).await;
    world.cluster.order("start slurmdbd");
    let lines = "sleep 2; echo \"home $HOME user $USER\"";
    let (_, seen) = world.run(&world.job("uses", lines)).await;
    let asked = proxy.seen();
    assert!(asked.iter().any(|(line, _)| line.contains("/slurmdb/v0.0.38/jobs?step=")), "{asked:?}");
    assert_says(&seen, &["CPU efficiency", &format!("user {}", world.cluster.user), "home /"]);
}

/// A wrong token, and a config without one address, are errors when the backend connects.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_rest_credentials_fail_at_connect() {
    let world = World::new().await;
    let rest = world.cluster.rest();
    let good = json!({"url": rest.address, "user": world.cluster.user, "token": rest.token});
    assert!(world.another(json!({"rest": good})).await.is_ok());
    for (wrong, kind, words) in [
        (json!({"token": "nonsense"}), ErrorKind::Denied, "scontrol token"),
        (json!({"url": null}), ErrorKind::Config, "`socket` or `url`"),
        (json!({"socket": "/run/both.sock"}), ErrorKind::Config, "not both"),
    ] {
        let mut config = good.clone();
        merge(&mut config, &wrong);
        match world.another(json!({"rest": config})).await {
            Ok(_) => panic!("{wrong} connects"),
            Err(error) => {
                assert_eq!(error.kind(), kind, "{wrong}: {error}");
                assert!(
                    error.to_string().contains(words) && !error.to_string().contains("nonsense"),
                    "{wrong}: {error}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_http_server_is_reported() {
    let world = World::new().await;
    let proxy = Proxy::on_tcp(&world.cluster.rest().address).await;
    for answer in [Fault::Answered(200, r#"{"paths": {"/pets": {}}}"#), Fault::Answered(404, "not found")] {
        proxy.make("/openapi", answer.clone());
        let error = world.another(json!({"rest": {"url": proxy.place}})).await.err().unwrap();
        // Another service may answer there later.
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{answer:?}: {error}");
    }
}

/// slurmrestd fails as the server starts, and the second start of a job succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn late_slurmrestd_is_queried_again() {
    let world = World::new().await;
    let rest = world.cluster.rest();
    let proxy = Proxy::on_tcp(&rest.address).await;
    let config = json!({"url": proxy.place, "user": world.cluster.user, "token": rest.token});
    for fault in [Fault::Answered(503, "busy"), Fault::ReplyLost] {
        proxy.make("/openapi", fault.clone());
        let backend = world.another(json!({"rest": config})).await.unwrap();
        proxy.make("/openapi", fault);
        let job = world.job("late", "echo late");
        let error = backend.start(&job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing was sent: {error}");
        let handle = backend.start(&job).await.unwrap().handle;
        assert_says(&ended(&*backend, &handle).await, &["late"]);
    }
}
