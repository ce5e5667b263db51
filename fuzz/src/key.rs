//! Fuzz target of idempotency keys, in both generations: a valid key identifies one call, however often and
//! by whichever generation it is repeated. An invalid key is refused before anything starts.

use serde_json::{Value, json};

use super::draw::Draw;
use super::endpoint::{Endpoint, request};

/// Maximum length of a key, in bytes.
const LONGEST: usize = 255;

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
            return endpoint.ask("tools/call", params).map(|result| id(&result["taskId"]));
        }
        let mut message = request("tools/call", params);
        message["params"]["task"] = json!({});
        let mut answer = endpoint.in_session(&session, &message).expect("it waits for nothing").json();
        match answer.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(id(&answer["result"]["task"]["taskId"])),
        }
    };
    let [first, again, elsewhere, other] = [call(false, 1), call(false, 1), call(true, 1), call(true, 2)];
    match &key {
        Value::String(text) if (1..=LONGEST).contains(&text.len()) => {
            let first = first.expect("a good key");
            assert_eq!(again.as_ref(), Ok(&first), "{key} made two tasks");
            assert_eq!(elsewhere.as_ref(), Ok(&first), "{key} made two tasks in two generations");
            refused(other);
        }
        Value::Null => assert!(first.expect("no key") != again.expect("no key")),
        _ => [first, again, elsewhere, other].into_iter().for_each(refused),
    }
}

fn id(task: &Value) -> String {
    task.as_str().expect("a task").to_owned()
}

/// Asserts that a call was refused because of its key.
fn refused(answer: Result<String, Value>) {
    let error = answer.expect_err("the key cannot be used for that");
    let said = error["message"].as_str().unwrap_or_default();
    let unread = ["nested deeper", "is larger than"];
    let is_unread = error["code"] == -32600 && unread.iter().any(|why| said.contains(why));
    assert!(is_unread || error["code"] == -32602 && said.contains("idempotency"), "{error}");
}
