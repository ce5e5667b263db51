//! [`Shape`]: the values that a JSON Schema accepts, in the terms of a person who types them into a
//! terminal. It follows references within the schema, and never fetches anything.

use serde_json::{Map, Value};

/// Maximum number of references to follow: a schema may refer to itself.
const MAX_REFERENCES: usize = 16;
/// Maximum number of choices to list in a description.
const MAX_LISTED_CHOICES: usize = 12;

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
    pub(super) fn root(root: &'a Value) -> Self {
        Self { root, schema: root }.resolve()
    }

    /// Returns a schema of the same document.
    pub(super) fn at(self, schema: &'a Value) -> Self {
        Self { root: self.root, schema }.resolve()
    }

    fn resolve(mut self) -> Self {
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = self.schema.get("$ref").and_then(Value::as_str) else { break };
            let Some(schema) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
            else {
                break;
            };
            self.schema = schema;
        }
        self
    }

    /// Returns the JSON of the schema.
    pub(super) fn as_json(self) -> &'a Value {
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
        let members = self.get("properties").and_then(Value::as_object);
        members.into_iter().flatten().map(move |(name, schema)| (name.as_str(), self.at(schema)))
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
        if let Some(value) = self.get("const") {
            return Some(vec![(value, self.text("title"))]);
        }
        if let Some(choices) = self.get("enum").and_then(Value::as_array) {
            let names = self.get("enumNames").and_then(Value::as_array);
            let name = |at: usize| names.and_then(|names| names.get(at)?.as_str());
            return Some(choices.iter().enumerate().map(|(at, choice)| (choice, name(at))).collect());
        }
        let branches = self.get("oneOf").or_else(|| self.get("anyOf")).and_then(Value::as_array)?;
        let titled_value =
            |branch: &'a Value| Some((branch.get("const")?, branch.get("title").and_then(Value::as_str)));
        branches.iter().map(titled_value).collect()
    }

    /// Returns the accepted kinds of values without duplicates; empty if the schema does not restrict them.
    pub(super) fn kinds(self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        self.collect_kinds(&mut kinds, 0);
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.contains(&Kind::File) {
            kinds.retain(|kind| *kind != Kind::Object);
        }
        kinds
    }

    fn collect_kinds(self, kinds: &mut Vec<Kind>, depth: usize) {
        if depth > MAX_REFERENCES {
            return;
        }
        if self.is_file() {
            kinds.push(Kind::File);
            return;
        }
        let before = kinds.len();
        match self.get("type") {
            Some(Value::String(name)) => kinds.extend(kind_by_name(name)),
            Some(Value::Array(names)) => {
                kinds.extend(names.iter().filter_map(Value::as_str).filter_map(kind_by_name))
            }
            _ => kinds.extend(self.choices().into_iter().flatten().map(|(value, _)| kind_of(value))),
        }
        let branches = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| self.get(keyword)?.as_array());
        let branches: Vec<Shape<'a>> = branches.flatten().map(|schema| self.at(schema)).collect();
        // An explicit type already covers the branches, except for a file.
        let has_no_type = kinds.len() == before;
        for branch in branches.iter().filter(|branch| has_no_type || branch.is_file()) {
            branch.collect_kinds(kinds, depth + 1);
        }
        if kinds.len() == before {
            let implied = [("properties", Kind::Object), ("items", Kind::List), ("pattern", Kind::Text)];
            kinds.extend(
                implied.iter().find(|(keyword, _)| self.get(keyword).is_some()).map(|(_, kind)| *kind),
            );
        }
    }

    fn is_file(self) -> bool {
        let file_members = ["content", "encoding", "name"];
        let is_known = |properties: &Map<String, Value>| {
            properties.contains_key("content")
                && properties.keys().all(|name| file_members.contains(&name.as_str()))
        };
        self.requires("content") && self.get("properties").and_then(Value::as_object).is_some_and(is_known)
    }

    /// Describes the accepted values briefly.
    pub(super) fn describe(self) -> String {
        if let Some(choices) = self.choices() {
            let values: Vec<String> =
                choices.iter().take(MAX_LISTED_CHOICES).map(|(value, _)| value_text(value)).collect();
            let more = if choices.len() > MAX_LISTED_CHOICES { ", ..." } else { "" };
            return match values.as_slice() {
                [only] => only.clone(),
                _ => format!("one of {}{more}", values.join(", ")),
            };
        }
        let kinds = self.kinds();
        // Whole numbers are numbers.
        let is_needed = |kind: &Kind| *kind != Kind::Integer || !kinds.contains(&Kind::Number);
        let descriptions: Vec<String> =
            kinds.iter().filter(|kind| is_needed(kind)).map(|kind| self.describe_kind(*kind)).collect();
        if descriptions.is_empty() { "anything".to_owned() } else { descriptions.join(" or ") }
    }

    fn describe_kind(self, kind: Kind) -> String {
        let number = |keyword: &str| self.get(keyword).filter(|value| value.is_number()).map(value_text);
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
                let item_text =
                    self.items().map(|items| items.describe()).filter(|words| words != "anything");
                format!(
                    "list{count}{}",
                    item_text.map(|item_text| format!(" of {item_text}")).unwrap_or_default()
                )
            }
            Kind::File => "file".to_owned(),
            Kind::Object => "JSON object".to_owned(),
        }
    }
}

