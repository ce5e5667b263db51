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
        endpoint.ask("tools/call", params)
    };
    let asked = call(&Value::Null, &Value::Null).expect("it asks");
    let real = asked["requestState"].as_str().expect("it asks").to_owned();
    let mut responses = json!({"confirm": {"action": "accept", "content": {}}});
    for (key, _) in asked["inputRequests"].as_object().into_iter().flatten() {
        responses[key] = json!({"action": "accept", "content": {"env": "staging"}});
    }
    match draw.below(4) {
        0 => {
            let state = String::from_utf8_lossy(draw.rest()).into_owned();
            if state != real {
                refused(call(&json!(state), &responses));
            }
        }
        1 => {
            let state = draw.garbled(&real);
            if state != real {
                refused(call(&json!(state), &responses));
            }
        }
        2 => {
            for _ in 0..=draw.below(3) {
                draw.bend(&mut responses);
            }
            let again = [(); 2].map(|()| call(&json!(real), &responses));
            if let [Ok(first), Ok(second)] = &again
                && first["resultType"] == "task"
            {
                assert_eq!(first["taskId"], second["taskId"], "a state that comes twice makes one task");
            }
        }
        _ => {
            let mut inside: Value = endpoint.seal.open(Purpose::State, &real).expect("it is ours");
            if draw.once_in(2) {
                inside["at"] = json!({"during": endpoint.known.live});
            }
            for _ in 0..=draw.below(3) {
                draw.bend(&mut inside);
            }
            let state = endpoint.seal.seal(Purpose::State, &inside);
            // Its validity depends on the mutation. The request must only be answered.
            let _ = call(&json!(state), &responses);
        }
    }
}

/// Asserts that a call was refused because of its state.
fn refused(answer: Result<Value, Value>) {
    let error = answer.expect_err("it was tampered with");
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().is_some_and(|said| said.contains("requestState")), "{error}");
}
