//! [`Template`]: text with `{{ expression }}` in it, for what is sent. There are no blocks (`{% %}`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value as Json;

use super::expression::Expression;
use super::filters;
use super::scope::Scope;
use super::text::{percent_encode, plain_text};

/// Longest source of a template, in bytes.
const MAX_SOURCE: usize = 16 * 1024;

/// A compiled template.
#[derive(Clone)]
pub(crate) struct Template {
    source: Arc<str>,
    parts: Arc<[Part]>,
}

#[derive(Clone)]
enum Part {
    Text(String),
    /// `raw`: a piece of a path that is not encoded.
    Value {
        expression: Expression,
        raw: bool,
    },
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        if source.len() > MAX_SOURCE {
            return Err(format!("it has {} bytes, the limit is {MAX_SOURCE}", source.len()));
        }
        if source.contains("{%") || source.contains("{#") {
            return Err(
                "it has a block, and only `{{ expression }}` is allowed: write `{{ a if b else c }}`"
                    .to_owned(),
            );
        }
        let (mut parts, mut rest) = (Vec::new(), source);
        while let Some(start) = rest.find("{{") {
            if start > 0 {
                parts.push(Part::Text(rest[..start].to_owned()));
            }
            let (part, after) = Self::part(&rest[start + 2..])?;
            parts.push(part);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { source: source.into(), parts: parts.into() })
    }

    /// Compiles the expression up to its end. `}}` can be a part of it, so the first end that compiles counts.
    fn part(rest: &str) -> Result<(Part, &str), String> {
        let mut error = "`{{` has no `}}`".to_owned();
        for (end, _) in rest.match_indices("}}") {
            let inner = rest[..end].trim();
            let (inner, raw) = match inner.strip_suffix(filters::RAW).map(str::trim_end) {
                Some(head) if head.ends_with('|') => (head[..head.len() - 1].trim_end(), true),
                _ => (inner, false),
            };
            match Expression::parse_strict(inner) {
                Ok(expression) => return Ok((Part::Value { expression, raw }, &rest[end + 2..])),
                Err(e) if error.starts_with('`') => error = e,
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// Returns the text.
    ///
    /// # Errors
    /// The value that is missing, or why there is none. The message contains no value.
    pub(crate) fn text(&self, scope: &Scope) -> Result<String, String> {
        let mut text = String::new();
        for part in &*self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Value { expression, .. } => text.push_str(&required(expression, scope)?),
            }
        }
        Ok(text)
    }

    /// Returns the value of a template that is one expression alone, and the text of any other. `None` if the
    /// value is undefined.
    pub(crate) fn value(&self, scope: &Scope) -> Result<Option<Json>, String> {
        match &*self.parts {
            [Part::Value { expression, .. }] => expression.eval(scope),
            _ => self.text(scope).map(|text| Some(text.into())),
        }
    }

    /// Returns a path: each value is percent-encoded as one piece, unless the template says `raw`. A list is a
    /// piece for each item.
    pub(crate) fn path(&self, scope: &Scope) -> Result<String, String> {
        let mut path = String::new();
        for part in &*self.parts {
            match part {
                Part::Text(literal) => path.push_str(literal),
                Part::Value { expression, raw } => {
                    let pieces = match expression.eval(scope)? {
                        Some(Json::Array(pieces)) => pieces,
                        Some(piece) => vec![piece],
                        None => return Err(format!("`{}` has no value", expression.source())),
                    };
                    let pieces: Vec<String> = pieces.iter().map(plain_text).collect();
                    if pieces.is_empty() || pieces.iter().any(String::is_empty) {
                        return Err(format!("`{}` is empty, and a path needs a value", expression.source()));
                    }
                    let encode = |piece: String| if *raw { piece } else { percent_encode(&piece) };
                    path.push_str(&pieces.into_iter().map(encode).collect::<Vec<_>>().join("/"));
                }
            }
        }
        Ok(path)
    }

    /// Returns the names that the template uses, with their attributes.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.expressions(false).flat_map(Expression::names).collect()
    }

    /// Returns the names of values that a path does not encode.
    pub(crate) fn raw_names(&self) -> BTreeSet<String> {
        self.expressions(true).flat_map(Expression::names).collect()
    }

    fn expressions(&self, only_raw: bool) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(move |part| match part {
            Part::Value { expression, raw } if *raw || !only_raw => Some(expression),
            _ => None,
        })
    }
}

fn required(expression: &Expression, scope: &Scope) -> Result<String, String> {
    match expression.eval(scope)? {
        Some(value) => Ok(plain_text(&value)),
        None => Err(format!("`{}` has no value", expression.source())),
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Self::parse(&source)
            .map_err(|e| de::Error::custom(format!("the template `{source}` is not valid: {e}")))
    }
}

