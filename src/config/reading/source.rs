//! Parses a TOML file into JSON, with the line of every field. It must not know what the fields mean.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::parser_messages;
use super::problem::{Problem, Problems};

/// A file that is valid TOML, with the files that it includes.
pub(in crate::config) struct Source {
    /// The file, then those that it includes.
    files: Vec<PathBuf>,
    /// The fields of all files.
    pub(in crate::config) fields: Map<String, Value>,
    lines: HashMap<String, Location>,
}

/// The location of a field.
#[derive(Clone, Copy)]
struct Location {
    /// The index of the file.
    file: usize,
    /// The line, from 1.
    line: usize,
}

impl Source {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// If the text is not valid TOML: all its errors.
    pub(in crate::config) fn parse(file: &Path, text: &str) -> Result<Self, Problems> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut parser = Parser { file, text, lines: HashMap::new(), problems: Vec::new() };
        for error in errors {
            if error.message().starts_with("duplicate key") {
                // The fields that were read so far contain the first of the two.
                if parser.lines.is_empty() {
                    parser.table("", table.get_ref());
                }
                parser.report_duplicate_key(error.span());
                continue;
            }
            // For an empty value, the parser reports an unquoted string.
            let is_empty_value =
                error.span().and_then(|span| text.get(span)).is_some_and(|value| value.trim().is_empty());
            let message = match is_empty_value && error.message().starts_with("string values must be quoted")
            {
                true => parser_messages::of_toml("missing value"),
                false => parser_messages::of_toml(error.message()),
            };
            let message = format!("not valid TOML: {message}");
            parser.problem("", error.span(), message);
        }
        if !parser.problems.is_empty() {
            return Err(Problems(parser.problems));
        }
        let fields = parser.table("", table.get_ref());
        if parser.problems.is_empty() {
            let lines = parser.lines.into_iter().map(|(field, line)| (field, Location { file: 0, line }));
            Ok(Self { files: vec![file.to_owned()], fields, lines: lines.collect() })
        } else {
            Err(Problems(parser.problems))
        }
    }

    /// Creates a source without a file or fields. `origin` names it in messages.
    pub(in crate::config) fn without_file(origin: String) -> Self {
        Self { files: vec![PathBuf::from(origin)], fields: Map::new(), lines: HashMap::new() }
    }

    /// Returns the line of a field, or of its closest parent.
    pub(super) fn line(&self, field: &str) -> Option<usize> {
        self.location(field).map(|location| location.line)
    }

    /// Returns the file of a field: the main file if the field is not in any.
    pub(super) fn file(&self, field: &str) -> &Path {
        &self.files[self.location(field).map_or(0, |location| location.file)]
    }

    /// Returns the index of a file, in the order in which the files were read.
    pub(super) fn position(&self, file: &Path) -> usize {
        self.files.iter().position(|known| known == file).unwrap_or(0)
    }

    fn location(&self, field: &str) -> Option<Location> {
        let mut path = field;
        loop {
            if let Some(location) = self.lines.get(path) {
                return Some(*location);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Adds the fields of an included file. Tables are joined, and lists of tables are appended. Returns a
    /// problem for each field that both define.
    pub(super) fn merge(&mut self, other: Source) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut shifts: Vec<(String, usize)> = Vec::new();
        for (table, value) in &other.fields {
            let mut defined_twice = |field: &str| {
                let first = self.file(field).display();
                let message = match self.line(field) {
                    Some(line) => {
                        format!("defined twice, first in {first}:{line}: merge both, or remove one")
                    }
                    None => format!("defined twice, first in {first}: merge both, or remove one"),
                };
                let (file, line) = (other.file(field).to_owned(), other.line(field));
                problems.push(Problem { file, line, field: field.to_owned(), message });
            };
            match (self.fields.get(table), value) {
                (None, _) => {}
                (Some(Value::Object(mine)), Value::Object(members)) => {
                    for name in members.keys().filter(|name| mine.contains_key(*name)) {
                        defined_twice(&join(table, name));
                    }
                }
                (Some(Value::Array(mine)), Value::Array(_)) => shifts.push((table.clone(), mine.len())),
                _ => defined_twice(table),
            }
        }
        for (table, value) in other.fields {
            match (self.fields.get_mut(&table), value) {
                (Some(Value::Object(mine)), Value::Object(members)) => mine.extend(members),
                (Some(Value::Array(mine)), Value::Array(items)) => mine.extend(items),
                (Some(_), _) => {}
                (None, value) => drop(self.fields.insert(table, value)),
            }
        }
        let offset = self.files.len();
        self.files.extend(other.files);
        for (field, Location { file, line }) in other.lines {
            let shift = shifts.iter().find_map(|(table, shift)| shifted(&field, table, *shift));
            let location = Location { file: offset + file, line };
            self.lines.entry(shift.unwrap_or(field)).or_insert(location);
        }
        problems
    }
}

/// Returns `table[3].name` for `table[1].name` and a shift of 2; `None` for another table.
fn shifted(field: &str, table: &str, shift: usize) -> Option<String> {
    let (index, rest) = field.strip_prefix(table)?.strip_prefix('[')?.split_once(']')?;
    Some(format!("{table}[{}]{rest}", index.parse::<usize>().ok()? + shift))
}

/// Returns the path of a member: `parent.key`.
pub(in crate::config) fn join(parent: &str, key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let key = if is_bare { key.to_owned() } else { Value::from(key).to_string() };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

struct Parser<'a> {
    file: &'a Path,
    text: &'a str,
    lines: HashMap<String, usize>,
    problems: Vec<Problem>,
}

impl Parser<'_> {
    fn problem(&mut self, field: &str, span: Option<Range<usize>>, message: String) {
        let line = span.map(|span| self.line(span.start));
        self.problems.push(Problem { file: self.file.to_owned(), line, field: field.to_owned(), message });
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Reports a duplicate key, with the line of its first occurrence.
    fn report_duplicate_key(&mut self, span: Option<Range<usize>>) {
        let line = span.clone().map_or(1, |span| self.line(span.start));
        let key = span.and_then(|span| self.text.get(span)).unwrap_or_default().trim();
        let field = self.path_of(line, key);
        let line_text = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        let is_same_header = |other: &str| line_text.starts_with('[') && other.trim() == line_text;
        let header = self.text.lines().position(is_same_header).map(|at| at + 1);
        let first = header.or_else(|| self.lines.get(&field).copied());
        let message = match first {
            Some(first) if first != line => {
                format!("defined twice, first in line {first}: merge both, or remove one")
            }
            _ => format!("`{key}` is defined twice: merge both, or remove one"),
        };
        self.problems.push(Problem { file: self.file.to_owned(), line: Some(line), field, message });
    }

    /// Returns the path of a key in this line, from the table header above it.
    fn path_of(&self, line: usize, key: &str) -> String {
        let lines_above: Vec<&str> = self.text.lines().take(line).map(str::trim).collect();
        let Some(header_index) = lines_above.iter().rposition(|line| line.starts_with('[')) else {
            return key.to_owned();
        };
        let header = lines_above[header_index].split('#').next().unwrap_or_default().trim();
        let name = header.trim_matches(['[', ']']).trim();
        let path = match header.starts_with("[[") {
            true => format!(
                "{name}[{}]",
                lines_above[..header_index].iter().filter(|line| line.starts_with(header)).count()
            ),
            false => name.to_owned(),
        };
        if header_index + 1 == line { path } else { format!("{path}.{key}") }
    }

    fn table(&mut self, path: &str, table: &DeTable<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        for (key, value) in table {
            let path = join(path, key.get_ref());
            let line = self.line(key.span().start);
            self.lines.insert(path.clone(), line);
            let value = self.value(&path, value);
            members.insert(key.get_ref().to_string(), value);
        }
        members
    }

    fn value(&mut self, path: &str, value: &Spanned<DeValue<'_>>) -> Value {
        match value.get_ref() {
            DeValue::String(text) => Value::from(text.as_ref()),
            DeValue::Boolean(boolean) => Value::from(*boolean),
            DeValue::Datetime(datetime) => Value::from(datetime.to_string()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => Value::from(number),
                Err(_) => {
                    let message = format!("{integer} is not a whole number of 64 bits");
                    self.problem(path, Some(value.span()), message);
                    Value::Null
                }
            },
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Value::from(number),
                _ => {
                    self.problem(path, Some(value.span()), format!("{float} is not a finite number"));
                    Value::Null
                }
            },
            DeValue::Array(items) => {
                let mut array = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    let line = self.line(item.span().start);
                    self.lines.insert(path.clone(), line);
                    array.push(self.value(&path, item));
                }
                Value::Array(array)
            }
            DeValue::Table(table) => Value::Object(self.table(path, table)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_has_its_line() {
        let text = "a = 1\n[b]\nc = [\n  1,\n  { d = 0x1f },\n]\n[b.\"e f\"]\ng = 1.5\n[[k]]\nx = true\n[[k]]\nx = 1979-05-27\n";
        let source = Source::parse(Path::new("x.toml"), text).unwrap();
        assert_eq!(
            Value::Object(source.fields.clone()),
            json!({"a": 1, "b": {"c": [1, {"d": 31}], "e f": {"g": 1.5}}, "k": [{"x": true}, {"x": "1979-05-27"}]})
        );
        for (field, line) in [
            ("a", Some(1)),
            ("b", Some(2)),
            ("b.c", Some(3)),
            ("b.c[1]", Some(5)),
            ("b.c[1].d", Some(5)),
            ("b.c[1].none", Some(5)),
            ("b.\"e f\".g", Some(8)),
            ("k[1].x", Some(12)),
            ("none", None),
        ] {
            assert_eq!(source.line(field), line, "{field}");
        }
    }

    /// Syntax errors and unsupported numbers are reported with lines or fields.
    #[test]
    fn toml_errors_name_their_lines() {
        let problems = Source::parse(Path::new("x.toml"), "a = \nb = 1\nc = nope\n").err().unwrap();
        let lines: Vec<_> = problems.0.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(1), Some(3)]);
        assert!(problems.0.iter().all(|problem| problem.message.starts_with("not valid TOML: ")));
        let problems = Source::parse(Path::new("x.toml"), "a = nan\nb = 9223372036854775808").err().unwrap();
        let text = problems.to_string();
        assert_eq!(
            text,
            "x.toml:1: a: nan is not a finite number\n\
             x.toml:2: b: 9223372036854775808 is not a whole number of 64 bits"
        );
    }
}
