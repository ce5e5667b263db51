//! Parses the words after the tool's name into the arguments of the call: `NAME=VALUE` typed by the tool's
//! input schema, `NAME:=JSON`, `NAME=@FILE`. It reports all errors at once, before anything is sent. It
//! must not send.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonschema::PatternOptions;
use serde_json::{Map, Value, json};

use super::listing::Tool;
use super::shape::{Kind, Shape, nearest};

/// Maximum length of a value that a message repeats, in characters.
const MOST_SHOWN: usize = 60;

/// The schema of values that no schema describes.
static ANYTHING: Value = Value::Null;

/// Reads a file by its path, or standard input for `-`.
pub(super) type ReadFile<'a> = dyn FnMut(&str) -> io::Result<Vec<u8>> + 'a;

/// Parses the words into arguments, in addition to those of `base`.
///
/// # Errors
/// All errors, one line each.
pub(super) fn arguments(
    tool: &Tool,
    base: Map<String, Value>,
    words: &[String],
    read: &mut ReadFile<'_>,
) -> Result<Map<String, Value>, Vec<String>> {
    let root = Shape::of(&tool.input_schema);
    let mut taken = Taken { tool, root, arguments: base, named: Vec::new(), problems: Vec::new() };
    let given: Vec<String> = taken.arguments.keys().cloned().collect();
    for name in given {
        taken.shape(&name);
    }
    for word in words {
        taken.word(word, read);
    }
    taken.check();
    if taken.problems.is_empty() { Ok(taken.arguments) } else { Err(taken.problems) }
}

/// The arguments parsed so far.
struct Taken<'a> {
    tool: &'a Tool,
    root: Shape<'a>,
    arguments: Map<String, Value>,
    /// The arguments that words have named.
    named: Vec<String>,
    problems: Vec<String>,
}

