//! Fuzz target of the `requestState` of calls with several rounds: real ones with changed bytes, ones that a
//! server of another version with the same key may have sealed, and arbitrary text, each with arbitrary
//! answers.

use serde_json::{Value, json};
use taskbridge::seal::Purpose;

use super::draw::Draw;
use super::endpoint::Endpoint;

/// Continues a call with such states.
pub fn target(endpoint: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let tool = draw.one_of(&["careful", "deploy"]);
    let call = |state: &Value, responses: &Value| {
        let mut params = json!({"name": tool, "arguments": {}});
        for (name, value) in [("requestState", state), ("inputResponses", responses)] {
            if !value.is_null() {
                params[name] = value.clone();
            }
        }
        endpoint.send_modern("tools/call", params)
    };
    let response = call(&Value::Null, &Value::Null).expect("it asks");
    let real = response["requestState"].as_str().expect("it asks").to_owned();
    let mut responses = json!({"confirm": {"action": "accept", "content": {}}});
    for (key, _) in response["inputRequests"].as_object().into_iter().flatten() {
        responses[key] = json!({"action": "accept", "content": {"env": "staging"}});
    }
    match draw.below(4) {
        0 => {
            let state = String::from_utf8_lossy(draw.rest()).into_owned();
            if state != real {
                assert_refused(call(&json!(state), &responses));
            }
        }
        1 => {
            let state = draw.mutate_text(&real);
            if state != real {
                assert_refused(call(&json!(state), &responses));
            }
        }
        2 => {
            for _ in 0..=draw.below(3) {
                draw.mutate(&mut responses);
            }
            let results = [(); 2].map(|()| call(&json!(real), &responses));
            if let [Ok(first), Ok(second)] = &results
                && first["resultType"] == "task"
            {
                assert_eq!(first["taskId"], second["taskId"], "a state that comes twice makes one task");
            }
        }
        _ => {
            let mut payload: Value = endpoint.seal.open(Purpose::State, &real).expect("it is ours");
            if draw.once_in(2) {
                payload["at"] = json!({"during": endpoint.known_tasks.running_task});
            }
            for _ in 0..=draw.below(3) {
                draw.mutate(&mut payload);
            }
            let state = endpoint.seal.seal(Purpose::State, &payload);
            // Its validity depends on the mutation. The request must only be answered.
            let _ = call(&json!(state), &responses);
        }
    }
}

/// Asserts that a call was refused because of its state.
fn assert_refused(result: Result<Value, Value>) {
    let error = result.expect_err("it was tampered with");
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("requestState")), "{error}");
}
