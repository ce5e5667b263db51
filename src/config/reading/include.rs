//! `include`: reads the other files that a config file names, and joins their fields. The number of files,
//! their size and their depth are limited. It must not know what the fields mean.

use std::path::{Path, PathBuf};

use glob::Pattern;
use serde_json::Value;

use super::files::load_file;
use super::problem::{Problem, Problems};
use super::source::Source;
use super::sources::{MAX_FILES, Sources, matching_files};

/// The field.
const FIELD: &str = "include";

/// Maximum number of files that include each other in a row.
const MAX_DEPTH: usize = 8;

/// Parses the text of a config file, and of all files that it includes. `dir` is the folder of the file. The
/// included files are added to `sources`.
///
/// # Errors
/// If a file cannot be read or is not valid TOML, or if two files define the same field: all such problems.
pub(in crate::config) fn load(
    file: &Path,
    dir: &Path,
    text: &str,
    sources: &mut Sources,
) -> Result<Source, Problems> {
    let mut loader = Loader { sources, read: Vec::new(), chain: Vec::new(), problems: Vec::new() };
    let identity = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let source = loader.load(file, dir, text, identity)?;
    if loader.problems.is_empty() { Ok(source) } else { Err(Problems(loader.problems)) }
}

struct Loader<'a> {
    sources: &'a mut Sources,
    /// All files that were read.
    read: Vec<PathBuf>,
    /// The file that is being read, after the files that include it.
    chain: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl Loader<'_> {
    fn load(&mut self, file: &Path, dir: &Path, text: &str, identity: PathBuf) -> Result<Source, Problems> {
        let mut source = Source::parse(file, text)?;
        let Some(value) = source.fields.remove(FIELD) else { return Ok(source) };
        self.read.push(identity.clone());
        self.chain.push(identity);
        for (field, pattern) in self.patterns(&source, value) {
            for path in self.matches(&source, &field, dir, &pattern) {
                if let Some(included) = self.include(&source, &field, path) {
                    self.problems.extend(source.merge(included));
                }
            }
        }
        self.chain.pop();
        Ok(source)
    }

    fn problem(&mut self, source: &Source, field: &str, message: String) {
        let (file, line) = (source.file(field).to_owned(), source.line(field));
        self.problems.push(Problem { file, line, field: field.to_owned(), message });
    }

    /// Returns the patterns of the field, each with its own field.
    fn patterns(&mut self, source: &Source, value: Value) -> Vec<(String, String)> {
        let Value::Array(items) = value else {
            self.problem(source, FIELD, format!("{value} is not a list: write [\"*.toml\"]"));
            return Vec::new();
        };
        let mut patterns = Vec::new();
        for (n, item) in items.into_iter().enumerate() {
            let field = format!("{FIELD}[{n}]");
            match item {
                Value::String(text) if !text.is_empty() => patterns.push((field, text)),
                other => self.problem(source, &field, format!("{other} is not a path: write \"*.toml\"")),
            }
        }
        patterns
    }

    /// Returns the files of a pattern. A pattern without wildcards must name a file.
    fn matches(&mut self, source: &Source, field: &str, dir: &Path, pattern: &str) -> Vec<PathBuf> {
        if !pattern.contains(['*', '?', '[']) {
            return vec![dir.join(pattern)];
        }
        if pattern.contains("**") {
            let message =
                format!("\"{pattern}\": ** is not supported: name each folder, such as \"tools/*.toml\"");
            self.problem(source, field, message);
            return Vec::new();
        }
        let absolute = match Path::new(pattern).is_absolute() {
            true => pattern.to_owned(),
            false => format!("{}/{pattern}", Pattern::escape(&dir.to_string_lossy())),
        };
        self.sources.add_pattern(&absolute);
        let this_file = self.chain.last().cloned();
        match matching_files(&absolute) {
            // `*.toml` matches the file that it is written in, too.
            Ok(paths) => {
                paths.into_iter().filter(|path| std::fs::canonicalize(path).ok() != this_file).collect()
            }
            Err(message) => {
                self.problem(source, field, format!("\"{pattern}\": {message}"));
                Vec::new()
            }
        }
    }

    /// Reads an included file. Returns `None` if it was read before, or has a problem.
    fn include(&mut self, source: &Source, field: &str, path: PathBuf) -> Option<Source> {
        self.sources.add(&path);
        let identity = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let shown = path.display();
        if self.chain.contains(&identity) {
            let message =
                format!("{shown} includes this file, itself or through others: remove one of the two");
            self.problem(source, field, message);
            return None;
        }
        if self.read.contains(&identity) {
            return None;
        }
        if self.read.len() >= MAX_FILES {
            self.problem(source, field, format!("too many files: the limit of a config is {MAX_FILES}"));
            return None;
        }
        if self.chain.len() >= MAX_DEPTH {
            let message =
                format!("{shown}: too deep: the limit is {MAX_DEPTH} files that include each other");
            self.problem(source, field, message);
            return None;
        }
        let text = load_file(&path).and_then(|file| {
            String::from_utf8(file.bytes).map_err(|_| format!("{shown} is not text in UTF-8"))
        });
        let text = match text {
            Ok(text) => text,
            Err(message) => {
                self.problem(source, field, message);
                return None;
            }
        };
        if !self.read.contains(&identity) {
            self.read.push(identity.clone());
        }
        let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
        match self.load(&path, &dir, &text, identity) {
            Ok(included) => Some(included),
            Err(Problems(problems)) => {
                self.problems.extend(problems);
                None
            }
        }
    }
}
