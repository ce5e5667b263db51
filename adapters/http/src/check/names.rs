//! Members that nothing has, in templates and expressions: a misspelt `handle.run` would be undefined at every
//! call. Offline, so it knows no member of a reply. It must not judge whether a template is valid.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use taskbridge_sdk::Problem;

use crate::language::{Expression, Template};

/// Names that a template or an expression may begin with, and that have members.
const ROOTS: [&str; 9] =
    ["body", "detail", "handle", "headers", "item", "more", "target", "taskbridge", "vars"];

/// Fields without templates and expressions. Some have secrets.
const LITERALS: [&str; 21] = [
    "about",
    "also",
    "as",
    "auth",
    "base",
    "ca_file",
    "call_timeout",
    "client_certificate",
    "hook",
    "identity",
    "lag",
    "method",
    "offset",
    "once",
    "page",
    "per_caller",
    "preset",
    "proxy",
    "recorded",
    "states",
    "vars",
];

/// Parts of a request. Their texts are templates.
const REQUEST: [&str; 7] = ["form", "graphql", "headers", "json", "multipart", "path", "query"];

/// Checks the fields of a backend, after those of its preset are merged.
///
/// # Errors
/// The first name that nothing has.
pub(crate) fn check(fields: &Value) -> Result<(), Problem> {
    let members = Members::of(fields);
    let mut unset = BTreeSet::new();
    members.collect_unset(fields, &mut unset);
    if let Some(first) = unset.first() {
        let message = format!("needs {}: a path has `{{{{ vars.{first} }}}}`", quoted(unset.iter()));
        return Err(Problem { field: "vars".to_owned(), message });
    }
    fields.as_object().into_iter().flatten().filter(|(name, _)| *name != "target").try_for_each(
        |(name, value)| {
            let sees_arguments = matches!(&**name, "start" | "find");
            members.check_field(name, name, value, Place { is_template: false, sees_arguments })
        },
    )
}

/// The members that names have, as far as a config defines them.
struct Members<'a> {
    handle: BTreeSet<&'a str>,
    more: BTreeSet<&'a str>,
    target: BTreeSet<&'a str>,
    vars: BTreeSet<&'a str>,
}

/// Where a text is.
#[derive(Clone, Copy)]
struct Place {
    /// A text without braces is literal.
    is_template: bool,
    /// A name may be one of an argument.
    sees_arguments: bool,
}

impl<'a> Members<'a> {
    fn of(fields: &'a Value) -> Self {
        let handles = [("start", "handle"), ("find", "handle"), ("observe", "rename")];
        let handle = handles
            .into_iter()
            .flat_map(|(table, name)| tables(&fields[table]).flat_map(move |table| keys(table.get(name))));
        Self {
            handle: handle.collect(),
            more: tables(&fields["more"]).filter_map(|more| more.get("as")?.as_str()).collect(),
            target: keys(fields.get("target")).collect(),
            vars: keys(fields.get("vars")).collect(),
        }
    }

