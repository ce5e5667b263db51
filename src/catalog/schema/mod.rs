//! [`Schema`]: a compiled JSON Schema, which validates values and describes their violations. It never
//! fetches anything.

mod complexity;
mod violations;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{PatternOptions, ReferencingError, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Value};

use self::complexity::SchemaCost;
use self::violations::MessageContext;

/// The supported values of `$schema`. The first is the default.
const DRAFTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
];
/// Maximum work of a check: rules times single values.
const MAX_WORK: u64 = 3_000_000;
/// Work that takes about a fifth of a millisecond.
const LIGHT_WORK: u64 = 20_000;
/// Maximum nesting of schemas times values: each level uses some of the stack.
const MAX_DEPTH: usize = 600;

/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// A compiled JSON Schema (2020-12 unless it names another draft) whose root is an object.
#[derive(Debug)]
pub struct Schema {
    value: Value,
    validator: Validator,
    /// The work of a check per value.
    cost: SchemaCost,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If the schema is invalid or too complex, if it is not for an object, or if a `$ref` leads out of it.
    /// The text is for the author of the schema.
    pub fn compile(value: Value) -> Result<Self, String> {
        if value.get("type").and_then(Value::as_str) != Some("object") {
            return Err("the schema's own `type` must be \"object\"".to_owned());
        }
        if let Some(draft) = value.get("$schema") {
            let is_known = |uri: &str| DRAFTS.contains(&uri.trim_end_matches('#'));
            if !draft.as_str().is_some_and(is_known) {
                return Err(format!("`$schema` is {draft}: it must be one of {}", DRAFTS.join(", ")));
            }
        }
        let cost =
            complexity::check(&value).map_err(|fault| format!("the schema is too complex: {fault}"))?;
        let validator = options().build(&value).map_err(|error| compile_error(&error))?;
        Ok(Self { value, validator, cost })
    }

    /// Returns the schema as it was written.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the schema's properties.
    pub fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.value.get("properties").and_then(Value::as_object).into_iter().flatten()
    }

    /// Adds the default of every absent top-level property.
    pub fn fill_defaults(&self, arguments: &mut Map<String, Value>) {
        for (name, property) in self.properties() {
            if let Some(default) = property.get("default")
                && !arguments.contains_key(name)
            {
                arguments.insert(name.clone(), default.clone());
            }
        }
    }

    /// Validates a value against the schema. `value_name` is the name of the value in messages, and
    /// `is_hidden` returns true for top-level properties that must not be shown.
    ///
    /// # Errors
    /// If the value does not match: path, value and rule of each violation, up to five. Also if the check
    /// would take too long.
    pub fn check(
        &self,
        value: &Value,
        value_name: &str,
        is_hidden: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let (size, depth) = (complexity::size(value), complexity::depth(value));
        let SchemaCost { work, nesting, .. } = self.cost;
        if size.saturating_mul(work) > MAX_WORK {
            return Err(format!(
                "`{value_name}`: the size of {size} single values exceeds {}, the limit of this schema with up to \
                 {work} rules for one value: send less",
                MAX_WORK / work
            ));
        }
        if depth.saturating_mul(nesting) > MAX_DEPTH {
            return Err(format!(
                "`{value_name}`: a nesting of {depth} levels exceeds {}, the limit of this schema with up to {nesting} \
                 nested schemas for one value: nest it less",
                MAX_DEPTH / nesting
            ));
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let context = MessageContext { value_name, is_hidden: &is_hidden };
        Err(violations::describe(&self.value, self.validator.draft(), value, &context))
    }

    /// Returns true if a value matches and checking it is fast, so that it needs no thread of its own.
    /// Describing an invalid value can take a thousand times as long.
    pub fn is_light_for(&self, value: &Value) -> bool {
        let SchemaCost { work, nesting, .. } = self.cost;
        complexity::is_at_most(value, LIGHT_WORK / work.max(1))
            && complexity::depth(value).saturating_mul(nesting) <= MAX_DEPTH
            && self.validator.is_valid(value)
    }
}

