//! Decides whether a schema is simple enough to be used. Schemas come from engines as well as from the
//! config. A few lines can keep a validator busy forever: a schema that refers to itself, or one whose
//! parts each refer twice to the next. It must not judge what a schema means.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

/// Maximum size of a schema, in bytes of JSON. Every client that lists tools receives it.
const MAX_SCHEMA_BYTES: usize = 512 * 1024;
/// Maximum nesting of objects and arrays.
const MAX_DEPTH: usize = 100;
/// Maximum number of schemas that apply to one value.
const MAX_SCHEMAS_PER_VALUE: u64 = 10_000;
/// Number of `enum` values that count as one schema or value.
const ENUM_VALUES_PER_UNIT: usize = 16;
/// Number of bytes of text that count as one schema or value.
const TEXT_BYTES_PER_UNIT: usize = 64;
/// Numbers with at most this many digits before or after the decimal point count like any other value.
const FREE_DIGITS: f64 = 20.0;
/// Maximum depth of nested schemas that apply to one value.
const MAX_CHAIN: usize = 100;

/// Keywords with one schema for the same value.
const SINGLE_SCHEMA_KEYWORDS: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the same value.
const SCHEMA_LIST_KEYWORDS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with named schemas for the same value.
const SCHEMA_MAP_KEYWORDS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords that refer to another schema for the same value.
const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Checks a schema against the limits of the validator. Returns the maximum work of the schema for one
/// value.
///
/// # Errors
/// If the schema exceeds a limit; the text is for the author of the schema.
pub(super) fn check(schema: &Value) -> Result<SchemaCost, String> {
    let size = schema.to_string().len();
    if size > MAX_SCHEMA_BYTES {
        return Err(format!("it has {size} bytes, the limit is {MAX_SCHEMA_BYTES}"));
    }
    let mut nodes = Vec::new();
    collect_objects(schema, 0, &mut nodes)?;
    let has_reference = |node: &&Value| REFERENCE_KEYWORDS.iter().any(|name| node.get(name).is_some());
    let base = id_keyword(schema);
    let has_id = |node: &Value| node.get(base).is_some_and(Value::is_string);
    if nodes.iter().any(has_reference) && nodes.iter().skip(1).any(|node| has_id(node)) {
        return Err(format!(
            "a nested schema has its own `{base}`: use only references such as `#/$defs/...`"
        ));
    }
    // By its own address it could refer to itself in more ways than this check covers.
    if let Some(name) = nodes.iter().find_map(|node| external_reference(node))
        && nodes.first().is_some_and(|root| has_id(root))
    {
        return Err(format!(
            "it refers to `{name}` and has an `{base}`: use only references such as `#/$defs/...`"
        ));
    }
    let mut calculator =
        CostCalculator { targets: ReferenceTargets::from_nodes(schema, &nodes), costs: HashMap::new() };
    let mut max_cost = SchemaCost { schemas: 1, work: 1, nesting: 1 };
    for node in nodes.iter().filter_map(|node| node.as_object()) {
        let cost = calculator.cost_of(node, 0)?;
        if cost.schemas > MAX_SCHEMAS_PER_VALUE {
            return Err(format!("more than {MAX_SCHEMAS_PER_VALUE} schemas in it apply to one value"));
        }
        max_cost.work = max_cost.work.max(cost.work);
        max_cost.nesting = max_cost.nesting.max(cost.nesting);
    }
    Ok(max_cost)
}

/// Returns the size of a value, in values that the validator checks. Long texts and numbers count for more.
pub(super) fn size(value: &Value) -> u64 {
    subtract_size(u64::MAX, value).map_or(u64::MAX, |remaining| u64::MAX - remaining)
}

/// Returns true if the size of a value is at most this. It stops as soon as the limit is exceeded.
pub(super) fn is_at_most(value: &Value, limit: u64) -> bool {
    subtract_size(limit, value).is_some()
}

