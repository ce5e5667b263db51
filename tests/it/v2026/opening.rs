//! Tests for how a request is accepted: its own metadata, and the headers that repeat it.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::ASK_TOOLS;
use super::bench::{
    Client, Exchange, Failure, TASKS, VERSION, all_capabilities, encode_header, id_of, server,
};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The methods under test.
const METHODS: [&str; 8] = [
    "server/discover",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "subscriptions/listen",
    "resources/list",
];

async fn answer(request: &Value, post: RequestBuilder) -> Result<Value, Failure> {
    Exchange::of(request.clone(), post.send().await.unwrap()).await.end().await
}

async fn refusal(request: &Value, post: RequestBuilder) -> (u16, i64, String) {
    let failure = answer(request, post).await.expect_err("it must be refused");
    (failure.status, failure.code, failure.message)
}

#[tokio::test]
async fn discovery_lists_versions_and_capabilities() {
    let server = server("").await;
    let client = Client::new(&server);
    let discovery = client.get("server/discover", json!({})).await;
    assert_eq!(discovery["supportedVersions"], json!([VERSION, "2025-11-25", "2025-06-18", "2025-03-26"]));
    let capabilities = &discovery["capabilities"];
    assert_eq!(capabilities["tools"]["listChanged"], true);
    assert_eq!(capabilities["extensions"], json!({TASKS: {}}), "there are no settings");
    assert_eq!(capabilities.get("tasks"), None, "that slot is of the revision before");
    assert!(discovery["ttlMs"].is_u64(), "{discovery}");
    assert_eq!(discovery["cacheScope"], "private", "what a model is told depends on who asks");
    assert!(discovery["instructions"].is_string());
    let repeated = client.get("server/discover", json!({})).await;
    assert_eq!(repeated, discovery);
}

/// Applies to every method. Nothing starts.
#[tokio::test]
async fn missing_request_metadata_is_refused() {
    let server = server("").await;
    let client = Client::new(&server);
    for method in METHODS {
        for (name, wrong) in [
            (VERSION_KEY, None),
            (VERSION_KEY, Some(json!(20_260_728))),
            (CAPABILITIES_KEY, None),
            (CAPABILITIES_KEY, Some(json!("all"))),
            (LEVEL_KEY, Some(json!("loud"))),
            (LEVEL_KEY, Some(json!(3))),
        ] {
            let mut request = client.request(method, json!({"name": "work", "taskId": "t"}));
            let meta = request["params"]["_meta"].as_object_mut().unwrap();
            meta.remove(name);
            if let Some(wrong) = wrong {
                meta.insert(name.to_owned(), wrong);
            }
            let (status, code, message) = refusal(&request, client.post(&request)).await;
            assert_eq!((status, code), (400, -32602), "{method}: {message}");
            assert!(message.contains(name), "{message}");
        }
        let mut request = client.request(method, json!({"name": "work", "taskId": "t"}));
        request["params"].as_object_mut().unwrap().remove("_meta");
        let (status, code, message) = refusal(&request, client.post(&request)).await;
        assert_eq!((status, code), (400, -32602));
        assert!(message.starts_with("`_meta` is missing"), "{message}");
        request.as_object_mut().unwrap().remove("params");
        assert_eq!(refusal(&request, client.post(&request)).await.1, -32602);
    }
    assert_eq!(server.engine.starts(), 0);
}

/// Every log level is accepted.
#[tokio::test]
async fn client_info_is_optional() {
    let server = server("").await;
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    for level in levels {
        let client = Client::new(&server).with_meta(LEVEL_KEY, json!(level));
        let mut request = client.request("tools/list", json!({}));
        request["params"]["_meta"].as_object_mut().unwrap().remove(INFO_KEY);
        assert!(answer(&request, client.post(&request)).await.is_ok(), "{level}");
    }
}

