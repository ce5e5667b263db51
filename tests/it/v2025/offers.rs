//! Tests for the other offers of the config: resources, prompts, and the completion of their arguments.

use serde_json::{Value, json};

use super::bench::Server;
use super::tools::{all_tools, find_tool};

/// Resources and prompts of every kind.
const OFFERS: &str = r##"
[auth]
single_user = true

[tools.deploy]
description = "Deploys."
backend = "stage"
target = {}
[tools.deploy.parameters]
env = { enum = ["staging", "production", "preproduction"], description = "Where to." }
end = { type = "string", required = false }

[tools.silent]
backend = "stage"
target = {}
input_schema = { type = "object" }

[resources.runbook]
uri = "runbook://deploy"
title = "When a deployment fails"
description = "What to do."
mime_type = "text/markdown"
text = "# Roll back\n"
annotations = { audience = ["user", "assistant"], priority = 0.5 }
tools = ["deploy", "silent"]

[resources.dot]
uri = "test://static-binary"
mime_type = "image/png"
blob = "iVBORw0KGgo="

[resources.service]
uri = "test://template/{id}/data"
title = "A service"
description = "Of one service."
mime_type = "application/json"
text = '{"id": "{{ id }}"}'
places.id = { suggest = ["api", "web"] }

[resources.environment]
uri = "env://{env}"
text = "about {{ env }}"
places.env = { same_as = "deploy.env" }

[prompts.release]
title = "Release"
description = "Plans a release."
arguments = [
  { name = "version", title = "Version", description = "Such as v1.4.0." },
  { name = "env", same_as = "deploy.env" },
  { name = "notes", required = false },
  { name = "tone", default = "calm", suggest = ["calm", "urgent"] },
]
[[prompts.release.messages]]
text = "Release {{ version }} to {{ env }}, {{ tone }}.{% if notes %} Note: {{ notes }}{% endif %}"
[[prompts.release.messages]]
role = "assistant"
resource = "env://{{ env }}"
[[prompts.release.messages]]
link = "runbook://deploy"

[prompts.explain]
arguments = [{ name = "task_id" }]
[[prompts.explain.messages]]
resource = "taskbridge://tasks/{{ task_id }}/log"

[prompts.plain]
description = "Nothing to fill in."
messages = [{ text = "Hello." }]
"##;

