//! Checks the module dependencies and conventions that ARCHITECTURE.md promises, by reading the source as
//! text. It must not judge behaviour. Each violation is reported with its file and line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod adapters;

/// A source file, with its path relative to the root.
struct Source {
    path: String,
    text: String,
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
        Source { path, text: fs::read_to_string(file).unwrap() }
    };
    files.into_iter().map(read).collect()
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
    /// Returns the numbered lines that are neither comments nor in a trailing test module.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line));
        // `#[cfg(test)] mod name;` names a test module, and the code continues.
        let test_items = self.text.lines().skip(1).chain([""]).map(|line| !line.ends_with(';'));
        lines
            .zip(test_items)
            .take_while(|((_, line), is_block)| !(line.starts_with("#[cfg(test)]") && *is_block))
            .map(|(line, _)| line)
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.contains("/tests/") || self.path.ends_with("tests.rs")
    }
}

/// Returns every line of the files under `folder` that contains one of `patterns`, except in files
/// that `allowed` names.
fn violations(folder: &str, patterns: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources(&[folder]) {
        if source.is_test() || allowed.iter().any(|prefix| source.path.starts_with(prefix)) {
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

/// The modules of the server, and the modules that each may use: a top-level module with all of its
/// contents, or one inside a module.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 22] = [
    ("src/clock.rs", &[]),
    ("src/tasks", &["tasks", "clock"]),
    ("src/sessions", &["sessions", "tasks", "clock"]),
    // The last two are the macros by which a store runs the suite.
    ("src/store", &["store", "sessions", "tasks", "clock", "store_suite", "shared_store_suite"]),
    ("src/seal.rs", &["clock", "current"]),
    ("src/auth", &["auth", "tasks", "clock"]),
    ("src/access", &["access", "auth", "tasks"]),
    ("src/current.rs", &[]),
    ("src/offload.rs", &[]),
    ("src/catalog", &["catalog", "access", "auth", "seal", "clock", "current", "offload", "tasks"]),
    ("src/notify", &["notify", "clock", "tasks"]),
    ("src/trace.rs", &[]),
    ("src/metrics", &["metrics", "clock", "sessions", "tasks", "trace"]),
    ("src/audit", &["audit", "auth", "seal", "clock", "tasks"]),
    ("src/limits", &["limits", "auth", "tasks"]),
    // The modules of the protocol, from below. A generation does not use another one.
    ("src/mcp/wire", &["mcp::wire", "catalog", "seal", "clock", "tasks"]),
    ("src/mcp/session", &["mcp::wire", "mcp::session", "auth", "seal", "clock", "sessions", "tasks"]),
    (
        "src/mcp/features",
        &[
            "mcp::wire",
            "mcp::session",
            "mcp::features",
            "mcp::Bridge",
            "mcp::Settings",
            "mcp::CompanionTools",
            "audit",
            "catalog",
            "access",
            "auth",
            "limits",
            "seal",
            "clock",
            "current",
            "metrics",
            "tasks",
            "trace",
        ],
    ),
    (
        "src/mcp/dialect/v2025_11_25",
        &[
            "mcp::wire",
            "mcp::session",
            "mcp::features",
            "mcp::dialect::v2025_11_25",
            "mcp::Bridge",
            "audit",
            "catalog",
            "auth",
            "seal",
            "clock",
            "sessions",
            "tasks",
        ],
    ),
    (
        "src/mcp/dialect/v2026_07_28",
        &[
            "mcp::wire",
            "mcp::session",
            "mcp::features",
            "mcp::dialect::v2026_07_28",
            "mcp::Bridge",
            "audit",
            "catalog",
            "auth",
            "seal",
            "clock",
            "sessions",
            "tasks",
        ],
    ),
    (
        "src/mcp",
        &[
            "mcp", "audit", "catalog", "access", "auth", "limits", "seal", "clock", "current", "offload",
            "metrics", "sessions", "tasks", "trace",
        ],
    ),
    // Like any other client, it shares only the envelopes and the names of revisions.
    ("src/client", &["clock", "mcp::wire::jsonrpc", "mcp::wire::revision"]),
];

/// A module uses only the modules that the map in ARCHITECTURE.md allows.
#[test]
fn modules_follow_dependency_map() {
    let mut found = Vec::new();
    for source in sources(&["src"]) {
        let Some((_, allowed)) =
            ALLOWED_DEPENDENCIES.iter().find(|(prefix, _)| source.path.starts_with(prefix))
        else {
            continue;
        };
        if source.is_test() {
            continue;
        }
        for (line, text) in source.code() {
            for path in text.split("crate::").skip(1) {
                let module: String =
                    path.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
                let is_within = |prefix: &&str| format!("{module}::").starts_with(&format!("{prefix}::"));
                if !module.is_empty() && !allowed.iter().any(is_within) {
                    found.push(format!("{}:{line}: reaches `{module}`", source.path));
                }
            }
        }
    }
    assert_none("arrows that the map in ARCHITECTURE.md does not have", &found);
}

/// Only the command line uses the client.
#[test]
fn server_does_not_use_client() {
    let found = violations(
        "src",
        &["crate::client::", "crate::client;", "super::client::"],
        &["src/cli", "src/client"],
    );
    assert_none("the client is reached from the command line alone", &found);
}

/// The SDK does not depend on the server, and no other code uses an engine's own library.
#[test]
fn adapters_depend_only_on_sdk() {
    for adapter in [
        "adapters/github-actions/src",
        "adapters/local/src",
        "adapters/slurm/src",
        "adapters/step-functions/src",
    ] {
        assert_none("an adapter that reaches into the server", &violations(adapter, &["taskbridge::"], &[]));
    }
    let sdk = fs::read_to_string(root().join("adapters/sdk/Cargo.toml")).unwrap();
    assert!(!sdk.contains("taskbridge.workspace"), "the sdk depends on the server");
    let patterns = ["axum", "rusqlite", "jsonrpc", "JSON-RPC"];
    assert_none("a word in the sdk that is not its own", &violations("adapters/sdk/src", &patterns, &[]));
    for folder in ["src", "adapters"] {
        let found = violations(folder, &["aws_sdk_", "aws_config"], &["adapters/step-functions/"]);
        assert_none("an engine's SDK outside of its adapter", &found);
    }
}

#[test]
fn protocol_versions_stay_in_their_modules() {
    let patterns = ["\"2024-", "\"2025-", "\"2026-"];
    let allowed = ["src/mcp/wire/revision.rs", "src/mcp/dialect/v20"];
    assert_none("protocol version literals outside their rooms", &violations("src", &patterns, &allowed));
}

/// The core does not name a wire status, a database or an engine.
#[test]
fn core_names_no_protocol_or_engine() {
    let patterns =
        ["\"working\"", "\"completed\"", "-32", "taskId", "Mcp-", "sqlite", "rusqlite", "\"local\""];
    assert_none(
        "words of the protocol, a store or an engine in the core",
        &violations("src/tasks", &patterns, &[]),
    );
}

/// The core knows tasks by channels. What a client's session is, what its streams have sent and under which
/// token progress is reported, a front end knows. Comments count as well. Of all stored names, the channel's
/// alone is an exception.
#[test]
fn core_knows_no_sessions() {
    let patterns =
        ["session", "progress_token", "progress token", "streamevent", "log level", "listening stream"];
    let mut found = Vec::new();
    for source in sources(&["src/tasks"]).iter().filter(|source| !source.is_test()) {
        let lines = source.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.contains("rename = \"session\"")) {
            if patterns.iter().any(|pattern| line.to_lowercase().contains(pattern)) {
                found.push(format!("{}:{}: {}", source.path, at + 1, line.trim()));
            }
        }
    }
    assert_none("words of sessions in the core", &found);
}

#[test]
fn only_the_app_spawns() {
    let patterns = ["tokio::spawn", "JoinSet::new", "thread::spawn", "thread::Builder"];
    // Connections come and go with clients. SQLite's flush blocks. A write to PostgreSQL and a fetch of an
    // issuer's keys outlive their callers. Heavy work has threads of a lower priority.
    let allowed = [
        "src/app/",
        "src/mcp/transport/http/connections/listener.rs",
        "src/store/sqlite/writer.rs",
        "src/store/postgres/mod.rs",
        "src/auth/oauth/keyring.rs",
        "src/offload.rs",
    ];
    assert_none("spawning outside of its places", &violations("src", &patterns, &allowed));
}

#[test]
fn every_file_has_module_docs() {
    let undocumented: Vec<_> = sources(&["src", "adapters", "tests", "examples", "benches", "fuzz"])
        .into_iter()
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| source.path)
        .collect();
    assert_none("files that do not open with `//!`", &undocumented);
}

