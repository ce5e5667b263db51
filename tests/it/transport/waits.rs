//! Tests for requests that wait: their streams, how they are cancelled, left and resumed, and the questions
//! on them.

use serde_json::{Value, json};

use super::bench::{Event, Events, Server, Session, notification, refusal, request};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Returns the id of the first event of a stream, from which it can be resumed.
async fn first_event_id(events: &mut Events) -> String {
    let first = events.next().await.unwrap();
    assert_eq!((first.data.as_deref(), first.retry), (Some(""), Some(2500)), "{first:?}");
    first.id.unwrap()
}

/// Returns the last event of a stream, which must answer this request.
async fn answer(events: &mut Events, id: &Value) -> Value {
    let last = events.next().await.unwrap();
    assert!(last.id.is_some(), "{last:?}");
    assert_eq!(events.next().await, None, "nothing comes after the answer");
    let message = last.message();
    assert_eq!(&message["id"], id, "{message}");
    assert_eq!(message["jsonrpc"], "2.0");
    message
}

/// Asserts that nothing follows this event, and that the status keeps the client from resuming the stream.
async fn assert_stream_ended(server: &Server, session: &Session, last_event_id: &str) {
    let response = server.listen(session).header("Last-Event-ID", last_event_id).send().await.unwrap();
    assert_eq!(response.headers()["allow"], "POST, GET, DELETE, OPTIONS");
    let (status, _, message) = refusal(response).await;
    assert_eq!(status, 405);
    assert!(message.contains("this stream is over"), "{message}");
}

async fn cancel_task(server: &Server, session: &Session, task: &str) {
    let cancelled = server.result(session, "tasks/cancel", &json!({ "taskId": task })).await;
    assert_eq!(cancelled["status"], "cancelled");
}

async fn status(server: &Server, session: &Session, task: &str) -> Value {
    server.result(session, "tasks/get", &json!({ "taskId": task })).await["status"].take()
}

async fn post(server: &Server, session: &Session, message: &Value) -> u16 {
    server.post_message(session, message).send().await.unwrap().status().as_u16()
}

/// The stream ends with the answer, and other requests are answered meanwhile.
#[tokio::test]
async fn waiting_request_is_answered_on_stream() {
    let server = Server::start().await;
    let session = server.session().await;
    let task = server.task(&session, "run").await;
    let mut streams = Vec::new();
    for id in [json!(1), json!("1"), json!("two")] {
        let mut events = server.wait(&session, id.clone(), &task).await;
        first_event_id(&mut events).await;
        streams.push((id, events));
    }
    assert_eq!(status(&server, &session, &task).await, "working", "other requests are answered meanwhile");
    cancel_task(&server, &session, &task).await;
    for (id, mut events) in streams {
        let message = answer(&mut events, &id).await;
        assert_eq!(message["result"]["_meta"][RELATED]["taskId"], task);
    }
}

/// The request is not answered, and its stream cannot be resumed.
#[tokio::test]
async fn cancelled_request_leaves_task_running() {
    let server = Server::start().await;
    let (session, other) = (server.session().await, server.session().await);
    let task = server.task(&session, "run").await;
    let mut events = server.wait(&session, 7, &task).await;
    let first = first_event_id(&mut events).await;
    let mut others = server.wait(&other, 7, &task).await;
    assert!(others.next().await.unwrap().id.is_some());

    let cancelled =
        |id: Value| notification("notifications/cancelled", &json!({ "requestId": id, "reason": "x" }));
    assert_eq!(post(&server, &session, &cancelled(json!("7"))).await, 202, "that is another id");
    assert_eq!(post(&server, &session, &cancelled(json!(7))).await, 202);
    assert_eq!(events.next().await, None, "no answer, no other last word");
    assert_eq!(post(&server, &session, &cancelled(json!(7))).await, 202, "again has no effect");
    assert_eq!(status(&server, &session, &task).await, "working");
    assert_stream_ended(&server, &session, &first).await;

    // A client that reuses the id means another request.
    let mut reused = server.wait(&session, 7, &task).await;
    let second = first_event_id(&mut reused).await;
    drop(reused);
    let resumed = server.listen(&session).header("Last-Event-ID", second).send().await.unwrap();
    let mut resumed = Events::of(resumed);
    first_event_id(&mut resumed).await;

    cancel_task(&server, &session, &task).await;
    answer(&mut resumed, &json!(7)).await;
    answer(&mut others, &json!(7)).await;
}

#[tokio::test]
async fn answered_stream_cannot_be_resumed() {
    let server = Server::start().await;
    let session = server.session().await;
    let task = server.task(&session, "run").await;
    let mut events = server.wait(&session, 1, &task).await;
    first_event_id(&mut events).await;
    cancel_task(&server, &session, &task).await;
    let last = events.next().await.unwrap();
    assert_eq!(last.message()["id"], 1);
    assert_stream_ended(&server, &session, &last.id.unwrap()).await;
}