impl JsonSchema for Template {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope::default().with("a", "x/y").with("n", 3).with("o", json!({"k": [1]})).with("e", "")
    }

    #[test]
    fn template_renders_text_values_and_paths() {
        let parse = |source: &str| Template::parse(source).unwrap();
        for (source, text, value) in [
            ("plain", "plain", json!("plain")),
            ("{{ a }}", "x/y", json!("x/y")),
            ("{{ n }}", "3", json!(3)),
            ("{{ o }}", r#"{"k":[1]}"#, json!({"k": [1]})),
            ("{{ a }}-{{ n + 1 }}", "x/y-4", json!("x/y-4")),
            ("{{ {'a': {'b': n}} }}", r#"{"a":{"b":3}}"#, json!({"a": {"b": 3}})),
            ("{{ '}}' }}", "}}", json!("}}")),
            ("{{ none }}", "null", json!(null)),
        ] {
            assert_eq!(parse(source).text(&scope()).unwrap(), text, "{source}");
            assert_eq!(parse(source).value(&scope()).unwrap(), Some(value), "{source}");
        }
        assert_eq!(parse("{{ missing }}").value(&scope()).unwrap(), None);
        assert!(parse("x{{ missing }}").text(&scope()).is_err());
        assert_eq!(parse("/j/{{ a }}").path(&scope()).unwrap(), "/j/x%2Fy");
        assert_eq!(parse("/j/{{ a | raw }}").path(&scope()).unwrap(), "/j/x/y");
        assert_eq!(parse("/j/{{ [a, '', n] | select | list }}/x").path(&scope()).unwrap(), "/j/x%2Fy/3/x");
        for empty in ["/j/{{ e }}", "/j/{{ [a, e] }}", "/j/{{ [] }}"] {
            assert!(parse(empty).path(&scope()).is_err(), "{empty}");
        }
        for wrong in ["{{ a", "{{ a | }}", "{% if a %}", "{{ a | nofilter }}", "{# x #}"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// The items of inner lists have their outer object. An object without the list, or no list at all, has none.
    #[test]
    fn inner_lists_become_one() {
        let services = json!([{"n": 1, "h": [{"m": 2}, 3]}, {"n": 4}, {"n": 5, "h": [{"m": 6}]}]);
        let scope = Scope::default().with("s", services);
        let eval = |source: &str| Expression::parse(source).unwrap().eval(&scope).unwrap().unwrap();
        let found = json!([{"m": 2, "outer": {"n": 1}}, 3, {"m": 6, "outer": {"n": 5}}]);
        assert_eq!(eval("s | unnest('h')"), found);
        assert_eq!(eval("missing | unnest('h')"), json!([]));
        assert_eq!(
            eval("['{\"a\": 1}' | maybe_json, '{oops' | maybe_json is defined]"),
            json!([{"a": 1}, false])
        );
    }

    /// The difference of two times, each in one of two notations. Without one of them, there is no value.
    #[test]
    fn seconds_lie_between_two_times() {
        let eval = |source: &str| Expression::parse(source).unwrap().eval(&scope());
        let from = "'2026-01-01T00:00:00Z' | seconds_until";
        for until in ["'2026-01-01T00:00:02.5Z'", "'2026-01-01T01:00:02.5+01:00'"] {
            assert_eq!(eval(&format!("{from}({until})")).unwrap(), Some(json!(2.5)), "{until}");
        }
        assert_eq!(eval(&format!("{from}('Thu, 01 Jan 2026 00:00:03 GMT')")).unwrap(), Some(json!(3.0)));
        assert_eq!(eval("missing | seconds_until('2026-01-01T00:00:00Z')").unwrap(), None);
        assert!(eval(&format!("{from}('soon')")).is_err());
    }

    /// No expression overflows the stack: the longest chains compile, and longer ones are refused.
    #[test]
    fn work_of_an_expression_is_bounded() {
        let sum = |count| vec!["n"; count].join("+");
        assert!(Expression::parse(&sum(1024)).unwrap().eval(&scope()).unwrap().is_some());
        for too_long in [sum(1025), "a".repeat(2049), "(".repeat(2000), "[".repeat(2000), "-".repeat(2000)] {
            assert!(Expression::parse(&too_long).is_err(), "{}", &too_long[..9]);
        }
        for deep in [
            "not ".repeat(500) + "n",
            "n".to_owned() + &"|int".repeat(500),
            "n".to_owned() + &".a".repeat(1000),
        ] {
            // Whether it has a value does not matter: it ends.
            let _ = Expression::parse(&deep).map(|deep| deep.eval(&scope()));
        }
    }
}