/// Subtracts the size of a value from a limit; `None` if it exceeds the limit.
fn subtract_size(limit: u64, value: &Value) -> Option<u64> {
    let remaining = limit.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_fold(remaining, subtract_size),
        Value::Object(members) => members.iter().try_fold(remaining, |remaining, (name, value)| {
            subtract_size(remaining.checked_sub(text_size(name))?, value)
        }),
        Value::String(text) => remaining.checked_sub(text_size(text)),
        Value::Number(number) => remaining.checked_sub(number_size(number)),
        Value::Null | Value::Bool(_) => Some(remaining),
    }
}

/// Returns the extra size of a number: the validator checks `multipleOf` with all digits.
fn number_size(number: &Number) -> u64 {
    let digits = number.as_f64().map_or(0.0, |value| value.abs().log10().abs());
    if digits.is_finite() && digits > FREE_DIGITS { digits as u64 } else { 0 }
}

/// Returns the nesting depth of a value: its arrays and objects, and the innermost value.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 1,
    }
}

fn text_size(text: &str) -> u64 {
    (text.len() / TEXT_BYTES_PER_UNIT).try_into().unwrap_or(u64::MAX)
}

/// Returns the keyword that gives a schema an address: `id` up to draft 4, `$id` since.
fn id_keyword(schema: &Value) -> &'static str {
    let draft = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let is_old = ["/draft-03/", "/draft-04/"].iter().any(|old| draft.contains(old));
    if is_old { "id" } else { "$id" }
}

/// Returns a reference that is not to a part of this schema by path or name, if there is one.
fn external_reference(node: &Value) -> Option<&str> {
    let references = REFERENCE_KEYWORDS.iter().filter_map(|name| node.get(*name)?.as_str());
    references.into_iter().find(|reference| !reference.starts_with('#'))
}

/// Collects all objects of a schema, the root first.
fn collect_objects<'a>(value: &'a Value, depth: usize, nodes: &mut Vec<&'a Value>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| collect_objects(item, depth + 1, nodes)),
        Value::Object(members) => {
            nodes.push(value);
            members.values().try_for_each(|member| collect_objects(member, depth + 1, nodes))
        }
        _ => Ok(()),
    }
}

/// The targets that a schema can refer to within itself.
pub(super) struct ReferenceTargets<'a> {
    root: &'a Value,
    /// The named schemas that a reference can target.
    anchors: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> ReferenceTargets<'a> {
    /// Collects the targets of a schema that has passed [`check`].
    pub(super) fn collect(root: &'a Value) -> Self {
        let mut nodes = Vec::new();
        collect_objects(root, 0, &mut nodes).expect("the depth is checked");
        Self::from_nodes(root, &nodes)
    }

    fn from_nodes(root: &'a Value, nodes: &[&'a Value]) -> Self {
        let mut anchors: HashMap<&str, Vec<_>> = HashMap::new();
        for node in nodes {
            for name in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = node.get(name).and_then(Value::as_str) {
                    anchors.entry(name).or_default().push(*node);
                }
            }
        }
        Self { root, anchors }
    }

    /// Returns the schemas that this one refers to.
    pub(super) fn resolve(&self, node: &Map<String, Value>) -> Vec<&'a Value> {
        let mut targets = Vec::new();
        for reference in REFERENCE_KEYWORDS.iter().filter_map(|name| node.get(*name)?.as_str()) {
            match reference.strip_prefix('#') {
                Some(path) if path.is_empty() || path.starts_with('/') => {
                    targets.extend(self.root.pointer(&decode_fragment(path)));
                }
                Some(name) => targets.extend(self.anchors.get(name).into_iter().flatten()),
                // It leads out of the schema, which `check` refuses.
                None => {}
            }
        }
        targets
    }
}

/// The work of a schema for one value, without the schemas for the parts of the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaCost {
    /// Number of schemas that apply to the value.
    schemas: u64,
    /// The same number, plus the cost of the values that they list.
    pub(super) work: u64,
    /// Maximum depth of nesting among them.
    pub(super) nesting: usize,
}

