//! Tests for `subscriptions/listen`.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::bench::{Client, SUBSCRIPTION, Subscription, able, server, text};

/// Returns a task as notified, without the fields that change all the time.
fn told(mut task: Value) -> Value {
    let members = task.as_object_mut().unwrap();
    for name in ["pollIntervalMs", "_meta", "resultType"] {
        members.remove(name);
    }
    task
}

/// Panics if anything comes within 600 ms, which is enough time for a notification.
async fn is_quiet(subscription: &mut Subscription) {
    let next = tokio::time::timeout(Duration::from_millis(600), subscription.exchange.any()).await;
    assert!(next.is_err(), "{next:?}");
}

/// The current state comes first.
#[tokio::test]
async fn subscription_matches_tasks_get() {
    let server = server("").await;
    let client = Client::of(&server);
    let id = client.start("work", json!({})).await;
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    assert_eq!(listening.granted, json!({"taskIds": [id]}));
    let first = listening.task().await;
    assert_eq!(told(first), told(client.task(&id).await), "where it stands comes first");
    let job = server.stage.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("half way"));
    let moved = listening.task().await;
    assert_eq!(moved["statusMessage"], "half way");
    assert_eq!(told(moved), told(client.task(&id).await));
    job.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    let asks = listening.until("input_required").await;
    assert_eq!(told(asks.clone()), told(client.task(&id).await));
    let key = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    client.update(&id, json!({ &key: {"action": "decline"} })).await;
    assert_eq!(listening.until("working").await.get("inputRequests"), None);
    job.succeed("done");
    let last = listening.until("completed").await;
    assert_eq!(text(&last["result"]), "done");
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(told(last), told(client.task(&id).await));
    is_quiet(&mut listening).await;
}

/// A failed task is announced with its error.
#[tokio::test]
async fn ended_task_is_announced_once() {
    let server = server("").await;
    let client = Client::of(&server);
    let id = client.start("work", json!({})).await;
    server.stage.job(1).await.show(Observation::new(JobState::Gone));
    let failed = client.until(&id, "failed").await;
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    let first = listening.task().await;
    assert_eq!(told(first), told(failed));
    is_quiet(&mut listening).await;
}

/// Only what was requested and exists is granted and notified.
#[tokio::test]
async fn subscription_grants_existing_requests_only() {
    let server = server("").await;
    let client = Client::of(&server);
    let mine = client.start("work", json!({})).await;
    let other = client.start("work", json!({"n": 2})).await;
    let wanted = json!({
        "taskIds": [mine, "never-was"], "toolsListChanged": true, "unheardOf": true,
        "resourceSubscriptions": ["taskbridge://nothing/there"]
    });
    let mut listening = client.listen(wanted).await;
    assert_eq!(listening.granted["taskIds"], json!([mine]));
    assert_eq!(listening.granted["toolsListChanged"], true);
    assert_eq!(listening.granted.get("unheardOf"), None);
    assert_eq!(listening.granted.get("promptsListChanged"), None);
    assert_eq!(listening.task().await["taskId"], mine);
    server.stage.job(2).await.succeed("not followed");
    client.until(&other, "completed").await;
    is_quiet(&mut listening).await;
    server.stage.job(1).await.succeed("followed");
    assert_eq!(listening.until("completed").await["taskId"], mine);

    let mut nothing = client.listen(json!({})).await;
    assert_eq!(nothing.granted, json!({}));
    is_quiet(&mut nothing).await;
    for wrong in [
        json!(null),
        json!([]),
        json!({"toolsListChanged": "yes"}),
        json!({"taskIds": "t"}),
        json!({"taskIds": [5]}),
    ] {
        let failure = client.refused("subscriptions/listen", json!({ "notifications": wrong })).await;
        assert_eq!(failure.code, -32602);
        assert!(failure.message.contains("notifications"), "{failure:?}");
    }
}

