//! [`Shape`]: the values that a JSON Schema accepts, in the terms of a person who types them into a
//! terminal. It follows references within the schema, and never fetches anything.

use serde_json::{Map, Value};

/// Maximum number of references to follow: a schema may refer to itself.
const MOST_REFERENCES: usize = 16;
/// Maximum number of choices to list in a description.
const MOST_LISTED: usize = 12;

/// A kind of values, in the order in which a typed text is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    List,
    /// An object with the content of a file: the schema that taskbridge publishes for `type = "file"`.
    File,
    Object,
    Text,
}

/// A schema within its document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    root: &'a Value,
    schema: &'a Value,
}

impl<'a> Shape<'a> {
    /// Returns the root schema of a document.
    pub(super) fn of(root: &'a Value) -> Self {
        Self { root, schema: root }.resolved()
    }

    /// Returns a schema of the same document.
    pub(super) fn at(self, schema: &'a Value) -> Self {
        Self { root: self.root, schema }.resolved()
    }

    fn resolved(mut self) -> Self {
        for _ in 0..MOST_REFERENCES {
            let Some(reference) = self.schema.get("$ref").and_then(Value::as_str) else { break };
            let Some(schema) = reference.strip_prefix('#').and_then(|place| self.root.pointer(place)) else {
                break;
            };
            self.schema = schema;
        }
        self
    }

    /// Returns the JSON of the schema.
    pub(super) fn whole(self) -> &'a Value {
        self.schema
    }

    /// Returns a keyword of the schema.
    pub(super) fn get(self, keyword: &str) -> Option<&'a Value> {
        self.schema.get(keyword)
    }

    /// Returns a text keyword of the schema.
    pub(super) fn text(self, keyword: &str) -> Option<&'a str> {
        self.get(keyword).and_then(Value::as_str)
    }

    /// Returns the properties of an object, sorted by name: parsed JSON does not keep the schema's order.
    pub(super) fn properties(self) -> impl Iterator<Item = (&'a str, Shape<'a>)> {
        let named = self.get("properties").and_then(Value::as_object);
        named.into_iter().flatten().map(move |(name, schema)| (name.as_str(), self.at(schema)))
    }

    /// Returns the property of an object with this name.
    pub(super) fn property(self, name: &str) -> Option<Shape<'a>> {
        self.get("properties")?.get(name).map(|schema| self.at(schema))
    }

    /// Returns true if the object requires a property with this name.
    pub(super) fn requires(self, name: &str) -> bool {
        let required = self.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|one| one == name))
    }

    /// Returns the schema of a list's items.
    pub(super) fn items(self) -> Option<Shape<'a>> {
        self.get("items").filter(|items| items.is_object()).map(|items| self.at(items))
    }

    /// Returns the only accepted values, with their titles, if the schema enumerates them.
    pub(super) fn choices(self) -> Option<Vec<(&'a Value, Option<&'a str>)>> {
        if let Some(only) = self.get("const") {
            return Some(vec![(only, self.text("title"))]);
        }
        if let Some(choices) = self.get("enum").and_then(Value::as_array) {
            let names = self.get("enumNames").and_then(Value::as_array);
            let name = |at: usize| names.and_then(|names| names.get(at)?.as_str());
            return Some(choices.iter().enumerate().map(|(at, choice)| (choice, name(at))).collect());
        }
        let branches = self.get("oneOf").or_else(|| self.get("anyOf")).and_then(Value::as_array)?;
        let titled =
            |branch: &'a Value| Some((branch.get("const")?, branch.get("title").and_then(Value::as_str)));
        branches.iter().map(titled).collect()
    }

    /// Returns the accepted kinds of values without duplicates; empty if the schema does not restrict them.
    pub(super) fn kinds(self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        self.gather(&mut kinds, 0);
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.contains(&Kind::File) {
            kinds.retain(|kind| *kind != Kind::Object);
        }
        kinds
    }

    fn gather(self, kinds: &mut Vec<Kind>, depth: usize) {
        if depth > MOST_REFERENCES {
            return;
        }
        if self.is_file() {
            kinds.push(Kind::File);
            return;
        }
        let before = kinds.len();
        match self.get("type") {
            Some(Value::String(name)) => kinds.extend(named(name)),
            Some(Value::Array(names)) => {
                kinds.extend(names.iter().filter_map(Value::as_str).filter_map(named))
            }
            _ => kinds.extend(self.choices().into_iter().flatten().map(|(value, _)| kind_of(value))),
        }
        let branches = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| self.get(keyword)?.as_array());
        let branches: Vec<Shape<'a>> = branches.flatten().map(|schema| self.at(schema)).collect();
        // An explicit type already covers the branches, except for a file.
        let says_nothing = kinds.len() == before;
        for branch in branches.iter().filter(|branch| says_nothing || branch.is_file()) {
            branch.gather(kinds, depth + 1);
        }
        if kinds.len() == before {
            let implied = [("properties", Kind::Object), ("items", Kind::List), ("pattern", Kind::Text)];
            kinds.extend(
                implied.iter().find(|(keyword, _)| self.get(keyword).is_some()).map(|(_, kind)| *kind),
            );
        }
    }

    fn is_file(self) -> bool {
        let known = ["content", "encoding", "name"];
        let is_known = |properties: &Map<String, Value>| {
            properties.contains_key("content") && properties.keys().all(|name| known.contains(&name.as_str()))
        };
        self.requires("content") && self.get("properties").and_then(Value::as_object).is_some_and(is_known)
    }

    /// Describes the accepted values briefly.
    pub(super) fn words(self) -> String {
        if let Some(choices) = self.choices() {
            let shown: Vec<String> =
                choices.iter().take(MOST_LISTED).map(|(value, _)| plain(value)).collect();
            let more = if choices.len() > MOST_LISTED { ", ..." } else { "" };
            return match shown.as_slice() {
                [only] => only.clone(),
                _ => format!("one of {}{more}", shown.join(", ")),
            };
        }
        let kinds = self.kinds();
        // Whole numbers are numbers.
        let is_said = |kind: &Kind| *kind != Kind::Integer || !kinds.contains(&Kind::Number);
        let words: Vec<String> =
            kinds.iter().filter(|kind| is_said(kind)).map(|kind| self.words_for(*kind)).collect();
        if words.is_empty() { "anything".to_owned() } else { words.join(" or ") }
    }

    fn words_for(self, kind: Kind) -> String {
        let number = |keyword: &str| self.get(keyword).filter(|value| value.is_number()).map(plain);
        match kind {
            Kind::Null => "null".to_owned(),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Integer => format!("whole number{}", range(number("minimum"), number("maximum"), "")),
            Kind::Number => format!("number{}", range(number("minimum"), number("maximum"), "")),
            Kind::Text => {
                let length = range(number("minLength"), number("maxLength"), " characters");
                let pattern = self.text("pattern").map(|pattern| format!(" matching {pattern}"));
                let format = self.text("format").map(|format| format!(" ({format})"));
                format!("text{length}{}{}", format.unwrap_or_default(), pattern.unwrap_or_default())
            }
            Kind::List => {
                let count = range(number("minItems"), number("maxItems"), " entries");
                let of = self.items().map(|items| items.words()).filter(|words| words != "anything");
                format!("list{count}{}", of.map(|of| format!(" of {of}")).unwrap_or_default())
            }
            Kind::File => "file".to_owned(),
            Kind::Object => "JSON object".to_owned(),
        }
    }
}