fn message(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

#[tokio::test]
async fn configured_resources_precede_task_resources() {
    let server = Server::configured(&[("page_size = 3", "page_size = 2")], OFFERS).await;
    let client = server.client().await;
    for _ in 0..3 {
        let id = client.start("work", json!({"end": {"succeeded": {}}})).await;
        client.wait_for_status(&id, "completed").await;
    }
    let (mut uris, mut pages, mut cursor) = (Vec::new(), Vec::new(), Value::Null);
    loop {
        let page = client.get("resources/list", json!({ "cursor": cursor })).await;
        let resources = page["resources"].as_array().unwrap();
        pages.push(resources.len());
        uris.extend(resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(pages, [2, 2, 1]);
    assert_eq!(uris[..2], ["test://static-binary", "runbook://deploy"]);
    assert!(uris[2..].iter().all(|uri| uri.ends_with("/log")), "{uris:?}");
    let listed = &client.get("resources/list", json!({})).await["resources"][1];
    assert_eq!(
        *listed,
        json!({
            "uri": "runbook://deploy",
            "name": "runbook",
            "title": "When a deployment fails",
            "description": "What to do.",
            "mimeType": "text/markdown",
            "annotations": {"audience": ["user", "assistant"], "priority": 0.5},
            "size": 12,
        })
    );
}

#[tokio::test]
async fn anonymous_list_has_configured_resources_only() {
    let server = Server::with(&OFFERS.replace("single_user = true", "single_user = false")).await;
    let client = server.client().await;
    client.start("work", json!({})).await;
    let page = client.get("resources/list", json!({})).await;
    assert_eq!(page["resources"].as_array().unwrap().len(), 2);
    assert_eq!(page.get("nextCursor"), None);
}

#[tokio::test]
async fn resources_of_the_config_are_read() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    let (text, blob) = (json!({"text": "# Roll back\n"}), json!({"blob": "iVBORw0KGgo="}));
    for (uri, mime_type, body) in [
        ("runbook://deploy", "text/markdown", text),
        ("test://static-binary", "image/png", blob),
        ("test://template/12%203/data", "application/json", json!({"text": "{\"id\": \"12 3\"}"})),
        ("env://staging", "text/plain", json!({"text": "about staging"})),
    ] {
        let mut expected = json!({"uri": uri, "mimeType": mime_type});
        expected.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        assert_eq!(client.get("resources/read", json!({ "uri": uri })).await["contents"], json!([expected]));
    }
    for uri in ["test://static-binar", "test://template/1/2/data", "env://elsewhere", "runbook://"] {
        let failure = client.expect_error("resources/read", json!({ "uri": uri })).await;
        assert_eq!(failure.0, -32002, "{uri}");
    }
}

#[tokio::test]
async fn configured_templates_precede_task_templates() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    let first = client.get("resources/templates/list", json!({})).await;
    let names = |page: &Value| -> Vec<String> {
        let templates = page["resourceTemplates"].as_array().unwrap();
        templates.iter().map(|template| template["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["environment", "service", "log"]);
    assert_eq!(
        first["resourceTemplates"][1],
        json!({
            "uriTemplate": "test://template/{id}/data",
            "name": "service",
            "title": "A service",
            "description": "Of one service.",
            "mimeType": "application/json",
        })
    );
    let second = client.get("resources/templates/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!((names(&second), second.get("nextCursor")), (vec!["artifact".to_owned()], None));
    let other = client.get("resources/list", json!({})).await["nextCursor"].clone();
    let cursor = if other.is_null() { json!("x") } else { other };
    assert_eq!(client.expect_error("resources/templates/list", json!({ "cursor": cursor })).await.0, -32602);
}

/// The description of the tool names the runbook, and the result of a failed task links it.
#[tokio::test]
async fn failed_task_links_its_runbook() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    let tools = all_tools(&client).await;
    assert_eq!(
        find_tool(&tools, "deploy")["description"],
        "Deploys.\n\nSee also the resource runbook://deploy: When a deployment fails."
    );
    let link = json!({
        "type": "resource_link", "uri": "runbook://deploy", "name": "runbook", "description": "What to do.",
        "mimeType": "text/markdown", "size": 12,
    });
    for (end, links) in [("failed", 1), ("succeeded", 0)] {
        let id = client.start("silent", json!({"end": {end: {}}, "message": "it is over"})).await;
        let result = client.result(&id).await.unwrap();
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.iter().filter(|block| **block == link).count(), links, "{content:?}");
    }
}

#[tokio::test]
async fn prompts_are_sorted_and_paged() {
    let server = Server::configured(&[("page_size = 3", "page_size = 2")], OFFERS).await;
    let client = server.client().await;
    let first = client.get("prompts/list", json!({})).await;
    assert_eq!(
        first["prompts"],
        json!([
            {"name": "explain", "arguments": [{"name": "task_id", "required": true}]},
            {"name": "plain", "description": "Nothing to fill in."},
        ])
    );
    let second = client.get("prompts/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!(
        second,
        json!({"prompts": [{
            "name": "release",
            "title": "Release",
            "description": "Plans a release.",
            "arguments": [
                {"name": "version", "title": "Version", "description": "Such as v1.4.0.", "required": true},
                {"name": "env", "description": "Where to.", "required": true},
                {"name": "notes", "required": false},
                {"name": "tone", "required": false},
            ],
        }]})
    );
    assert_eq!(client.expect_error("prompts/list", json!({"cursor": "x"})).await.0, -32602);
    let foreign_cursor = json!({"cursor": first["nextCursor"]});
    assert_eq!(client.expect_error("tools/list", foreign_cursor).await.0, -32602);
}

#[tokio::test]
async fn a_prompt_is_filled_in() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    let arguments = json!({"version": "v1 {{ env }}", "env": "staging", "notes": "", "tone": "urgent"});
    let prompt = client.get("prompts/get", json!({"name": "release", "arguments": arguments})).await;
    let text = json!({"type": "text", "text": "Release v1 {{ env }} to staging, urgent."});
    let resource = json!({"uri": "env://staging", "mimeType": "text/plain", "text": "about staging"});
    let link = json!({
        "type": "resource_link", "uri": "runbook://deploy", "name": "runbook", "description": "What to do.",
        "mimeType": "text/markdown", "size": 12,
    });
    assert_eq!(
        prompt,
        json!({
            "description": "Plans a release.",
            "messages": [
                message("user", text),
                message("assistant", json!({"type": "resource", "resource": resource})),
                message("user", link),
            ]
        })
    );
    let arguments = json!({"version": "v1", "env": "production", "notes": "careful"});
    let prompt = client.get("prompts/get", json!({"name": "release", "arguments": arguments})).await;
    let text = &prompt["messages"][0]["content"]["text"];
    assert_eq!(*text, "Release v1 to production, calm. Note: careful");
    assert_eq!(
        client.get("prompts/get", json!({"name": "plain"})).await["messages"],
        json!([message("user", json!({"type": "text", "text": "Hello."}))])
    );
}

#[tokio::test]
async fn invalid_prompt_request_names_reason() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    for (params, part) in [
        (json!({"name": "nothing"}), "Unknown prompt: \"nothing\""),
        (json!({}), "`name` is missing"),
        (json!({"name": "plain", "arguments": []}), "`arguments` is an array"),
        (json!({"name": "release", "arguments": {"version": 1}}), "`arguments.version` is 1"),
        (json!({"name": "release"}), "`version` is missing; `env` is missing"),
        (json!({"name": "release", "arguments": {"version": "", "env": "staging"}}), "`version` is missing"),
        (
            json!({"name": "release", "arguments": {"version": "v1", "env": "moon"}}),
            "`env` must be one of \"staging\", \"production\", \"preproduction\"",
        ),
        (json!({"name": "plain", "arguments": {"colour": "red"}}), "`colour` is unknown (known: none)"),
        (json!({"name": "explain", "arguments": {"task_id": "a b"}}), "is not a URI"),
        (json!({"name": "explain", "arguments": {"task_id": "none"}}), "there is no such resource"),
    ] {
        let (code, message) = client.expect_error("prompts/get", params.clone()).await;
        assert!(code == -32602 && message.contains(part), "{params}: {code} {message}");
    }
}

/// Completion of the task id also works for the owner only.
#[tokio::test]
async fn prompt_embeds_log_for_owner_only() {
    let key =
        |key: &str| data_encoding::HEXLOWER.encode(&<sha2::Sha256 as sha2::Digest>::digest(key.as_bytes()));
    let auth = format!(
        "[auth]\nmode = \"api_keys\"\nkeys = [{{ principal = \"ann\", sha256 = \"{}\" }}, {{ principal = \"bob\", sha256 = \"{}\" }}]\n",
        key("ann-key"),
        key("bob-key")
    );
    let server = Server::with(&OFFERS.replace("[auth]\nsingle_user = true\n", &auth)).await;
    let (ann, bob) = (server.client_with_key("ann-key").await, server.client_with_key("bob-key").await);
    let id = ann.start("work", json!({"end": {"succeeded": {}}})).await;
    server.engine.job(1).await.set_log("one\n");
    ann.wait_for_status(&id, "completed").await;
    let explain = json!({"name": "explain", "arguments": {"task_id": id}});
    let prompt = ann.get("prompts/get", explain.clone()).await;
    assert_eq!(prompt["messages"][0]["content"]["resource"]["text"], "one\n");
    assert_eq!(bob.expect_error("prompts/get", explain).await.0, -32602);
    let log = json!({"type": "ref/resource", "uri": "taskbridge://tasks/{task_id}/log"});
    let params = json!({"ref": log, "argument": {"name": "task_id", "value": ""}});
    assert_eq!(ann.get("completion/complete", params.clone()).await["completion"]["values"], json!([id]));
    assert_eq!(bob.get("completion/complete", params).await["completion"]["values"], json!([]));
}

#[tokio::test]
async fn what_was_begun_is_completed() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    let prompt = json!({"type": "ref/prompt", "name": "release"});
    let service = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
    let environment = json!({"type": "ref/resource", "uri": "env://{env}"});
    for (reference, name, typed, values) in [
        (&prompt, "env", "p", json!(["production", "preproduction"])),
        (&prompt, "env", "pro", json!(["production", "preproduction"])),
        (&prompt, "env", "", json!(["staging", "production", "preproduction"])),
        (&prompt, "version", "v", json!([])),
        (&prompt, "tone", "UR", json!(["urgent"])),
        (&service, "id", "w", json!(["web"])),
        (&environment, "env", "sta", json!(["staging"])),
    ] {
        let params = json!({"ref": reference, "argument": {"name": name, "value": typed}});
        let answer = client.get("completion/complete", params).await;
        let total = values.as_array().unwrap().len();
        let expected = json!({"completion": {"values": values, "total": total, "hasMore": false}});
        assert_eq!(answer, expected, "{name} {typed}");
    }
    for (reference, name, part) in [
        (json!({"type": "ref/prompt", "name": "none"}), "env", "Unknown prompt"),
        (prompt, "colour", "Unknown argument: \"colour\" (known: version, env, notes, tone)"),
        (json!({"type": "ref/resource", "uri": "env://{x}"}), "x", "Unknown resource template"),
        (json!({"type": "ref/resource", "uri": "runbook://deploy"}), "x", "has no places"),
        (json!({"type": "ref/tool", "name": "deploy"}), "env", "`ref.type` is"),
        (json!("release"), "env", "`ref` is"),
    ] {
        let params = json!({"ref": reference, "argument": {"name": name, "value": ""}});
        let (code, message) = client.expect_error("completion/complete", params).await;
        assert!(code == -32602 && message.contains(part), "{code} {message}");
    }
}