#[tokio::test]
async fn task_sends_no_progress() {
    let server = server("").await;
    let client = Client::of(&server).saying("progressToken", json!("p"));
    let id = client.start("work", json!({})).await;
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    let job = server.stage.job(1).await;
    for done in 1..4 {
        job.progress(f64::from(done), 4.0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    job.succeed("done");
    // Any message other than a notification of the task fails the test.
    listening.until("completed").await;
}

/// Each message names its subscription, and closing one does not affect the others.
#[tokio::test]
async fn subscriptions_are_independent() {
    let server = server("").await;
    let client = Client::of(&server);
    let (one, two) = (client.start("work", json!({})).await, client.start("work", json!({"n": 2})).await);
    let mut first = client.listen(json!({"taskIds": [one]})).await;
    let mut second = client.listen(json!({"taskIds": [one, two]})).await;
    assert_ne!(first.id, second.id);
    first.task().await;
    let mut seen = [second.task().await["taskId"].clone(), second.task().await["taskId"].clone()];
    seen.sort_by_key(Value::to_string);
    let mut both = [json!(one), json!(two)];
    both.sort_by_key(Value::to_string);
    assert_eq!(seen, both);
    drop(first);
    server.stage.job(1).await.succeed("done");
    assert_eq!(second.until("completed").await["taskId"], one);
    server.stage.job(2).await.succeed("done");
    assert_eq!(second.until("completed").await["taskId"], two);
}

#[tokio::test]
async fn subscription_works_at_another_process() {
    let server = server("").await;
    let twin = server.twin().await;
    let client = Client::of(&server);
    let id = client.start("work", json!({})).await;
    let mut listening = Client::of(&twin).listen(json!({"taskIds": [id]})).await;
    listening.task().await;
    server.stage.job(1).await.succeed("done");
    assert_eq!(text(&listening.until("completed").await["result"]), "done");
}

#[tokio::test]
async fn shutdown_answers_subscriptions() {
    let server = server("").await;
    let client = Client::of(&server);
    let id = client.start("work", json!({})).await;
    let mut with_task = client.listen(json!({"taskIds": [id]})).await;
    with_task.task().await;
    let without = Client::able(&server, able()).listen(json!({"toolsListChanged": true})).await;
    server.stop();
    for subscription in [with_task, without] {
        // Over HTTP the answer is enough: no `notifications/cancelled` comes before it.
        let id = subscription.id.clone();
        let ended = subscription.exchange.end().await.unwrap();
        assert_eq!(ended["resultType"], "complete");
        assert_eq!(ended["_meta"][SUBSCRIPTION], id);
    }
}

/// The id may be a string or any integer.
#[tokio::test]
async fn subscription_has_its_request_id() {
    let server = server("").await;
    let client = Client::of(&server);
    for id in [json!("listen-1"), json!(0), json!(-3)] {
        let mut request = client.request("subscriptions/listen", json!({"notifications": {}}));
        request["id"] = id.clone();
        let response = client.post(&request).send().await.unwrap();
        let mut exchange = super::bench::Exchange::of(request, response).await;
        assert_eq!(exchange.message().await["params"]["_meta"][SUBSCRIPTION], id);
    }
}

/// The end of the log is reported too.
#[tokio::test]
async fn log_subscription_reports_growth() {
    let server = server("").await;
    let client = Client::of(&server);
    let id = client.start("work", json!({})).await;
    let uri = format!("taskbridge://tasks/{id}/log");
    let wanted = json!({"resourceSubscriptions": [uri, "taskbridge://nothing/there"]});
    let mut listening = client.listen(wanted).await;
    assert_eq!(listening.granted, json!({"resourceSubscriptions": [uri]}));
    let job = server.stage.job(1).await;
    job.prints("one\n");
    let updated = ("notifications/resources/updated".to_owned(), json!({ "uri": uri }));
    assert_eq!(listening.next().await, updated);
    job.prints("one\ntwo\n");
    assert_eq!(listening.next().await, updated);
    is_quiet(&mut listening).await;
    job.prints("one\ntwo\nthree\n");
    job.succeed("done");
    assert_eq!(listening.next().await, updated, "the end of the log is told too");
    is_quiet(&mut listening).await;
}

#[tokio::test]
async fn subscribed_resources_are_limited() {
    let pages = "[limits]\nmax_followed_resources = 2\n\
                 [resources.pages]\nuri = \"page:{name}\"\ntext = \"{{ name }}\"\n";
    let server = server(pages).await;
    let wanted = json!({"resourceSubscriptions": ["page:one", "page:two", "page:three"]});
    let listening = Client::of(&server).listen(wanted).await;
    assert_eq!(listening.granted, json!({"resourceSubscriptions": ["page:one", "page:two"]}));
}
