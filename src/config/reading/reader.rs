//! [`Reader`]: deserializes parts of a file and collects all problems, so that one error does not hide the
//! next.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::parser_messages;
use super::problem::{Problem, Problems, unknown_name};
use super::source::{Source, join};
use super::sources::Sources;

/// Reads one file and collects its problems.
pub(in crate::config) struct Reader<'a> {
    source: &'a Source,
    problems: Vec<Problem>,
    sources: Sources,
    /// Digests of the files that were read, by field.
    contents: Vec<(String, u64)>,
    /// False if secrets are not read.
    pub(in crate::config) reveals_secrets: bool,
}

/// A parse error: the field within the parsed value, and a message.
pub(in crate::config) struct ParseError {
    field: String,
    message: String,
}

impl From<taskbridge_sdk::Problem> for ParseError {
    fn from(problem: taskbridge_sdk::Problem) -> Self {
        Self { field: problem.field, message: problem.message }
    }
}

impl<'a> Reader<'a> {
    pub(in crate::config) fn new(source: &'a Source) -> Self {
        Self {
            source,
            problems: Vec::new(),
            sources: Sources::default(),
            contents: Vec::new(),
            reveals_secrets: true,
        }
    }

    /// Records a problem of a field.
    pub(in crate::config) fn problem(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let field = field.into();
        let line = self.source.line(&field);
        let file = self.source.file(&field).to_owned();
        self.problems.push(Problem { file, line, field, message: message.into() });
    }

    /// Records a file before it is read, even if reading fails.
    pub(super) fn track_file(&mut self, file: &Path) {
        self.sources.add(file);
    }

    /// Records the content that was read for a field.
    pub(super) fn record_content(&mut self, field: &str, bytes: &[u8]) {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        self.contents.push((field.to_owned(), hasher.finish()));
    }

    /// Returns the files that the config refers to.
    pub(in crate::config) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the digests of the files that were read, by field.
    pub(in crate::config) fn contents(&self) -> &[(String, u64)] {
        &self.contents
    }

    /// Returns the line of a field.
    pub(in crate::config) fn line(&self, field: &str) -> Option<usize> {
        self.source.line(field)
    }

