//! Decides whether a schema is simple enough to be used. Schemas come from engines as well as from the
//! config. A few lines can keep a validator busy forever: a schema that refers to itself, or one whose
//! parts each refer twice to the next. It must not judge what a schema means.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

/// Maximum size of a schema, in bytes of JSON. Every client that lists tools receives it.
const LARGEST: usize = 512 * 1024;
/// Maximum nesting of objects and arrays.
const DEEPEST: usize = 100;
/// Maximum number of schemas that apply to one value.
const MOST_AT_ONCE: u64 = 10_000;
/// Number of `enum` values (`LISTED`) and of bytes of text (`BYTES`) that count as one schema or value.
const LISTED: usize = 16;
const BYTES: usize = 64;
/// Numbers with at most this many digits before or after the decimal point count like any other value.
const DIGITS: f64 = 20.0;
/// Maximum depth of nested schemas that apply to one value.
const LONGEST_CHAIN: usize = 100;

/// Keywords with one schema for the same value.
const ONE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the same value.
const LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with named schemas for the same value.
const NAMED: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords that refer to another schema for the same value.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Checks a schema against the limits of the validator. Returns the maximum work of the schema for one
/// value.
///
/// # Errors
/// If the schema exceeds a limit; the text is for the author of the schema.
pub(super) fn check(schema: &Value) -> Result<Weight, String> {
    let size = schema.to_string().len();
    if size > LARGEST {
        return Err(format!("it has {size} bytes, and {LARGEST} are taken"));
    }
    let mut all = Vec::new();
    gather(schema, 0, &mut all)?;
    let refers = |node: &&Value| REFERENCES.iter().any(|name| node.get(name).is_some());
    let base = base(schema);
    let has_base = |node: &Value| node.get(base).is_some_and(Value::is_string);
    if all.iter().any(refers) && all.iter().skip(1).any(|node| has_base(node)) {
        return Err(format!("a schema within it has an `{base}` of its own: refer by `#/$defs/...` alone"));
    }
    // By its own address it could refer to itself in more ways than this check covers.
    if let Some(name) = all.iter().find_map(|node| leads_out(node))
        && all.first().is_some_and(|root| has_base(root))
    {
        return Err(format!("it refers to `{name}` and has an `{base}`: refer by `#/$defs/...` alone"));
    }
    let mut weigher = Weigher { places: Places::among(schema, &all), known: HashMap::new() };
    let mut most = Weight { in_all: 1, work: 1, chain: 1 };
    for node in all.iter().filter_map(|node| node.as_object()) {
        let weight = weigher.weigh(node, 0)?;
        if weight.in_all > MOST_AT_ONCE {
            return Err(format!("more than {MOST_AT_ONCE} schemas in it are held against one value"));
        }
        most.work = most.work.max(weight.work);
        most.chain = most.chain.max(weight.chain);
    }
    Ok(most)
}

/// Returns the size of a value, in values that the validator checks. Long texts and numbers count for more.
pub(super) fn size(value: &Value) -> u64 {
    left_of(u64::MAX, value).map_or(u64::MAX, |left| u64::MAX - left)
}

/// Returns true if the size of a value is at most this. It stops as soon as the limit is exceeded.
pub(super) fn is_at_most(value: &Value, most: u64) -> bool {
    left_of(most, value).is_some()
}

/// Subtracts the size of a value from a limit; `None` if it exceeds the limit.
fn left_of(limit: u64, value: &Value) -> Option<u64> {
    let left = limit.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_fold(left, left_of),
        Value::Object(members) => members
            .iter()
            .try_fold(left, |left, (name, value)| left_of(left.checked_sub(of_text(name))?, value)),
        Value::String(text) => left.checked_sub(of_text(text)),
        Value::Number(number) => left.checked_sub(of_number(number)),
        Value::Null | Value::Bool(_) => Some(left),
    }
}

/// Returns the extra size of a number: the validator checks `multipleOf` with all digits.
fn of_number(number: &Number) -> u64 {
    let digits = number.as_f64().map_or(0.0, |value| value.abs().log10().abs());
    if digits.is_finite() && digits > DIGITS { digits as u64 } else { 0 }
}

