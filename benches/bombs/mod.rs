//! Schemas and values that are expensive for a validator, each small enough for a request or a config.
//! `schemas.rs` measures them, and the catalog's tests check that each is answered within limits. Plain
//! data.

use serde_json::{Map, Value, json};

/// A schema, a value to validate against it, and a name.
pub(super) struct Bomb {
    /// What is large in it.
    pub(super) name: &'static str,
    /// The schema, of type object.
    pub(super) schema: Value,
    /// The value.
    pub(super) value: Value,
}

/// Returns all bombs.
pub(super) fn bombs() -> Vec<Bomb> {
    let bomb = |name, schema, value| Bomb { name, schema, value };
    let mut bombs = vec![
        bomb("filter, 14 deep", filter("oneOf"), filtered(14)),
        bomb("filter, 16 deep", filter("oneOf"), filtered(16)),
        bomb("filter, 28 deep", filter("oneOf"), filtered(28)),
        bomb("filter, 28 deep, anyOf", filter("anyOf"), filtered(28)),
        bomb("three forms that all go down, 28 deep", alike(), nested("child", 28, json!(1))),
        bomb("dynamic references, 28 deep", dynamic(), nested("child", 28, json!({"data": 1}))),
        bomb("chains of references, 28 deep", chained(), nested("child", 28, json!(1))),
        bomb("wrong for 20 constants, 90,000 times", of_items(constants(20)), items(90_000, &json!("x"))),
        bomb("wrong for 20 constants, once in 90,000", of_items(constants(20)), last_wrong(90_000)),
        bomb(
            "the last of 140 constants, 20,000 times",
            of_items(constants(140)),
            items(20_000, &json!("text 139")),
        ),
        bomb("10,000 constants", of_items(json!({"enum": texts(10_000)})), items(5_000, &json!("x"))),
        bomb("patterns of names", named(json!({"patternProperties": patterns(50)})), members(20_000)),
        bomb(
            "a pattern for all names",
            named(json!({"propertyNames": {"pattern": "^[A-Z]+$"}})),
            members(50_000),
        ),
        bomb("unexpected names", named(json!({"additionalProperties": false})), members(50_000)),
        bomb("names that are wanted", object(json!({"required": texts(10_000)})), json!({})),
        bomb(
            "items that are equal",
            list(json!({"uniqueItems": true})),
            items(50_000, &json!({"a": [1, 2]})),
        ),
        bomb(
            "an item that is not there",
            list(json!({"contains": {"type": "null"}})),
            items(90_000, &json!(1)),
        ),
        bomb(
            "first items",
            list(json!({"prefixItems": vec![json!({"type": "null"}); 5_000]})),
            items(5_000, &json!(1)),
        ),
        bomb("multiples", of_items(json!({"multipleOf": 0.01})), items(90_000, &json!(1e300))),
        bomb("all of 5,000", object(json!({"properties": {"a": {"allOf": many(5_000)}}})), json!({"a": "x"})),
        bomb("all of 2,000 for many", of_items(json!({"allOf": many(2_000)})), items(50_000, &json!("x"))),
        bomb("one of 200 for many", of_items(json!({"oneOf": many(200)})), items(50_000, &json!("x"))),
        bomb("dependent on 500 names", dependent(), members(500)),
        bomb("conditions in conditions", conditions(40), json!({"a": 1})),
        bomb("not not", object(json!({"properties": {"a": negations(45)}})), json!({"a": 1})),
        bomb("names that nothing judged", unevaluated("unevaluatedProperties"), members(5_000)),
        bomb(
            "patterns for a long text",
            text(json!({"allOf": patterns_of_text(20)})),
            json!({"a": "a".repeat(500_000)}),
        ),
        bomb("large patterns", text(json!({"anyOf": large_patterns(20)})), json!({"a": "a".repeat(2_000)})),
        bomb(
            "a date of a million characters",
            text(json!({"format": "date-time"})),
            json!({"a": "2".repeat(1_000_000)}),
        ),
        bomb(
            "an address of a million characters",
            text(json!({"format": "email"})),
            json!({"a": "a@".repeat(500_000)}),
        ),
        bomb(
            "lengths of a long text",
            text(json!({"allOf": lengths(500)})),
            json!({"a": "ä".repeat(200_000)}),
        ),
    ];
    let deep = nested("and", 60, json!({"bad": 1}));
    bombs.push(bomb("filter, 60 deep without lists", filter("oneOf"), json!({"filter": deep})));
    bombs
}

fn object(rules: Value) -> Value {
    let mut schema = json!({"type": "object"});
    merge(&mut schema, rules);
    schema
}

fn merge(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { unreachable!("both are objects") };
    into.extend(from);
}

fn text(mut rules: Value) -> Value {
    merge(&mut rules, json!({"type": "string"}));
    object(json!({"properties": {"a": rules}}))
}

