//! Tests for multi round-trip requests: questions before anything starts.

mod job_questions;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::ASK_TOOLS;
use super::bench::{Client, Failure, id_of, server, text};

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Returns the questions, and the request state to send back.
fn questions_and_state(result: &Value) -> (Value, String) {
    assert_eq!(result["resultType"], "input_required", "{result}");
    for field in ["taskId", "ttlMs", "cacheScope", "content"] {
        assert_eq!(result.get(field), None, "{result}");
    }
    (result["inputRequests"].clone(), result["requestState"].as_str().unwrap().to_owned())
}

/// Returns the parameters of the same call again, with answers and a state.
fn retry_params(tool: &str, arguments: &Value, responses: &Value, state: &str) -> Value {
    json!({"name": tool, "arguments": arguments, "inputResponses": responses, "requestState": state})
}

async fn continue_call(client: &Client, tool: &str, responses: Value, state: &str) -> Result<Value, Failure> {
    client.try_get("tools/call", retry_params(tool, &json!({}), &responses, state)).await
}

/// Returns the keys of the questions.
fn keys(requests: &Value) -> Vec<&str> {
    requests.as_object().unwrap().keys().map(String::as_str).collect()
}

/// If the user declines, nothing starts.
#[tokio::test]
async fn start_waits_for_consent() {
    let server = server(ASK_TOOLS).await;
    for client in [Client::new(&server), Client::plain(&server)] {
        let before = server.engine.starts();
        let (requests, state) = questions_and_state(&client.call("careful", json!({})).await);
        let params = &requests["confirm"]["params"];
        assert_eq!(requests["confirm"]["method"], "elicitation/create");
        assert_eq!((&params["mode"], &params["message"]), (&json!("form"), &json!("Delete /tmp?")));
        assert_eq!(server.engine.starts(), before);
        for action in ["decline", "cancel"] {
            let answer =
                continue_call(&client, "careful", json!({"confirm": {"action": action}}), &state).await;
            let answer = answer.unwrap();
            assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(true)));
            assert!(text(&answer).contains("nothing was started"), "{answer}");
        }
        assert_eq!(server.engine.starts(), before);
        let consent = json!({"confirm": accept(json!({}))});
        let params = retry_params("careful", &json!({}), &consent, &state);
        let call = client.open("tools/call", params).await;
        server.engine.job(before + 1).await;
        let answer = call.end().await.unwrap();
        assert_ne!(answer["resultType"], "input_required");
        assert_eq!(answer.get("requestState"), None);
    }
}

#[tokio::test]
async fn invalid_call_asks_no_consent() {
    let server = server(ASK_TOOLS).await;
    let answer = Client::new(&server).call("careful", json!({"path": 5})).await;
    assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(true)));
    assert!(text(&answer).contains("path"), "{answer}");
}

/// Only answers to what was asked are used.
#[tokio::test]
async fn missing_parameter_is_asked() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let (requests, state) = questions_and_state(&client.call("deploy", json!({})).await);
    let params = &requests["env"]["params"];
    assert_eq!((keys(&requests), &params["message"]), (vec!["env"], &json!("Where to?")));
    let schema = &params["requestedSchema"];
    assert_eq!(schema["properties"]["env"]["enum"], json!(["staging", "production"]));
    assert_eq!(schema["required"], json!(["env"]));
    assert_eq!(server.engine.starts(), 0);
    let smuggled = accept(json!({"env": "staging", "note": "smuggled"}));
    id_of(
        &continue_call(&client, "deploy", json!({"env": smuggled, "more": {"x": 1}}), &state).await.unwrap(),
    );
    assert_eq!(server.engine.job(1).await.arguments(), json!({"env": "staging"}), "what was asked, only");
    let full_call = client.call("deploy", json!({"env": "production", "note": "n"})).await;
    id_of(&full_call);
    let last = server.engine.starts();
    let arguments = server.engine.job(last).await.arguments();
    assert_eq!(arguments, json!({"env": "production", "note": "n"}), "what is given is not asked for");
}