/// Returns the nesting depth of a value: its arrays and objects, and the innermost value.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 1,
    }
}

fn of_text(text: &str) -> u64 {
    (text.len() / BYTES).try_into().unwrap_or(u64::MAX)
}

/// Returns the keyword that gives a schema an address: `id` up to draft 4, `$id` since.
fn base(schema: &Value) -> &'static str {
    let draft = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let is_old = ["/draft-03/", "/draft-04/"].iter().any(|old| draft.contains(old));
    if is_old { "id" } else { "$id" }
}

/// Returns a reference that is not to a part of this schema by path or name, if there is one.
fn leads_out(node: &Value) -> Option<&str> {
    let references = REFERENCES.iter().filter_map(|name| node.get(*name)?.as_str());
    references.into_iter().find(|reference| !reference.starts_with('#'))
}

/// Collects all objects of a schema, the root first.
fn gather<'a>(value: &'a Value, depth: usize, all: &mut Vec<&'a Value>) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("it is nested deeper than {DEEPEST} levels"));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| gather(item, depth + 1, all)),
        Value::Object(members) => {
            all.push(value);
            members.values().try_for_each(|member| gather(member, depth + 1, all))
        }
        _ => Ok(()),
    }
}

/// The targets that a schema can refer to within itself.
pub(super) struct Places<'a> {
    root: &'a Value,
    /// The named schemas that a reference can target.
    anchors: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Places<'a> {
    /// Collects the targets of a schema that has passed [`check`].
    pub(super) fn of(root: &'a Value) -> Self {
        let mut all = Vec::new();
        gather(root, 0, &mut all).expect("it is not too deep");
        Self::among(root, &all)
    }

    fn among(root: &'a Value, all: &[&'a Value]) -> Self {
        let mut anchors: HashMap<&str, Vec<_>> = HashMap::new();
        for node in all {
            for name in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = node.get(name).and_then(Value::as_str) {
                    anchors.entry(name).or_default().push(*node);
                }
            }
        }
        Self { root, anchors }
    }

    /// Returns the schemas that this one refers to.
    pub(super) fn referred(&self, node: &Map<String, Value>) -> Vec<&'a Value> {
        let mut referred = Vec::new();
        for reference in REFERENCES.iter().filter_map(|name| node.get(*name)?.as_str()) {
            match reference.strip_prefix('#') {
                Some(path) if path.is_empty() || path.starts_with('/') => {
                    referred.extend(self.root.pointer(&decoded(path)));
                }
                Some(name) => referred.extend(self.anchors.get(name).into_iter().flatten()),
                // It leads out of the schema, which `check` refuses.
                None => {}
            }
        }
        referred
    }
}

/// The work of a schema for one value, without the schemas for the parts of the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    /// Number of schemas that apply to the value.
    in_all: u64,
    /// The same number, plus the cost of the values that they list.
    pub(super) work: u64,
    /// Maximum depth of nesting among them.
    pub(super) chain: usize,
}

struct Weigher<'a> {
    places: Places<'a>,
    /// Weights by memory address; `None` while one is being computed.
    known: HashMap<*const Map<String, Value>, Option<Weight>>,
}

impl<'a> Weigher<'a> {
    fn weigh(&mut self, node: &'a Map<String, Value>, depth: usize) -> Result<Weight, String> {
        match self.known.get(&std::ptr::from_ref(node)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err("it refers to itself without end".to_owned()),
            None => {}
        }
        let too_long = || format!("more than {LONGEST_CHAIN} schemas in it lead from one to the next");
        if depth > LONGEST_CHAIN {
            return Err(too_long());
        }
        self.known.insert(node, None);
        let listed = node.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        let mut weight = Weight { in_all: 1, work: 1 + (listed / LISTED) as u64, chain: 1 };
        for next in self.beside(node) {
            let of_next = self.weigh(next, depth + 1)?;
            weight.in_all = weight.in_all.saturating_add(of_next.in_all);
            weight.work = weight.work.saturating_add(of_next.work);
            weight.chain = weight.chain.max(of_next.chain + 1);
        }
        if weight.chain > LONGEST_CHAIN {
            return Err(too_long());
        }
        self.known.insert(node, Some(weight));
        Ok(weight)
    }