    fn check_field(&self, field: &str, name: &str, value: &Value, place: Place) -> Result<(), Problem> {
        if LITERALS.contains(&name) || field.ends_with("graphql.query") {
            return Ok(());
        }
        let is_template = place.is_template || REQUEST.contains(&name);
        match value {
            Value::Object(object) => object.iter().try_for_each(|(name, value)| {
                self.check_field(&format!("{field}.{name}"), name, value, Place { is_template, ..place })
            }),
            Value::Array(items) => items.iter().enumerate().try_for_each(|(n, item)| {
                self.check_field(&format!("{field}[{n}]"), name, item, Place { is_template, ..place })
            }),
            Value::String(text) => {
                let problem = |message: String| Problem { field: field.to_owned(), message };
                let sees_arguments = place.sees_arguments && is_template;
                let unknown =
                    names(text, is_template).iter().find_map(|name| self.unknown(name, sees_arguments));
                unknown.map(problem).map_or(Ok(()), Err)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// Returns what is wrong with a name such as `handle.run`.
    fn unknown(&self, name: &str, sees_arguments: bool) -> Option<String> {
        let (root, rest) = name.split_once('.')?;
        let member = rest.split('.').next().unwrap_or_default();
        let (known, place) = match root {
            "handle" => {
                (&self.handle, "the members of `start.handle`, `find.handle` and `observe.rename` are")
            }
            "more" => (&self.more, "the names of the tables `more` are"),
            "target" => (&self.target, "the fields of `target` are"),
            _ => {
                let is_near = |known: &&&str| !sees_arguments && strsim::damerau_levenshtein(root, known) < 2;
                let near = ROOTS.iter().find(is_near).filter(|near| **near != root)?;
                return Some(format!("`{name}` is always undefined: did you mean `{near}.{rest}`?"));
            }
        };
        // That `start.handle` is missing is reported elsewhere.
        if known.contains(member) || (root == "handle" && known.is_empty()) {
            return None;
        }
        let list = if known.is_empty() { "none".to_owned() } else { quoted(known.iter()) };
        Some(format!("`{root}.{member}` is always undefined: {place} {list}"))
    }

    /// Collects the members of `vars` that a path needs and that are not set. Elsewhere, a template may be
    /// left out.
    fn collect_unset(&self, value: &'a Value, unset: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(name, value)| match value {
                Value::String(path) if name == "path" => {
                    let values = path.split("{{").skip(1).filter_map(|part| part.split("}}").next());
                    let names = values.filter_map(|value| value.trim().strip_prefix("vars."));
                    unset.extend(names.filter(|name| is_name(name) && !self.vars.contains(name)));
                }
                value => self.collect_unset(value, unset),
            }),
            Value::Array(items) => items.iter().for_each(|item| self.collect_unset(item, unset)),
            _ => {}
        }
    }
}

fn quoted(names: impl Iterator<Item = impl std::fmt::Display>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the names of a text, with their attributes. A text that is not valid has none.
fn names(text: &str, is_template: bool) -> BTreeSet<String> {
    match (text.contains("{{"), is_template) {
        (true, _) => Template::parse(text).map(|template| template.names()).unwrap_or_default(),
        (false, true) => BTreeSet::new(),
        (false, false) => Expression::parse(text).map(|expression| expression.names()).unwrap_or_default(),
    }
}

/// Returns one table, or the tables of a list.
fn tables(value: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().filter_map(Value::as_object)
}

fn keys(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_object).into_iter().flat_map(|object| object.keys().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields() -> Value {
        json!({
            "identity": "bod.example.com",
            "target": { "job": {} },
            "vars": { "space": "a" },
            "start": {
                "path": "/spaces/{{ vars.space }}/{{ target.job }}",
                "json": { "bodys": "{{ bodys.x }}", "text": "handle.text" },
                "handle": { "run": "body.id" },
            },
            "observe": [{ "path": "/runs/{{ handle.run }}", "state": "body.state", "rename": { "build": "body.build" } }],
            "more": [{ "as": "steps", "path": "/builds/{{ handle.build }}", "if": "handle.build is defined" }],
            "cancel": { "path": "/{{ handle.run }}", "query": { "of": "{{ vars.other }}", "fields": "items.x" } },
        })
    }

    #[test]
    fn names_of_config_are_known() {
        assert_eq!(check(&fields()), Ok(()));
    }

    #[test]
    fn misspelt_names_are_found() {
        for (pointer, text, field, message) in [
            (
                "/start/handle/run",
                "bdy.id",
                "start.handle.run",
                "`bdy.id` is always undefined: did you mean `body.id`?",
            ),
            (
                "/cancel/path",
                "/{{ handle.no }}",
                "cancel.path",
                "`handle.no` is always undefined: the members of `start.handle`, `find.handle` and `observe.rename` are `build`, `run`",
            ),
            (
                "/observe/0/state",
                "more.step.x",
                "observe[0].state",
                "`more.step` is always undefined: the names of the tables `more` are `steps`",
            ),
            (
                "/start/json/text",
                "{{ target.jobs }}",
                "start.json.text",
                "`target.jobs` is always undefined: the fields of `target` are `job`",
            ),
            (
                "/observe/0/path",
                "/{{ vars.spaces }}/{{ vars.area }}",
                "vars",
                "needs `area`, `spaces`: a path has `{{ vars.area }}`",
            ),
        ] {
            let mut fields = fields();
            *fields.pointer_mut(pointer).unwrap() = text.into();
            let problem = Problem { field: field.to_owned(), message: message.to_owned() };
            assert_eq!(check(&fields), Err(problem));
        }
    }
}
