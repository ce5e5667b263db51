//! Tests for `subscriptions/listen`.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::bench::{Client, SUBSCRIPTION, Subscription, all_capabilities, server, text};

/// Returns a task as notified, without the fields that change all the time.
fn without_volatile_fields(mut task: Value) -> Value {
    let members = task.as_object_mut().unwrap();
    for name in ["pollIntervalMs", "_meta", "resultType"] {
        members.remove(name);
    }
    task
}

/// Panics if anything comes within 600 ms, which is enough time for a notification.
async fn assert_quiet(subscription: &mut Subscription) {
    let next = tokio::time::timeout(Duration::from_millis(600), subscription.exchange.any()).await;
    assert!(next.is_err(), "{next:?}");
}

/// The current state comes first.
#[tokio::test]
async fn subscription_matches_tasks_get() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    assert_eq!(listening.granted, json!({"taskIds": [id]}));
    let first = listening.task().await;
    assert_eq!(
        without_volatile_fields(first),
        without_volatile_fields(client.task(&id).await),
        "where it stands comes first"
    );
    let job = server.engine.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("half way"));
    let moved = listening.task().await;
    assert_eq!(moved["statusMessage"], "half way");
    assert_eq!(without_volatile_fields(moved), without_volatile_fields(client.task(&id).await));
    job.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    let waiting = listening.wait_for_status("input_required").await;
    assert_eq!(without_volatile_fields(waiting.clone()), without_volatile_fields(client.task(&id).await));
    let key = waiting["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    client.update(&id, json!({ &key: {"action": "decline"} })).await;
    assert_eq!(listening.wait_for_status("working").await.get("inputRequests"), None);
    job.succeed("done");
    let last = listening.wait_for_status("completed").await;
    assert_eq!(text(&last["result"]), "done");
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(without_volatile_fields(last), without_volatile_fields(client.task(&id).await));
    assert_quiet(&mut listening).await;
}

/// A failed task is announced with its error.
#[tokio::test]
async fn ended_task_is_announced_once() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    server.engine.job(1).await.show(Observation::new(JobState::Gone));
    let failed = client.wait_for_status(&id, "failed").await;
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    let first = listening.task().await;
    assert_eq!(without_volatile_fields(first), without_volatile_fields(failed));
    assert_quiet(&mut listening).await;
}

/// Only what was requested and exists is granted and notified.
#[tokio::test]
async fn subscription_grants_existing_requests_only() {
    let server = server("").await;
    let client = Client::new(&server);
    let mine = client.start("work", json!({})).await;
    let other = client.start("work", json!({"n": 2})).await;
    let filter = json!({
        "taskIds": [mine, "never-was"], "toolsListChanged": true, "unheardOf": true,
        "resourceSubscriptions": ["taskbridge://nothing/there"]
    });
    let mut listening = client.listen(filter).await;
    assert_eq!(listening.granted["taskIds"], json!([mine]));
    assert_eq!(listening.granted["toolsListChanged"], true);
    assert_eq!(listening.granted.get("unheardOf"), None);
    assert_eq!(listening.granted.get("promptsListChanged"), None);
    assert_eq!(listening.task().await["taskId"], mine);
    server.engine.job(2).await.succeed("not followed");
    client.wait_for_status(&other, "completed").await;
    assert_quiet(&mut listening).await;
    server.engine.job(1).await.succeed("followed");
    assert_eq!(listening.wait_for_status("completed").await["taskId"], mine);

    let mut nothing = client.listen(json!({})).await;
    assert_eq!(nothing.granted, json!({}));
    assert_quiet(&mut nothing).await;
    for wrong in [
        json!(null),
        json!([]),
        json!({"toolsListChanged": "yes"}),
        json!({"taskIds": "t"}),
        json!({"taskIds": [5]}),
    ] {
        let failure = client.expect_error("subscriptions/listen", json!({ "notifications": wrong })).await;
        assert_eq!(failure.code, -32602);
        assert!(failure.message.contains("notifications"), "{failure:?}");
    }
}

