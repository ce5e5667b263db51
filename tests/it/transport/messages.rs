//! Tests for the contents of a POST, and for its response.

use futures_util::StreamExt as _;
use reqwest::Body;
use serde_json::{Value, json};

use super::bench::{MAX_BODY, MAX_POLLS, Server, notification, refusal, request};

#[tokio::test]
async fn invalid_message_is_refused_with_reason() {
    let server = Server::start().await;
    let session = server.session().await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#,
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    for (body, code, expected) in [
        ("{\"jsonrpc\":", -32700, "not JSON"),
        ("", -32700, "not JSON"),
        ("hello", -32700, "not JSON"),
        (batch, -32600, "batches are not supported"),
        ("[]", -32600, "batches are not supported"),
        ("7", -32600, "a message is a JSON object"),
        ("{}", -32600, "jsonrpc must be"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, "jsonrpc must be"),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, "needs a method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, "method must be a string"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32600, "params must be an object"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, -32600, "params must be an object"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, "id must be"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, "id must be"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600, "id must be"),
        (&deep, -32600, "nested deeper than 64 levels"),
    ] {
        let response =
            server.post(body.to_owned()).header("Mcp-Session-Id", &session.id).send().await.unwrap();
        let (status, got, message) = refusal(response).await;
        assert_eq!((status, got), (400, code), "{body:.80}: {message}");
        assert!(message.contains(expected), "{body:.80}: {message}");
    }
    let response = server.post(b"{\"jsonrpc\":\"2.0\",\"x\":\"\xff\"}".to_vec()).send().await.unwrap();
    let (status, code, message) = refusal(response).await;
    assert_eq!((status, code, message.as_str()), (400, -32700, "the message is not UTF-8"));
}

#[tokio::test]
async fn request_id_is_echoed() {
    let server = Server::start().await;
    let session = server.session().await;
    for id in [json!(0), json!(-1), json!(i64::MAX), json!(""), json!("1"), json!("a\n\u{1F600}\"")] {
        let ping =
            server.post_message(&session, &request(id.clone(), "ping", &json!({}))).send().await.unwrap();
        assert_eq!(ping.headers()["content-type"], "application/json");
        let answer: Value = ping.json().await.unwrap();
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
        let unknown =
            server.post_message(&session, &request(id.clone(), "no/such", &json!({}))).send().await.unwrap();
        assert_eq!(unknown.status(), 200);
        let answer: Value = unknown.json().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32601)));
        let malformed = json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "params": 1 });
        let answer: Value =
            server.post_message(&session, &malformed).send().await.unwrap().json().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32600)));
    }
}

#[tokio::test]
async fn large_body_is_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    let message = |size: usize| {
        let empty = request(1, "ping", &json!({ "pad": "" })).to_string();
        request(1, "ping", &json!({ "pad": "x".repeat(size - empty.len()) })).to_string()
    };
    let send = async |body: Body| {
        let response = server.post(body).header("Mcp-Session-Id", &session.id).send().await.unwrap();
        let status = response.status().as_u16();
        if status == 413 {
            let (_, code, message) = refusal(response).await;
            assert_eq!(code, -32600);
            assert_eq!(
                message,
                format!("the message is larger than the {MAX_BODY} bytes that this server takes")
            );
        }
        status
    };
    let in_pieces = |text: String| {
        let pieces: Vec<_> =
            text.into_bytes().chunks(1000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
        Body::wrap_stream(futures_util::stream::iter(pieces).boxed())
    };
    assert_eq!(send(message(MAX_BODY).into()).await, 200);
    assert_eq!(send(message(MAX_BODY + 1).into()).await, 413);
    assert_eq!(send(message(20 * 1024 * 1024).into()).await, 413);
    assert_eq!(send(in_pieces(message(MAX_BODY))).await, 200);
    assert_eq!(send(in_pieces(message(MAX_BODY + 1))).await, 413);
    assert_eq!(send(in_pieces(message(5 * 1024 * 1024))).await, 413);
}

/// Covers unknown and malformed notifications, and an error response without an id.
#[tokio::test]
async fn notifications_are_accepted_without_body() {
    let server = Server::start().await;
    let session = server.session().await;
    for message in [
        notification("notifications/initialized", &json!({})),
        notification("notifications/of_the_future", &json!({ "a": 1 })),
        notification("tasks/get", &json!({ "taskId": 7 })),
        notification("notifications/cancelled", &json!({ "requestId": 0, "reason": "that was initialize" })),
        notification("notifications/cancelled", &json!({ "requestId": 99, "reason": "why not" })),
        notification("notifications/cancelled", &json!({ "requestId": { "bad": true } })),
        notification("notifications/cancelled", &Value::Null),
        json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "I could not read that" } }),
    ] {
        let response = server.post_message(&session, &message).send().await.unwrap();
        assert_eq!(response.status(), 202, "{message}");
        assert_eq!(response.text().await.unwrap(), "", "{message}");
    }
}

#[tokio::test]
async fn a_response_to_nothing_is_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    for message in [
        json!({ "jsonrpc": "2.0", "id": 5, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "made-up", "error": { "code": 1, "message": "no" } }),
        json!({ "jsonrpc": "2.0", "id": 5, "result": 7 }),
        json!({ "jsonrpc": "2.0", "id": 5, "error": "no" }),
        json!({ "jsonrpc": "2.0", "result": {} }),
    ] {
        let response = server.post_message(&session, &message).send().await.unwrap();
        assert_eq!(response.status(), 400, "{message}");
        let body: Value = response.json().await.unwrap();
        assert_eq!((body.get("id"), &body["error"]["code"]), (None, &json!(-32600)), "{message}");
    }
}

#[tokio::test]
async fn polls_without_pause_are_slowed_down() {
    let server = Server::start().await;
    let session = server.session().await;
    let poll = request("p", "tasks/get", &json!({ "taskId": "none" }));
    let complete = request("c", "completion/complete", &json!({}));
    let started = std::time::Instant::now();
    for n in 0..=MAX_POLLS * 2 {
        let either = if n % 2 == 0 { &poll } else { &complete };
        assert_eq!(server.post_message(&session, either).send().await.unwrap().status(), 200);
    }
    assert!(started.elapsed() > std::time::Duration::from_millis(900), "half of them wait for their turns");
    let requests = (0..100).map(|_| server.post_message(&session, &poll).send());
    let answers = futures_util::future::join_all(requests).await;
    let rate_limited = answers.into_iter().map(Result::unwrap).find(|response| response.status() == 429);
    let rate_limited =
        rate_limited.expect("100 polls take less than the 4 seconds in which they were answered or held");
    assert_eq!(rate_limited.headers()["retry-after"], "1");
    let body: Value = rate_limited.json().await.unwrap();
    assert_eq!(body["id"], "p");
    assert!(
        body["error"]["message"].as_str().unwrap().contains(&format!("more than {MAX_POLLS} polls a second")),
        "{body}"
    );
    let ping = server.post_message(&session, &request(1, "ping", &json!({}))).send().await.unwrap();
    assert_eq!(ping.status(), 200, "only polls and completions are counted");
}
