//! Parses the words after the tool's name into the arguments of the call: `NAME=VALUE` typed by the tool's
//! input schema, `NAME:=JSON`, `NAME=@FILE`. It reports all errors at once, before anything is sent. It
//! must not send.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonschema::PatternOptions;
use serde_json::{Map, Value, json};

use super::listing::Tool;
use super::shape::{Kind, Shape, similar_names};

/// Maximum length of a value that a message repeats, in characters.
const MAX_ECHO_CHARS: usize = 60;

/// The schema of values that no schema describes.
static ANY_SCHEMA: Value = Value::Null;

/// Reads a file by its path, or standard input for `-`.
pub(super) type ReadFile<'a> = dyn FnMut(&str) -> io::Result<Vec<u8>> + 'a;

/// Parses the words into arguments, in addition to those of `base`.
///
/// # Errors
/// All errors, one line each.
pub(super) fn parse_arguments(
    tool: &Tool,
    base: Map<String, Value>,
    words: &[String],
    read_file: &mut ReadFile<'_>,
) -> Result<Map<String, Value>, Vec<String>> {
    let root = Shape::root(&tool.input_schema);
    let mut parser =
        ArgumentParser { tool, root, arguments: base, named_arguments: Vec::new(), problems: Vec::new() };
    let base_names: Vec<String> = parser.arguments.keys().cloned().collect();
    for name in base_names {
        parser.shape(&name);
    }
    for word in words {
        parser.parse_word(word, read_file);
    }
    parser.check();
    if parser.problems.is_empty() { Ok(parser.arguments) } else { Err(parser.problems) }
}

/// The arguments parsed so far.
struct ArgumentParser<'a> {
    tool: &'a Tool,
    root: Shape<'a>,
    arguments: Map<String, Value>,
    /// The arguments that words have named.
    named_arguments: Vec<String>,
    problems: Vec<String>,
}