/// The cancellation arrives before the stream of the request begins.
#[tokio::test]
async fn early_cancel_leaves_request_unanswered() {
    let server = Server::start().await;
    let session = server.session().await;
    let task = server.task(&session, "run").await;
    let wait = server.post_message(&session, &request(1, "tasks/result", &json!({ "taskId": task }))).send();
    let cancel = async {
        // The wait may not have reached the server yet. Then this has no effect and is repeated.
        let cancelled = notification("notifications/cancelled", &json!({ "requestId": 1 }));
        loop {
            assert_eq!(post(&server, &session, &cancelled).await, 202);
            tokio::task::yield_now().await;
        }
    };
    let response = tokio::select! {
        response = wait => response.unwrap(),
        () = cancel => unreachable!(),
    };
    let mut events = Events::of(response);
    if let Some(first) = events.next().await {
        assert_eq!(first.data.as_deref(), Some(""), "it had begun");
        assert_eq!(
            post(&server, &session, &notification("notifications/cancelled", &json!({ "requestId": 1 })))
                .await,
            202
        );
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn client_disconnect_cancels_nothing() {
    let server = Server::start().await;
    let session = server.session().await;
    let task = server.task(&session, "run").await;
    let mut events = server.wait(&session, 1, &task).await;
    first_event_id(&mut events).await;
    drop(events);
    assert_eq!(status(&server, &session, &task).await, "working");
    let mut second_wait = server.wait(&session, 2, &task).await;
    first_event_id(&mut second_wait).await;
    cancel_task(&server, &session, &task).await;
    answer(&mut second_wait, &json!(2)).await;
}

/// A request that has ended meanwhile is answered at once.
#[tokio::test]
async fn get_resumes_broken_stream() {
    let server = Server::start().await;
    let session = server.session().await;
    let task = server.task(&session, "run").await;
    let mut broken = server.wait(&session, "the request", &task).await;
    let first = first_event_id(&mut broken).await;
    drop(broken);
    let resume = async |event_id: &str| {
        Events::of(server.listen(&session).header("Last-Event-ID", event_id).send().await.unwrap())
    };
    let mut resumed = resume(&first).await;
    let second = first_event_id(&mut resumed).await;
    assert_ne!(first, second);
    drop(resumed);
    let mut from_second = resume(&second).await;
    let mut from_first = resume(&first).await;
    first_event_id(&mut from_second).await;
    first_event_id(&mut from_first).await;
    assert_eq!(from_second.next().await, None, "a stream that is taken up again ends the one before");
    cancel_task(&server, &session, &task).await;
    answer(&mut from_first, &json!("the request")).await;
    // A request that has ended meanwhile is answered at once.
    let mut late = resume(&second).await;
    first_event_id(&mut late).await;
    answer(&mut late, &json!("the request")).await;
}

#[tokio::test]
async fn a_wait_outlives_its_server() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let session = server.session().await;
    let task = server.task(&session, "run").await;
    let mut events = server.wait(&session, 1, &task).await;
    let event_id = first_event_id(&mut events).await;
    server.stop().await;
    let last = events.next().await.unwrap();
    assert_eq!(last, Event { retry: Some(2500), ..Event::default() });
    assert_eq!(events.next().await, None);

    let response = twin.listen(&session).header("Last-Event-ID", event_id).send().await.unwrap();
    let mut events = Events::of(response);
    first_event_id(&mut events).await;
    cancel_task(&twin, &session, &task).await;
    answer(&mut events, &json!(1)).await;
}

#[tokio::test]
async fn a_wait_ends_with_its_session() {
    let server = Server::start().await;
    let (session, other) = (server.session().await, server.session().await);
    let task = server.task(&session, "run").await;
    let mut events = server.wait(&session, 1, &task).await;
    first_event_id(&mut events).await;
    assert_eq!(server.delete(&session).await.status(), 204);
    assert_eq!(events.next().await, None);
    assert_eq!(status(&server, &other, &task).await, "working", "the task is its owner's, not the session's");
}

/// The answer comes by POST, also to another process. The listening stream does not have the question.
#[tokio::test]
async fn waiting_stream_carries_question() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let session = server.session_with_elicitation().await;
    let mut listening = Events::of(server.listen(&session).send().await.unwrap());
    first_event_id(&mut listening).await;
    let task = server.task(&session, "ask").await;
    let mut events = server.wait(&session, 1, &task).await;
    let first_id = first_event_id(&mut events).await;
    let event = events.next().await.unwrap();
    assert!(event.id.is_some() && event.id.as_deref() != Some(&first_id));
    let question = event.message();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"][RELATED]["taskId"], task);

    let answered = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
    let other_session = server.session_with_elicitation().await;
    assert_eq!(post(&twin, &session, &answered).await, 202, "any server takes the answer");
    assert_eq!(post(&server, &session, &answered).await, 202, "a late one changes nothing");
    let forged = json!({ "jsonrpc": "2.0", "id": "made-up", "result": { "action": "accept" } });
    assert_eq!(post(&server, &other_session, &forged).await, 400);

    // If the question was also on the other stream, it would arrive before that stream ends.
    assert_eq!(server.delete(&session).await.status(), 204);
    while let Some(event) = listening.next().await {
        let message = event.message();
        assert_ne!(message["method"], "elicitation/create", "{message}");
        assert!(message.get("result").is_none() && message.get("error").is_none(), "{message}");
    }
}
