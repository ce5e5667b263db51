//! Fuzz target of the structural limits of a message: random bytes, and JSON with misplaced brackets, quotes
//! and commas. An accepted message must be within the limits.

use serde_json::Value;
use taskbridge::mcp::wire::jsonrpc;
use taskbridge::mcp::wire::jsonrpc::{Bounds, Message};

use super::endpoint::Endpoint;

const BOUNDS: Bounds = Bounds { depth: 12, elements: 60 };

/// Parses messages.
pub fn target(_: &Endpoint, bytes: &[u8]) {
    let Ok(message) = jsonrpc::parse(bytes, BOUNDS) else { return };
    assert!(BOUNDS.check(bytes).is_ok());
    let value = match message {
        Message::Request(request) => request.params,
        Message::Notification { params, .. } => params,
        Message::Response { outcome, .. } => outcome.unwrap_or_default(),
    };
    let (depth, elements) = measure(&value);
    assert!(depth < BOUNDS.depth, "{depth} levels within a message");
    assert!(elements < BOUNDS.elements, "{elements} parts within a message");
    // The checked value is the parsed one: after serialization and another parse it is the same size.
    let reparsed: Value = serde_json::from_str(&value.to_string()).expect("it was read before");
    assert_eq!(measure(&reparsed), (depth, elements));
}

fn measure(value: &Value) -> (usize, usize) {
    let measure_all = |values: &mut dyn Iterator<Item = &Value>, count: usize| {
        values
            .map(measure)
            .fold((1, count), |(depth, elements), (inner, more)| (depth.max(inner + 1), elements + more))
    };
    match value {
        Value::Array(items) => measure_all(&mut items.iter(), items.len()),
        Value::Object(members) => measure_all(&mut members.values(), members.len()),
        _ => (0, 0),
    }
}
