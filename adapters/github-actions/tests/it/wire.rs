//! Tests of credentials and rate limits: requests that are sent, refused, or not allowed.

use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::ErrorKind;

use crate::world::{World, poll_until_ended, run, start, workflow};

async fn world() -> World {
    World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await
}

/// A wrong, missing or malformed token and an unknown repository fail when the backend connects.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_token_fails_at_startup() {
    let world = world().await;
    for (config, kind, expected) in [
        (json!({"token": "ghp_wrong"}), ErrorKind::Denied, "does not accept the token"),
        (
            json!({"token": world.token, "repository": "octo-org/none"}),
            ErrorKind::Unavailable,
            "it does not exist, or the token may not see it",
        ),
        (json!({}), ErrorKind::Config, "there is no credential"),
        (json!({"token": "a b"}), ErrorKind::Config, "`token` is not a token"),
    ] {
        let Err(error) = world.connect_another(config.clone()).await else { panic!("{config} is accepted") };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected) && !error.to_string().contains("ghp_"), "{error}");
    }
}

/// After the primary rate limit is spent, no request is sent before its reset.
#[tokio::test(flavor = "multi_thread")]
async fn primary_limit_waits_until_reset() {
    let world = world().await;
    let (handle, _) = world.run("work.yml", json!({})).await;
    world.control("change", json!({"token": {"remaining": 0}}));
    world.take_requests();
    for _ in 0..3 {
        let error = world.backend.observe(&handle).await.unwrap_err();
        let ErrorKind::Limited { after: Some(after) } = error.kind() else { panic!("{error}") };
        assert!(after > Duration::from_secs(1800) && after <= Duration::from_secs(3600), "{after:?}");
    }
    assert_eq!(world.take_requests().len(), 1, "no request is sent before the reset");
}

/// The retry delay of a secondary rate limit holds for every call.
#[tokio::test(flavor = "multi_thread")]
async fn secondary_limit_applies_to_every_call() {
    let world = world().await;
    let (handle, observation) = world.run("work.yml", json!({})).await;
    world.inject_fault(
        "actions/get-workflow-run",
        json!({"kind": "answer", "status": 429, "message": "You have exceeded a secondary rate limit", "headers": {"retry-after": "1"}}),
    );
    let limited = world.backend.observe(&handle).await.unwrap_err();
    assert_eq!(limited.kind(), ErrorKind::Limited { after: Some(Duration::from_secs(1)) });
    world.take_requests();
    let error = world.backend.start(&start("work.yml", json!({}))).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limited { .. }), "{error}");
    assert!(world.take_requests().is_empty(), "no request is sent before the limit resets");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(poll_until_ended(&*world.backend, &handle).await, observation);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_has_its_token_refreshed() {
    let world = world().await;
    // A token that expires within the client's margin is requested again for every call.
    let key = world.control("apps", json!({"installation": 77, "expires_in": 20}))["private_key"].clone();
    let app = json!({"app": {"id": 5, "installation": 77, "private_key": key}});
    let backend = world.connect_another(app).await.unwrap();
    world.take_requests();
    let handle = backend.start(&start("work.yml", json!({}))).await.unwrap().handle;
    poll_until_ended(&*backend, &handle).await;
    let tokens = world
        .take_requests()
        .iter()
        .filter(|(operation, _)| operation == "apps/create-installation-access-token")
        .count();
    assert!(tokens > 1, "{tokens}");
    let error =
        world.connect_another(json!({"app": {"id": 5, "installation": 78, "private_key": key}})).await;
    let Err(error) = error else { panic!("an unknown installation is accepted") };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}