#[test]
fn files_stay_readable() {
    let all = sources(&["src", "adapters"]);
    let mut lengths: Vec<(usize, &str)> = all
        .iter()
        .filter(|source| !source.is_test())
        .map(|source| {
            (source.text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")).count(), &*source.path)
        })
        .collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2].0;
    let (longest, path) = lengths[lengths.len() - 1];
    assert!(longest <= 600, "{path} has {longest} lines: what second thing does it do?");
    assert!(median <= 180, "the median file has {median} lines");
}

/// A wrapper of a trait must delegate every method, including those with a default. Otherwise the default
/// would run.
#[test]
fn wrappers_delegate_every_method() {
    let mut missing = Vec::new();
    for (wrapper, type_name, traits) in [
        ("src/metrics/backend.rs", "MeasuredBackend", &["adapters/sdk/src"][..]),
        ("src/metrics/store.rs", "MeasuredStore", &["src/tasks", "src/sessions"]),
        ("src/isolation.rs", "Isolated", &["adapters/sdk/src"]),
    ] {
        let wrapper_source = fs::read_to_string(root().join(wrapper)).unwrap();
        let suffix = format!(" for {type_name} {{");
        let trait_names =
            wrapper_source.lines().filter_map(|line| line.strip_prefix("impl ")?.strip_suffix(&*suffix));
        for name in trait_names {
            let is_here = |source: &Source| source.text.contains(&format!("pub trait {name}: "));
            let source = sources(traits).into_iter().find(is_here).unwrap();
            let from = source.text.find(&format!("pub trait {name}: ")).unwrap();
            let to = from + source.text[from..].find("\n}\n").unwrap();
            for line in source.text[from..to].lines().map(str::trim) {
                let function = line.strip_prefix("async ").unwrap_or(line);
                let Some(function) = function.strip_prefix("fn ").and_then(|f| f.split('(').next()) else {
                    continue;
                };
                if !wrapper_source.contains(&format!("fn {function}(")) {
                    missing.push(format!("{wrapper}: {name}::{function}"));
                }
            }
        }
    }
    assert_none("methods that a wrapper does not hand on", &missing);
}

