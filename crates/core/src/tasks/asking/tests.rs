//! Tests of valid questions and valid answers.

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Ask, Question};

use super::{check, normalize_answer};

fn form(fields: Value) -> Question {
    Question::form("q", "?", json!({"type": "object", "properties": fields}))
}

fn asks(ask: Ask) -> Question {
    Question { id: "q".to_owned(), message: "?".to_owned(), ask }
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn normalized(question: &Question, content: Value) -> Result<Value, String> {
    match normalize_answer(question, Answer::Accept(object(content)))? {
        Answer::Accept(content) => Ok(Value::Object(content)),
        refusal => panic!("{refusal:?}"),
    }
}

/// Returns a form with every kind of field that MCP defines.
fn every_field() -> Question {
    form(json!({
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "count": {"type": "integer", "minimum": 1, "default": 3},
        "sure": {"type": "boolean", "default": true},
        "plain": {"type": "string", "enum": ["a", "b"], "default": "b"},
        "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "titled": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "several": {
            "type": "array", "minItems": 1, "maxItems": 2,
            "items": {"type": "string", "enum": ["x", "y", "z"]}
        },
        "titled_several": {
            "type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "default": ["x"]
        }
    }))
}

/// A form with `additionalProperties: false` refuses them.
#[test]
fn unknown_answer_fields_are_dropped() {
    let loose = form(json!({"a": {"type": "string"}}));
    assert_eq!(normalized(&loose, json!({"a": "x", "b": 1})), Ok(json!({"a": "x"})));
    let strict = Question::form(
        "q",
        "?",
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
    );
    let error = normalized(&strict, json!({"b": "hunter"})).unwrap_err();
    assert_eq!(error, "the form has no field `b`: its fields are `a`");
}

/// Every field type that MCP allows in a form can be asked for.
#[test]
fn every_mcp_form_field_is_accepted() {
    assert_eq!(check(&every_field()), Ok(()));
    assert_eq!(check(&form(json!({}))), Ok(()));
    assert_eq!(check(&asks(Ask::Roots)), Ok(()));
}

/// Missing and null fields get the default of the form.
#[test]
fn answer_gets_form_defaults() {
    let defaults = json!({"count": 3, "sure": true, "plain": "b", "titled_several": ["x"]});
    assert_eq!(normalized(&every_field(), json!({})), Ok(defaults.clone()));
    assert_eq!(normalized(&every_field(), json!({"mail": null, "count": null})), Ok(defaults));
    let content = json!({
        "name": "ana", "mail": "a@b.example", "day": "2026-01-31", "share": 0.5, "count": 1, "sure": false,
        "plain": "a", "legacy": "b", "titled": "g", "several": ["x", "z"], "titled_several": []
    });
    assert_eq!(normalized(&every_field(), content.clone()), Ok(content));
    assert_eq!(normalized(&form(json!({})), json!({"confirm": true})), Ok(json!({})));
    assert_eq!(normalize_answer(&every_field(), Answer::Decline), Ok(Answer::Decline));
}

/// The message names the field and its rule, and never the value.
#[test]
fn invalid_answer_error_hides_value() {
    for (content, words) in [
        (json!({"name": "x"}), "`name` (Your name) must have at least 2 characters"),
        (json!({"name": "hunter"}), "`name` (Your name) must have at most 4 characters"),
        (json!({"name": "X_X"}), "`name` (Your name) must match the pattern ^[a-z]+$"),
        (json!({"mail": "hunter"}), "`mail` must be an email address"),
        (json!({"day": "hunter"}), "`day` must be a date such as 2026-01-31"),
        (json!({"share": 7}), "`share` must be 1 or less"),
        (json!({"count": 0}), "`count` must be 1 or more"),
        (json!({"count": "hunter"}), "`count` must be a whole number"),
        (json!({"plain": "hunter"}), "`plain` must be one of its choices"),
        (json!({"titled": "hunter"}), "`titled` must be one of its choices"),
        (json!({"several": []}), "`several` must have at least 1 of its choices"),
        (json!({"several": ["hunter"]}), "`several` must be one of its choices"),
        (json!({"titled_several": ["hunter"]}), "`titled_several` must be one of its choices"),
        (json!({"count": 0, "share": 7}), "`count` must be 1 or more; `share` must be 1 or less"),
    ] {
        let fault = normalized(&every_field(), content.clone()).unwrap_err();
        assert!(fault.starts_with(words), "{content}: {fault}");
        assert!(!fault.contains("hunter"), "{fault}");
    }
    let mut required = every_field();
    let Ask::Form(schema) = &mut required.ask else { unreachable!() };
    schema["required"] = json!(["name"]);
    assert_eq!(normalized(&required, json!({})).unwrap_err(), "`name` (Your name) is missing");
}