impl<'a> ArgumentParser<'a> {
    fn parse_word(&mut self, word: &str, read_file: &mut ReadFile<'_>) {
        let Some((name, text)) = word.split_once('=') else {
            self.problems.push(format!("{word}: expected NAME=VALUE"));
            return;
        };
        let (name, is_json) = match name.strip_suffix(':') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(shape) = self.shape(name) else { return };
        let value = match (text.strip_prefix('@'), is_json) {
            (None, true) => {
                parse_json(text).map_err(|reason| format!("{name}:={}: {reason}", truncate(text)))
            }
            (None, false) => {
                let value = parse_value(text, shape).filter(|value| self.is_valid(name, value));
                value.ok_or_else(|| match shape.kinds().contains(&Kind::File) {
                    true => format!("{name}={0}: expected a file; write {name}=@{0}", truncate(text)),
                    false => format!("{name}={}: expected {}", truncate(text), shape.describe()),
                })
            }
            (Some(path), _) => read_value(path, shape, is_json, read_file)
                .and_then(|value| match self.is_valid(name, &value) {
                    true => Ok(value),
                    false => Err(format!("invalid content: expected {}", shape.describe())),
                })
                .map_err(|reason| format!("{name}{}=@{path}: {reason}", if is_json { ":" } else { "" })),
        };
        match value {
            Ok(value) => self.insert(name, value, shape),
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Adds a value. A list that is named again is extended; any other repeated name is an error.
    fn insert(&mut self, name: &str, value: Value, shape: Shape<'a>) {
        if self.named_arguments.iter().any(|named| named == name) {
            match (self.arguments.get_mut(name), value) {
                (Some(Value::Array(list)), Value::Array(extra)) if shape.kinds().contains(&Kind::List) => {
                    list.extend(extra);
                }
                _ => self.problems.push(format!("{name}: duplicate argument")),
            }
            return;
        }
        self.named_arguments.push(name.to_owned());
        self.arguments.insert(name.to_owned(), value);
    }

    /// Returns the schema of an argument; reports a problem if there is no such argument.
    fn shape(&mut self, name: &str) -> Option<Shape<'a>> {
        if let Some(shape) = self.root.property(name) {
            return Some(shape);
        }
        let names: Vec<&str> = self.root.properties().map(|(name, _)| name).collect();
        match self.root.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => return Some(self.root.at(schema)),
            Some(Value::Bool(true)) => return Some(self.root.at(&ANY_SCHEMA)),
            None if names.is_empty() || self.root.get("patternProperties").is_some() => {
                return Some(self.root.at(&ANY_SCHEMA));
            }
            _ => {}
        }
        let suggestions = similar_names(name, names.iter().copied());
        let hint = suggestions
            .first()
            .map(|suggestion| format!("; did you mean `{suggestion}`?"))
            .unwrap_or_default();
        let accepted = match names.as_slice() {
            [] => "nothing".to_owned(),
            names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        self.problems.push(format!("{name}: unknown argument; {} takes {accepted}{hint}", self.tool.name));
        None
    }

    /// Returns true if the value matches the schema of its own argument.
    fn is_valid(&self, name: &str, value: &Value) -> bool {
        // A list can be given in parts, and is checked as a whole at the end.
        if value.is_array() {
            return true;
        }
        // The whole schema, so that its references resolve, but without the rules about other arguments.
        let mut schema = self.tool.input_schema.clone();
        if let Some(members) = schema.as_object_mut() {
            let kept_keywords = ["type", "properties", "additionalProperties", "patternProperties"];
            members
                .retain(|keyword, _| keyword.starts_with('$') || kept_keywords.contains(&keyword.as_str()));
        }
        let mut object = Map::new();
        object.insert(name.to_owned(), value.clone());
        compile(&schema).is_none_or(|validator| validator.is_valid(&Value::Object(object)))
    }

    /// Checks the arguments as a whole.
    fn check(&mut self) {
        let is_given = |name: &str| {
            self.arguments.contains_key(name) || self.problems.iter().any(|problem| is_about(problem, name))
        };
        let missing = self.root.properties().filter(|(name, _)| self.root.requires(name) && !is_given(name));
        let missing: Vec<String> = missing
            .map(|(name, shape)| {
                let description =
                    shape.text("description").map(|text| format!(". {text}")).unwrap_or_default();
                format!("{name}: missing; expected {}{description}", shape.describe())
            })
            .collect();
        self.problems.extend(missing);
        if !self.problems.is_empty() {
            return;
        }
        let value = Value::Object(self.arguments.clone());
        if let Some(validator) = compile(&self.tool.input_schema) {
            self.problems.extend(validator.iter_errors(&value).take(5).map(|error| {
                let path = error.instance_path().to_string();
                let path = path.trim_start_matches('/').replace('/', ".");
                let path = if path.is_empty() { "arguments" } else { &path };
                format!("{path}: {error}")
            }));
        }
    }
}

/// Returns true if a problem is about this argument.
fn is_about(problem: &str, name: &str) -> bool {
    problem.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '=']))
}

/// Compiles the schema. `None` if that fails: then the server validates alone.
pub(super) fn compile(schema: &Value) -> Option<jsonschema::Validator> {
    let options = jsonschema::options().offline().should_validate_formats(true);
    options.with_pattern_options(PatternOptions::regex()).build(schema).ok()
}

/// Parses a text into a value of the expected kind. `None` if it is none.
pub(super) fn parse_value(text: &str, shape: Shape<'_>) -> Option<Value> {
    if let Some(choices) = shape.choices() {
        let is_choice = |value: &Value| super::shape::value_text(value) == text;
        return choices.into_iter().find(|(value, _)| is_choice(value)).map(|(value, _)| value.clone());
    }
    let kinds = shape.kinds();
    if kinds.is_empty() {
        return Some(parse_json(text).unwrap_or_else(|_| Value::from(text)));
    }
    kinds.into_iter().find_map(|kind| parse_as(text, kind, shape))
}

fn parse_as(text: &str, kind: Kind, shape: Shape<'_>) -> Option<Value> {
    match kind {
        Kind::Null => (text == "null").then_some(Value::Null),
        Kind::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" => Some(Value::Bool(true)),
            "false" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        Kind::Integer => parse_json(text.trim()).ok().filter(|value| value.is_i64() || value.is_u64()),
        Kind::Number => parse_json(text.trim()).ok().filter(Value::is_number),
        Kind::Text => Some(Value::from(text)),
        Kind::Object | Kind::File => parse_json(text).ok().filter(Value::is_object),
        Kind::List if text.trim_start().starts_with('[') => parse_json(text).ok().filter(Value::is_array),
        Kind::List if text.is_empty() => Some(Value::Array(Vec::new())),
        Kind::List => text
            .split(',')
            .map(|part| match shape.items() {
                Some(items) => parse_value(part.trim(), items),
                None => Some(parse_json(part).unwrap_or_else(|_| Value::from(part.trim()))),
            })
            .collect(),
    }
}

