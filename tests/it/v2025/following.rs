//! Tests for `resources/subscribe` and `notifications/resources/updated`: a subscriber of a log is notified
//! when it grows.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bench::{Client, Server, Stream};

fn log_params(task: &str) -> Value {
    json!({"uri": format!("taskbridge://tasks/{task}/log")})
}

async fn subscribe(client: &Client, params: &Value) {
    assert_eq!(client.get("resources/subscribe", params.clone()).await, json!({}));
}

/// Waits until a resource is reported as changed, and skips other notifications.
async fn next_update(stream: &mut Stream) -> Value {
    stream.next("notifications/resources/updated").await["params"].clone()
}

/// Panics if a resource is reported as changed within 1.5 seconds, which is enough time for a notification.
async fn assert_quiet(stream: &mut Stream) {
    let next = tokio::time::timeout(Duration::from_millis(1500), next_update(stream)).await;
    assert!(next.is_err(), "{next:?}");
}

/// At most one notification in a second, and one for the end of the log.
#[tokio::test]
async fn log_subscriber_gets_limited_updates() {
    let server = Server::start().await;
    let client = server.client().await;
    assert_eq!(client.initialize_result["capabilities"]["resources"]["subscribe"], true);
    let mut stream = client.listen().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.set_log("before\n");
    assert_quiet(&mut stream).await;
    subscribe(&client, &log_params(&id)).await;
    assert_eq!(next_update(&mut stream).await, log_params(&id), "what it holds already is news");
    let started = Instant::now();
    for lines in 1..5 {
        job.set_log(&format!("before\n{}", "more\n".repeat(lines)));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(next_update(&mut stream).await, log_params(&id));
    assert!(started.elapsed() > Duration::from_millis(700), "at most one a second: {:?}", started.elapsed());
    assert_quiet(&mut stream).await;
    job.set_log(&"last words\n".repeat(9));
    job.succeed("done");
    assert_eq!(next_update(&mut stream).await, log_params(&id), "the end of the log is told too");
    assert_quiet(&mut stream).await;
}

/// The subscription works at another process and after a restart.
#[tokio::test]
async fn other_session_can_subscribe_to_log() {
    let server = Server::start().await;
    let (client, follower) = (server.client().await, server.client().await);
    let id = client.start("work", json!({})).await;
    subscribe(&follower, &log_params(&id)).await;
    let job = server.engine.job(1).await;
    let twin = server.twin().await;
    let mut stream = follower.at(&twin).listen().await;
    job.set_log("one\n");
    assert_eq!(next_update(&mut stream).await, log_params(&id));
    drop((stream, twin));
    let server = server.restart().await;
    let mut stream = follower.at(&server).listen().await;
    let mut unsubscribed = client.at(&server).listen().await;
    assert_eq!(next_update(&mut stream).await, log_params(&id), "something may have been missed");
    job.set_log("one\ntwo\n");
    assert_eq!(next_update(&mut stream).await, log_params(&id));
    assert_quiet(&mut unsubscribed).await;
}

#[tokio::test]
async fn unsubscribe_stops_updates() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    subscribe(&client, &log_params(&id)).await;
    job.set_log("one\n");
    assert_eq!(next_update(&mut stream).await, log_params(&id));
    for _ in 0..2 {
        assert_eq!(client.get("resources/unsubscribe", log_params(&id)).await, json!({}));
    }
    job.set_log("one\ntwo\n");
    assert_quiet(&mut stream).await;
}

/// A resource of another owner is refused like one that does not exist.
#[tokio::test]
async fn foreign_resource_cannot_be_subscribed() {
    let keys = r#"
        [auth]
        mode = "api_keys"
        [[auth.keys]]
        principal = "ann"
        sha256 = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c"
        [[auth.keys]]
        principal = "bob"
        sha256 = "9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98"
    "#;
    let server = Server::with(keys).await;
    let (ann, bob) = (server.client_with_key("ann-key").await, server.client_with_key("bob-key").await);
    let id = ann.start("work", json!({})).await;
    let refused = bob.expect_error("resources/subscribe", log_params(&id)).await;
    assert_eq!(
        refused,
        bob.expect_error("resources/subscribe", log_params("never-was")).await,
        "in the same words"
    );
    assert_eq!(refused.0, -32002);
    let (code, _) = ann.expect_error("resources/subscribe", json!({"uri": "runbook://nowhere"})).await;
    assert_eq!(code, -32002);
    assert_eq!(ann.expect_error("resources/subscribe", json!({})).await.0, -32602);
    assert_eq!(ann.expect_error("resources/unsubscribe", json!({"uri": 1})).await.0, -32602);
}

/// A session has at most 100 subscriptions by default.
#[tokio::test]
async fn ended_task_frees_log_subscription() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut ids = Vec::new();
    for n in 0..101 {
        ids.push(client.start("work", json!({ "n": n })).await);
    }
    let (last, first) = ids.split_last().unwrap();
    for id in first {
        subscribe(&client, &log_params(id)).await;
    }
    let (code, message) = client.expect_error("resources/subscribe", log_params(last)).await;
    assert_eq!(code, -32602);
    assert!(message.contains("100") && message.contains("unsubscribe"), "{message}");
    let mut stream = client.listen().await;
    server.engine.job(1).await.succeed("done");
    while stream.next("notifications/tasks/status").await["params"]["status"] != "completed" {}
    let subscribing = async {
        while client.try_get("resources/subscribe", log_params(last)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), subscribing).await.expect("there never is room");
}

/// The number applies per session, and the size to each URI.
#[tokio::test]
async fn subscriptions_and_uris_are_limited() {
    let limits = "[auth]\nsingle_user = true\n[limits]\nmax_followed_resources = 2\nmax_url_bytes = 300\n";
    let pages = "[resources.pages]\nuri = \"page:{name}\"\ntext = \"{{ name }}\"\n";
    let server = Server::with(&format!("{limits}{pages}")).await;
    let client = server.client().await;
    for page in ["one", "two", "one"] {
        subscribe(&client, &json!({"uri": format!("page:{page}")})).await;
    }
    let (code, message) = client.expect_error("resources/subscribe", json!({"uri": "page:three"})).await;
    assert_eq!(code, -32602);
    assert!(message.contains("max_followed_resources in [limits]") && message.contains('2'), "{message}");
    client.get("resources/unsubscribe", json!({"uri": "page:one"})).await;
    subscribe(&client, &json!({"uri": "page:three"})).await;
    let other = server.client().await;
    subscribe(&other, &json!({"uri": "page:one"})).await;

    let long = json!({"uri": format!("page:{}", "x".repeat(296))});
    let (code, message) = other.expect_error("resources/subscribe", long).await;
    assert_eq!(code, -32602);
    assert!(message.contains("301 bytes") && message.contains("max_url_bytes in [limits]"), "{message}");
    subscribe(&other, &json!({"uri": format!("page:{}", "x".repeat(295))})).await;
}
