//! Which module may use which, and words that a module must not contain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{ADAPTERS, assert_none, root, sources, violations};

/// The modules of the server, and the other modules that each may use: a top-level module with all of its
/// contents, or one inside a module.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 22] = [
    ("crates/core/src/clock.rs", &[]),
    ("crates/core/src/tasks", &["clock"]),
    ("crates/core/src/sessions", &["tasks"]),
    ("src/seal.rs", &["clock", "current"]),
    ("src/auth", &["tasks", "clock"]),
    ("src/access", &["auth", "tasks"]),
    ("src/current.rs", &[]),
    ("src/offload.rs", &[]),
    ("src/catalog", &["access", "auth", "seal", "current", "offload", "tasks"]),
    ("src/notify", &["clock", "tasks"]),
    ("src/trace.rs", &[]),
    ("src/metrics", &["clock", "sessions", "tasks", "trace"]),
    ("src/audit", &["auth", "seal", "clock", "tasks"]),
    ("src/limits", &["auth"]),
    ("src/recorder", &["auth", "tasks"]),
    // The modules of the protocol, from below. A generation does not use another one.
    ("src/mcp/wire", &["catalog", "seal", "tasks"]),
    ("src/mcp/session", &["mcp::wire", "auth", "seal", "clock", "sessions", "tasks"]),
    (
        "src/mcp/features",
        &[
            "mcp::wire",
            "mcp::session",
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
            "recorder",
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
            "mcp::Bridge",
            "catalog",
            "auth",
            "seal",
            "sessions",
            "tasks",
        ],
    ),
    (
        "src/mcp/dialect/v2026_07_28",
        &["mcp::wire", "mcp::session", "mcp::features", "mcp::Bridge", "catalog", "auth", "seal", "tasks"],
    ),
    ("src/console", &["audit", "auth", "catalog", "clock", "limits", "mcp", "recorder", "seal", "tasks"]),
    ("src/mcp", &["catalog", "auth", "limits", "seal", "clock", "offload", "metrics", "sessions", "tasks"]),
];

/// The modules without a restriction, and the roots of the crates.
const UNRESTRICTED: [&str; 13] = [
    "crates/core/src/lib.rs",
    "src/adapters.rs",
    "src/app/",
    "src/cli",
    "src/config/",
    "src/health.rs",
    "src/hooks.rs",
    "src/isolation",
    "src/lib.rs",
    "src/main.rs",
    "src/scrape.rs",
    "src/shutdown.rs",
    "src/telemetry/",
];

/// Returns the path in the crate of the module in this file or folder.
fn module(file: &str) -> String {
    let file = file.trim_start_matches("crates/core/").trim_start_matches("src/");
    file.trim_end_matches(".rs").replace('/', "::")
}

/// Returns the paths in the crate that a line uses.
fn used_modules(line: &str) -> impl Iterator<Item = String> {
    let is_part = |c: &char| c.is_alphanumeric() || "_:".contains(*c);
    line.split("crate::").skip(1).map(move |path| path.chars().take_while(is_part).collect())
}

/// A module uses only the modules that the table in ARCHITECTURE.md allows, and uses each of them.
#[test]
fn modules_follow_dependency_map() {
    let (mut found, mut users, mut used) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for source in sources(&["src", "crates/core/src"]).iter().filter(|source| !source.is_test) {
        let Some((user, allowed)) =
            ALLOWED_DEPENDENCIES.iter().find(|(prefix, _)| source.path.starts_with(prefix))
        else {
            if !UNRESTRICTED.iter().any(|prefix| source.path.starts_with(prefix)) {
                found.push(format!("{}: its module is not listed", source.path));
            }
            continue;
        };
        users.insert(*user);
        let own = module(user);
        for (line, text) in source.code() {
            for module in used_modules(text) {
                let is_within = |prefix: &str| format!("{module}::").starts_with(&format!("{prefix}::"));
                if is_within(&own) {
                    continue;
                }
                match allowed.iter().find(|prefix| is_within(prefix)) {
                    Some(dependency) => drop(used.insert((*user, *dependency))),
                    None => found.push(format!("{}:{line}: uses `{module}`", source.path)),
                }
            }
        }
    }
    assert_none("dependencies that the table in ARCHITECTURE.md does not allow", &found);
    for (user, _) in ALLOWED_DEPENDENCIES {
        assert!(users.contains(user), "{user} is listed and has no source");
    }
    let listed = ALLOWED_DEPENDENCIES
        .iter()
        .flat_map(|(user, allowed)| allowed.iter().map(move |dependency| (*user, *dependency)));
    let unused: Vec<_> = listed.filter(|dependency| !used.contains(dependency)).collect();
    assert!(unused.is_empty(), "dependencies that are allowed and not used: {unused:?}");
}

