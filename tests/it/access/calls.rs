//! Tests for tools that a caller may not call: they are not listed, not found, and no other method reveals
//! them.

use serde_json::{Value, json};

use super::keys;
use super::raw::{Answer, Of, Raw};
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

const BOTH: [Of; 2] = [Of::Sessions, Of::Alone];

fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {"channel": "stable"}})
}

/// A tool that a caller may not call is not listed, and a call of it is answered like one of an unknown tool.
#[tokio::test]
async fn forbidden_tool_is_not_found() {
    let server = server().await;
    for of in BOTH {
        for (name, tools) in
            [("ann", vec!["release", "work"]), ("bob", vec!["work"]), ("cid", vec!["spend", "work"])]
        {
            let raw = Raw::of(&server.url, name).await;
            assert_eq!(raw.tools(of).await, tools, "{name}, {of:?}");
        }
        let bob = Raw::of(&server.url, "bob").await;
        let foreign = bob.ask(of, "tools/call", call("release")).await;
        let unknown = bob.ask(of, "tools/call", call("rubbish")).await;
        let named = unknown.body.to_string().replace("rubbish", "release");
        assert_eq!((foreign.status, foreign.body.to_string()), (unknown.status, named), "{of:?}");
        assert_eq!(foreign.body["error"]["code"], -32602, "{foreign:?}");
        assert_eq!(foreign.headers, unknown.headers);
    }
    assert_eq!(server.stage.starts(), 0);
    let ann = Raw::of(&server.url, "ann").await;
    for of in BOTH {
        ann.start(of, "release", json!({"channel": "stable"})).await;
    }
}

/// A caller who lacks only a scope gets a challenge with it. One whom no scope would help gets none.
#[tokio::test]
async fn missing_scope_is_named() {
    let server = server().await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    for of in BOTH {
        let Answer { status, headers, body } = bob.ask(of, "tools/call", call("spend")).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!(403)), "{body}");
        let challenge = headers.iter().find(|(name, _)| name == "www-authenticate").unwrap();
        assert!(challenge.1.starts_with("Bearer error=\"insufficient_scope\""), "{challenge:?}");
        assert!(challenge.1.contains("scope=\"spend spend:more\""), "{challenge:?}");
        let ann = ann.ask(of, "tools/call", call("spend")).await;
        assert_eq!((ann.status, ann.headers), (200, Vec::new()), "no scope would let her: {of:?}");
    }
    assert_eq!(server.stage.starts(), 0);
    Raw::of(&server.url, "cid").await.start(Of::Sessions, "spend", json!({})).await;
}

/// Resources, templates, prompts and completions of a tool do not exist for callers who may not call it.
#[tokio::test]
async fn tool_offers_require_call_permission() {
    let server = server().await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    let complete = |of: Value| json!({"ref": of, "argument": {"name": "channel", "value": "c"}});
    let place = |uri: &str| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "name", "value": "c"}});
    for of in BOTH {
        for method in ["resources/list", "resources/templates/list", "prompts/list"] {
            let (hers, his) = (ann.get(of, method, json!({})).await, bob.get(of, method, json!({})).await);
            let tied = |page: &Value| {
                let page = page.to_string();
                ["runbook:release", "channel:{name}", "\"plan\""].iter().any(|word| page.contains(word))
            };
            assert!(tied(&hers) && !tied(&his), "{method}: {hers} {his}");
            if of == Of::Alone {
                assert_eq!(hers["cacheScope"], "private", "{method}: {hers}");
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
            ("completion/complete", place("channel:{name}"), place("channels:{name}")),
        ] {
            let (foreign, made_up) = (bob.ask(of, method, foreign).await, bob.ask(of, method, made_up).await);
            let plain = |answer: &Answer| {
                let mut text = answer.body.to_string();
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
                (answer.status, text)
            };
            assert_eq!(plain(&foreign), plain(&made_up), "{method}, {of:?}");
            assert!(foreign.body.get("error").is_some(), "{foreign:?}");
        }
        let read = ann.get(of, "resources/read", json!({"uri": "runbook:release"})).await;
        assert_eq!(read["contents"][0]["text"], "How to release.");
    }
}