fn named(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "array" => Kind::List,
        "object" => Kind::Object,
        "string" => Kind::Text,
        _ => return None,
    })
}

fn kind_of(value: &Value) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) => Kind::Boolean,
        Value::Number(number) if number.is_f64() => Kind::Number,
        Value::Number(_) => Kind::Integer,
        Value::String(_) => Kind::Text,
        Value::Array(_) => Kind::List,
        Value::Object(_) => Kind::Object,
    }
}

fn range(from: Option<String>, to: Option<String>, what: &str) -> String {
    match (from, to) {
        (Some(from), Some(to)) if from == to => format!(" of {from}{what}"),
        (Some(from), Some(to)) => format!(" from {from} to {to}{what}"),
        (Some(from), None) => format!(" of at least {from}{what}"),
        (None, Some(to)) => format!(" of at most {to}{what}"),
        (None, None) => String::new(),
    }
}

/// Returns a value as a person would type it: text without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns up to three known names similar to this one, the best match first.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|candidate| {
            let known = candidate.to_lowercase();
            let part = wanted.len() >= 3 && (known.contains(&wanted) || wanted.contains(&known));
            let distance = strsim::damerau_levenshtein(&wanted, &known);
            (if part { distance.min(1) } else { distance }, candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(name.len()) / 4)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(schema: Value) -> String {
        Shape::of(&schema).words()
    }

    /// Each type, range and choice of a parameter has a short description.
    #[test]
    fn schema_is_described_in_brief() {
        for (schema, expected) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 10}), "whole number from 1 to 10"),
            (json!({"type": "number", "minimum": 0.5}), "number of at least 0.5"),
            (json!({"type": "boolean"}), "true or false"),
            (json!({"enum": ["a", 2]}), "one of a, 2"),
            (
                json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}),
                "one of a, b",
            ),
            (json!({"type": "string", "pattern": "^/"}), "text matching ^/"),
            (
                json!({"type": "string", "maxLength": 5, "format": "email"}),
                "text of at most 5 characters (email)",
            ),
            (json!({"type": ["integer", "null"]}), "null or whole number"),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "number or text"),
            (
                json!({"type": "array", "items": {"enum": ["api", "web"]}, "minItems": 1}),
                "list of at least 1 entries of one of api, web",
            ),
            (json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}), "whole number"),
            (json!({"type": "object"}), "JSON object"),
            (json!({}), "anything"),
        ] {
            assert_eq!(words(schema.clone()), expected, "{schema}");
        }
    }

    /// A schema with `content` is recognized as a file.
    #[test]
    fn file_parameter_is_described_as_file() {
        let content = json!({"type": "object", "required": ["content"], "properties": {
            "content": {"type": "string"}, "encoding": {"enum": ["text", "base64"]}, "name": {"type": "string"}}});
        let uri = json!({"type": "object", "required": ["uri"], "properties": {"uri": {"type": "string"}}});
        assert_eq!(words(content.clone()), "file");
        assert_eq!(words(json!({"type": "object", "oneOf": [content, uri.clone()]})), "file");
        assert_eq!(words(uri), "JSON object");
    }

    /// A schema that refers to itself is described as any value.
    #[test]
    fn recursive_schema_is_described() {
        assert_eq!(words(json!({"$ref": "#"})), "anything");
        assert_eq!(words(json!({"anyOf": [{"$ref": "#"}]})), "anything");
    }

    #[test]
    fn near_names_are_found() {
        let known = ["deploy", "deploy_canary", "hash_tree", "countdown"];
        assert_eq!(nearest("depoly", known), ["deploy"]);
        assert_eq!(nearest("hash", known), ["hash_tree"]);
        assert_eq!(nearest("zzz", known), Vec::<&str>::new());
    }
}