impl<'a> Taken<'a> {
    fn word(&mut self, word: &str, read: &mut ReadFile<'_>) {
        let Some((name, text)) = word.split_once('=') else {
            self.problems.push(format!("{word}: arguments are written NAME=VALUE"));
            return;
        };
        let (name, is_json) = match name.strip_suffix(':') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(shape) = self.shape(name) else { return };
        let value = match (text.strip_prefix('@'), is_json) {
            (None, true) => json(text).map_err(|why| format!("{name}:={}: {why}", shown(text))),
            (None, false) => {
                let value = typed(text, shape).filter(|value| self.fits(name, value));
                value.ok_or_else(|| match shape.kinds().contains(&Kind::File) {
                    true => format!("{name}={0}: it takes a file: write {name}=@{0}", shown(text)),
                    false => format!("{name}={}: expected {}", shown(text), shape.words()),
                })
            }
            (Some(path), _) => from_file(path, shape, is_json, read)
                .and_then(|value| match self.fits(name, &value) {
                    true => Ok(value),
                    false => Err(format!("its content does not fit: expected {}", shape.words())),
                })
                .map_err(|why| format!("{name}{}=@{path}: {why}", if is_json { ":" } else { "" })),
        };
        match value {
            Ok(value) => self.put(name, value, shape),
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Adds a value. A list that is named again is extended; any other repeated name is an error.
    fn put(&mut self, name: &str, value: Value, shape: Shape<'a>) {
        if self.named.iter().any(|one| one == name) {
            match (self.arguments.get_mut(name), value) {
                (Some(Value::Array(list)), Value::Array(more)) if shape.kinds().contains(&Kind::List) => {
                    list.extend(more);
                }
                _ => self.problems.push(format!("{name}: it is given twice")),
            }
            return;
        }
        self.named.push(name.to_owned());
        self.arguments.insert(name.to_owned(), value);
    }

    /// Returns the schema of an argument; reports a problem if there is no such argument.
    fn shape(&mut self, name: &str) -> Option<Shape<'a>> {
        if let Some(shape) = self.root.property(name) {
            return Some(shape);
        }
        let known: Vec<&str> = self.root.properties().map(|(name, _)| name).collect();
        match self.root.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => return Some(self.root.at(schema)),
            Some(Value::Bool(true)) => return Some(self.root.at(&ANYTHING)),
            None if known.is_empty() || self.root.get("patternProperties").is_some() => {
                return Some(self.root.at(&ANYTHING));
            }
            _ => {}
        }
        let near = nearest(name, known.iter().copied());
        let hint = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let takes = match known.as_slice() {
            [] => "nothing".to_owned(),
            known => known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        self.problems.push(format!("{name}: unknown argument; {} takes {takes}{hint}", self.tool.name));
        None
    }

    /// Returns true if the value matches the schema of its own argument.
    fn fits(&self, name: &str, value: &Value) -> bool {
        // A list can be given in parts, and is checked as a whole at the end.
        if value.is_array() {
            return true;
        }
        // The whole schema, so that its references resolve, but without the rules about other arguments.
        let mut schema = self.tool.input_schema.clone();
        if let Some(members) = schema.as_object_mut() {
            let general = ["type", "properties", "additionalProperties", "patternProperties"];
            members.retain(|keyword, _| keyword.starts_with('$') || general.contains(&keyword.as_str()));
        }
        let mut object = Map::new();
        object.insert(name.to_owned(), value.clone());
        compiled(&schema).is_none_or(|validator| validator.is_valid(&Value::Object(object)))
    }

    /// Checks the arguments as a whole.
    fn check(&mut self) {
        let given = |name: &str| {
            self.arguments.contains_key(name) || self.problems.iter().any(|problem| names(problem, name))
        };
        let missing = self.root.properties().filter(|(name, _)| self.root.requires(name) && !given(name));
        let missing: Vec<String> = missing
            .map(|(name, shape)| {
                let about = shape.text("description").map(|text| format!(". {text}")).unwrap_or_default();
                format!("{name}: missing; expected {}{about}", shape.words())
            })
            .collect();
        self.problems.extend(missing);
        if !self.problems.is_empty() {
            return;
        }
        let value = Value::Object(self.arguments.clone());
        if let Some(validator) = compiled(&self.tool.input_schema) {
            self.problems.extend(validator.iter_errors(&value).take(5).map(|error| {
                let place = error.instance_path().to_string();
                let place = place.trim_start_matches('/').replace('/', ".");
                let place = if place.is_empty() { "arguments" } else { &place };
                format!("{place}: {error}")
            }));
        }
    }
}

/// Returns true if a problem is about this argument.
fn names(problem: &str, name: &str) -> bool {
    problem.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '=']))
}

/// Compiles the schema. `None` if that fails: then the server validates alone.
pub(super) fn compiled(schema: &Value) -> Option<jsonschema::Validator> {
    let options = jsonschema::options().offline().should_validate_formats(true);
    options.with_pattern_options(PatternOptions::regex()).build(schema).ok()
}

/// Parses a text into a value of the expected kind. `None` if it is none.
pub(super) fn typed(text: &str, shape: Shape<'_>) -> Option<Value> {
    if let Some(choices) = shape.choices() {
        let is_it = |value: &Value| super::shape::plain(value) == text;
        return choices.into_iter().find(|(value, _)| is_it(value)).map(|(value, _)| value.clone());
    }
    let kinds = shape.kinds();
    if kinds.is_empty() {
        return Some(json(text).unwrap_or_else(|_| Value::from(text)));
    }
    kinds.into_iter().find_map(|kind| as_kind(text, kind, shape))
}

fn as_kind(text: &str, kind: Kind, shape: Shape<'_>) -> Option<Value> {
    match kind {
        Kind::Null => (text == "null").then_some(Value::Null),
        Kind::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" => Some(Value::Bool(true)),
            "false" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        Kind::Integer => json(text.trim()).ok().filter(|value| value.is_i64() || value.is_u64()),
        Kind::Number => json(text.trim()).ok().filter(Value::is_number),
        Kind::Text => Some(Value::from(text)),
        Kind::Object | Kind::File => json(text).ok().filter(Value::is_object),
        Kind::List if text.trim_start().starts_with('[') => json(text).ok().filter(Value::is_array),
        Kind::List if text.is_empty() => Some(Value::Array(Vec::new())),
        Kind::List => text
            .split(',')
            .map(|part| match shape.items() {
                Some(items) => typed(part.trim(), items),
                None => Some(json(part).unwrap_or_else(|_| Value::from(part.trim()))),
            })
            .collect(),
    }
}