/// A link in a comment names something that the code has. Rustdoc checks only those of public items.
#[test]
fn links_in_comments_name_code() {
    let sources = sources(&["src", "adapters", "tests", "examples", "benches", "fuzz"]);
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
    assert_none("links to nothing", &found);
}

/// No file contains a mark for later work, an unimplemented function or an ignored test.
#[test]
fn sources_contain_no_unfinished_work() {
    let patterns = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "#[ignore"];
    let mut found = Vec::new();
    for source in sources(&["src", "adapters", "tests", "examples", "benches", "fuzz"]) {
        if source.path == "tests/it/tidy.rs" {
            continue;
        }
        for (at, line) in source.text.lines().enumerate() {
            if patterns.iter().any(|pattern| line.contains(pattern)) {
                found.push(format!("{}:{}: {}", source.path, at + 1, line.trim()));
            }
        }
    }
    assert_none("left for later", &found);
}

/// The conformance tables, and the test folder that their unqualified names refer to.
const CONFORMANCE: [(&str, &str); 2] =
    [("docs/conformance.md", "v2025"), ("docs/conformance-2026-07-28.md", "v2026")];

/// Returns the test names in the last column of a row: `function`, or one qualified with its modules.
fn tests_named(row: &str) -> Vec<&str> {
    let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    let names = cell.split(|c: char| !is_part(c)).map(|name| name.trim_matches(':'));
    names.filter(|name| name.rsplit("::").next().is_some_and(|last| last.matches('_').count() > 1)).collect()
}

