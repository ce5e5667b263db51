//! Tests for multi round-trip requests: questions before anything starts, and questions of a job in a call
//! that is not a task.

use futures_util::future::join_all;
use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Question};

use super::ASKING;
use super::bench::{Client, Failure, able, id_of, server, text};
use crate::v2025::bench::Server;

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Returns the questions, and the request state to send back.
fn asked(result: &Value) -> (Value, String) {
    assert_eq!(result["resultType"], "input_required", "{result}");
    for none in ["taskId", "ttlMs", "cacheScope", "content"] {
        assert_eq!(result.get(none), None, "{result}");
    }
    (result["inputRequests"].clone(), result["requestState"].as_str().unwrap().to_owned())
}

/// Returns the parameters of the same call again, with answers and a state.
fn again(tool: &str, arguments: &Value, responses: &Value, state: &str) -> Value {
    json!({"name": tool, "arguments": arguments, "inputResponses": responses, "requestState": state})
}

async fn go_on(client: &Client, tool: &str, responses: Value, state: &str) -> Result<Value, Failure> {
    client.ask("tools/call", again(tool, &json!({}), &responses, state)).await
}

/// Returns the keys of the questions.
fn keys(requests: &Value) -> Vec<&str> {
    requests.as_object().unwrap().keys().map(String::as_str).collect()
}

/// If the user declines, nothing starts.
#[tokio::test]
async fn start_waits_for_consent() {
    let server = server(ASKING).await;
    for client in [Client::of(&server), Client::plain(&server)] {
        let before = server.stage.starts();
        let (requests, state) = asked(&client.call("careful", json!({})).await);
        let params = &requests["confirm"]["params"];
        assert_eq!(requests["confirm"]["method"], "elicitation/create");
        assert_eq!((&params["mode"], &params["message"]), (&json!("form"), &json!("Delete /tmp?")));
        assert_eq!(server.stage.starts(), before);
        for action in ["decline", "cancel"] {
            let answer = go_on(&client, "careful", json!({"confirm": {"action": action}}), &state).await;
            let answer = answer.unwrap();
            assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(true)));
            assert!(text(&answer).contains("nothing was started"), "{answer}");
        }
        assert_eq!(server.stage.starts(), before);
        let yes = json!({"confirm": accept(json!({}))});
        let params = again("careful", &json!({}), &yes, &state);
        let call = client.open("tools/call", params).await;
        server.stage.job(before + 1).await;
        let answer = call.end().await.unwrap();
        assert_ne!(answer["resultType"], "input_required");
        assert_eq!(answer.get("requestState"), None);
    }
}

#[tokio::test]
async fn invalid_call_asks_no_consent() {
    let server = server(ASKING).await;
    let answer = Client::of(&server).call("careful", json!({"path": 5})).await;
    assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(true)));
    assert!(text(&answer).contains("path"), "{answer}");
}

/// Only answers to what was asked are used.
#[tokio::test]
async fn missing_parameter_is_asked() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let (requests, state) = asked(&client.call("deploy", json!({})).await);
    let params = &requests["env"]["params"];
    assert_eq!((keys(&requests), &params["message"]), (vec!["env"], &json!("Where to?")));
    let schema = &params["requestedSchema"];
    assert_eq!(schema["properties"]["env"]["enum"], json!(["staging", "production"]));
    assert_eq!(schema["required"], json!(["env"]));
    assert_eq!(server.stage.starts(), 0);
    let smuggled = accept(json!({"env": "staging", "note": "smuggled"}));
    id_of(&go_on(&client, "deploy", json!({"env": smuggled, "more": {"x": 1}}), &state).await.unwrap());
    assert_eq!(server.stage.job(1).await.arguments(), json!({"env": "staging"}), "what was asked, only");
    let given = client.call("deploy", json!({"env": "production", "note": "n"})).await;
    id_of(&given);
    let last = server.stage.starts();
    let arguments = server.stage.job(last).await.arguments();
    assert_eq!(arguments, json!({"env": "production", "note": "n"}), "what is given is not asked for");
}

#[tokio::test]
async fn first_call_may_have_answers() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let early = json!({
        "name": "deploy",
        "inputResponses": {"env": accept(json!({"env": "staging"})), "unknown": accept(json!({"x": 1}))}
    });
    id_of(&client.get("tools/call", early).await);
    assert_eq!(server.stage.job(1).await.arguments(), json!({"env": "staging"}));
}

