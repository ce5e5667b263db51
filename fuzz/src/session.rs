//! Fuzz target of session tokens: real ones with changed bytes, values sealed for another purpose, ones that
//! a server of another version with the same key may have sealed, and random bytes.

use serde_json::{Value, json};
use taskbridge::seal::Purpose;

use super::draw::Draw;
use super::endpoint::{Endpoint, request};

/// Sends requests with such tokens.
pub fn target(endpoint: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let real = endpoint.session();
    match draw.below(4) {
        0 => {
            let token = draw.rest();
            let is_valid_header = axum::http::HeaderValue::from_bytes(token).is_ok();
            if is_valid_header && token != real.as_bytes() {
                assert_eq!(status(endpoint, token), Some(404), "made up");
            }
        }
        1 => {
            let token = draw.mutate_text(&real);
            let expected = if token == real { 200 } else { 404 };
            assert_eq!(status(endpoint, token.as_bytes()), Some(expected), "{token} for {real}");
        }
        2 => {
            let payload: Value = endpoint.seal.open(Purpose::Session, &real).expect("it is ours");
            let purpose = draw.one_of(&[Purpose::Cursor, Purpose::Event, Purpose::Question, Purpose::State]);
            let token = endpoint.seal.seal(purpose, &payload);
            assert_eq!(status(endpoint, token.as_bytes()), Some(404), "sealed for something else");
        }
        _ => {
            let mut payload: Value = endpoint.seal.open(Purpose::Session, &real).expect("it is ours");
            for _ in 0..=draw.below(3) {
                draw.mutate(&mut payload);
            }
            let token = endpoint.seal.seal(Purpose::Session, &payload);
            let params = json!({"name": "careful", "arguments": {}, "task": {}});
            for message in
                [request("tools/call", params), request("logging/setLevel", json!({"level": "info"}))]
            {
                endpoint.send_in_session(&token, &message);
            }
            let listen = endpoint.request_builder("GET").header("accept", "text/event-stream");
            endpoint.send(listen.header("mcp-session-id", token), Vec::new());
        }
    }
}

/// Returns the status of a request with this token.
fn status(endpoint: &Endpoint, token: &[u8]) -> Option<u16> {
    let response = endpoint.post(&[("mcp-session-id", token)], request("ping", json!({})).to_string())?;
    Some(response.status)
}
