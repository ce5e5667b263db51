//! Tests for streams: how they begin, continue, are resumed and end.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::bench::{Events, Server, initialize, refusal, request};

/// The client can resume from it. No id is used twice.
#[tokio::test]
async fn stream_begins_with_event_id() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut ids = HashSet::new();
    for _ in 0..3 {
        // All of them stay open: a client may have several.
        let mut events = Events::of(server.listen(&session).send().await.unwrap());
        let first = events.next().await.unwrap();
        assert_eq!((first.data.as_deref(), first.retry), (Some(""), Some(2500)));
        let id = first.id.unwrap();
        assert!(ids.insert(id.clone()), "an event id is never given twice");

        let response = server.listen(&session).header("Last-Event-ID", &id).send().await.unwrap();
        let second = Events::of(response).next().await.unwrap();
        assert!(ids.insert(second.id.unwrap()), "not on the same stream either");
    }
}

/// A client of 2025-06-18 gets a comment instead of an event without data.
#[tokio::test]
async fn older_client_gets_comment_first() {
    let server = Server::start().await;
    let response = server.post(initialize("2025-06-18").to_string()).send().await.unwrap();
    let session =
        super::bench::Session { id: response.headers()["mcp-session-id"].to_str().unwrap().to_owned() };
    let first = Events::of(server.listen(&session).send().await.unwrap()).next().await.unwrap();
    assert!(first.comment && first.data.is_none(), "{first:?}");
}

#[tokio::test]
async fn event_id_is_bound_to_session() {
    let server = Server::start().await;
    let (session, other) = (server.session().await, server.session().await);
    let id = Events::of(server.listen(&session).send().await.unwrap()).next().await.unwrap().id.unwrap();
    for (session, id) in [(&other, id.as_str()), (&session, "nonsense"), (&session, &id[1..]), (&session, "")]
    {
        let response = server.listen(session).header("Last-Event-ID", id).send().await.unwrap();
        let (status, code, message) = refusal(response).await;
        assert_eq!((status, code), (400, -32600));
        assert!(message.contains("Last-Event-ID"), "{message}");
    }
}

#[tokio::test]
async fn streams_end_with_their_session() {
    let server = Server::start().await;
    let (session, other) = (server.session().await, server.session().await);
    let mut mine = Events::of(server.listen(&session).send().await.unwrap());
    let mut mine_too = Events::of(server.listen(&session).send().await.unwrap());
    let mut theirs = Events::of(server.listen(&other).send().await.unwrap());
    for events in [&mut mine, &mut mine_too, &mut theirs] {
        assert!(events.next().await.unwrap().id.is_some());
    }
    assert_eq!(server.delete(&session).await.status(), 204);
    assert_eq!((mine.next().await, mine_too.next().await), (None, None));
    assert_eq!(server.delete(&other).await.status(), 204);
    assert_eq!(theirs.next().await, None);
}

/// The next process resumes the stream.
#[tokio::test]
async fn shutdown_sends_retry_to_streams() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let session = server.session().await;
    let mut events = Events::of(server.listen(&session).send().await.unwrap());
    let event_id = events.next().await.unwrap().id.unwrap();
    server.stop().await;
    let last = events.next().await.unwrap();
    assert_eq!((last.retry, last.id, last.data), (Some(2500), None, None));
    assert_eq!(events.next().await, None);

    let response = twin.listen(&session).header("Last-Event-ID", event_id).send().await.unwrap();
    assert!(Events::of(response).next().await.unwrap().id.is_some(), "the next process takes it up");
}

#[tokio::test]
async fn a_quick_answer_is_no_stream() {
    let server = Server::start().await;
    let session = server.session().await;
    for method in ["ping", "tools/list", "tasks/get", "no/such"] {
        let response = server.post_message(&session, &request(1, method, &json!({}))).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json", "{method}");
    }
}

/// Comments keep it open. It ends after the session ends at another server, or expires.
#[tokio::test]
async fn quiet_stream_lasts_with_session() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let (session, other) = (server.session().await, server.session().await);
    let started = Instant::now();
    let mut events = Events::of(server.listen(&session).send().await.unwrap());
    let mut others = Events::of(server.listen(&other).send().await.unwrap());
    assert!(events.next().await.unwrap().id.is_some() && others.next().await.unwrap().id.is_some());
    // The paused clock advances by itself while nothing else happens, so that no test waits.
    tokio::time::pause();
    for round in 1..=3 {
        assert!(events.next().await.unwrap().comment);
        assert!(started.elapsed() >= Duration::from_secs(15) * round, "comments are not sent in haste");
    }
    tokio::time::resume();
    assert_eq!(twin.delete(&other).await.status(), 204);
    tokio::time::pause();
    while let Some(event) = others.next().await {
        assert!(event.comment, "it ends at its next comment, though another server was told");
    }
    server.clock.set_ahead(Duration::from_secs(3601));
    while let Some(event) = events.next().await {
        assert!(event.comment, "it ends at its next comment, since the session has expired");
    }
}