/// A malformed answer is a protocol error. Nothing starts.
#[tokio::test]
async fn invalid_answer_repeats_question() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let (_, state) = asked(&client.call("deploy", json!({})).await);
    for (responses, said) in [
        (json!({}), None),
        (json!({"wrong_key": accept(json!({"env": "staging"}))}), None),
        (json!({"env": accept(json!({"env": "moon"}))}), Some("did not fit")),
        (json!({"env": accept(json!({}))}), Some("did not fit")),
        (json!({"env": {"action": "perhaps"}}), Some("did not fit")),
        (json!({"env": {}}), Some("did not fit")),
    ] {
        let (requests, _) = asked(&go_on(&client, "deploy", responses.clone(), &state).await.unwrap());
        let message = requests["env"]["params"]["message"].as_str().unwrap();
        assert!(message.starts_with("Where to?"), "{message}");
        assert_eq!(message.contains("did not fit"), said.is_some(), "{responses}: {message}");
    }
    for malformed in
        [json!(null), json!([]), json!("staging"), json!({"env": "staging"}), json!({"env": 12345})]
    {
        let refused = go_on(&client, "deploy", malformed, &state).await.unwrap_err();
        assert_eq!(refused.code, -32602);
        assert!(refused.message.contains("inputResponses"), "{refused:?}");
    }
    assert_eq!(server.stage.starts(), 0);
}

/// Consent is asked last. The answers of one step may come one by one.
#[tokio::test]
async fn questions_follow_configured_steps() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let (requests, first) = asked(&client.call("stepped", json!({})).await);
    assert_eq!(keys(&requests), ["person"]);
    let answer = go_on(&client, "stepped", json!({"person": accept(json!({"who": "ana"}))}), &first).await;
    let (requests, second) = asked(&answer.unwrap());
    assert_ne!(first, second);
    assert_eq!(keys(&requests), ["details", "extra"], "those of one step together");
    assert_eq!(requests["details"]["params"]["message"], "What for ana?");
    // The answers of one step may come one by one.
    let answer = go_on(&client, "stepped", json!({"extra": {"action": "decline"}}), &second).await;
    let (requests, third) = asked(&answer.unwrap());
    assert_eq!(keys(&requests), ["details"], "an optional one that was declined is over");
    let answer = go_on(&client, "stepped", json!({"details": accept(json!({"size": 3}))}), &third).await;
    let (requests, fourth) = asked(&answer.unwrap());
    assert_eq!(requests["confirm"]["params"]["message"], "Order 3 for ana?");
    assert_eq!(server.stage.starts(), 0);
    let yes = json!({"confirm": accept(json!({}))});
    id_of(&go_on(&client, "stepped", yes, &fourth).await.unwrap());
    assert_eq!(server.stage.job(1).await.arguments(), json!({"who": "ana", "size": 3}));
    // If a required answer is declined, nothing starts.
    let declined = go_on(&client, "stepped", json!({"details": {"action": "decline"}}), &second).await;
    assert_eq!(declined.unwrap()["isError"], true);
    assert_eq!(server.stage.starts(), 1);
}