fn kind_by_name(name: &str) -> Option<Kind> {
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

fn range(min: Option<String>, max: Option<String>, unit: &str) -> String {
    match (min, max) {
        (Some(min), Some(max)) if min == max => format!(" of {min}{unit}"),
        (Some(min), Some(max)) => format!(" from {min} to {max}{unit}"),
        (Some(min), None) => format!(" of at least {min}{unit}"),
        (None, Some(max)) => format!(" of at most {max}{unit}"),
        (None, None) => String::new(),
    }
}

/// Returns a value as a person would type it: text without quotes.
pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns up to three known names similar to this one, the best match first.
pub(super) fn similar_names<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lowercase_name = name.to_lowercase();
    let mut similar: Vec<(usize, &str)> = names
        .into_iter()
        .map(|candidate| {
            let lowercase_candidate = candidate.to_lowercase();
            let is_substring = lowercase_name.len() >= 3
                && (lowercase_candidate.contains(&lowercase_name)
                    || lowercase_name.contains(&lowercase_candidate));
            let distance = strsim::damerau_levenshtein(&lowercase_name, &lowercase_candidate);
            (if is_substring { distance.min(1) } else { distance }, candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(name.len()) / 4)
        .collect();
    similar.sort_unstable();
    similar.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn describe(schema: Value) -> String {
        Shape::root(&schema).describe()
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
            assert_eq!(describe(schema.clone()), expected, "{schema}");
        }
    }

    /// A schema with `content` is recognized as a file.
    #[test]
    fn file_parameter_is_described_as_file() {
        let content = json!({"type": "object", "required": ["content"], "properties": {
            "content": {"type": "string"}, "encoding": {"enum": ["text", "base64"]}, "name": {"type": "string"}}});
        let uri = json!({"type": "object", "required": ["uri"], "properties": {"uri": {"type": "string"}}});
        assert_eq!(describe(content.clone()), "file");
        assert_eq!(describe(json!({"type": "object", "oneOf": [content, uri.clone()]})), "file");
        assert_eq!(describe(uri), "JSON object");
    }

    /// A schema that refers to itself is described as any value.
    #[test]
    fn recursive_schema_is_described() {
        assert_eq!(describe(json!({"$ref": "#"})), "anything");
        assert_eq!(describe(json!({"anyOf": [{"$ref": "#"}]})), "anything");
    }

    #[test]
    fn near_names_are_found() {
        let names = ["deploy", "deploy_canary", "hash_tree", "countdown"];
        assert_eq!(similar_names("depoly", names), ["deploy"]);
        assert_eq!(similar_names("hash", names), ["hash_tree"]);
        assert_eq!(similar_names("zzz", names), Vec::<&str>::new());
    }
}