/// Reads a value of the expected kind from a file.
fn read_value(
    path: &str,
    shape: Shape<'_>,
    is_json: bool,
    read_file: &mut ReadFile<'_>,
) -> Result<Value, String> {
    let bytes = read_file(path).map_err(|error| format!("cannot be read: {error}"))?;
    let kinds = shape.kinds();
    if !is_json && kinds.contains(&Kind::File) {
        return Ok(file_argument(path, bytes));
    }
    let text = String::from_utf8(bytes).map_err(|_| "content is not UTF-8 text".to_owned())?;
    if !is_json && (kinds.is_empty() || kinds.contains(&Kind::Text)) {
        return Ok(Value::from(text));
    }
    parse_json(&text)
}

/// Encodes a file as taskbridge's file argument.
fn file_argument(path: &str, bytes: Vec<u8>) -> Value {
    let mut file = match String::from_utf8(bytes) {
        Ok(text) => json!({"content": text}),
        Err(error) => json!({"content": STANDARD.encode(error.as_bytes()), "encoding": "base64"}),
    };
    let name = std::path::Path::new(path).file_name().and_then(|name| name.to_str());
    if let Some(name) = name.filter(|_| path != "-") {
        file["name"] = Value::from(name);
    }
    file
}

/// Parses JSON.
pub(super) fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_ECHO_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deploy() -> Tool {
        let file = json!({"type": "object", "required": ["content"], "additionalProperties": false, "properties": {
            "content": {"type": "string"}, "encoding": {"enum": ["text", "base64"]}, "name": {"type": "string"}}});
        let schema = json!({
            "type": "object",
            "properties": {
                "env": {"enum": ["staging", "production"], "description": "Where to."},
                "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                "ratio": {"type": "number"},
                "dry_run": {"type": "boolean"},
                "services": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "ports": {"type": "array", "items": {"type": "integer"}},
                "labels": {"type": "object"},
                "note": {"type": "string"},
                "plan": file,
                "size": {"$ref": "#/$defs/size"},
            },
            "required": ["env"],
            "additionalProperties": false,
            "$defs": {"size": {"type": "integer", "multipleOf": 2}},
        });
        Tool::parse(&json!({"name": "deploy", "inputSchema": schema})).unwrap()
    }

    fn read(words: &[&str]) -> Result<Value, Vec<String>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut files = |path: &str| match path {
            "dir/plan.txt" => Ok(b"a plan".to_vec()),
            "bytes" => Ok(vec![0, 159]),
            "labels.json" => Ok(b"{\"a\": 1}".to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        parse_arguments(&deploy(), Map::new(), &words, &mut files).map(Value::Object)
    }

    #[test]
    fn values_are_typed_by_the_schema() {
        for (word, name, value) in [
            ("replicas=3", "replicas", json!(3)),
            ("ratio=0.5", "ratio", json!(0.5)),
            ("ratio=1e3", "ratio", json!(1000.0)),
            ("dry_run=yes", "dry_run", json!(true)),
            ("services=api,web", "services", json!(["api", "web"])),
            ("services=", "services", json!([])),
            ("services=[\"a,b\"]", "services", json!(["a,b"])),
            ("ports=80, 443", "ports", json!([80, 443])),
            ("labels={\"a\": [1]}", "labels", json!({"a": [1]})),
            ("note=3", "note", json!("3")),
            ("note=a=b", "note", json!("a=b")),
            ("note=", "note", json!("")),
            ("note:=\"@x\"", "note", json!("@x")),
            ("note=@dir/plan.txt", "note", json!("a plan")),
            ("labels=@labels.json", "labels", json!({"a": 1})),
            ("labels:=@labels.json", "labels", json!({"a": 1})),
            ("plan=@dir/plan.txt", "plan", json!({"content": "a plan", "name": "plan.txt"})),
            ("plan=@bytes", "plan", json!({"content": "AJ8=", "encoding": "base64", "name": "bytes"})),
            ("size=4", "size", json!(4)),
        ] {
            let parsed = read(&["env=staging", word]).unwrap_or_else(|problems| panic!("{problems:?}"));
            assert_eq!(parsed[name], value, "{word}");
        }
    }

    /// Only a list parameter may be given more than once.
    #[test]
    fn list_argument_can_be_repeated() {
        assert_eq!(
            read(&["env=staging", "services=a", "services=b,c"]).unwrap()["services"],
            json!(["a", "b", "c"])
        );
        assert_eq!(read(&["env=staging", "note=a", "note=b"]).unwrap_err(), ["note: duplicate argument"]);
        let long = read(&["env=staging", "services=a,b", "services=c,d"]).unwrap_err();
        assert!(long[0].starts_with("services: ") && long[0].contains('3'), "{long:?}");
    }

    /// The error repeats the argument and describes what would fit.
    #[test]
    fn invalid_argument_names_expected_value() {
        for (word, problem) in [
            ("replicas=three", "replicas=three: expected whole number from 1 to 10"),
            ("replicas=99", "replicas=99: expected whole number from 1 to 10"),
            ("replicas=1.5", "replicas=1.5: expected whole number from 1 to 10"),
            ("replicas:=\"3\"", "replicas: \"3\" is not of type \"integer\""),
            ("dry_run=maybe", "dry_run=maybe: expected true or false"),
            ("env=prod", "env=prod: expected one of staging, production"),
            ("size=3", "size=3: expected whole number"),
            ("labels={", "labels={: expected JSON object"),
            (
                "replica=3",
                "replica: unknown argument; deploy takes `dry_run`, `env`, `labels`, `note`, `plan`, `ports`, `ratio`, `replicas`, `services`, `size`; did you mean `replicas`?",
            ),
            ("replicas", "replicas: expected NAME=VALUE"),
            ("note=@bytes", "note=@bytes: content is not UTF-8 text"),
        ] {
            let words = if word.starts_with("env") { vec![word] } else { vec!["env=staging", word] };
            assert_eq!(read(&words).unwrap_err(), [problem], "{word}");
        }
        let problems = read(&["env=staging", "note:=x"]).unwrap_err();
        assert!(problems[0].starts_with("note:=x: invalid JSON: expected"), "{problems:?}");
        let problems = read(&["env=staging", "note=@none"]).unwrap_err();
        assert!(problems[0].starts_with("note=@none: cannot be read: "), "{problems:?}");
    }

    /// All invalid and missing arguments are reported at once.
    #[test]
    fn argument_errors_are_reported_together() {
        let problems = read(&["replicas=0", "dry_run=maybe"]).unwrap_err();
        assert_eq!(problems.len(), 3);
        assert_eq!(problems[2], "env: missing; expected one of staging, production. Where to.");
    }

    #[test]
    fn a_schema_without_names_takes_any() {
        let tool = Tool::parse(&json!({"name": "any", "inputSchema": {"type": "object"}})).unwrap();
        let words = ["a=1".to_owned(), "b=x".to_owned(), "c=[1]".to_owned()];
        let parsed =
            parse_arguments(&tool, Map::new(), &words, &mut |_| Err(io::Error::other("no"))).unwrap();
        assert_eq!(Value::Object(parsed), json!({"a": 1, "b": "x", "c": [1]}));
    }

    #[test]
    fn explicit_arguments_override_base() {
        let base = json!({"env": "staging", "replicas": 2, "extra": 1});
        let Value::Object(base) = base else { unreachable!() };
        let words = ["env=production".to_owned()];
        let problems = parse_arguments(&deploy(), base.clone(), &words, &mut |_| Err(io::Error::other("no")))
            .unwrap_err();
        assert!(problems[0].starts_with("extra: unknown argument"), "{problems:?}");
        let mut base = base;
        base.remove("extra");
        let parsed = parse_arguments(&deploy(), base, &words, &mut |_| Err(io::Error::other("no"))).unwrap();
        assert_eq!(Value::Object(parsed), json!({"env": "production", "replicas": 2}));
    }
}