    /// Returns the schemas that apply to the same value as this one.
    fn beside(&self, node: &'a Map<String, Value>) -> Vec<&'a Map<String, Value>> {
        let one = ONE.iter().filter_map(|name| node.get(*name));
        let list = LIST.iter().filter_map(|name| node.get(*name)?.as_array()).flatten();
        let named = NAMED.iter().filter_map(|name| node.get(*name)?.as_object()).flat_map(Map::values);
        let mut beside: Vec<_> = one.chain(list).chain(named).filter_map(Value::as_object).collect();
        beside.extend(self.places.referred(node).into_iter().filter_map(Value::as_object));
        beside
    }
}

/// Decodes a JSON pointer that is written as a URI fragment.
fn decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(schema: Value) -> String {
        check(&schema).unwrap_err()
    }

    #[test]
    fn recursive_schema_is_simple_enough() {
        let node = json!({"oneOf": [
            {"type": "string"},
            {"type": "object", "properties": {"all": {"type": "array", "items": {"$ref": "#/$defs/node"}}}},
        ]});
        let schema = json!({
            "type": "object",
            "$defs": {"node": node, "a b": {"$anchor": "named", "type": "integer"}},
            "properties": {
                "rule": {"$ref": "#/$defs/node"},
                "n": {"allOf": [{"$ref": "#/$defs/a%20b"}, {"$ref": "#named"}]},
                "$ref": {"type": "string"},
            },
        });
        assert!(check(&schema).is_ok());
    }

    /// The size of a value counts the length of texts and the digits of numbers.
    #[test]
    fn long_values_are_more_complex() {
        for (value, expected) in [
            (json!([1, -2.5, 1e15, 0, null, {"a": 1}]), 8),
            (json!("x".repeat(640)), 11),
            (json!(1e300), 301),
            (json!(1e-300), 301),
        ] {
            assert_eq!(size(&value), expected, "{value}");
            assert!(is_at_most(&value, expected) && !is_at_most(&value, expected - 1), "{value}");
        }
    }

    #[test]
    fn endless_schema_recursion_is_refused() {
        for schema in [
            json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"x": {"$ref": "#/$defs/a"}}}),
            json!({"allOf": [{"not": {"$ref": "#"}}]}),
            json!({"$defs": {"a": {"$anchor": "a", "anyOf": [{"$ref": "#b"}]}, "b": {"$anchor": "b", "$ref": "#a"}}}),
            json!({"$recursiveRef": "#"}),
        ] {
            assert_eq!(refused(schema.clone()), "it refers to itself without end", "{schema}");
        }
    }

    #[test]
    fn exponential_schema_is_refused() {
        let twice =
            |n: usize| json!({"allOf": [{"$ref": format!("#/$defs/{n}")}, {"$ref": format!("#/$defs/{n}")}]});
        let mut defs: Map<String, Value> = (0..30).map(|n| (n.to_string(), twice(n + 1))).collect();
        defs.insert("30".to_owned(), json!({}));
        assert!(refused(json!({"$defs": defs})).contains("held against one value"));
        let next = |n: usize| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)}));
        let chain: Map<String, Value> = (0..5_000).map(next).collect();
        assert!(refused(json!({"$defs": chain})).contains("from one to the next"));
        let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(refused(deep).contains("nested deeper"));
        assert!(refused(json!({"enum": ["x".repeat(LARGEST)]})).contains("bytes"));
        let based = json!({"$defs": {"a": {"$id": "https://x.example/a", "$ref": "#"}}});
        assert!(refused(based).contains("`$id`"));
        let by_address =
            json!({"$id": "https://x.example/s", "$defs": {"a": {}}, "not": {"$ref": "s#/$defs/a"}});
        assert!(refused(by_address).contains("`s#/$defs/a`"));
        let old = "http://json-schema.org/draft-04/schema#";
        let based = json!({"$schema": old, "definitions": {"a": {"id": "a", "$ref": "#"}}});
        assert!(refused(based).contains("`id`"));
    }
}
