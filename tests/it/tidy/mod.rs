//! Checks the conventions that ARCHITECTURE.md promises, by reading the source as text. It must not judge
//! behaviour. Each violation is reported with its file and line.

mod adapters;
mod changed;
mod dependencies;
mod named_tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The adapters, in the order of the columns of adapters/README.md.
const ADAPTERS: [&str; 6] = ["local", "slurm", "step-functions", "github-actions", "http", "process"];

/// A source file, with its path relative to the root.
struct Source {
    path: String,
    text: String,
    /// True if the file exists only in tests.
    is_test: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let mut files = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut files);
    }
    files.sort();
    let read = |file: PathBuf| {
        let path = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let is_test = path.starts_with("tests/") || path.contains("/tests/");
        Source { path, text: fs::read_to_string(file).unwrap(), is_test }
    };
    let mut all: Vec<Source> = files.into_iter().map(read).collect();
    let test_modules: Vec<String> = all.iter().flat_map(Source::test_modules).collect();
    for source in &mut all {
        let declared = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.is_test |= test_modules.iter().any(declared);
    }
    all
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

impl Source {
    /// Returns the text before a trailing test module.
    fn before_tests(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// Returns the numbered lines that are neither comments nor in a trailing test module.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.before_tests().lines().enumerate().map(|(at, line)| (at + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Returns the modules in `#[cfg(test)] mod name;`, as paths without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        let path = self.path.trim_end_matches(".rs");
        let folder = match path.rsplit_once('/') {
            Some((folder, "mod" | "lib" | "main")) => folder,
            _ => path,
        };
        let declarations = self.text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
            let declaration = rest.lines().find(|line| !line.starts_with("#["))?.strip_suffix(';')?;
            Some(declaration.rsplit_once("mod ")?.1)
        });
        declarations.map(|name| format!("{folder}/{name}")).collect()
    }
}

/// Returns every line of the files under `folders` that contains one of `patterns`, except in files
/// that `allowed` names.
fn violations(folders: &[&str], patterns: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources(folders) {
        if source.is_test || allowed.iter().any(|prefix| source.path.starts_with(prefix)) {
            continue;
        }
        for (line, text) in source.code() {
            if patterns.iter().any(|pattern| text.contains(pattern)) {
                found.push(format!("{}:{line}: {}", source.path, text.trim()));
            }
        }
    }
    found
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn every_file_has_module_docs() {
    let undocumented: Vec<_> =
        sources(&["src", "crates", "adapters", "tests", "examples", "benches", "fuzz"])
            .into_iter()
            .filter(|source| !source.text.starts_with("//!"))
            .map(|source| source.path)
            .collect();
    assert_none("files that do not open with `//!`", &undocumented);
}

#[test]
fn files_stay_readable() {
    let all = sources(&["src", "crates", "adapters"]);
    let mut lengths: Vec<(usize, &str)> = all
        .iter()
        .filter(|source| !source.is_test)
        .map(|source| (source.before_tests().lines().count(), &*source.path))
        .collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2].0;
    let (longest, path) = lengths[lengths.len() - 1];
    assert!(longest <= 600, "{path} has {longest} lines: what second thing does it do?");
    assert!(median <= 180, "the median file has {median} lines");
}

/// A link in a comment names something that the code has. Rustdoc checks links more exactly, but not those of
/// tests and of comments that are no documentation.
#[test]
fn links_in_comments_name_code() {
    let sources = sources(&["src", "crates", "adapters", "tests", "examples", "benches", "fuzz"]);
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let code = sources.iter().flat_map(|source| source.text.lines()).filter(|line| !is_comment(line));
    let words: BTreeSet<&str> =
        code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let mut found = Vec::new();
    for source in &sources {
        for (at, line) in source.text.lines().enumerate().filter(|(_, line)| is_comment(line)) {
            for link in
                line.split("[`").skip(1).filter_map(|rest| rest.split_once("`]")).map(|(link, _)| link)
            {
                let name = link.split("::").last().unwrap_or_default();
                let name = name.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
                if !words.contains(name) {
                    found.push(format!("{}:{}: `{link}`", source.path, at + 1));
                }
            }
        }
    }
    assert_none("links to names that the code does not have", &found);
}

/// The console escapes all text: nothing becomes markup by another way than `maud`'s own.
#[test]
fn console_escapes_everything() {
    let patterns = ["PreEscaped", "preescaped", "inner_html", "Markup::from"];
    assert_none("markup that is not escaped", &violations(&["src"], &patterns, &[]));
}

/// No file contains a mark for later work, an unimplemented function or an ignored test.
#[test]
fn sources_contain_no_unfinished_work() {
    let patterns = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "#[ignore"];
    let mut found = Vec::new();
    for source in sources(&["src", "crates", "adapters", "tests", "examples", "benches", "fuzz"]) {
        if source.path == "tests/it/tidy/mod.rs" {
            continue;
        }
        for (at, line) in source.text.lines().enumerate() {
            if patterns.iter().any(|pattern| line.contains(pattern)) {
                found.push(format!("{}:{}: {}", source.path, at + 1, line.trim()));
            }
        }
    }
    assert_none("unfinished work", &found);
}