#[tokio::test]
async fn url_sampling_and_roots_are_asked() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let (requests, state) = asked(&client.call("visit", json!({})).await);
    let page = json!({"mode": "url", "message": "Sign in", "url": "https://example.com/sign-in"});
    assert_eq!(requests, json!({"sign_in": {"method": "elicitation/create", "params": page}}));
    id_of(&go_on(&client, "visit", json!({"sign_in": {"action": "accept"}}), &state).await.unwrap());
    let declined = go_on(&client, "visit", json!({"sign_in": {"action": "decline"}}), &state).await.unwrap();
    assert_eq!(declined["isError"], true);

    let (requests, state) = asked(&client.call("capital", json!({})).await);
    assert_eq!(requests["capital"]["method"], "sampling/createMessage");
    assert_eq!(requests["capital"]["params"]["maxTokens"], 20);
    let said = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}});
    id_of(&go_on(&client, "capital", json!({ "capital": said }), &state).await.unwrap());
    assert_eq!(server.stage.job(2).await.arguments(), json!({"capital": "Paris"}));

    let (requests, state) = asked(&client.call("rooted", json!({})).await);
    assert_eq!(requests["where"]["method"], "roots/list");
    let roots = json!({"roots": [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b"}]});
    id_of(&go_on(&client, "rooted", json!({ "where": roots }), &state).await.unwrap());
    assert_eq!(server.stage.job(3).await.arguments(), json!({"roots": ["file:///a", "file:///b"]}));
}

/// A client that cannot be asked is refused, unless there is nothing to ask or the tool has a fallback.
#[tokio::test]
async fn missing_capability_is_named() {
    let server = server(ASKING).await;
    let form = json!({"elicitation": {"form": {}}});
    for (tool, able, needed) in [
        ("careful", json!({}), form.clone()),
        ("careful", json!({"elicitation": {"url": {}}}), form.clone()),
        ("deploy", json!({"sampling": {}, "roots": {}}), form.clone()),
        ("visit", json!({"elicitation": {}}), json!({"elicitation": {"url": {}}})),
        ("capital", json!({"elicitation": {}}), json!({"sampling": {}})),
        ("rooted", json!({"elicitation": {}}), json!({"roots": {}})),
    ] {
        for client in [Client::able(&server, able.clone()), Client::able(&server, able).holding_tasks()] {
            let failure = client.refused("tools/call", json!({ "name": tool })).await;
            assert_eq!((failure.status, failure.code), (400, -32021), "{tool}: {failure:?}");
            assert_eq!(failure.data, json!({ "requiredCapabilities": needed }), "{tool}");
        }
    }
    assert_eq!(server.stage.starts(), 0);
    let deaf = Client::able(&server, json!({})).holding_tasks();
    id_of(&deaf.call("lenient", json!({})).await);
    id_of(&deaf.call("deploy", json!({"env": "staging"})).await);
    assert_eq!(server.stage.starts(), 2, "where there is nothing to ask, or it says what then, it starts");
    let (requests, _) = asked(&Client::of(&server).call("lenient", json!({})).await);
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
    let one = Client::able(&server, json!({"sampling": {}}));
    assert_eq!(keys(&asked(&one.call("either", json!({})).await).0), ["guess"]);
    let both = Client::plain(&server);
    assert_eq!(keys(&asked(&both.call("either", json!({})).await).0), ["guess", "name"]);
}

/// A changed state, or one with another tool or other arguments, is refused.
#[tokio::test]
async fn request_state_is_bound_to_call() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let path = json!({"path": "/a"});
    let (_, state) = asked(&client.call("careful", path.clone()).await);
    let yes = json!({"confirm": accept(json!({}))});
    let mut tampered: Vec<String> = vec![format!("{state}-TAMPERED"), String::new(), "x".to_owned()];
    for at in [0, state.len() / 2, state.len() - 1] {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        tampered.push(String::from_utf8(bytes).unwrap());
    }
    for state in &tampered {
        let refused = client.refused("tools/call", again("careful", &path, &yes, state)).await;
        assert_eq!(refused.code, -32602, "{state}");
        assert!(refused.message.contains("requestState"), "{refused:?}");
    }
    for (tool, arguments) in [
        ("careful", json!({"path": "/b"})),
        ("careful", json!({})),
        ("lenient", json!({})),
        ("work", json!({"path": "/a"})),
    ] {
        let refused = client.refused("tools/call", again(tool, &arguments, &yes, &state)).await;
        assert_eq!(refused.code, -32602, "{tool} {arguments}");
    }
    for wrong in [json!(5), json!(null), json!({})] {
        let params = json!({"name": "careful", "arguments": path, "requestState": wrong});
        assert_eq!(client.refused("tools/call", params).await.code, -32602);
    }
    assert_eq!(server.stage.starts(), 0);
    id_of(&client.get("tools/call", again("careful", &path, &yes, &state)).await);
}

/// Covers concurrent calls, a restart, and an ended task.
#[tokio::test]
async fn repeated_round_returns_same_task() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let (_, state) = asked(&client.call("careful", json!({})).await);
    let yes = json!({"confirm": accept(json!({}))});
    let calls = (0..8).map(|_| go_on(&client, "careful", yes.clone(), &state));
    let ids: Vec<String> = join_all(calls).await.into_iter().map(|answer| id_of(&answer.unwrap())).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let server = server.restart().await;
    let client = Client::of(&server);
    assert_eq!(id_of(&go_on(&client, "careful", yes.clone(), &state).await.unwrap()), ids[0]);
    server.stage.job(1).await.succeed("once");
    client.until(&ids[0], "completed").await;
    let answer = go_on(&client, "careful", yes.clone(), &state).await.unwrap();
    assert_eq!(text(&answer), "once", "it has ended, so this is its result");
    let plain = Client::plain(&server);
    assert_eq!(text(&go_on(&plain, "careful", yes.clone(), &state).await.unwrap()), "once");
    assert_eq!(server.stage.starts(), 1);
    // A new call starts another job.
    let (_, other) = asked(&client.call("careful", json!({})).await);
    assert_ne!(id_of(&go_on(&client, "careful", yes, &other).await.unwrap()), ids[0]);
    assert_eq!(server.stage.starts(), 2);
}

