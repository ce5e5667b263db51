//! Fuzz target of idempotency keys, in both generations: a valid key identifies one call, however often and
//! by whichever generation it is repeated. An invalid key is refused before anything starts.

use serde_json::{Value, json};

use super::draw::Draw;
use super::endpoint::{Endpoint, request};

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// Calls tools with such keys.
pub fn target(endpoint: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let key = match draw.below(4) {
        0 => draw.json(),
        1 => json!(draw.word().repeat(draw.below(64))),
        _ => json!(draw.text()),
    };
    let session = endpoint.session();
    let call = |modern: bool, n: u64| -> Result<String, Value> {
        let meta = json!({"io.taskbridge/idempotency-key": key});
        let params = json!({"name": "run", "arguments": {"n": n}, "_meta": meta});
        if modern {
            return endpoint.send_modern("tools/call", params).map(|result| id(&result["taskId"]));
        }
        let mut message = request("tools/call", params);
        message["params"]["task"] = json!({});
        let mut answer = endpoint.send_in_session(&session, &message).expect("it waits for nothing").json();
        match answer.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(id(&answer["result"]["task"]["taskId"])),
        }
    };
    let [first, repeated, other_generation, changed_call] =
        [call(false, 1), call(false, 1), call(true, 1), call(true, 2)];
    match &key {
        Value::String(text) if (1..=MAX_KEY_BYTES).contains(&text.len()) => {
            let first = first.expect("a good key");
            assert_eq!(repeated.as_ref(), Ok(&first), "{key} made two tasks");
            assert_eq!(other_generation.as_ref(), Ok(&first), "{key} made two tasks in two generations");
            assert_refused(changed_call);
        }
        Value::Null => assert!(first.expect("no key") != repeated.expect("no key")),
        _ => [first, repeated, other_generation, changed_call].into_iter().for_each(assert_refused),
    }
}

fn id(task: &Value) -> String {
    task.as_str().expect("a task").to_owned()
}

/// Asserts that a call was refused because of its key.
fn assert_refused(result: Result<String, Value>) {
    let error = result.expect_err("the key cannot be used for that");
    let message = error["message"].as_str().unwrap_or_default();
    let parse_errors = ["nested deeper", "is larger than"];
    let is_parse_error =
        error["code"] == -32600 && parse_errors.iter().any(|parse_error| message.contains(parse_error));
    assert!(is_parse_error || error["code"] == -32602 && message.contains("idempotency"), "{error}");
}