/// Requests with different capabilities share one connection and do not affect each other.
#[tokio::test]
async fn requests_are_stateless() {
    let server = server("").await;
    let (with, without) = (Client::new(&server), Client::with_capabilities(&server, json!({})));
    let mut ids = Vec::new();
    for _ in 0..2 {
        // The requests share one connection, and each is handled independently.
        let request = with.request("tools/call", json!({"name": "work"}));
        ids.push(id_of(&answer(&request, without.post(&request)).await.unwrap()));
        let plain = without.call("work", json!({})).await;
        assert_eq!(plain["resultType"], "complete");
        assert_eq!(without.expect_error("tasks/get", json!({"taskId": ids[0]})).await.code, -32021);
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn headers_must_match_body() {
    let server = server("").await;
    let client = Client::new(&server);
    let list = client.request("tools/list", json!({}));
    let call = client.request("tools/call", json!({"name": "work"}));
    let headers = |request: &Value, version: Option<&str>, method: Option<&str>, name: Option<&str>| {
        let mut post = client.bare(request);
        for (header, value) in [("MCP-Protocol-Version", version), ("Mcp-Method", method), ("mcp-NAME", name)]
        {
            if let Some(value) = value {
                post = post.header(header, value);
            }
        }
        post
    };
    let (version, listing, calling) = (Some(VERSION), Some("tools/list"), Some("tools/call"));
    for (request, post, expected) in [
        (&list, headers(&list, None, listing, None), "MCP-Protocol-Version is missing"),
        (&list, headers(&list, version, None, None), "Mcp-Method is missing"),
        (&list, headers(&list, Some("2025-11-25"), listing, None), "MCP-Protocol-Version is"),
        (&list, headers(&list, Some("1900-01-01"), listing, None), "MCP-Protocol-Version is"),
        (&list, headers(&list, version, calling, None), "Mcp-Method is"),
        (&list, headers(&list, version, Some("Tools/List"), None), "Mcp-Method is"),
        (&call, headers(&call, version, calling, None), "Mcp-Name is missing"),
        (&call, headers(&call, version, calling, Some("other")), "Mcp-Name is"),
        (&call, headers(&call, version, calling, Some("Work")), "Mcp-Name is"),
        (&call, headers(&call, version, calling, Some("=?base64?%%?=")), "Mcp-Name is not the base64"),
        (&call, headers(&call, version, calling, Some("=?BASE64?d29yaw==?=")), "Mcp-Name is"),
        (&call, headers(&call, version, calling, Some("work\u{e9}")), "characters that a header cannot"),
        (&call, headers(&call, version, calling, Some("work")).header("Mcp-Name", "other"), "Mcp-Name is"),
    ] {
        let (status, code, message) = refusal(request, post).await;
        assert_eq!((status, code), (400, -32020), "{message}");
        assert!(message.contains(expected), "{message}, and not {expected}");
    }
    assert_eq!(server.engine.starts(), 0, "what disagrees starts nothing");
    let encoded = headers(&call, version, calling, Some("=?base64?d29yaw==?="));
    assert!(answer(&call, encoded).await.is_ok(), "what is encoded is decoded before it is compared");
    let with_extra_name = headers(&list, version, listing, Some("whatever"));
    assert!(answer(&list, with_extra_name).await.is_ok(), "nothing in the body has this name");
}

/// A name that differs from the task id is refused.
#[tokio::test]
async fn task_name_header_is_optional() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let request = client.request(method, json!({"taskId": id, "inputResponses": {}}));
        let bare =
            || client.bare(&request).header("MCP-Protocol-Version", VERSION).header("Mcp-Method", method);
        assert!(answer(&request, bare()).await.is_ok(), "{method}");
        let named = answer(&request, bare().header("Mcp-Name", encode_header(&id))).await;
        assert!(named.is_ok(), "{method}");
        let (status, code, _) = refusal(&request, bare().header("Mcp-Name", "another")).await;
        assert_eq!((status, code), (400, -32020), "{method}");
    }
}

#[tokio::test]
async fn tool_parameter_headers_must_match() {
    let server = server(ASK_TOOLS).await;
    let client = Client::plain(&server);
    let listed = client.get("tools/list", json!({})).await;
    let mut tools = listed["tools"].as_array().unwrap().clone();
    let mut cursor = listed["nextCursor"].clone();
    while cursor.is_string() {
        let page = client.get("tools/list", json!({ "cursor": cursor })).await;
        tools.extend(page["tools"].as_array().unwrap().iter().cloned());
        cursor = page["nextCursor"].clone();
    }
    let schema = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["inputSchema"]["properties"].clone()
    };
    assert_eq!(schema("routed")["region"]["x-mcp-header"], "Region");
    assert_eq!(schema("routed")["count"]["x-mcp-header"], "Count");
    assert_eq!(schema("nested")["where"]["properties"]["zone"]["x-mcp-header"], "Zone");

    let call = async |tool: &str, arguments: Value, headers: &[(&str, &str)]| {
        let request = client.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let mut post = client.post(&request);
        for (name, value) in headers {
            post = post.header(*name, *value);
        }
        match answer(&request, post).await {
            Ok(_) => Ok(()),
            Err(failure) => Err((failure.status, failure.code)),
        }
    };
    let mismatch = Err((400, -32020));
    let eu = json!({"region": "eu"});
    for (arguments, headers, expected) in [
        (eu.clone(), &[("Mcp-Param-Region", "eu")][..], Ok(())),
        (eu.clone(), &[("mcp-param-REGION", "=?base64?ZXU=?=")], Ok(())),
        (json!({"region": " ü "}), &[("Mcp-Param-Region", "=?base64?IMO8IA==?=")], Ok(())),
        (json!({"region": "=?base64?x?="}), &[("Mcp-Param-Region", "=?base64?PT9iYXNlNjQ/eD89?=")], Ok(())),
        (eu.clone(), &[], mismatch),
        (eu.clone(), &[("Mcp-Param-Region", "us")], mismatch),
        (eu.clone(), &[("Mcp-Param-Region", "EU")], mismatch),
        (eu.clone(), &[("Mcp-Param-Region", "=?base64?!?=")], mismatch),
        (eu.clone(), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "1")], mismatch),
        (eu.clone(), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Other", "1")], Ok(())),
        (
            json!({"region": "eu", "count": 42, "dry": true}),
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "42.0"), ("Mcp-Param-Dry", "true")],
            Ok(()),
        ),
        (
            json!({"region": "eu", "count": 42}),
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "43")],
            mismatch,
        ),
        (
            json!({"region": "eu", "count": 9_007_199_254_740_993_i64}),
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "9007199254740993")],
            mismatch,
        ),
        (
            json!({"region": "eu", "count": 9_007_199_254_740_991_i64}),
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "9007199254740991")],
            Ok(()),
        ),
        (
            json!({"region": "eu", "dry": false}),
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Dry", "False")],
            mismatch,
        ),
        (json!({"region": "eu", "dry": null}), &[("Mcp-Param-Region", "eu")], Ok(())),
    ] {
        assert_eq!(call("routed", arguments.clone(), headers).await, expected, "{arguments} {headers:?}");
    }
    let nested = json!({"where": {"zone": "a"}});
    assert_eq!(call("nested", nested.clone(), &[("Mcp-Param-Zone", "a")]).await, Ok(()));
    assert_eq!(call("nested", nested, &[]).await, mismatch);
    assert_eq!(call("nested", json!({}), &[]).await, Ok(()));
}