#[tokio::test]
async fn first_call_may_have_answers() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let early = json!({
        "name": "deploy",
        "inputResponses": {"env": accept(json!({"env": "staging"})), "unknown": accept(json!({"x": 1}))}
    });
    id_of(&client.get("tools/call", early).await);
    assert_eq!(server.engine.job(1).await.arguments(), json!({"env": "staging"}));
}

/// A malformed answer is a protocol error. Nothing starts.
#[tokio::test]
async fn invalid_answer_repeats_question() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let (_, state) = questions_and_state(&client.call("deploy", json!({})).await);
    for (responses, expected) in [
        (json!({}), None),
        (json!({"wrong_key": accept(json!({"env": "staging"}))}), None),
        (json!({"env": accept(json!({"env": "moon"}))}), Some("did not fit")),
        (json!({"env": accept(json!({}))}), Some("did not fit")),
        (json!({"env": {"action": "perhaps"}}), Some("did not fit")),
        (json!({"env": {}}), Some("did not fit")),
    ] {
        let (requests, _) =
            questions_and_state(&continue_call(&client, "deploy", responses.clone(), &state).await.unwrap());
        let message = requests["env"]["params"]["message"].as_str().unwrap();
        assert!(message.starts_with("Where to?"), "{message}");
        assert_eq!(message.contains("did not fit"), expected.is_some(), "{responses}: {message}");
    }
    for malformed in
        [json!(null), json!([]), json!("staging"), json!({"env": "staging"}), json!({"env": 12345})]
    {
        let refused = continue_call(&client, "deploy", malformed, &state).await.unwrap_err();
        assert_eq!(refused.code, -32602);
        assert!(refused.message.contains("inputResponses"), "{refused:?}");
    }
    assert_eq!(server.engine.starts(), 0);
}

/// Consent is asked last. The answers of one step may come one by one.
#[tokio::test]
async fn questions_follow_configured_steps() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let (requests, first) = questions_and_state(&client.call("stepped", json!({})).await);
    assert_eq!(keys(&requests), ["person"]);
    let answer =
        continue_call(&client, "stepped", json!({"person": accept(json!({"who": "ana"}))}), &first).await;
    let (requests, second) = questions_and_state(&answer.unwrap());
    assert_ne!(first, second);
    assert_eq!(keys(&requests), ["details", "extra"], "those of one step together");
    assert_eq!(requests["details"]["params"]["message"], "What for ana?");
    // The answers of one step may come one by one.
    let answer = continue_call(&client, "stepped", json!({"extra": {"action": "decline"}}), &second).await;
    let (requests, third) = questions_and_state(&answer.unwrap());
    assert_eq!(keys(&requests), ["details"], "an optional one that was declined is over");
    let answer =
        continue_call(&client, "stepped", json!({"details": accept(json!({"size": 3}))}), &third).await;
    let (requests, fourth) = questions_and_state(&answer.unwrap());
    assert_eq!(requests["confirm"]["params"]["message"], "Order 3 for ana?");
    assert_eq!(server.engine.starts(), 0);
    let consent = json!({"confirm": accept(json!({}))});
    id_of(&continue_call(&client, "stepped", consent, &fourth).await.unwrap());
    assert_eq!(server.engine.job(1).await.arguments(), json!({"who": "ana", "size": 3}));
    // If a required answer is declined, nothing starts.
    let declined =
        continue_call(&client, "stepped", json!({"details": {"action": "decline"}}), &second).await;
    assert_eq!(declined.unwrap()["isError"], true);
    assert_eq!(server.engine.starts(), 1);
}