/// Reads a value of the expected kind from a file.
fn from_file(path: &str, shape: Shape<'_>, is_json: bool, read: &mut ReadFile<'_>) -> Result<Value, String> {
    let bytes = read(path).map_err(|error| format!("it cannot be read: {error}"))?;
    let kinds = shape.kinds();
    if !is_json && kinds.contains(&Kind::File) {
        return Ok(as_file(path, bytes));
    }
    let text = String::from_utf8(bytes).map_err(|_| "its content is no UTF-8 text".to_owned())?;
    if !is_json && (kinds.is_empty() || kinds.contains(&Kind::Text)) {
        return Ok(Value::from(text));
    }
    json(&text)
}

/// Encodes a file as taskbridge's file argument.
fn as_file(path: &str, bytes: Vec<u8>) -> Value {
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
pub(super) fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
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
        Tool::read(&json!({"name": "deploy", "inputSchema": schema})).unwrap()
    }

    fn read(words: &[&str]) -> Result<Value, Vec<String>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut files = |path: &str| match path {
            "dir/plan.txt" => Ok(b"a plan".to_vec()),
            "bytes" => Ok(vec![0, 159]),
            "labels.json" => Ok(b"{\"a\": 1}".to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        arguments(&deploy(), Map::new(), &words, &mut files).map(Value::Object)
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
            let taken = read(&["env=staging", word]).unwrap_or_else(|problems| panic!("{problems:?}"));
            assert_eq!(taken[name], value, "{word}");
        }
    }

    /// Only a list parameter may be given more than once.
    #[test]
    fn list_argument_can_be_repeated() {
        assert_eq!(
            read(&["env=staging", "services=a", "services=b,c"]).unwrap()["services"],
            json!(["a", "b", "c"])
        );
        assert_eq!(read(&["env=staging", "note=a", "note=b"]).unwrap_err(), ["note: it is given twice"]);
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
            ("replicas", "replicas: arguments are written NAME=VALUE"),
            ("note=@bytes", "note=@bytes: its content is no UTF-8 text"),
        ] {
            let words = if word.starts_with("env") { vec![word] } else { vec!["env=staging", word] };
            assert_eq!(read(&words).unwrap_err(), [problem], "{word}");
        }
        let json = read(&["env=staging", "note:=x"]).unwrap_err();
        assert!(json[0].starts_with("note:=x: it is not JSON: expected"), "{json:?}");
        let none = read(&["env=staging", "note=@none"]).unwrap_err();
        assert!(none[0].starts_with("note=@none: it cannot be read: "), "{none:?}");
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
        let tool = Tool::read(&json!({"name": "any", "inputSchema": {"type": "object"}})).unwrap();
        let words = ["a=1".to_owned(), "b=x".to_owned(), "c=[1]".to_owned()];
        let taken = arguments(&tool, Map::new(), &words, &mut |_| Err(io::Error::other("no"))).unwrap();
        assert_eq!(Value::Object(taken), json!({"a": 1, "b": "x", "c": [1]}));
    }

    #[test]
    fn explicit_arguments_override_base() {
        let base = json!({"env": "staging", "replicas": 2, "extra": 1});
        let Value::Object(base) = base else { unreachable!() };
        let words = ["env=production".to_owned()];
        let problems =
            arguments(&deploy(), base.clone(), &words, &mut |_| Err(io::Error::other("no"))).unwrap_err();
        assert!(problems[0].starts_with("extra: unknown argument"), "{problems:?}");
        let mut base = base;
        base.remove("extra");
        let taken = arguments(&deploy(), base, &words, &mut |_| Err(io::Error::other("no"))).unwrap();
        assert_eq!(Value::Object(taken), json!({"env": "production", "replicas": 2}));
    }
}
