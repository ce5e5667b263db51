//! Fuzz target of request headers: each kind of request with headers that are changed, missing, duplicated
//! or invented, and with event ids that the server sealed.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use taskbridge::seal::Purpose;

use super::draw::Draw;
use super::endpoint::{Endpoint, modern, repeated_headers, request};

/// The headers that the endpoint reads, and some that proxies read.
const NAMES: [&str; 20] = [
    "host",
    "origin",
    "accept",
    "content-type",
    "content-length",
    "authorization",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-param-region",
    "mcp-param-count",
    "mcp-param-dry",
    "last-event-id",
    "access-control-request-headers",
    "access-control-request-method",
    "transfer-encoding",
    "connection",
    "forwarded",
    "mcp-param-",
];

/// Values with a meaning in one of these headers.
const VALUES: [&str; 24] = [
    "",
    "127.0.0.1",
    "localhost:80",
    "[::1]:80",
    "https://app.example",
    "null",
    "*/*",
    "text/event-stream",
    "application/json;q=0.9, text/*",
    "application/json; charset=utf-8",
    "Bearer",
    "Bearer x",
    "Basic eDp5",
    "2025-11-25",
    "2025-06-18",
    "2026-07-28",
    "tools/call",
    "tasks/get",
    "routed",
    "=?base64?ZXU=?=",
    "=?base64?!?=",
    "42",
    "1e999",
    "mcp-param-x, mcp-param-\u{7f}",
];

/// Sends requests with such headers.
pub fn target(endpoint: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let session = endpoint.session();
    let (method, mut headers, body) = valid_request(endpoint, &mut draw, &session);
    for _ in 0..draw.below(6) {
        change(&mut draw, &mut headers);
    }
    let mut request = endpoint.request_builder(method);
    if let Some(request_headers) = request.headers_mut() {
        // The request's own headers stay unless they are replaced.
        request_headers.extend(headers.clone());
        for name in headers.keys() {
            request_headers.remove(name);
            for value in headers.get_all(name) {
                request_headers.append(name, value.clone());
            }
        }
    }
    endpoint.send(request, body);
}

/// Returns a valid request.
fn valid_request(
    endpoint: &Endpoint,
    draw: &mut Draw<'_>,
    session: &str,
) -> (&'static str, HeaderMap, Vec<u8>) {
    let mut pairs: Vec<(&str, Vec<u8>)> = vec![
        ("accept", b"application/json, text/event-stream".to_vec()),
        ("content-type", b"application/json".to_vec()),
    ];
    let in_session = ("mcp-session-id", session.as_bytes().to_vec());
    let (method, body) = match draw.below(7) {
        0 => {
            pairs.push(in_session);
            ("POST", request("ping", json!({})).to_string())
        }
        1 => {
            let arguments = json!({"region": "eu", "count": 42, "dry": true});
            let call = modern("tools/call", json!({"name": "routed", "arguments": arguments}));
            pairs.extend(repeated_headers(&call));
            ("POST", call.to_string())
        }
        2 => {
            let get = modern("tasks/get", json!({"taskId": endpoint.known_tasks.running_task}));
            pairs.extend(repeated_headers(&get));
            ("POST", get.to_string())
        }
        3 => {
            pairs.push(in_session);
            ("GET", String::new())
        }
        4 => {
            pairs.extend([
                in_session,
                ("last-event-id", sealed_event_id(endpoint, draw, session).into_bytes()),
            ]);
            ("GET", String::new())
        }
        5 => {
            pairs.push(in_session);
            (draw.one_of(&["DELETE", "PUT", "TRACE", "PATCH"]), String::new())
        }
        _ => {
            pairs.push(("origin", b"https://app.example".to_vec()));
            pairs.push(("access-control-request-headers", b"mcp-param-region".to_vec()));
            ("OPTIONS", String::new())
        }
    };
    let headers = pairs.into_iter().map(|(name, value)| {
        (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(&value).expect("it is visible ASCII"))
    });
    (method, headers.collect(), body.into_bytes())
}

/// Returns an event id as this server, or one of another version with the same key, seals it.
fn sealed_event_id(endpoint: &Endpoint, draw: &mut Draw<'_>, session: &str) -> String {
    let session: Value = endpoint.seal.open(Purpose::Session, session).expect("it is ours");
    let wait = json!({"id": 1, "task": endpoint.known_tasks.running_task, "began": 0, "until": 0, "progress_token": null});
    let resume = if draw.once_in(2) { json!({"listen": {"lists": null}}) } else { json!({"wait": wait}) };
    let mut payload = json!({"s": session["n"], "t": "stream", "n": 1, "r": resume, "l": false});
    for _ in 0..draw.below(3) {
        draw.mutate(&mut payload);
    }
    endpoint.seal.seal(Purpose::Event, &payload)
}

/// Changes one header.
fn change(draw: &mut Draw<'_>, headers: &mut HeaderMap) {
    let name = match draw.once_in(8) {
        true => HeaderName::try_from(format!("mcp-param-{}", draw.text())),
        false => HeaderName::try_from(draw.one_of(&NAMES)),
    };
    let Ok(name) = name else { return };
    let value = match draw.below(4) {
        0 => draw.bytes(64),
        1 => headers.get(&name).map(|value| draw.mutate_bytes(value.as_bytes())).unwrap_or_default(),
        _ => draw.one_of(&VALUES).as_bytes().to_vec(),
    };
    // HTTP cannot carry such a value.
    let Ok(value) = HeaderValue::from_bytes(&value) else { return };
    match draw.below(4) {
        0 => drop(headers.remove(name)),
        1 => drop(headers.append(name, value)),
        _ => drop(headers.insert(name, value)),
    }
}