/// Returns the options for tool schemas.
pub(super) fn options<'o>() -> ValidationOptions<'o> {
    jsonschema::options()
        .offline()
        .should_validate_formats(true)
        // For any pattern, matching time is proportional to the length of the text.
        .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES))
}

/// Returns the error's place in the schema, such as `properties.depth.maximum`.
fn schema_path(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path() {
        match segment {
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
            LocationSegment::Property(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&name);
            }
        }
    }
    if path.is_empty() { "schema".to_owned() } else { path }
}

fn compile_error(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            return format!(
                "external `$ref` {uri} is not fetched: copy that schema into `$defs` and refer to the copy"
            );
        }
        ValidationErrorKind::Referencing(error) => return format!("a `$ref` has no target: {error}"),
        _ => {}
    }
    let is_pattern = matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex");
    let hint = match is_pattern {
        true => " with linear matching time (no look-around, no back-references, not too large)",
        false => "",
    };
    format!("not a valid JSON Schema: `{}`: {error}{hint}", schema_path(error))
}

#[cfg(test)]
#[path = "../../../benches/bombs/mod.rs"]
mod bombs;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::compile(json!({
            "type": "object",
            "properties": {
                "depth": {"type": "integer", "maximum": 10, "default": 3},
                "names": {"type": "array", "items": {"type": "string", "minLength": 2}},
                "token": {"type": "string", "pattern": "^tok-"},
                "options": {"type": "object", "additionalProperties": false},
            },
            "required": ["names"],
            "additionalProperties": false,
        }))
        .unwrap()
    }

    /// The message of a schema violation has its path, its value and the rule.
    #[test]
    fn schema_error_names_path_and_rule() {
        for (value, expected) in [
            (
                json!({"names": [], "depth": 99}),
                "`depth`: 99 is greater than the maximum of 10 (rule `maximum`)",
            ),
            (
                json!({"names": ["ok", "x"]}),
                "`names[1]`: \"x\" is shorter than 2 characters (rule `minLength`)",
            ),
            (json!({}), "`arguments`: \"names\" is a required property (rule `required`)"),
            (
                json!({"names": [], "deep": 1}),
                "`arguments`: Additional properties are not allowed ('deep' was unexpected) \
                 (rule `additionalProperties`)",
            ),
        ] {
            assert_eq!(schema().check(&value, "arguments", |_| false), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_hidden_value_is_never_shown() {
        let cases = [
            json!({"names": [], "token": "hunter2"}),
            json!({"names": [], "token": {"hunter2": 1}}),
            json!({"names": [], "options": {"hunter2": 1}}),
            json!({"token": "hunter2"}),
        ];
        for value in cases {
            let text = schema().check(&value, "arguments", |name| name != "names").unwrap_err();
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    /// The benchmark `schemas` reports time and memory of each.
    #[test]
    fn every_bomb_is_answered_in_bounds() {
        for bomb in bombs::bombs() {
            let Ok(schema) = Schema::compile(bomb.schema) else { continue };
            let text = schema.check(&bomb.value, "arguments", |_| false).err().unwrap_or_default();
            assert!(text.len() < 4_000, "{}: {} bytes", bomb.name, text.len());
        }
    }

    /// A value that is large or does not fit is never checked on the fast path.
    #[test]
    fn only_small_valid_value_is_light() {
        let schema = schema();
        assert!(schema.is_light_for(&json!({"names": ["ab"]})));
        assert!(!schema.is_light_for(&json!({"names": ["a"]})), "it does not match");
        assert!(!schema.is_light_for(&json!({"names": vec!["ab"; 20_000]})), "it is large");
        for bomb in bombs::bombs() {
            let Ok(schema) = Schema::compile(bomb.schema) else { continue };
            let is_wrong = schema.check(&bomb.value, "arguments", |_| false).is_err();
            assert!(!is_wrong || !schema.is_light_for(&bomb.value), "{}", bomb.name);
        }
    }

    /// Of several alternatives, the error describes the one that fits best.
    #[test]
    fn closest_alternative_explains_mismatch() {
        let schema = Schema::compile(json!({
            "type": "object",
            "properties": {"of": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "day"}, "n": {"type": "integer"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "name"}, "name": {"type": "string"}}, "required": ["kind"]},
            ]}, "word": {"anyOf": [{"const": "a"}, {"type": "integer"}]}},
        }));
        let schema = schema.unwrap();
        for (value, expected) in [
            (
                json!({"of": {"kind": "name", "name": 1}}),
                "`of.name`: 1 is not of type \"string\" (rule `type`)",
            ),
            (
                json!({"word": true}),
                "`word`: does not match any of the 2 alternatives: \"a\", type \"integer\" (rule `anyOf`)",
            ),
        ] {
            assert_eq!(schema.check(&value, "arguments", |_| false), Err(expected.to_owned()));
        }
    }

    /// Missing members get the defaults of the schema.
    #[test]
    fn valid_arguments_get_defaults() {
        let mut arguments = Map::from_iter([("names".to_owned(), json!(["ab"]))]);
        schema().fill_defaults(&mut arguments);
        assert_eq!(arguments["depth"], 3);
        assert_eq!(schema().check(&Value::Object(arguments), "arguments", |_| false), Ok(()));
    }

    /// A schema without `$schema` is read as the current draft.
    #[test]
    fn schema_uses_declared_draft() {
        let compile = |draft: Option<&str>| {
            let property = json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true});
            let mut schema = json!({"type": "object", "properties": {"n": property}});
            if let Some(draft) = draft {
                schema["$schema"] = json!(draft);
            }
            Schema::compile(schema)
        };
        let old = compile(Some("http://json-schema.org/draft-04/schema#")).unwrap();
        assert!(old.check(&json!({"n": 2}), "it", |_| false).is_ok());
        assert!(old.check(&json!({"n": 1}), "it", |_| false).is_err());
        for draft in [None, Some("https://json-schema.org/draft/2020-12/schema")] {
            assert!(compile(draft).unwrap_err().contains("exclusiveMinimum"), "a number since draft 6");
        }
        for draft in [
            "http://json-schema.org/draft-06/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
        ] {
            Schema::compile(json!({"$schema": draft, "type": "object"})).unwrap();
        }
    }

    /// Patterns with backreferences, look-around or huge repetitions are refused.
    #[test]
    fn schema_pattern_takes_linear_time() {
        let compile = |pattern: &str| {
            let text = json!({"type": "string", "pattern": pattern});
            Schema::compile(json!({"type": "object", "properties": {"a": text}}))
        };
        let bomb = compile("^(([a-z])+.)+[A-Z]([a-z])+$").unwrap();
        let text = json!({"a": "a".repeat(100_000)});
        assert!(bomb.check(&text, "it", |_| false).is_err());
        for pattern in ["(?=a)b", "(a)\\1", "((x{1000}){1000}){1000}"] {
            let error = compile(pattern).unwrap_err();
            assert!(error.contains("properties.a.pattern"), "{error}");
            assert!(error.contains("no look-around"), "{error}");
        }
    }

    /// A schema that is invalid, is no object or refers to a file elsewhere is refused with a reason.
    #[test]
    fn incomplete_schema_is_refused() {
        for (schema, part) in [
            (json!({"type": "array"}), "must be \"object\""),
            (json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "`properties.a.type`"),
            (json!({"type": "object", "properties": {"a": {"pattern": "("}}}), "`properties.a.pattern`"),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}),
                "https://example.com/a.json",
            ),
            (
                json!({"type": "object", "$ref": "file:///etc/passwd"}),
                "external `$ref` file:///etc/passwd is not fetched",
            ),
            (json!({"type": "object", "$ref": "#/$defs/none"}), "/$defs/none"),
            (
                json!({"type": "object", "$schema": "https://example.com/own"}),
                "`$schema` is \"https://example.com/own\": it must be one of https://json-schema.org/draft/2020-12",
            ),
            (json!({"type": "object", "$schema": 7}), "`$schema` is 7"),
            (json!({"type": "object", "allOf": [{"$ref": "#"}]}), "too complex: it refers to itself"),
        ] {
            let text = Schema::compile(schema.clone()).unwrap_err();
            assert!(text.contains(part), "{schema}: {text}");
        }
    }
}