#[tokio::test]
async fn used_state_rejects_other_answers() {
    let server = server(ASKING).await;
    let client = Client::of(&server);
    let (_, state) = asked(&client.call("deploy", json!({})).await);
    let to = |env: &str| json!({"env": accept(json!({ "env": env }))});
    let id = id_of(&go_on(&client, "deploy", to("staging"), &state).await.unwrap());
    let refused = go_on(&client, "deploy", to("production"), &state).await.unwrap_err();
    assert_eq!(refused.code, -32602);
    assert!(!refused.message.contains("idempotency"), "nobody gave a key: {refused:?}");
    assert_eq!(id_of(&go_on(&client, "deploy", to("staging"), &state).await.unwrap()), id);
    assert_eq!(server.stage.starts(), 1);
}

/// Starts a server whose plain calls wait longer than any test runs.
async fn patient() -> Server {
    let long = [("call_budget = \"400ms\"", "call_budget = \"60s\"")];
    super::bench::changed(&long, &format!("[auth]\nsingle_user = true\n{ASKING}")).await
}

/// The next round continues the call, and the result can be read again.
#[tokio::test]
async fn plain_call_returns_job_question() {
    let server = patient().await;
    let client = Client::plain(&server);
    let name = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", name.clone());
    let (requests, state) = asked(&call.end().await.unwrap());
    let key = keys(&requests)[0].to_owned();
    assert_eq!(requests[&key]["params"]["message"], "Who?");
    // Without an answer the call asks again; an invalid answer is refused.
    let (same, state) = asked(&go_on(&client, "work", json!({}), &state).await.unwrap());
    assert_eq!(same, requests);
    let refused = go_on(&client, "work", json!({ &key: accept(json!({"name": 5})) }), &state).await;
    assert_eq!(refused.unwrap_err().code, -32602);
    let params = again("work", &json!({}), &json!({ &key: accept(json!({"name": "ana"})) }), &state);
    let call = client.open("tools/call", params.clone()).await;
    assert!(matches!(job.answered().await, Answer::Accept(content) if content["name"] == "ana"));
    job.asks(vec![Question::form("next", "And then?", name)]);
    let (requests, later) = asked(&call.end().await.unwrap());
    let second = keys(&requests)[0].to_owned();
    assert_ne!(second, key);
    let call = client
        .open("tools/call", again("work", &json!({}), &json!({ &second: {"action": "decline"} }), &later));
    let call = call.await;
    while job.answers().len() < 2 {
        tokio::task::yield_now().await;
    }
    job.succeed("hello ana");
    assert_eq!(text(&call.end().await.unwrap()), "hello ana");
    for state in [&state, &later] {
        let params = again("work", &json!({}), &json!({}), state);
        assert_eq!(text(&client.get("tools/call", params).await), "hello ana", "it can be had again");
    }
    assert_eq!(server.stage.starts(), 1);
}

/// The call returns a handle instead.
#[tokio::test]
async fn unsupported_question_is_left_out() {
    let server = server("").await;
    let client = Client::able(&server, json!({"roots": {}}));
    let call = client.open("tools/call", json!({"name": "work"})).await;
    server.stage.job(1).await.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    let answer = call.end().await.unwrap();
    assert_eq!(answer["resultType"], "complete");
    assert_eq!(answer["structuredContent"]["status"], "working");
    let id = answer["structuredContent"]["task_id"].as_str().unwrap();
    Client::of(&server).until(id, "input_required").await;
    let waited = client.call("task_wait", json!({"task_id": id})).await;
    assert_eq!(waited["resultType"], "complete");
    assert!(text(&waited).contains("waiting for an answer to \"Who?\""), "{waited}");
}

#[tokio::test]
async fn only_calls_return_questions() {
    let server = server("").await;
    let client = Client::able(&server, able()).holding_tasks();
    let id = client.start("work", json!({})).await;
    server.stage.job(1).await.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    let task = client.until(&id, "input_required").await;
    assert_eq!(task["resultType"], "complete");
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": format!("taskbridge://tasks/{id}/log")})),
        ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ("tasks/cancel", json!({ "taskId": id })),
    ] {
        assert_eq!(client.get(method, params).await["resultType"], "complete", "{method}");
    }
}
