//! Translates error messages of serde and the TOML parser into the terms of the config file. Unknown messages
//! stay as they are. It must not know a field.

use super::problem::{nearest, unknown_name};

/// Serde's names for types, each with what to write instead.
const TYPES: [(&str, &str); 24] = [
    ("a boolean", "true or false"),
    ("a string", "a string in quotes"),
    ("str", "a string in quotes"),
    ("path string", "a path in quotes"),
    ("a sequence", "a list, such as [\"a\", \"b\"]"),
    ("a map", "a table, such as { name = \"value\" }"),
    ("f64", "a number"),
    ("a JSON number", "a number"),
    ("string or map", "one of its values, in quotes"),
    ("variant identifier", "one of its values, in quotes"),
    ("IP address", "an IP address in quotes, such as \"127.0.0.1\""),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of at least 0"),
    ("usize", "a whole number of at least 0"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("a nonzero u8", "a whole number from 1 to 255"),
    ("a nonzero u16", "a whole number from 1 to 65535"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("a nonzero u64", "a whole number of at least 1"),
    ("a nonzero usize", "a whole number of at least 1"),
    ("any valid JSON value", "a value"),
];

/// Beginnings of the TOML parser's messages, each with its translation and fix.
const TOML: [(&str, &str); 27] = [
    ("string values must be quoted", "string without quotes: write \"...\" around it"),
    ("invalid boolean", "true and false must be in lower case: write one of them, or put a string in quotes"),
    (
        "invalid basic string",
        "unterminated string: add a closing quote, or put a string of several lines between \"\"\"",
    ),
    ("invalid multi-line basic string", "unterminated string of several lines: add a closing \"\"\""),
    ("invalid literal string", "unterminated string: add a closing single quote"),
    ("missing opening quote", "string without an opening quote: add one"),
    (
        "missing escaped value",
        "invalid escape sequence: write \\\\ for a backslash, or put the string in single quotes",
    ),
    (
        "too few unicode value digits",
        "\\u has too few digits: write four hexadecimal ones, or eight after \\U",
    ),
    ("key with no value", "field without a value: write NAME = VALUE, or [NAME] for a table"),
    ("missing value", "missing value after the `=`: add one"),
    ("missing assignment", "field without a value: write NAME = VALUE"),
    ("extra `=`", "extra `=`: write NAME = VALUE"),
    ("extra assignment", "extra `=`: write NAME = VALUE"),
    ("unexpected `=` in array", "field name in a list: write a table for NAME = VALUE"),
    ("invalid unquoted key", "invalid character in a field name: put the name in quotes"),
    ("unquoted keys cannot be empty", "missing field name before the `=`: write NAME = VALUE"),
    ("unclosed table", "unterminated name of a table: add `]` after it"),
    ("unclosed array table", "unterminated name of a table: add `]]` after it"),
    ("unclosed array", "unterminated list: add `]` after its last value"),
    ("unclosed inline table", "unterminated table: add `}` after its last value"),
    ("missing comma between", "missing comma between two values: add one"),
    ("extra comma", "extra comma: remove it"),
    ("unexpected key or value", "more text after a value: put it on a line of its own"),
    ("unexpected leading zero", "a number begins with 0: remove the 0, or write a string in quotes"),
    ("carriage return must be", "carriage return without a line feed: save the file with Unix line ends"),
    ("cannot recurse further", "tables and lists are nested too deeply: at most 80 levels"),
    ("cannot extend value", "a name has a value, and is also used as a table: rename one of the two"),
];

/// Translates a serde message about a value.
pub(super) fn of_value(message: &str) -> String {
    translate(message).unwrap_or_else(|| message.to_owned())
}

fn translate(message: &str) -> Option<String> {
    if message.starts_with("unknown field `") {
        let (name, known) = names(message)?;
        // The parser does not know the fields of a table that is made of two.
        if known.is_empty() && !message.contains("no fields") {
            return Some(format!("unknown field `{name}`: `taskbridge schema` lists the fields"));
        }
        return Some(unknown_name("field", name, &known));
    }
    if message.starts_with("unknown variant `") {
        let (name, known) = names(message)?;
        return Some(unknown_value(name, &known));
    }
    if let Some(name) = between(message, "missing field `", "`") {
        return Some(format!("missing field `{name}`: add it"));
    }
    if let Some(name) = between(message, "duplicate field `", "`") {
        return Some(format!("duplicate field `{name}`: remove one of the two"));
    }
    if message.starts_with("data did not match any variant") {
        return Some("none of the accepted forms: `taskbridge schema` lists them".to_owned());
    }
    match message {
        "invalid IP address syntax" => {
            return Some("not an IP address: write one such as \"10.0.0.1\"".to_owned());
        }
        "invalid socket address syntax" => {
            return Some("not an address with a port: write one such as \"127.0.0.1:8808\"".to_owned());
        }
        _ => {}
    }
    let (kind, rest) = message.split_once(": ").filter(|(kind, _)| kind.starts_with("invalid "))?;
    let at = rest.rfind(", expected ")?;
    let (found, expected) = (&rest[..at], &rest[at + ", expected ".len()..]);
    match kind {
        "invalid type" | "invalid value" => Some(format!(
            "{} is not valid: write {}",
            describe_found(found, kind == "invalid value"),
            describe_expected(expected)
        )),
        _ => None,
    }
}

/// Translates a message of the TOML parser.
pub(super) fn of_toml(message: &str) -> String {
    let translation = TOML.iter().find(|(prefix, _)| message.starts_with(prefix));
    translation.map_or_else(|| message.replace('\n', ", "), |(_, text)| (*text).to_owned())
}

/// Returns the known field that a misspelt one most likely means.
pub(super) fn intended_field(message: &str) -> Option<String> {
    let (name, known) = names(message.strip_prefix("unknown field ")?)?;
    nearest(name, known).map(str::to_owned)
}

/// Returns the names in backticks: the invalid one, and the known ones.
fn names(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

fn unknown_value(name: &str, known: &[&str]) -> String {
    let hint =
        nearest(name, known.iter().copied()).map(|candidate| format!("; did you mean \"{candidate}\"?"));
    let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
    format!("unknown value \"{name}\"{} (known: {})", hint.unwrap_or_default(), known.join(", "))
}

fn between<'m>(message: &'m str, before: &str, after: &str) -> Option<&'m str> {
    message.strip_prefix(before)?.strip_suffix(after)
}

/// Formats the value that was found. A misplaced text may be a secret and is not shown.
fn describe_found(found: &str, shows_text: bool) -> String {
    match found.split_once(' ') {
        Some(("boolean" | "integer", value)) => value.trim_matches('`').to_owned(),
        Some(("floating", value)) => value.trim_start_matches("point ").trim_matches('`').to_owned(),
        Some(("string", text)) if shows_text => text.to_owned(),
        Some(("string", _)) => "a string".to_owned(),
        _ => match found {
            "map" => "a table",
            "sequence" => "a list",
            "null" | "unit value" => "nothing",
            other => other,
        }
        .to_owned(),
    }
}

/// Formats the expected value.
fn describe_expected(expected: &str) -> String {
    let entry = TYPES.iter().find(|(name, _)| *name == expected);
    match entry {
        Some((_, text)) => (*text).to_owned(),
        None if expected.starts_with("struct ") => "a table, { NAME = VALUE } or { }".to_owned(),
        None if expected.starts_with("enum ") => "one of its values, in quotes".to_owned(),
        None => expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_messages_become_plain_words() {
        for (message, words) in [
            (
                "invalid type: string \"hush\", expected u32",
                "a string is not valid: write a whole number from 0 to 4294967295",
            ),
            ("invalid type: integer `3`, expected a string", "3 is not valid: write a string in quotes"),
            (
                "invalid type: boolean `true`, expected struct Discover",
                "true is not valid: write a table, { NAME = VALUE } or { }",
            ),
            (
                "invalid type: map, expected a sequence",
                "a table is not valid: write a list, such as [\"a\", \"b\"]",
            ),
            (
                "invalid type: sequence, expected a map",
                "a list is not valid: write a table, such as { name = \"value\" }",
            ),
            (
                "invalid type: floating point `1.5`, expected u64",
                "1.5 is not valid: write a whole number of at least 0",
            ),
            ("invalid type: integer `1`, expected path string", "1 is not valid: write a path in quotes"),
            (
                "invalid type: integer `1`, expected string or map",
                "1 is not valid: write one of its values, in quotes",
            ),
            (
                "invalid value: integer `-1`, expected a nonzero u32",
                "-1 is not valid: write a whole number from 1 to 4294967295",
            ),
            (
                "invalid value: integer `0`, expected a nonzero usize",
                "0 is not valid: write a whole number of at least 1",
            ),
            (
                "invalid value: integer `-1`, expected usize",
                "-1 is not valid: write a whole number of at least 0",
            ),
            (
                "invalid value: string \"5 minuts\", expected a duration",
                "\"5 minuts\" is not valid: write a duration",
            ),
            (
                "unknown field `lisen`, expected `listen` or `page_size`",
                "unknown field `lisen`; did you mean `listen`? (known: `listen`, `page_size`)",
            ),
            ("unknown field `x`, there are no fields", "unknown field `x` (there is no field)"),
            ("unknown field `x`", "unknown field `x`: `taskbridge schema` lists the fields"),
            (
                "unknown variant `requird`, expected `required` or `never`",
                "unknown value \"requird\"; did you mean \"required\"? (known: \"required\", \"never\")",
            ),
            ("missing field `uri`", "missing field `uri`: add it"),
            ("duplicate field `uri`", "duplicate field `uri`: remove one of the two"),
            (
                "data did not match any variant of untagged enum Who",
                "none of the accepted forms: `taskbridge schema` lists them",
            ),
            ("invalid IP address syntax", "not an IP address: write one such as \"10.0.0.1\""),
            ("what an adapter says", "what an adapter says"),
        ] {
            assert_eq!(of_value(message), words);
        }
    }

    #[test]
    fn field_that_was_meant_is_known() {
        assert_eq!(
            intended_field("unknown field `lisen`, expected `listen` or `tls`").as_deref(),
            Some("listen")
        );
        assert_eq!(intended_field("unknown field `x`, there are no fields"), None);
        assert_eq!(intended_field("missing field `listen`"), None);
    }

    #[test]
    fn parser_terms_are_never_shown() {
        for (message, _) in TOML {
            let words = of_toml(&format!("{message}, expected `x`"));
            assert!(!words.contains("expected") && words.contains([':', '=']), "{words}");
        }
        for (_, words) in TYPES {
            assert!(!["u8", "u32", "usize", "struct", "sequence"].iter().any(|word| words.contains(word)));
        }
    }
}