#[tokio::test]
async fn task_sends_no_progress() {
    let server = server("").await;
    let client = Client::new(&server).with_meta("progressToken", json!("p"));
    let id = client.start("work", json!({})).await;
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    let job = server.engine.job(1).await;
    for done in 1..4 {
        job.progress(f64::from(done), 4.0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    job.succeed("done");
    // Any message other than a notification of the task fails the test.
    listening.wait_for_status("completed").await;
}

/// Each message names its subscription, and closing one does not affect the others.
#[tokio::test]
async fn subscriptions_are_independent() {
    let server = server("").await;
    let client = Client::new(&server);
    let (one, two) = (client.start("work", json!({})).await, client.start("work", json!({"n": 2})).await);
    let mut first = client.listen(json!({"taskIds": [one]})).await;
    let mut second = client.listen(json!({"taskIds": [one, two]})).await;
    assert_ne!(first.id, second.id);
    first.task().await;
    let mut notified = [second.task().await["taskId"].clone(), second.task().await["taskId"].clone()];
    notified.sort_by_key(Value::to_string);
    let mut expected = [json!(one), json!(two)];
    expected.sort_by_key(Value::to_string);
    assert_eq!(notified, expected);
    drop(first);
    server.engine.job(1).await.succeed("done");
    assert_eq!(second.wait_for_status("completed").await["taskId"], one);
    server.engine.job(2).await.succeed("done");
    assert_eq!(second.wait_for_status("completed").await["taskId"], two);
}

#[tokio::test]
async fn subscription_works_at_another_process() {
    let server = server("").await;
    let twin = server.twin().await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let mut listening = Client::new(&twin).listen(json!({"taskIds": [id]})).await;
    listening.task().await;
    server.engine.job(1).await.succeed("done");
    assert_eq!(text(&listening.wait_for_status("completed").await["result"]), "done");
}

#[tokio::test]
async fn shutdown_answers_subscriptions() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let mut with_task = client.listen(json!({"taskIds": [id]})).await;
    with_task.task().await;
    let without = Client::with_capabilities(&server, all_capabilities())
        .listen(json!({"toolsListChanged": true}))
        .await;
    server.stop();
    for subscription in [with_task, without] {
        // Over HTTP the answer is enough: no `notifications/cancelled` comes before it.
        let id = subscription.id.clone();
        let answer = subscription.exchange.end().await.unwrap();
        assert_eq!(answer["resultType"], "complete");
        assert_eq!(answer["_meta"][SUBSCRIPTION], id);
    }
}

/// The id may be a string or any integer.
#[tokio::test]
async fn subscription_has_its_request_id() {
    let server = server("").await;
    let client = Client::new(&server);
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
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let uri = format!("taskbridge://tasks/{id}/log");
    let filter = json!({"resourceSubscriptions": [uri, "taskbridge://nothing/there"]});
    let mut listening = client.listen(filter).await;
    assert_eq!(listening.granted, json!({"resourceSubscriptions": [uri]}));
    let job = server.engine.job(1).await;
    job.set_log("one\n");
    let updated = ("notifications/resources/updated".to_owned(), json!({ "uri": uri }));
    assert_eq!(listening.next().await, updated);
    job.set_log("one\ntwo\n");
    assert_eq!(listening.next().await, updated);
    assert_quiet(&mut listening).await;
    job.set_log("one\ntwo\nthree\n");
    job.succeed("done");
    assert_eq!(listening.next().await, updated, "the end of the log is told too");
    assert_quiet(&mut listening).await;
}

#[tokio::test]
async fn subscribed_resources_are_limited() {
    let pages = "[limits]\nmax_followed_resources = 2\n\
                 [resources.pages]\nuri = \"page:{name}\"\ntext = \"{{ name }}\"\n";
    let server = server(pages).await;
    let filter = json!({"resourceSubscriptions": ["page:one", "page:two", "page:three"]});
    let listening = Client::new(&server).listen(filter).await;
    assert_eq!(listening.granted, json!({"resourceSubscriptions": ["page:one", "page:two"]}));
}