/// The table in ARCHITECTURE.md equals the one above, in which the folders of `mcp` have a row each.
#[test]
fn architecture_lists_dependency_map() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = page.split_once("| module | content | may use |\n").unwrap();
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let row = |row: &str| {
        let cells: Vec<_> = row.split('|').collect();
        let user = names(cells[1]).pop_first().unwrap();
        (user.trim_end_matches('/').trim_end_matches(".rs").to_owned(), names(cells[3]))
    };
    let listed: BTreeMap<_, _> =
        table.lines().skip(1).take_while(|line| line.starts_with('|')).map(row).collect();
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (user, allowed) in ALLOWED_DEPENDENCIES {
        let user = module(user).split("::").take(1).collect::<String>();
        let others = allowed.iter().filter(|dependency| !dependency.starts_with("mcp::"));
        expected.entry(user).or_default().extend(others.map(|dependency| (*dependency).to_owned()));
    }
    assert_eq!(listed, expected);
}

/// The other crates have their modules' names in the server, so that the test above sees each use.
#[test]
fn server_uses_crates_as_modules() {
    let found = violations(
        &["src"],
        &["taskbridge_core::", "taskbridge_store::", "taskbridge_wire::"],
        &["src/lib.rs", "src/mcp/wire/mod.rs"],
    );
    assert_none("uses of a crate by its own name", &found);
}

/// The crates of the server, and the other crates of the workspace that each may use. Cargo forbids circles;
/// this forbids shortcuts: the client shares only envelopes and names.
const ALLOWED_CRATES: [(&str, &[&str]); 4] =
    [("client", &["sdk", "wire"]), ("core", &["sdk"]), ("store", &["core", "sdk"]), ("wire", &[])];

/// Returns the crates of the workspace that the manifest in a folder names as dependencies, without
/// `taskbridge-`. The server's name is whole.
fn crates_used(folder: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let lines = manifest.lines().filter(|line| line.starts_with("taskbridge"));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.map(|name| name.trim_start_matches("taskbridge-").to_owned()).collect()
}

/// Returns the names of the folders in a folder, in their order.
fn folders(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = folders.map(|folder| folder.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn crates_follow_dependency_map() {
    assert_eq!(folders("crates"), ALLOWED_CRATES.map(|(name, _)| name), "the crates of the server");
    for (name, allowed) in ALLOWED_CRATES {
        let folder = format!("crates/{name}");
        assert_eq!(crates_used(&folder), allowed, "the dependencies of {folder}");
    }
}

/// Only the command line uses the client.
#[test]
fn server_does_not_use_client() {
    let found = violations(&["src"], &["taskbridge_client"], &["src/cli"]);
    assert_none("uses of the client outside of the command line", &found);
}

/// The SDK does not depend on the server, and no other code uses an engine's own library.
#[test]
fn adapters_depend_only_on_sdk() {
    let mut listed = [&ADAPTERS[..], &["sdk"]].concat();
    listed.sort_unstable();
    assert_eq!(folders("adapters"), listed, "the adapters and the sdk");
    for adapter in ADAPTERS {
        assert_eq!(crates_used(&format!("adapters/{adapter}")), ["sdk"], "the dependencies of {adapter}");
    }
    assert!(crates_used("adapters/sdk").is_empty(), "the sdk depends on the server");
    let patterns = ["axum", "rusqlite", "jsonrpc", "JSON-RPC"];
    assert_none("a word in the sdk that is not its own", &violations(&["adapters/sdk/src"], &patterns, &[]));
    let found = violations(
        &["src", "crates", "adapters"],
        &["aws_sdk_", "aws_config"],
        &["adapters/step-functions/", "adapters/http/src/driver/auth/"],
    );
    assert_none("an engine's SDK outside of its adapter", &found);
}

#[test]
fn protocol_versions_stay_in_their_modules() {
    let patterns = ["\"2024-", "\"2025-", "\"2026-"];
    let allowed = ["crates/wire/src/revision.rs", "src/mcp/dialect/v20"];
    assert_none(
        "protocol version literals outside of their modules",
        &violations(&["src", "crates"], &patterns, &allowed),
    );
}

/// The core does not name a wire status, a database or an engine.
#[test]
fn core_names_no_protocol_or_engine() {
    let patterns =
        ["\"working\"", "\"completed\"", "-32", "taskId", "Mcp-", "sqlite", "rusqlite", "\"local\""];
    assert_none(
        "words of the protocol, a store or an engine in the core",
        &violations(&["crates/core/src/tasks"], &patterns, &[]),
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
    for source in sources(&["crates/core/src/tasks"]).iter().filter(|source| !source.is_test) {
        let lines = source.before_tests().lines();
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
        "crates/store/src/sqlite/connection/writer.rs",
        "crates/store/src/postgres/mod.rs",
        "src/auth/oauth/keyring.rs",
        "src/offload.rs",
    ];
    assert_none(
        "spawning outside of the files that may spawn",
        &violations(&["src", "crates"], &patterns, &allowed),
    );
}