#[tokio::test]
async fn url_sampling_and_roots_are_asked() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let (requests, state) = questions_and_state(&client.call("visit", json!({})).await);
    let page = json!({"mode": "url", "message": "Sign in", "url": "https://example.com/sign-in"});
    assert_eq!(requests, json!({"sign_in": {"method": "elicitation/create", "params": page}}));
    id_of(&continue_call(&client, "visit", json!({"sign_in": {"action": "accept"}}), &state).await.unwrap());
    let declined =
        continue_call(&client, "visit", json!({"sign_in": {"action": "decline"}}), &state).await.unwrap();
    assert_eq!(declined["isError"], true);

    let (requests, state) = questions_and_state(&client.call("capital", json!({})).await);
    assert_eq!(requests["capital"]["method"], "sampling/createMessage");
    assert_eq!(requests["capital"]["params"]["maxTokens"], 20);
    let sampling_result =
        json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}});
    id_of(&continue_call(&client, "capital", json!({ "capital": sampling_result }), &state).await.unwrap());
    assert_eq!(server.engine.job(2).await.arguments(), json!({"capital": "Paris"}));

    let (requests, state) = questions_and_state(&client.call("rooted", json!({})).await);
    assert_eq!(requests["where"]["method"], "roots/list");
    let roots = json!({"roots": [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b"}]});
    id_of(&continue_call(&client, "rooted", json!({ "where": roots }), &state).await.unwrap());
    assert_eq!(server.engine.job(3).await.arguments(), json!({"roots": ["file:///a", "file:///b"]}));
}

/// A client that cannot be asked is refused, unless there is nothing to ask or the tool has a fallback.
#[tokio::test]
async fn missing_capability_is_named() {
    let server = server(ASK_TOOLS).await;
    let form = json!({"elicitation": {"form": {}}});
    for (tool, capabilities, required) in [
        ("careful", json!({}), form.clone()),
        ("careful", json!({"elicitation": {"url": {}}}), form.clone()),
        ("deploy", json!({"sampling": {}, "roots": {}}), form.clone()),
        ("visit", json!({"elicitation": {}}), json!({"elicitation": {"url": {}}})),
        ("capital", json!({"elicitation": {}}), json!({"sampling": {}})),
        ("rooted", json!({"elicitation": {}}), json!({"roots": {}})),
    ] {
        for client in [
            Client::with_capabilities(&server, capabilities.clone()),
            Client::with_capabilities(&server, capabilities).with_tasks(),
        ] {
            let failure = client.expect_error("tools/call", json!({ "name": tool })).await;
            assert_eq!((failure.status, failure.code), (400, -32021), "{tool}: {failure:?}");
            assert_eq!(failure.data, json!({ "requiredCapabilities": required }), "{tool}");
        }
    }
    assert_eq!(server.engine.starts(), 0);
    let incapable_client = Client::with_capabilities(&server, json!({})).with_tasks();
    id_of(&incapable_client.call("lenient", json!({})).await);
    id_of(&incapable_client.call("deploy", json!({"env": "staging"})).await);
    assert_eq!(server.engine.starts(), 2, "where there is nothing to ask, or it says what then, it starts");
    let (requests, _) = questions_and_state(&Client::new(&server).call("lenient", json!({})).await);
    assert_eq!(keys(&requests), ["confirm"], "who can be asked is");
}

#[tokio::test]
async fn optional_question_needs_capability() {
    let server = server(
        r#"
        [tools.either]
        backend = "stage"
        target = {}
        parameters.name = { type = "string", required = false }
        parameters.guess = { type = "string" }
        [tools.either.ask.name]
        message = "Your name?"
        parameters = ["name"]
        optional = true
        [tools.either.ask.guess]
        sampling = { messages = [{ role = "user", content = { type = "text", text = "?" } }], maxTokens = 9 }
        parameter = "guess"
        "#,
    )
    .await;
    let one = Client::with_capabilities(&server, json!({"sampling": {}}));
    assert_eq!(keys(&questions_and_state(&one.call("either", json!({})).await).0), ["guess"]);
    let both = Client::plain(&server);
    assert_eq!(keys(&questions_and_state(&both.call("either", json!({})).await).0), ["guess", "name"]);
}

/// A changed state, or one with another tool or other arguments, is refused.
#[tokio::test]
async fn request_state_is_bound_to_call() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let path = json!({"path": "/a"});
    let (_, state) = questions_and_state(&client.call("careful", path.clone()).await);
    let consent = json!({"confirm": accept(json!({}))});
    let mut tampered: Vec<String> = vec![format!("{state}-TAMPERED"), String::new(), "x".to_owned()];
    for at in [0, state.len() / 2, state.len() - 1] {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        tampered.push(String::from_utf8(bytes).unwrap());
    }
    for state in &tampered {
        let refused =
            client.expect_error("tools/call", retry_params("careful", &path, &consent, state)).await;
        assert_eq!(refused.code, -32602, "{state}");
        assert!(refused.message.contains("requestState"), "{refused:?}");
    }
    for (tool, arguments) in [
        ("careful", json!({"path": "/b"})),
        ("careful", json!({})),
        ("lenient", json!({})),
        ("work", json!({"path": "/a"})),
    ] {
        let refused =
            client.expect_error("tools/call", retry_params(tool, &arguments, &consent, &state)).await;
        assert_eq!(refused.code, -32602, "{tool} {arguments}");
    }
    for wrong in [json!(5), json!(null), json!({})] {
        let params = json!({"name": "careful", "arguments": path, "requestState": wrong});
        assert_eq!(client.expect_error("tools/call", params).await.code, -32602);
    }
    assert_eq!(server.engine.starts(), 0);
    id_of(&client.get("tools/call", retry_params("careful", &path, &consent, &state)).await);
}

/// Covers concurrent calls, a restart, and an ended task.
#[tokio::test]
async fn repeated_round_returns_same_task() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let (_, state) = questions_and_state(&client.call("careful", json!({})).await);
    let consent = json!({"confirm": accept(json!({}))});
    let calls = (0..8).map(|_| continue_call(&client, "careful", consent.clone(), &state));
    let ids: Vec<String> = join_all(calls).await.into_iter().map(|answer| id_of(&answer.unwrap())).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let server = server.restart().await;
    let client = Client::new(&server);
    assert_eq!(id_of(&continue_call(&client, "careful", consent.clone(), &state).await.unwrap()), ids[0]);
    server.engine.job(1).await.succeed("once");
    client.wait_for_status(&ids[0], "completed").await;
    let answer = continue_call(&client, "careful", consent.clone(), &state).await.unwrap();
    assert_eq!(text(&answer), "once", "it has ended, so this is its result");
    let plain = Client::plain(&server);
    assert_eq!(text(&continue_call(&plain, "careful", consent.clone(), &state).await.unwrap()), "once");
    assert_eq!(server.engine.starts(), 1);
    // A new call starts another job.
    let (_, other) = questions_and_state(&client.call("careful", json!({})).await);
    assert_ne!(id_of(&continue_call(&client, "careful", consent, &other).await.unwrap()), ids[0]);
    assert_eq!(server.engine.starts(), 2);
}

#[tokio::test]
async fn used_state_rejects_other_answers() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let (_, state) = questions_and_state(&client.call("deploy", json!({})).await);
    let to = |env: &str| json!({"env": accept(json!({ "env": env }))});
    let id = id_of(&continue_call(&client, "deploy", to("staging"), &state).await.unwrap());
    let refused = continue_call(&client, "deploy", to("production"), &state).await.unwrap_err();
    assert_eq!(refused.code, -32602);
    assert!(!refused.message.contains("idempotency"), "nobody gave a key: {refused:?}");
    assert_eq!(id_of(&continue_call(&client, "deploy", to("staging"), &state).await.unwrap()), id);
    assert_eq!(server.engine.starts(), 1);
}