/// Reports a test name that is ambiguous or missing. Its function must be in exactly one file, or in several
/// if one of them is below `own`.
fn test_name_error(all: &[Source], name: &str, own: Option<&str>) -> Option<String> {
    let mut parts = name.rsplit("::");
    let function = parts.next().unwrap_or(name);
    let modules: Vec<&str> = parts.filter(|module| *module != "tests").collect();
    let matches_modules = |source: &&Source| {
        let path = source.path.trim_end_matches(".rs");
        modules.iter().all(|module| path.split('/').any(|part| part == *module))
    };
    let has = |source: &&Source| source.text.contains(&format!("fn {function}("));
    let found: Vec<&Source> = all.iter().filter(matches_modules).filter(has).collect();
    let in_own_folder = own.is_some_and(|own| found.iter().any(|source| source.path.starts_with(own)));
    let is_unique = found.len() == 1 || (found.len() > 1 && in_own_folder);
    (!is_unique).then(|| format!("{name} is in {} files", found.len()))
}

/// Each test that these files name must exist, in a file or folder with the name of its module.
#[test]
fn conformance_tables_name_existing_tests() {
    let all = sources(&["src", "adapters", "tests"]);
    let mut errors = Vec::new();
    for (file, folder) in CONFORMANCE {
        let table = fs::read_to_string(root().join(file)).unwrap();
        let own = format!("tests/it/{folder}/");
        let mut named = 0;
        for row in table.lines().filter(|line| line.starts_with("| ")) {
            for name in tests_named(row) {
                named += 1;
                if let Some(error) = test_name_error(&all, name, Some(&own)) {
                    let id = row.split('|').nth(1).unwrap_or("").trim();
                    errors.push(format!("{file}, {id}: {error}"));
                }
            }
        }
        assert!(named > 100, "{file} names only {named} tests");
    }
    assert_none("tests that a conformance table names and that are not there, or are not clear", &errors);
}

/// The minimum number of attacks in docs/attacks.md.
const ATTACKS: usize = 86;

/// Each attack has a test, and each row describes the attempt and the result in two cells.
#[test]
fn each_attack_names_tests_that_exist() {
    let all = sources(&["src", "adapters", "tests", "fuzz"]);
    let table = fs::read_to_string(root().join("docs/attacks.md")).unwrap();
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what is tried")).collect();
    let mut errors = Vec::new();
    for row in &rows {
        let tried = row.split('|').nth(1).unwrap_or_default().trim();
        if row.matches('|').count() != 4 || tests_named(row).is_empty() {
            errors.push(format!("{tried}: three cells, with a test in the last"));
        }
        errors.extend(tests_named(row).iter().filter_map(|name| {
            let error = test_name_error(&all, name, None)?;
            Some(format!("{tried}: {error}"))
        }));
    }
    let mut tried: Vec<&str> = rows.iter().filter_map(|row| row.split('|').nth(1)).collect();
    tried.sort_unstable();
    errors.extend(
        tried.windows(2).filter(|two| two[0] == two[1]).map(|two| format!("{} is there twice", two[0])),
    );
    assert_none("rows of docs/attacks.md that no test shows", &errors);
    assert!(rows.len() >= ATTACKS, "docs/attacks.md has only {} rows", rows.len());
}
