//! Which module may use which, and words that a module must not contain.

use std::collections::BTreeSet;
use std::fs;

use super::{assert_none, root, sources, violations};

/// The modules of the server, and the other modules that each may use: a top-level module with all of its
/// contents, or one inside a module.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 20] = [
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
    ("src/mcp", &["catalog", "auth", "limits", "seal", "clock", "offload", "metrics", "sessions", "tasks"]),
];

/// Returns the paths in the crate that a line uses.
fn used_modules(line: &str) -> impl Iterator<Item = String> {
    let is_part = |c: &char| c.is_alphanumeric() || "_:".contains(*c);
    line.split("crate::").skip(1).map(move |path| path.chars().take_while(is_part).collect())
}

/// A module uses only the modules that the table in ARCHITECTURE.md allows, and uses each of them.
#[test]
fn modules_follow_dependency_map() {
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for source in sources(&["src", "crates/core/src"]) {
        let Some((user, allowed)) =
            ALLOWED_DEPENDENCIES.iter().find(|(prefix, _)| source.path.starts_with(prefix))
        else {
            continue;
        };
        if source.is_test() {
            continue;
        }
        let own = user
            .trim_start_matches("crates/core/")
            .trim_start_matches("src/")
            .trim_end_matches(".rs")
            .replace('/', "::");
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
    let listed = ALLOWED_DEPENDENCIES
        .iter()
        .flat_map(|(user, allowed)| allowed.iter().map(move |dependency| (*user, *dependency)));
    let unused: Vec<_> = listed.filter(|dependency| !used.contains(dependency)).collect();
    assert!(unused.is_empty(), "dependencies that are allowed and not used: {unused:?}");
}

/// The crates of the server, and the other crates of the workspace that each may use. Cargo forbids circles;
/// this forbids shortcuts: the client shares only the envelopes and the names of revisions.
const ALLOWED_CRATES: [(&str, &[&str]); 4] =
    [("client", &["sdk", "wire"]), ("core", &["sdk"]), ("store", &["core", "sdk"]), ("wire", &[])];

#[test]
fn crates_follow_dependency_map() {
    for (name, allowed) in ALLOWED_CRATES {
        let manifest = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let used: Vec<_> = manifest
            .lines()
            .filter_map(|line| line.strip_prefix("taskbridge-")?.strip_suffix(".workspace = true"))
            .collect();
        assert_eq!(used, allowed, "the dependencies of crates/{name}");
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
    for adapter in [
        "adapters/github-actions/src",
        "adapters/local/src",
        "adapters/slurm/src",
        "adapters/step-functions/src",
    ] {
        assert_none(
            "adapters that use the server",
            &violations(&[adapter], &["taskbridge::", "taskbridge_core::"], &[]),
        );
    }
    let sdk = fs::read_to_string(root().join("adapters/sdk/Cargo.toml")).unwrap();
    assert!(!sdk.contains("taskbridge.workspace"), "the sdk depends on the server");
    let patterns = ["axum", "rusqlite", "jsonrpc", "JSON-RPC"];
    assert_none("a word in the sdk that is not its own", &violations(&["adapters/sdk/src"], &patterns, &[]));
    let found = violations(
        &["src", "crates", "adapters"],
        &["aws_sdk_", "aws_config"],
        &["adapters/step-functions/"],
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
    for source in sources(&["crates/core/src/tasks"]).iter().filter(|source| !source.is_test()) {
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
        "crates/store/src/sqlite/writer.rs",
        "crates/store/src/postgres/mod.rs",
        "src/auth/oauth/keyring.rs",
        "src/offload.rs",
    ];
    assert_none(
        "spawning outside of the files that may spawn",
        &violations(&["src", "crates"], &patterns, &allowed),
    );
}