#[tokio::test]
async fn unsupported_version_error_lists_supported() {
    let server = server("").await;
    let client = Client::new(&server);
    for version in ["1900-01-01", "2099-01-01", "2025-11-25", ""] {
        for method in ["server/discover", "tools/list", "no/such"] {
            let mut request = client.request(method, json!({}));
            request["params"]["_meta"][VERSION_KEY] = json!(version);
            let post = client.bare(&request).header("MCP-Protocol-Version", version);
            let failure = answer(&request, post.header("Mcp-Method", method)).await.unwrap_err();
            assert_eq!((failure.status, failure.code), (400, -32022), "{failure:?}");
            assert_eq!(failure.data["requested"], version);
            assert_eq!(failure.data["supported"][0], VERSION);
        }
    }
}

/// Methods of older revisions are unknown here.
#[tokio::test]
async fn unknown_methods_are_not_found() {
    let server = server("").await;
    let client = Client::new(&server);
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "roots/list",
        "no/such",
        "",
    ] {
        let params = json!({"protocolVersion": VERSION, "taskId": "t", "level": "info", "uri": "x:y"});
        let failure = client.expect_error(method, params).await;
        assert_eq!((failure.status, failure.code), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn ids_come_back_as_they_were() {
    let server = server("").await;
    let client = Client::new(&server);
    for id in [json!("1"), json!(1), json!(""), json!(-7), json!("ü")] {
        for method in ["tools/list", "no/such"] {
            let mut request = client.request(method, json!({}));
            request["id"] = id.clone();
            let response = client.post(&request).send().await.unwrap();
            let body: Value = response.json().await.unwrap();
            assert_eq!(body["id"], id, "{method}");
        }
    }
}

/// Notifications are accepted.
#[tokio::test]
async fn responses_are_refused() {
    let server = server("").await;
    let client = Client::new(&server);
    for method in ["notifications/cancelled", "notifications/roots/list_changed", "notifications/whatever"] {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}});
        let response = client.post(&message).send().await.unwrap();
        assert_eq!(response.status(), 202);
        assert_eq!(response.text().await.unwrap(), "");
    }
    for response in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "q", "error": {"code": 1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []}),
        json!({"jsonrpc": "1.0", "method": "notifications/cancelled"}),
    ] {
        let refused = client.bare(&response).header("MCP-Protocol-Version", VERSION).send().await.unwrap();
        assert_eq!(refused.status(), 400);
    }
}

#[tokio::test]
async fn legacy_headers_are_ignored() {
    let server = server("").await;
    let client = Client::new(&server);
    let request = client.request("tools/list", json!({}));
    let post = client.post(&request).header("Mcp-Session-Id", "nonsense").header("Last-Event-ID", "nonsense");
    // `Exchange::of` checks that no session id comes back.
    assert!(answer(&request, post).await.is_ok());
    let legacy = server.client().await;
    let session = legacy.session().to_owned();
    let request = client.request("server/discover", json!({}));
    let discovery = answer(&request, client.post(&request).header("Mcp-Session-Id", session)).await.unwrap();
    assert_eq!(discovery["supportedVersions"][0], VERSION, "the request itself says what it is written in");
}

/// `initialize` with this revision is answered with the newest one that has sessions.
#[tokio::test]
async fn initialize_falls_back_to_2025() {
    let server = server("").await;
    let client = Client::with_capabilities(&server, all_capabilities());
    let params = json!({
        "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    });
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    for post in [client.bare(&request), client.bare(&request).header("MCP-Protocol-Version", VERSION)] {
        let response = post.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers().contains_key("mcp-session-id"));
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    }
}
