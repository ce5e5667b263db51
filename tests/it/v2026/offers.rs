//! Tests for resources, prompts and completion of the config.

use serde_json::{Value, json};

use crate::support::{Fault, ModernClient, TestApp};

const OFFERS: &str = r##"
[resources.runbook]
uri = "runbook://deploy"
title = "When a deployment fails"
mime_type = "text/markdown"
text = "# Roll back"
annotations = { audience = ["user"], priority = 0.5 }

[resources.service]
uri = "test://template/{id}/data"
mime_type = "application/json"
text = '{"id": "{{ id }}"}'
places.id = { suggest = ["api", "web"] }

[prompts.ask]
title = "Ask"
arguments = [
  { name = "context", ask = "What context should the prompt use?", description = "The context." },
  { name = "mood", ask = "Which mood?", enum = ["calm", "urgent"], required = false },
]
[[prompts.ask.messages]]
text = "In {{ context }}{% if mood %}, {{ mood }}{% endif %}."
[[prompts.ask.messages]]
resource = "test://template/{{ context | lower }}/data"

[prompts.plain]
messages = [{ text = "Hello." }]
"##;

async fn expect_error(client: &ModernClient, method: &str, params: Value) -> (i64, String) {
    match client.request(method, params).await {
        Err(Fault::Refused { code, message }) => (code, message),
        other => panic!("{method} is refused, and not {other:?}"),
    }
}

/// The list of resources also has those of tasks, so it is private.
#[tokio::test]
async fn configured_lists_are_publicly_cacheable() {
    let app = TestApp::start(OFFERS);
    let client = ModernClient::with_capabilities(app.server.url(), json!({}));
    let capabilities = client.request("server/discover", json!({})).await.unwrap()["capabilities"].clone();
    assert_eq!(
        (&capabilities["prompts"], &capabilities["completions"]),
        (&json!({"listChanged": true}), &json!({}))
    );
    let prompts = client.request("prompts/list", json!({})).await.unwrap();
    assert_eq!((&prompts["cacheScope"], prompts["ttlMs"].as_u64() > Some(0)), (&json!("public"), true));
    assert_eq!(prompts["prompts"][1], json!({"name": "plain"}));
    assert_eq!(prompts["prompts"][0]["arguments"][1], json!({"name": "mood", "required": false}));
    let resources = client.request("resources/list", json!({})).await.unwrap();
    assert_eq!((&resources["cacheScope"], &resources["ttlMs"]), (&json!("private"), &json!(0)));
    let hints = json!({"audience": ["user"], "priority": 0.5});
    assert_eq!(resources["resources"][0]["annotations"], hints);
    let templates = client.request("resources/templates/list", json!({})).await.unwrap();
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "test://template/{id}/data");
    assert_eq!(templates["cacheScope"], "public");
}

/// A cursor of a private list works for its caller only.
#[tokio::test]
async fn public_cursors_work_for_everyone() {
    let key = |key: &str| {
        let digest = <sha2::Sha256 as sha2::Digest>::digest(key.as_bytes());
        format!("{{ principal = {key:?}, sha256 = \"{}\" }}", data_encoding::HEXLOWER.encode(&digest))
    };
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\npage_size = 1\n[auth]\nmode = \"api_keys\"\nkeys = [{}, {}]\n\
         [store]\npath = \"state/taskbridge.db\"\n{}",
        key("ann"),
        key("bob"),
        OFFERS
    );
    let dir = crate::support::TestDir::new(&config);
    let server = dir.serve();
    let [ann, bob] =
        ["ann", "bob"].map(|key| ModernClient::with_capabilities(server.url(), json!({})).with_key(key));
    for method in ["prompts/list", "resources/templates/list"] {
        let first = ann.request(method, json!({})).await.unwrap();
        assert_eq!(first["cacheScope"], "public");
        bob.request(method, json!({"cursor": first["nextCursor"]})).await.unwrap();
    }
    let first = ann.request("tools/list", json!({})).await.unwrap();
    assert_eq!(first["cacheScope"], "private");
    assert_eq!(expect_error(&bob, "tools/list", json!({"cursor": first["nextCursor"]})).await.0, -32602);
}

/// Configured resources and templates are read and completed.
#[tokio::test]
async fn unknown_resource_is_invalid() {
    let app = TestApp::start(OFFERS);
    let client = ModernClient::with_capabilities(app.server.url(), json!({}));
    let read = client.request("resources/read", json!({"uri": "runbook://deploy"})).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "# Roll back");
    assert_eq!(read["cacheScope"], "public");
    let read = client.request("resources/read", json!({"uri": "test://template/7/data"})).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "{\"id\": \"7\"}");
    assert_eq!(expect_error(&client, "resources/read", json!({"uri": "runbook://none"})).await.0, -32602);
    let reference = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
    let params = json!({"ref": reference, "argument": {"name": "id", "value": "a"}});
    let completed = client.request("completion/complete", params).await.unwrap();
    assert_eq!(completed["completion"], json!({"values": ["api"], "total": 1, "hasMore": false}));
}

/// A required argument that the user declines is an error.
#[tokio::test]
async fn missing_prompt_arguments_are_asked() {
    let app = TestApp::start(OFFERS);
    let client = ModernClient::with_capabilities(app.server.url(), json!({"elicitation": {}}));
    let question =
        client.request("prompts/get", json!({"name": "ask", "arguments": {"context": ""}})).await.unwrap();
    assert_eq!(question["resultType"], "input_required");
    let form = &question["inputRequests"]["context"];
    assert_eq!(form["params"]["message"], "What context should the prompt use?");
    assert_eq!(
        form["params"]["requestedSchema"]["properties"]["context"],
        json!({"type": "string", "description": "The context."})
    );
    let mood = &question["inputRequests"]["mood"]["params"]["requestedSchema"]["properties"]["mood"];
    assert_eq!(mood["enum"], json!(["calm", "urgent"]));

    let answers = json!({
        "context": {"action": "accept", "content": {"context": "Haste"}},
        "mood": {"action": "decline"},
    });
    let retry = json!({
        "name": "ask", "arguments": {"context": ""}, "inputResponses": answers, "requestState": question["requestState"],
    });
    let prompt = client.request("prompts/get", retry.clone()).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "In Haste.");
    assert_eq!(prompt["messages"][1]["content"]["resource"]["text"], "{\"id\": \"haste\"}");

    let mut other = retry.clone();
    other["arguments"] = json!({"mood": "calm"});
    assert_eq!(
        expect_error(&client, "prompts/get", other).await.0,
        -32602,
        "the state is that of another request"
    );
    let mut declined = retry;
    declined["inputResponses"]["context"] = json!({"action": "decline"});
    let (code, message) = expect_error(&client, "prompts/get", declined).await;
    assert!(code == -32602 && message.contains("the user declined"), "{code} {message}");
}

#[tokio::test]
async fn unaskable_client_gets_prompt_error() {
    let app = TestApp::start(OFFERS);
    let client = ModernClient::with_capabilities(app.server.url(), json!({}));
    let (code, message) = expect_error(&client, "prompts/get", json!({"name": "ask"})).await;
    assert!(code == -32602 && message.contains("`context` is missing"), "{code} {message}");
    let (code, message) = expect_error(&client, "prompts/get", json!({"name": "none"})).await;
    assert!(code == -32602 && message.contains("Unknown prompt"), "{code} {message}");
    let filled = json!({"name": "ask", "arguments": {"context": "a b", "mood": "calm"}});
    let (code, message) = expect_error(&client, "prompts/get", filled).await;
    assert!(code == -32602 && message.contains("is not a URI"), "{code} {message}");
}