/// The reason names the part of the schema that MCP does not allow.
#[test]
fn invalid_form_is_refused() {
    for (schema, words) in [
        (json!(true), "its schema must be an object with \"type\""),
        (json!({"type": "array"}), "its schema must be an object with \"type\""),
        (json!({"type": "object"}), "its schema must have `properties`"),
        (json!({"type": "object", "properties": {}, "allOf": []}), "its schema has `allOf`"),
        (json!({"type": "object", "properties": {}, "required": ["a"]}), "its schema requires \"a\""),
    ] {
        let why = check(&Question::form("q", "?", schema)).unwrap_err();
        assert!(why.starts_with(words), "{why}");
    }
    for (field, words) in [
        (json!("string"), "must be an object"),
        (json!({}), "must have as its `type`"),
        (json!({"type": "object", "properties": {}}), "must have as its `type`"),
        (json!({"type": ["string", "null"]}), "must have as its `type`"),
        (json!({"type": "string", "$ref": "#"}), "has `$ref`"),
        (
            json!({"type": "string", "format": "hostname"}),
            "has the format \"hostname\": forms support `email`",
        ),
        (json!({"type": "string", "pattern": "("}), "its schema is not a valid JSON Schema"),
        (json!({"type": "string", "enum": []}), "must list its choices in `enum`"),
        (json!({"type": "string", "enum": ["a", 1]}), "must list its choices in `enum`"),
        (json!({"type": "string", "oneOf": [{"const": "a"}]}), "must list its choices in `oneOf`"),
        (json!({"type": "array"}), "must have `items`"),
        (json!({"type": "array", "items": {"type": "string"}}), "must list its choices in `enum`"),
        (json!({"type": "array", "items": {"type": "object"}}), "must list its choices in `enum`"),
        (json!({"type": "integer", "maxLength": 1}), "has `maxLength`"),
        (
            json!({"type": "integer", "maximum": 1, "default": 2}),
            "the default of its field `f` does not fit: must be 1",
        ),
        (json!({"type": "string", "title": "The API key"}), "asks for a secret"),
    ] {
        let why = check(&form(json!({ "f": field }))).unwrap_err();
        assert!(why.contains(words), "{field}: {why}");
    }
    let why = check(&form(json!({"password": {"type": "string"}}))).unwrap_err();
    assert!(why.starts_with("its field `password` asks for a secret") && why.contains("`url`"), "{why}");
}

#[test]
fn a_page_is_safe_to_visit() {
    for url in [
        "https://bank.example",
        "HTTPS://bank.example:8443/x?y=1#z",
        "http://localhost:8080/x",
        "http://127.0.0.2/",
        "http://[::1]:9/x",
    ] {
        assert_eq!(check(&asks(Ask::Url(url.to_owned()))), Ok(()), "{url}");
    }
    for (url, words) in [
        ("", "is not a valid URL"),
        ("bank", "is not a valid URL"),
        ("https://bank example", "is not a valid URL"),
        ("https:///x", "has no host"),
        ("http://bank.example", "must begin with https://"),
        ("http://localhost.bank.example", "must begin with https://"),
        ("http://10.0.0.1", "must begin with https://"),
        ("ftp://bank.example", "must begin with https://"),
        ("javascript:alert(1)", "has no host"),
        ("file:///etc/passwd", "has no host"),
        ("http://localhost@bank.example", "has a user name or a password"),
        ("https://me:secret@bank.example", "has a user name or a password"),
    ] {
        let why = check(&asks(Ask::Url(url.to_owned()))).unwrap_err();
        assert!(why.contains(words), "{url}: {why}");
    }
    assert_eq!(normalized(&asks(Ask::Url("https://a.example".to_owned())), json!({"x": 1})), Ok(json!({})));
}

/// Requests and results of sampling with a missing or wrong member are refused.
#[test]
fn sampling_question_follows_mcp_shapes() {
    let text = |words: &str| json!({"type": "text", "text": words});
    let request = json!({"messages": [{"role": "user", "content": text("Why?")}], "maxTokens": 100});
    let question = asks(Ask::Sampling(object(request.clone())));
    assert_eq!(check(&question), Ok(()));
    for (change, words) in [
        (json!({"messages": []}), "`/messages`"),
        (json!({"messages": [{"role": "system", "content": text("x")}]}), "`/messages/0/role`"),
        (json!({"messages": [{"role": "user", "content": "x"}]}), "`/messages/0/content`"),
        (json!({"maxTokens": 0}), "`/maxTokens`"),
        (json!({"task": {}}), "Additional properties"),
        (json!({"_meta": {}}), "Additional properties"),
    ] {
        let mut wrong = object(request.clone());
        wrong.extend(object(change));
        let why = check(&asks(Ask::Sampling(wrong))).unwrap_err();
        assert!(why.starts_with("its sampling request is not valid in MCP") && why.contains(words), "{why}");
    }
    let result =
        json!({"role": "assistant", "model": "m", "content": text("Because."), "stopReason": "endTurn"});
    let mut with_meta = result.clone();
    with_meta["_meta"] = json!({"x": 1});
    assert_eq!(normalized(&question, with_meta), Ok(result.clone()));
    let mut list = result.clone();
    list["content"] = json!([text("a"), text("b")]);
    assert_eq!(normalized(&question, list.clone()), Ok(list));
    for missing in ["role", "model", "content"] {
        let mut wrong = object(result.clone());
        wrong.remove(missing);
        assert!(normalized(&question, Value::Object(wrong)).unwrap_err().contains(missing));
    }
}

#[test]
fn roots_are_files() {
    let question = asks(Ask::Roots);
    let roots = json!({"roots": [{"uri": "file:///home/ana", "name": "Home"}]});
    assert_eq!(normalized(&question, roots.clone()), Ok(roots));
    assert_eq!(normalized(&question, json!({"roots": []})), Ok(json!({"roots": []})));
    for wrong in [
        json!({}),
        json!({"roots": {}}),
        json!({"roots": [{"name": "x"}]}),
        json!({"roots": [{"uri": "https://x"}]}),
    ] {
        assert!(normalized(&question, wrong.clone()).is_err(), "{wrong}");
    }
}