    /// Returns true if this field and its members have no problems so far.
    pub(in crate::config) fn is_clean(&self, field: &str) -> bool {
        !self.problems.iter().any(|problem| {
            problem
                .field
                .strip_prefix(field)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Returns the value, or all problems if there are any.
    pub(in crate::config) fn finish<T>(mut self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        self.problems.sort_by_key(|problem| (self.source.position(&problem.file), problem.line));
        self.problems.dedup();
        Err(Problems(self.problems))
    }

    /// Returns the members of a table. Another type is a problem and yields an empty table.
    pub(in crate::config) fn table(&mut self, field: &str, value: Option<Value>) -> Map<String, Value> {
        match value {
            None => Map::new(),
            Some(Value::Object(members)) => members,
            Some(other) => {
                self.problem(field, format!("{other} is not a table: write [{field}] above its fields"));
                Map::new()
            }
        }
    }

    /// Reports the remaining members of a table as unknown fields.
    pub(in crate::config) fn report_unknown_fields(
        &mut self,
        field: &str,
        remaining: &Map<String, Value>,
        known: &[&str],
    ) {
        for name in remaining.keys() {
            self.problem(join(field, name), unknown_name("field", name, known));
        }
    }

    /// Reads an optional table: the default if it is absent or cannot be read at all.
    pub(in crate::config) fn section<T: DeserializeOwned + Default>(
        &mut self,
        field: &str,
        value: Option<Value>,
    ) -> T {
        self.field(field, value).unwrap_or_default()
    }

    /// Reads an optional field. Returns `None` if it is absent or cannot be read at all; see [`Self::read`].
    pub(in crate::config) fn field<T: DeserializeOwned>(
        &mut self,
        field: &str,
        value: Option<Value>,
    ) -> Option<T> {
        self.read(field, value?)
    }

    /// Deserializes a part of the file. Returns `None` if it cannot be read at all. A value does not mean
    /// that the part is valid: errors are recorded, and their fields are omitted.
    pub(in crate::config) fn read<T: DeserializeOwned>(&mut self, field: &str, value: Value) -> Option<T> {
        self.read_with(field, value, |value| {
            serde_path_to_error::deserialize(value).map_err(|error| {
                let path = error.path().to_string();
                let field = if path == "." { String::new() } else { path };
                ParseError { field, message: error.into_inner().to_string() }
            })
        })
    }

    /// Parses a part of the file with a parser that stops at the first error. Each error is recorded and its
    /// field removed, and the rest is parsed again.
    pub(in crate::config) fn read_with<T>(
        &mut self,
        field: &str,
        mut value: Value,
        parse: impl Fn(&Value) -> Result<T, ParseError>,
    ) -> Option<T> {
        let mut removed = Removed::default();
        loop {
            let error = match parse(&value) {
                Ok(parsed) => return Some(parsed),
                Err(error) => error,
            };
            if !removed.explains(&error) {
                let path = match error.field.as_str() {
                    "" => field.to_owned(),
                    inner if inner.starts_with('[') => format!("{field}{inner}"),
                    inner => format!("{field}.{inner}"),
                };
                self.problem(path, parser_messages::of_value(&error.message));
            }
            removed.names.extend(parser_messages::intended_field(&error.message));
            removed.names.push(remove_field(&mut value, &error.field)?);
            removed.paths.push(error.field);
        }
    }
}

/// What was removed from a part of the file, so that the rest could be parsed.
#[derive(Default)]
struct Removed {
    paths: Vec<String>,
    /// The names of these fields, and of those that a typo meant.
    names: Vec<String>,
}

impl Removed {
    /// Returns true if an error is about the absence of what was removed. It is no further error, also where
    /// another field could be in its place.
    fn explains(&self, error: &ParseError) -> bool {
        let message = error.message.as_str();
        let missing = ["missing field ", "must have "].iter().find_map(|start| message.strip_prefix(start));
        if let Some(missing) = missing {
            return self.names.iter().any(|name| missing.contains(&format!("`{name}`")));
        }
        // A name in a template, such as `handle.run`.
        let undefined = message.strip_prefix('`').and_then(|rest| rest.split_once("` is always undefined"));
        if let Some((name, _)) = undefined {
            return name.split('.').any(|part| self.names.iter().any(|removed| removed == part));
        }
        // A table that lost a member needs none, and no other table that belongs to it.
        let is_part = |path: &String| {
            path.strip_prefix(&error.field)
                .is_some_and(|rest| matches!(rest.chars().next(), None | Some('.')))
        };
        (message.starts_with("needs ") || message.contains("belong together"))
            && self.paths.iter().any(is_part)
    }
}

/// Removes the innermost table member on a path, and returns its name.
fn remove_field(value: &mut Value, path: &str) -> Option<String> {
    // Array items are not removed, so that the other indexes stay valid: the whole array is removed.
    let mut path = path;
    while path.ends_with(']') {
        path = &path[..path.rfind('[')?];
    }
    let mut steps: Vec<&str> = path.split(['.', '[']).collect();
    let last = steps.pop().filter(|last| !last.is_empty() && !last.ends_with(']'))?;
    let mut current = value;
    for step in steps {
        current = match step.strip_suffix(']') {
            Some(index) => current.get_mut(index.parse::<usize>().ok()?)?,
            None => current.get_mut(step)?,
        };
    }
    current.as_object_mut()?.remove(last)?;
    Some(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;
    use std::path::Path;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only that it can be read matters")]
    struct Shape {
        size: u32,
        #[serde(default)]
        names: Vec<String>,
        #[serde(default)]
        inner: BTreeMap<String, Inner>,
        #[serde(default)]
        list: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only that it can be read matters")]
    struct Inner {
        on: bool,
    }

    fn problems(text: &str) -> String {
        let source = Source::parse(Path::new("x.toml"), text).unwrap();
        let mut reader = Reader::new(&source);
        let read = reader.field::<Shape>("part", source.fields.get("part").cloned());
        let clean = read.is_some();
        reader.finish(clean).map_or_else(|problems| problems.to_string(), |clean| clean.to_string())
    }

    /// An invalid field does not hide the errors after it.
    #[test]
    fn config_errors_are_reported_together() {
        assert_eq!(
            problems(
                "[part]\nsize = \"x\"\nnames = [\"a\", 2]\nsiez = 1\ncolour = 2\n[part.inner.a]\non = 1\n\
                 [part.inner.b]\noff = 1\n[[part.list]]\non = true\n[[part.list]]\non = 3\n"
            ),
            "x.toml:2: part.size: a string is not valid: write a whole number from 0 to 4294967295\n\
             x.toml:3: part.names[1]: 2 is not valid: write a string in quotes\n\
             x.toml:4: part.siez: unknown field `siez`; did you mean `size`? (known: `size`, `names`, `inner`, `list`)\n\
             x.toml:5: part.colour: unknown field `colour` (known: `size`, `names`, `inner`, `list`)\n\
             x.toml:7: part.inner.a.on: 1 is not valid: write true or false\n\
             x.toml:9: part.inner.b.off: unknown field `off` (known: `on`)\n\
             x.toml:13: part.list[1].on: 3 is not valid: write true or false"
        );
        assert_eq!(problems("[part]\nsize = 1\n"), "true");
    }
}
