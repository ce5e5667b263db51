//! Tests for tools that a caller may not call: they are not listed, not found, and no other method reveals
//! them.

use serde_json::{Value, json};

use super::keys;
use super::raw::{HttpResponse, Protocol, RawClient};
use crate::v2025::bench::Server;

/// Config with one tool for a group, one for a scope, and offers tied to the first tool.
const RESTRICTED: &str = r##"
[tools.release]
description = "Releases."
backend = "stage"
target = {}
parameters.channel = { type = "string", enum = ["canary-ring", "stable"] }
access.call = { groups = ["release"] }

[tools.spend]
backend = "stage"
target = {}
input_schema = { type = "object" }
access.call = { scopes = ["spend", "spend:more"], groups = ["data"] }

[resources.runbook]
uri = "runbook:release"
text = "How to release."
tools = ["release"]

[resources.channels]
uri = "channel:{name}"
text = "About {{ name }}."
places.name = { same_as = "release.channel" }

[prompts.plan]
messages = [{ text = "Plan for {{ channel }}." }]
arguments = [{ name = "channel", same_as = "release.channel" }]
"##;

async fn server() -> Server {
    let keys = keys(&[
        ("ann", "groups = [\"release\"]"),
        ("bob", "groups = [\"data\"]\nscopes = [\"spend\"]"),
        ("cid", "groups = [\"data\"]\nscopes = [\"spend\", \"spend:more\"]"),
    ]);
    Server::with(&format!("{keys}{RESTRICTED}")).await
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Stateful, Protocol::Stateless];

fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {"channel": "stable"}})
}

/// A tool that a caller may not call is not listed, and a call of it is answered like one of an unknown tool.
#[tokio::test]
async fn forbidden_tool_is_not_found() {
    let server = server().await;
    for protocol in PROTOCOLS {
        for (name, tools) in
            [("ann", vec!["release", "work"]), ("bob", vec!["work"]), ("cid", vec!["spend", "work"])]
        {
            let raw = RawClient::open(&server.url, name).await;
            assert_eq!(raw.tools(protocol).await, tools, "{name}, {protocol:?}");
        }
        let bob = RawClient::open(&server.url, "bob").await;
        let foreign = bob.send(protocol, "tools/call", call("release")).await;
        let unknown = bob.send(protocol, "tools/call", call("rubbish")).await;
        let expected = unknown.body.to_string().replace("rubbish", "release");
        assert_eq!((foreign.status, foreign.body.to_string()), (unknown.status, expected), "{protocol:?}");
        assert_eq!(foreign.body["error"]["code"], -32602, "{foreign:?}");
        assert_eq!(foreign.headers, unknown.headers);
    }
    assert_eq!(server.engine.starts(), 0);
    let ann = RawClient::open(&server.url, "ann").await;
    for protocol in PROTOCOLS {
        ann.start(protocol, "release", json!({"channel": "stable"})).await;
    }
}

/// A caller who lacks only a scope gets a challenge with it. One whom no scope would help gets none.
#[tokio::test]
async fn missing_scope_is_named() {
    let server = server().await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    for protocol in PROTOCOLS {
        let HttpResponse { status, headers, body } = bob.send(protocol, "tools/call", call("spend")).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!(403)), "{body}");
        let challenge = headers.iter().find(|(name, _)| name == "www-authenticate").unwrap();
        assert!(challenge.1.starts_with("Bearer error=\"insufficient_scope\""), "{challenge:?}");
        assert!(challenge.1.contains("scope=\"spend spend:more\""), "{challenge:?}");
        let ann = ann.send(protocol, "tools/call", call("spend")).await;
        assert_eq!((ann.status, ann.headers), (200, Vec::new()), "no scope would let her: {protocol:?}");
    }
    assert_eq!(server.engine.starts(), 0);
    RawClient::open(&server.url, "cid").await.start(Protocol::Stateful, "spend", json!({})).await;
}

/// Resources, templates, prompts and completions of a tool do not exist for callers who may not call it.
#[tokio::test]
async fn tool_offers_require_call_permission() {
    let server = server().await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    let complete =
        |reference: Value| json!({"ref": reference, "argument": {"name": "channel", "value": "c"}});
    let complete_uri = |uri: &str| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "name", "value": "c"}});
    for protocol in PROTOCOLS {
        for method in ["resources/list", "resources/templates/list", "prompts/list"] {
            let (ann_page, bob_page) = (
                ann.expect_result(protocol, method, json!({})).await,
                bob.expect_result(protocol, method, json!({})).await,
            );
            let has_offers = |page: &Value| {
                let page = page.to_string();
                ["runbook:release", "channel:{name}", "\"plan\""].iter().any(|word| page.contains(word))
            };
            assert!(has_offers(&ann_page) && !has_offers(&bob_page), "{method}: {ann_page} {bob_page}");
            if protocol == Protocol::Stateless {
                assert_eq!(ann_page["cacheScope"], "private", "{method}: {ann_page}");
            }
        }
        for (method, foreign, made_up) in [
            ("resources/read", json!({"uri": "runbook:release"}), json!({"uri": "runbook:nothing"})),
            ("resources/read", json!({"uri": "channel:stable"}), json!({"uri": "channels:x"})),
            ("prompts/get", json!({"name": "plan"}), json!({"name": "plot"})),
            (
                "completion/complete",
                complete(json!({"type": "ref/prompt", "name": "plan"})),
                complete(json!({"type": "ref/prompt", "name": "plot"})),
            ),
            ("completion/complete", complete_uri("channel:{name}"), complete_uri("channels:{name}")),
        ] {
            let (foreign, made_up) =
                (bob.send(protocol, method, foreign).await, bob.send(protocol, method, made_up).await);
            let normalize = |response: &HttpResponse| {
                let mut text = response.body.to_string();
                for (from, to) in [
                    ("runbook:release", "URI"),
                    ("runbook:nothing", "URI"),
                    ("channel:stable", "URI"),
                    ("channels:x", "URI"),
                    ("channel:{name}", "URI"),
                    ("channels:{name}", "URI"),
                    ("plan", "NAME"),
                    ("plot", "NAME"),
                ] {
                    text = text.replace(from, to);
                }
                (response.status, text)
            };
            assert_eq!(normalize(&foreign), normalize(&made_up), "{method}, {protocol:?}");
            assert!(foreign.body.get("error").is_some(), "{foreign:?}");
        }
        let read = ann.expect_result(protocol, "resources/read", json!({"uri": "runbook:release"})).await;
        assert_eq!(read["contents"][0]["text"], "How to release.");
    }
}
