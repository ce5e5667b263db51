//! The text of a violation: where the value is wrong, and what the rule requires. It must not check a value.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use taskbridge_sdk::short_line;

/// Maximum length of a value that is shown, in bytes.
const MAX_VALUE_BYTES: usize = 60;

/// Maximum length of a violation's text, in characters.
const MAX_TEXT: usize = 400;

/// Maximum number of `anyOf` and `oneOf` alternatives that are named.
const MAX_ALTERNATIVES: usize = 10;

/// The name of the value and its secret properties.
pub(in crate::catalog) struct MessageContext<'a> {
    /// The name of the value as a whole.
    pub(in crate::catalog) value_name: &'a str,
    /// Returns true for the top-level properties that must not be shown.
    pub(in crate::catalog) is_hidden: &'a dyn Fn(&str) -> bool,
}

/// A violation of the schema by one part of the value.
#[derive(Clone)]
pub(super) struct SchemaViolation {
    /// The depth of the part within the whole value.
    pub(super) depth: usize,
    pub(super) kind: RuleKind,
    pub(super) text: String,
}

/// The kind of rule that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// The type of the value.
    Type,
    /// The allowed values. Such a member often names the kind of the whole value.
    AllowedValues,
    /// Several alternatives.
    Alternatives,
    Other,
}

/// A path in the value.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    last: Option<(&'p Path<'p>, Segment<'p>)>,
    pub(super) depth: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Segment<'p> {
    Index(usize),
    Property(&'p str),
}

impl<'p> Path<'p> {
    pub(super) const ROOT: &'static Path<'static> = &Path { last: None, depth: 0 };

    pub(super) fn child(&'p self, segment: Segment<'p>) -> Self {
        Self { last: Some((self, segment)), depth: self.depth + 1 }
    }

    /// Returns the path as text, such as `filters[2].name`, and the top-level property that contains it.
    fn describe(&self, value_name: &str) -> (String, Option<&'p str>) {
        let Some((before, last)) = self.last else { return (value_name.to_owned(), None) };
        let (text, first) = match before.last {
            Some(_) => before.describe(value_name),
            None => (String::new(), None),
        };
        match last {
            Segment::Index(index) => (format!("{text}[{index}]"), first),
            Segment::Property(name) if text.is_empty() => (name.to_owned(), Some(name)),
            Segment::Property(name) => (format!("{text}.{name}"), first),
        }
    }
}

impl MessageContext<'_> {
    /// Converts an error of the validator.
    pub(super) fn violation_from_error(
        &self,
        error: &ValidationError<'_>,
        path: &Path<'_>,
    ) -> SchemaViolation {
        let keyword = error.kind().keyword();
        // A value that is not a scalar may contain a hidden part, and is too long anyway.
        let value = match error.instance().as_ref() {
            value @ (Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null) => {
                Some(value.to_string()).filter(|text| text.len() <= MAX_VALUE_BYTES)
            }
            _ => None,
        };
        let message = error.masked_with(value.unwrap_or_else(|| "the value".to_owned())).to_string();
        let kind = match error.kind() {
            ValidationErrorKind::Type { .. } => RuleKind::Type,
            ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => {
                RuleKind::AllowedValues
            }
            _ => RuleKind::Other,
        };
        self.violation(path, keyword, &message, kind)
    }

    /// Returns the violation of a rule at this path.
    pub(super) fn violation(
        &self,
        path: &Path<'_>,
        keyword: &str,
        message: &str,
        kind: RuleKind,
    ) -> SchemaViolation {
        let (location, property) = path.describe(self.value_name);
        // Even a text without the value can repeat part of it, such as the names of unexpected properties.
        let text = match property.is_some_and(|name| (self.is_hidden)(name)) {
            true => format!("`{location}`: the value (hidden) violates the rule `{keyword}`"),
            false => format!("`{location}`: {} (rule `{keyword}`)", short_line(message, MAX_TEXT)),
        };
        SchemaViolation { depth: path.depth, kind, text }
    }
}

/// Describes that a value matches none of these alternatives, and names the simple ones among them.
pub(super) fn no_match_message(alternatives: &[Value]) -> String {
    let short = |value: &Value| Some(value.to_string()).filter(|text| text.len() <= MAX_VALUE_BYTES);
    let names = alternatives.iter().filter_map(|alternative| {
        match (alternative.get("const"), alternative.get("enum"), alternative.get("type")) {
            (Some(value), ..) | (_, Some(value), _) => short(value),
            (.., Some(kind)) => short(kind).map(|kind| format!("type {kind}")),
            _ => None,
        }
    });
    let names: Vec<String> = names.take(MAX_ALTERNATIVES).collect();
    let count = match alternatives.len() {
        1 => "the only alternative".to_owned(),
        n => format!("any of the {n} alternatives"),
    };
    match names.is_empty() {
        true => format!("does not match {count}"),
        false if names.len() < alternatives.len() => {
            format!("does not match {count}, including {}", names.join(", "))
        }
        false => format!("does not match {count}: {}", names.join(", ")),
    }
}
