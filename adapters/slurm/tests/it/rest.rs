//! Tests specific to slurmrestd: credentials, the API version, and lists that are not sent again while
//! nothing changes.

use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{ErrorKind, JobState};

use crate::harness::proxy::{Fault, Proxy};
use crate::harness::world::{
    TestCluster, World, assert_contains, in_time, merge, poll_until_ended, wait_until_running,
};

/// slurmrestd answers 304 until a job changes.
#[tokio::test(flavor = "multi_thread")]
async fn unchanged_job_list_is_not_resent() {
    let cluster = TestCluster::own(&["--rest"]);
    let proxy = Proxy::on_tcp(&cluster.rest().address).await;
    let rest = json!({"url": proxy.address, "user": cluster.user, "token": cluster.rest().token});
    let world = World::on(cluster, json!({"rest": rest})).await;
    let handle = world.backend.start(&world.job("waits", "exec sleep 600")).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    // The controller's clock is known to the second.
    in_time("the list is not sent again", async {
        let unchanged =
            |request: &(String, u16)| request.0.contains("/jobs?update_time=") && request.1 == 304;
        while !proxy.take_requests().iter().any(unchanged) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
        }
    })
    .await;
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "the change was seen: {observation:?}");
}

/// The accounting is down when the server starts, and its usage is in the result later.
#[tokio::test(flavor = "multi_thread")]
async fn late_accounting_is_queried_again() {
    let cluster = TestCluster::own(&["--rest", "--accounting"]);
    let proxy = Proxy::on_tcp(&cluster.rest().address).await;
    let rest = json!({"url": proxy.address, "user": cluster.user, "token": cluster.rest().token});
    cluster.order("stop slurmdbd");
    let world = World::on(cluster, json!({"rest": rest, "accounting_wait": "60s"})).await;
    world.cluster.order("start slurmdbd");
    let lines = "sleep 2; echo \"home $HOME user $USER\"";
    let (_, observation) = world.run(&world.job("uses", lines)).await;
    let requests = proxy.take_requests();
    assert!(requests.iter().any(|(line, _)| line.contains("/slurmdb/v0.0.38/jobs?step=")), "{requests:?}");
    assert_contains(&observation, &["CPU efficiency", &format!("user {}", world.cluster.user), "home /"]);
}

/// A wrong token, and a config without one address, are errors when the backend connects.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_rest_credentials_fail_at_connect() {
    let world = World::new().await;
    let rest = world.cluster.rest();
    let valid_config = json!({"url": rest.address, "user": world.cluster.user, "token": rest.token});
    assert!(world.connect_another(json!({"rest": valid_config})).await.is_ok());
    for (invalid, kind, expected) in [
        (json!({"token": "nonsense"}), ErrorKind::Denied, "scontrol token"),
        (json!({"url": null}), ErrorKind::Config, "`socket` or `url`"),
        (json!({"socket": "/run/both.sock"}), ErrorKind::Config, "not both"),
    ] {
        let mut config = valid_config.clone();
        merge(&mut config, &invalid);
        match world.connect_another(json!({"rest": config})).await {
            Ok(_) => panic!("{invalid} connects"),
            Err(error) => {
                assert_eq!(error.kind(), kind, "{invalid}: {error}");
                assert!(
                    error.to_string().contains(expected) && !error.to_string().contains("nonsense"),
                    "{invalid}: {error}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_http_server_is_reported() {
    let world = World::new().await;
    let proxy = Proxy::on_tcp(&world.cluster.rest().address).await;
    for response in [Fault::Response(200, r#"{"paths": {"/pets": {}}}"#), Fault::Response(404, "not found")] {
        proxy.inject("/openapi", response.clone());
        let error = world.connect_another(json!({"rest": {"url": proxy.address}})).await.err().unwrap();
        // Another service may answer there later.
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{response:?}: {error}");
    }
}

/// slurmrestd fails as the server starts, and the second start of a job succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn late_slurmrestd_is_queried_again() {
    let world = World::new().await;
    let rest = world.cluster.rest();
    let proxy = Proxy::on_tcp(&rest.address).await;
    let config = json!({"url": proxy.address, "user": world.cluster.user, "token": rest.token});
    for fault in [Fault::Response(503, "busy"), Fault::ReplyLost] {
        proxy.inject("/openapi", fault.clone());
        let backend = world.connect_another(json!({"rest": config})).await.unwrap();
        proxy.inject("/openapi", fault);
        let job = world.job("late", "echo late");
        let error = backend.start(&job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing was sent: {error}");
        let handle = backend.start(&job).await.unwrap().handle;
        assert_contains(&poll_until_ended(&*backend, &handle).await, &["late"]);
    }
}