struct CostCalculator<'a> {
    targets: ReferenceTargets<'a>,
    /// Weights by memory address; `None` while one is being computed.
    costs: HashMap<*const Map<String, Value>, Option<SchemaCost>>,
}

impl<'a> CostCalculator<'a> {
    fn cost_of(&mut self, node: &'a Map<String, Value>, depth: usize) -> Result<SchemaCost, String> {
        match self.costs.get(&std::ptr::from_ref(node)) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err("it refers to itself without end".to_owned()),
            None => {}
        }
        let chain_error = || format!("a chain of more than {MAX_CHAIN} schemas in it applies to one value");
        if depth > MAX_CHAIN {
            return Err(chain_error());
        }
        self.costs.insert(node, None);
        let enum_len = node.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        let mut total =
            SchemaCost { schemas: 1, work: 1 + (enum_len / ENUM_VALUES_PER_UNIT) as u64, nesting: 1 };
        for next in self.same_value_schemas(node) {
            let next_cost = self.cost_of(next, depth + 1)?;
            total.schemas = total.schemas.saturating_add(next_cost.schemas);
            total.work = total.work.saturating_add(next_cost.work);
            total.nesting = total.nesting.max(next_cost.nesting + 1);
        }
        if total.nesting > MAX_CHAIN {
            return Err(chain_error());
        }
        self.costs.insert(node, Some(total));
        Ok(total)
    }

    /// Returns the schemas that apply to the same value as this one.
    fn same_value_schemas(&self, node: &'a Map<String, Value>) -> Vec<&'a Map<String, Value>> {
        let single = SINGLE_SCHEMA_KEYWORDS.iter().filter_map(|name| node.get(*name));
        let lists = SCHEMA_LIST_KEYWORDS.iter().filter_map(|name| node.get(*name)?.as_array()).flatten();
        let maps =
            SCHEMA_MAP_KEYWORDS.iter().filter_map(|name| node.get(*name)?.as_object()).flat_map(Map::values);
        let mut schemas: Vec<_> = single.chain(lists).chain(maps).filter_map(Value::as_object).collect();
        schemas.extend(self.targets.resolve(node).into_iter().filter_map(Value::as_object));
        schemas
    }
}

/// Decodes a JSON pointer that is written as a URI fragment.
fn decode_fragment(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error_for(schema: Value) -> String {
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
            assert_eq!(error_for(schema.clone()), "it refers to itself without end", "{schema}");
        }
    }

    #[test]
    fn exponential_schema_is_refused() {
        let twice =
            |n: usize| json!({"allOf": [{"$ref": format!("#/$defs/{n}")}, {"$ref": format!("#/$defs/{n}")}]});
        let mut defs: Map<String, Value> = (0..30).map(|n| (n.to_string(), twice(n + 1))).collect();
        defs.insert("30".to_owned(), json!({}));
        assert!(error_for(json!({"$defs": defs})).contains("apply to one value"));
        let next = |n: usize| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)}));
        let chain: Map<String, Value> = (0..5_000).map(next).collect();
        assert!(error_for(json!({"$defs": chain})).contains("a chain of more than"));
        let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(error_for(deep).contains("nested deeper"));
        assert!(error_for(json!({"enum": ["x".repeat(MAX_SCHEMA_BYTES)]})).contains("bytes"));
        let with_id = json!({"$defs": {"a": {"$id": "https://x.example/a", "$ref": "#"}}});
        assert!(error_for(with_id).contains("`$id`"));
        let by_address =
            json!({"$id": "https://x.example/s", "$defs": {"a": {}}, "not": {"$ref": "s#/$defs/a"}});
        assert!(error_for(by_address).contains("`s#/$defs/a`"));
        let old = "http://json-schema.org/draft-04/schema#";
        let with_id = json!({"$schema": old, "definitions": {"a": {"id": "a", "$ref": "#"}}});
        assert!(error_for(with_id).contains("`id`"));
    }
}