fn list(mut rules: Value) -> Value {
    merge(&mut rules, json!({"type": "array"}));
    object(json!({"properties": {"items": rules}}))
}

fn of_items(item: Value) -> Value {
    list(json!({"items": item}))
}

fn named(mut rules: Value) -> Value {
    merge(&mut rules, json!({"type": "object"}));
    rules
}

/// Returns the schema of a search filter: a rule about a field, or a combination of filters.
fn filter(union: &str) -> Value {
    let of = json!({"$ref": "#/$defs/filter"});
    let forms = json!([
        {"type": "object", "required": ["and"], "properties": {"and": {"type": "array", "items": of}}},
        {"type": "object", "required": ["or"], "properties": {"or": {"type": "array", "items": of}}},
        {"type": "object", "required": ["and"], "properties": {"and": {"type": "array", "items": of}, "or": {"type": "array", "items": of}}},
        {"type": "object", "required": ["field"], "properties": {"field": {"type": "string"}, "and": {"type": "array", "items": of}}},
    ]);
    let mut filter = Map::new();
    filter.insert(union.to_owned(), forms);
    object(json!({"properties": {"filter": of}, "$defs": {"filter": filter}}))
}

fn filtered(depth: usize) -> Value {
    let innermost = json!({"field": 1, "and": [], "or": 3});
    json!({"filter": (0..depth).fold(innermost, |inner, _| json!({"and": [inner]}))})
}

fn alike() -> Value {
    let form = json!({"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}});
    object(json!({
        "properties": {"child": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"oneOf": [form, form, form]}},
    }))
}

fn dynamic() -> Value {
    json!({
        "type": "object",
        "$dynamicAnchor": "node",
        "properties": {
            "data": {"type": "string"},
            "child": {"anyOf": [{"$dynamicRef": "#node"}, {"allOf": [{"$dynamicRef": "#node"}]}]},
        },
    })
}

fn chained() -> Value {
    let next = |n: usize| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}));
    let mut defs: Map<String, Value> = (0..90).map(next).collect();
    defs.insert("d90".to_owned(), json!({"type": "object", "properties": {"child": {"$ref": "#/$defs/d0"}}}));
    object(json!({"properties": {"child": {"$ref": "#/$defs/d0"}}, "$defs": defs}))
}

fn nested(name: &str, depth: usize, innermost: Value) -> Value {
    (0..depth).fold(innermost, |inner, _| Value::Object(Map::from_iter([(name.to_owned(), inner)])))
}

fn constants(many: usize) -> Value {
    json!({"oneOf": texts(many).into_iter().map(|text| json!({"const": text})).collect::<Vec<_>>()})
}

fn texts(many: usize) -> Vec<String> {
    (0..many).map(|n| format!("text {n}")).collect()
}

fn items(many: usize, item: &Value) -> Value {
    json!({"items": vec![item; many]})
}

fn last_wrong(many: usize) -> Value {
    let mut items = vec![json!("text 7"); many];
    items.push(json!("x"));
    json!({"items": items})
}

fn members(many: usize) -> Value {
    Value::Object((0..many).map(|n| (format!("name{n}"), json!(n))).collect())
}

fn patterns(many: usize) -> Value {
    Value::Object((0..many).map(|n| (format!("{n}[a-z]*$"), json!({"type": "string"}))).collect())
}

fn patterns_of_text(many: usize) -> Vec<Value> {
    (0..many).map(|n| json!({"pattern": format!("(a|b)*c{n}$")})).collect()
}

fn large_patterns(many: usize) -> Vec<Value> {
    (0..many).map(|n| json!({"pattern": format!("^\\p{{L}}{{1,{}}}!$", 60 + n)})).collect()
}

fn lengths(many: usize) -> Vec<Value> {
    (0..many).map(|n| json!({"minLength": n, "maxLength": 1_000_000})).collect()
}

fn many(schemas: usize) -> Vec<Value> {
    (0..schemas).map(|n| json!({"minLength": n + 2})).collect()
}

fn dependent() -> Value {
    let of = |n: usize| (format!("name{n}"), json!({"required": [format!("other{n}")]}));
    object(json!({"dependentSchemas": (0..500).map(of).collect::<Map<_, _>>()}))
}

fn conditions(depth: usize) -> Value {
    let leaf = json!({"required": ["b"]});
    let within = |inner: Value, n: usize| json!({"if": {"required": [format!("c{n}")]}, "then": {"required": ["d"]}, "else": inner});
    object((0..depth).fold(leaf, within))
}

fn negations(depth: usize) -> Value {
    (0..2 * depth + 1).fold(json!({"type": "integer"}), |inner, _| json!({"not": inner}))
}

fn unevaluated(keyword: &str) -> Value {
    let form = |n: usize| json!({"properties": {format!("name{n}"): {"type": "integer"}}});
    let mut schema = object(json!({"anyOf": (0..100).map(form).collect::<Vec<_>>()}));
    schema[keyword] = Value::Bool(false);
    schema
}