/// The total number of values is reported too.
#[tokio::test]
async fn completion_returns_at_most_hundred() {
    let values: Vec<String> = (0..150).map(|n| format!("\"v{n}\"")).collect();
    let more = format!(
        "[prompts.many]\narguments = [{{ name = \"v\", suggest = [{}] }}]\nmessages = [{{ text = \"{{{{ v }}}}\" }}]\n",
        values.join(", ")
    );
    let server = Server::with(&more).await;
    let client = server.client().await;
    let params =
        json!({"ref": {"type": "ref/prompt", "name": "many"}, "argument": {"name": "v", "value": "v"}});
    let completion = client.get("completion/complete", params).await["completion"].clone();
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
}

#[tokio::test]
async fn artifact_completion_needs_named_task() {
    let server = Server::with(OFFERS).await;
    let client = server.client().await;
    let artifacts = json!([{"name": "a.txt"}, {"name": "b/c.txt"}]);
    let id = client.start("work", json!({"end": {"succeeded": {"artifacts": artifacts}}})).await;
    client.wait_for_status(&id, "completed").await;
    let reference = json!({"type": "ref/resource", "uri": "taskbridge://tasks/{task_id}/artifacts/{+name}"});
    let mut params = json!({"ref": reference, "argument": {"name": "name", "value": "b"}});
    assert_eq!(client.get("completion/complete", params.clone()).await["completion"]["values"], json!([]));
    params["context"] = json!({"arguments": {"task_id": id}});
    assert_eq!(client.get("completion/complete", params).await["completion"]["values"], json!(["b/c.txt"]));
}

