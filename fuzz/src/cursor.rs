//! Fuzz target of the cursors of every list in both generations: real ones with changed bytes, those of
//! other lists, ones that a server of another version with the same key may have sealed, and arbitrary text.

use serde_json::{Value, json};
use taskbridge::seal::Purpose;

use super::draw::Draw;
use super::endpoint::{Endpoint, request};

/// The lists, and whether 2026-07-28 has them too.
const LISTS: [(&str, bool); 5] = [
    ("tools/list", true),
    ("prompts/list", true),
    ("resources/list", true),
    ("resources/templates/list", true),
    ("tasks/list", false),
];

/// Requests pages at such cursors.
pub fn target(endpoint: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let session = endpoint.session();
    let (list, in_both) = draw.one_of(&LISTS);
    let page = |list: &str, params: Value| match in_both {
        true => endpoint.send_modern(list, params),
        false => {
            let mut response =
                endpoint.send_in_session(&session, &request(list, params)).expect("it is there").json();
            response.get("error").cloned().map_or_else(|| Ok(response["result"].take()), Err)
        }
    };
    let first = page(list, json!({})).expect("the first page");
    let real = first["nextCursor"].as_str().expect("there are more pages").to_owned();
    match draw.below(4) {
        0 => {
            let cursor = String::from_utf8_lossy(draw.rest()).into_owned();
            if cursor != real {
                assert_refused(page(list, json!({ "cursor": cursor })));
            }
        }
        1 => {
            let cursor = draw.mutate_text(&real);
            match cursor == real {
                true => drop(page(list, json!({ "cursor": cursor })).expect("the second page")),
                false => assert_refused(page(list, json!({ "cursor": cursor }))),
            }
        }
        2 => {
            let (other, is_shared) = draw.one_of(&LISTS);
            if other != list && is_shared == in_both {
                assert_refused(page(other, json!({ "cursor": real })));
            }
        }
        _ => {
            let mut payload: Value = endpoint.seal.open(Purpose::Cursor, &real).expect("it is ours");
            let at = &mut payload["at"];
            match draw.below(4) {
                0 => *at = json!({"Companions": draw.json()}),
                1 => *at = json!({"Own": draw.json()}),
                2 => *at = json!({"Task": [draw.json(), draw.word()]}),
                _ => draw.mutate(at),
            }
            if draw.once_in(4) {
                draw.mutate(&mut payload);
            }
            let cursor = endpoint.seal.seal(Purpose::Cursor, &payload);
            // Its validity depends on the mutation. The request must only be answered.
            let _ = page(list, json!({ "cursor": cursor }));
        }
    }
}

/// Asserts that a page was refused because of its cursor.
fn assert_refused(result: Result<Value, Value>) {
    let error = result.expect_err("it was tampered with");
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("cursor")), "{error}");
}