/// Resources, templates and prompts are the same, without the fields of later revisions.
#[tokio::test]
async fn older_revisions_omit_unknown_fields() {
    let server = Server::with(OFFERS).await;
    let client = server.client_with("2025-03-26", json!({}), None).await;
    assert_eq!(client.initialize_result["capabilities"]["completions"], json!({}));
    let resources = client.get("resources/list", json!({})).await["resources"].clone();
    assert_eq!((resources[1].get("title"), &resources[1]["annotations"]["priority"]), (None, &json!(0.5)));
    let templates = client.get("resources/templates/list", json!({})).await["resourceTemplates"].clone();
    assert_eq!(templates[1].get("title"), None);
    let release = client.get("prompts/list", json!({})).await["prompts"][2].clone();
    assert_eq!((release.get("title"), release["arguments"][0].get("title")), (None, None));
    let arguments = json!({"version": "v1", "env": "staging"});
    let prompt = client.get("prompts/get", json!({"name": "release", "arguments": arguments})).await;
    let link_text = json!({"type": "text", "text": "runbook: runbook://deploy"});
    assert_eq!(prompt["messages"][2]["content"], link_text);
    let middle = server.client_with("2025-06-18", json!({}), None).await;
    assert_eq!(middle.get("prompts/list", json!({})).await["prompts"][2]["title"], "Release");
}
