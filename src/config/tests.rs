//! Tests of config errors: every kind of mistake with its exact message.

mod access;
mod addresses;
mod auth;
mod mistakes;
mod served;

use std::path::{Path, PathBuf};

use taskbridge_sdk::sim::Sim;
use taskbridge_sdk::{Registry, Timestamp};

use super::{Config, Problems, Sources, parse};
use crate::catalog::{Body, Values};
use crate::seal::Key;

fn registry() -> Registry {
    Registry::new().with::<Sim>()
}

fn read(text: &str) -> Result<Config, Problems> {
    parse(Path::new("x.toml"), Path::new("/etc/bridge"), text, &registry(), Some(Path::new("/state")))
}

fn error_text(text: &str) -> String {
    read(text).expect_err("the config is wrong").to_string()
}

/// Returns the problems of a config with a valid backend, followed by this text.
fn with_backend(rest: &str) -> String {
    error_text(&format!("[backends.here]\nkind = \"sim\"\n{rest}"))
}

/// Returns the problems of a config with a tool that contains this text, from line 6 on.
fn with_tool(rest: &str) -> String {
    with_backend(&format!("[tools.t]\nbackend = \"here\"\ntarget = {{}}\n{rest}"))
}

/// A secret can be a text, a file or a variable, and errors name only its field.
#[test]
fn backend_secrets_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hook"), "hunter2\n").unwrap();
    std::fs::write(folder.path().join("nothing"), "\n").unwrap();
    let read = |secret: &str| {
        let text = format!("[backends.here]\nkind = \"sim\"\nhook_secret = {secret}\n");
        parse(Path::new("x.toml"), folder.path(), &text, &registry(), Some(Path::new("/state")))
    };
    for secret in ["\"hunter2\"", "{ file = \"hook\" }"] {
        let config = read(secret).unwrap();
        assert_eq!(config.backends["here"].fields["hook_secret"], "hunter2", "{secret}");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
    let in_file = || read("{ file = \"hook\" }").unwrap().parts;
    let before = in_file();
    std::fs::write(folder.path().join("hook"), "another\n").unwrap();
    assert_eq!(before.differences(&in_file()).to_string(), "backends changed: here");
    for (secret, expected) in [
        (
            "{ env = \"NOT_SET\" }",
            "environment variable NOT_SET is not set, or not UTF-8: export it, or use { file = \"...\" }",
        ),
        ("{ file = \"nowhere\" }", "nowhere cannot be read: No such file or directory (os error 2)"),
        (
            "{ file = \"nothing\" }",
            "must not be empty: write the secret, { env = \"NAME\" } or { file = \"PATH\" }",
        ),
        ("7", "must be a string, { env = \"NAME\" } or { file = \"PATH\" }"),
    ] {
        let errors = read(secret).unwrap_err().to_string();
        assert!(errors.starts_with("x.toml:3: backends.here.hook_secret: "), "{errors}");
        assert!(errors.ends_with(expected) && errors.lines().count() == 1, "{errors}");
    }
}

/// An error about one member of a table of secrets names that member.
#[cfg(feature = "github-actions")]
#[test]
fn secret_tables_are_read_per_member() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bob.token"), "hunter2\n").unwrap();
    let registry = taskbridge_sdk::Registry::new().with::<taskbridge_github_actions::GithubActions>();
    let read = |ann: &str| {
        let text = format!(
            "[backends.here]\nkind = \"github-actions\"\ntoken = \"own\"\n[backends.here.per_caller.tokens]\n\
             bob = {{ file = \"bob.token\" }}\n\"https://id.example#7\" = {ann}\n"
        );
        parse(Path::new("x.toml"), folder.path(), &text, &registry, Some(Path::new("/state")))
    };
    let config = read("\"hunter3\"").unwrap();
    let tokens = &config.backends["here"].fields["per_caller"]["tokens"];
    assert_eq!((&tokens["bob"], &tokens["https://id.example#7"]), (&"hunter2".into(), &"hunter3".into()));
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("hunter3"), "{shown}");
    let errors = read("{ env = \"NOT_SET\" }").unwrap_err().to_string();
    let field = "x.toml:6: backends.here.per_caller.tokens.\"https://id.example#7\": ";
    assert!(errors.starts_with(field) && errors.contains("NOT_SET is not set"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn empty_config_gets_defaults() {
    let config = read("").unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8808");
    assert_eq!(config.store.database.to_string(), "/state/taskbridge/taskbridge.db");
    assert_eq!(config.store.backends_dir, Path::new("/state/taskbridge/backends"));
    assert!(config.tools.is_empty() && config.backends.is_empty() && config.slot_limits.is_empty());
}

#[test]
fn relative_paths_start_at_config_file() {
    let config = read("[store]\npath = \"db/x.db\"\n").unwrap();
    assert_eq!(config.store.database.to_string(), "/etc/bridge/db/x.db");
    assert_eq!(config.store.backends_dir, Path::new("/etc/bridge/db/backends"));
}

/// The address of a store is shown without its password.
#[test]
fn postgres_store_shows_address_only() {
    let config = read(
        "[store]\nkind = \"postgres\"\nurl = \"postgres://me:hunter2@db.example.com/tasks\"\nschema = \"bridge\"\n",
    )
    .unwrap();
    assert_eq!(config.store.database.to_string(), "postgres://me@db.example.com:5432/tasks (schema bridge)");
    assert_eq!(config.store.backends_dir, Path::new("/state/taskbridge/backends"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn store_config_error_hides_secrets() {
    let wrong = |store: &str| read(&format!("[store]\n{store}")).unwrap_err().to_string();
    let url = "kind = \"postgres\"\nurl = \"postgres://me:hunter2@db/tasks\"";
    for (store, expected) in [
        ("kind = \"postgres\"".to_owned(), "store.url: a PostgreSQL store needs `url`"),
        ("url = \"postgres://me@db/tasks\"".to_owned(), "store.url: only allowed with kind = \"postgres\""),
        (format!("{url}\npath = \"x.db\""), "store.path: only allowed with kind = \"sqlite\""),
        (format!("{url}\nschema = \"My Tasks\""), "store.schema: \"My Tasks\" cannot be a schema here"),
        (format!("{url}\nmax_connections = 1"), "store.max_connections: one is too few"),
        (format!("{url}\ntls = false\nca_file = \"x.pem\""), "store.ca_file: without TLS"),
        (format!("{url}\nca_file = \"x.pem\""), "x.pem cannot be read"),
        (
            format!("{url}\npassword = {{ file = \"none\" }}"),
            "store.password: /etc/bridge/none cannot be read",
        ),
        (format!("{url}\npassword = 3"), "store.password: must be a string, { env"),
        (
            "kind = \"postgres\"\nurl = \"postgres://me:hun@ter2@db\"".to_owned(),
            "store.url: it cannot be understood",
        ),
    ] {
        let text = wrong(&store);
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(!text.contains("hunter2") && !text.contains("ter2"), "{text}");
    }
}

#[test]
fn seal_key_error_hides_key() {
    let (one, other) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let config = read(&format!("[seal]\nkeys = [\"{one}\", {{ from = \"store\" }}, \"{other}\"]\n")).unwrap();
    assert_eq!(config.seal, [Key::of(one), Key::Own, Key::of(other)]);
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
    assert!(read("[seal]\n").unwrap().seal.is_empty());
    for (keys, expected) in [
        ("[]", "x.toml:2: seal.keys: no keys are listed: list one, or remove `keys` to use the store's own"),
        (
            "[\"hunter2\"]",
            "x.toml:2: seal.keys[0]: the key has 7 characters, the minimum is 32: write the output of `openssl rand -hex 32`",
        ),
        (
            &format!("[\"{one}\",\n \"{other}\",\n \"{one}\"]"),
            "x.toml:4: seal.keys[2]: duplicate of seal.keys[0]: remove one of them",
        ),
        (
            "[{ from = \"store\" }, { from = \"store\" }]",
            "x.toml:2: seal.keys[1]: duplicate of seal.keys[0]: remove one of them",
        ),
        (
            "[{ file = \"none\" }]",
            "x.toml:2: seal.keys[0]: /etc/bridge/none cannot be read: No such file or directory (os error 2)",
        ),
        (
            "[{ from = \"hunter2\" }]",
            "x.toml:2: seal.keys[0]: must be a string, { env = \"NAME\" }, { file = \"PATH\" } or { from = \"store\" }",
        ),
        ("\"hunter2\"", "x.toml:2: seal.keys: must be a list: write keys = [...]"),
    ] {
        assert_eq!(error_text(&format!("[seal]\nkeys = {keys}\n")), expected);
    }
}

#[test]
fn limits_become_slots() {
    let config = read(
        "[backends.here]\nkind = \"sim\"\nmax_running = 9\n[concurrency_groups.prod]\nlimit = 3\n\
         [tools.a]\nbackend = \"here\"\ntarget = {}\nmax_running = 2\nconcurrency_group = \"prod\"\n\
         [tools.b]\nbackend = \"here\"\ntarget = {}\nconcurrency_group = \"other\"\n",
    )
    .unwrap();
    assert_eq!(config.tools[0].slots, ["tool:a", "backend:here", "group:prod"]);
    assert_eq!(config.tools[1].slots, ["backend:here", "group:other"]);
    let limits: Vec<_> =
        config.slot_limits.iter().filter_map(|(slot, limit)| Some((slot.as_str(), (*limit)?))).collect();
    let owner = ("owner:", 500);
    assert_eq!(limits, [("backend:here", 9), ("group:other", 1), ("group:prod", 3), owner, ("tool:a", 2)]);
}

#[test]
fn mistakes_in_the_servers_own_tables() {
    for (text, expected) in [
        (
            "[sever]\n",
            "x.toml:1: sever: unknown field `sever`; did you mean `server`? (known: `server`, `limits`, `log`, `auth`, `access`, `seal`, `audit`, `store`, `reconciler`, `lifetime`, `concurrency_groups`, `backends`, `tools`, `resources`, `prompts`, `notify`, `metrics`, `telemetry`)",
        ),
        ("server = 3\n", "x.toml:1: server: 3 is not valid: write a table, { NAME = VALUE } or { }"),
        (
            "[server]\nlisten = \"localhost\"\n",
            "x.toml:2: server.listen: \"localhost\" is not an address and port: write one such as \"127.0.0.1:8808\"",
        ),
        (
            "[server]\ncall_budget = \"25 secnds\"\n",
            "x.toml:2: server.call_budget: \"25 secnds\" is not valid: write a duration such as \"25s\", \"5m\", \"1h 30m\" or \"7d\", at most a hundred years",
        ),
        (
            "[server]\ncall_budget = 25\n",
            "x.toml:2: server.call_budget: 25 is not valid: write a duration such as \"25s\", \"5m\", \"1h 30m\" or \"7d\", at most a hundred years",
        ),
        (
            "[lifetime]\nkeep_result = \"101 years\"\n",
            "x.toml:2: lifetime.keep_result: \"101 years\" is not valid: write a duration such as \"25s\", \"5m\", \"1h 30m\" or \"7d\", at most a hundred years",
        ),
        (
            "[server]\npage_size = 0\n",
            "x.toml:2: server.page_size: 0 is not valid: write a whole number of at least 1",
        ),
        (
            "[server]\ncompanion_tools = \"allways\"\n",
            "x.toml:2: server.companion_tools: unknown value \"allways\"; did you mean \"always\"? (known: \"auto\", \"always\", \"never\")",
        ),
        (
            "[server]\nallowed_origins = [\n  \"http://a\",\n  \"http://b/\",\n]\n",
            "x.toml:4: server.allowed_origins[1]: \"http://b/\" is not an origin: write one such as \"https://app.example.com\"",
        ),
        (
            "[server]\nlisten = \"0.0.0.0:80\"\n",
            "x.toml:2: server.listen: other machines can reach 0.0.0.0:80, and [auth] admits every caller: listen on 127.0.0.1, or set mode = \"api_keys\", \"oauth\" or \"certificates\" in [auth]",
        ),
        (
            "[auth]\nmode = \"api_keys\"\n",
            "x.toml:2: auth.mode: no keys are listed, so every call would be refused: add [[auth.keys]]",
        ),
        (
            "[[auth.keys]]\nprincipal = \"ann\"\nsha256 = \"my secret key\"\n",
            "x.toml:3: auth.keys[0].sha256: not a SHA-256 in hexadecimal (64 digits): write the output of `printf %s \"$KEY\" | sha256sum`",
        ),
        (
            "[[auth.keys]]\nprincipal = \"[x\"\nsha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n[auth]\nmode = \"api_keys\"\n",
            "x.toml:2: auth.keys[0].principal: must not begin with `[`, like the names of owners by token: choose another name",
        ),
        (
            "[auth]\nmode = \"api_keys\"\nanyone_may_do_everything = true\n",
            "x.toml:2: auth.mode: no keys are listed, so every call would be refused: add [[auth.keys]]\n\
             x.toml:3: auth.anyone_may_do_everything: only allowed with mode = \"none\": remove it",
        ),
        (
            "[auth]\nresource = \"https://b.example/mcp\"\n",
            "x.toml:2: auth.resource: only allowed with mode = \"oauth\": set that, or remove this",
        ),
        (
            "[auth]\nmode = \"oauth\"\n",
            "x.toml:2: auth.mode: no issuers are listed, so every token would be refused: add [[auth.issuers]]\n\
             x.toml:2: auth.mode: `resource` is missing: write the address by which clients reach the server, such as \
             resource = \"https://bridge.example.com/mcp\"",
        ),
        (
            "[auth]\nmode = \"oauth\"\nresource = \"http://b.example/mcp\"\nrequired_scopes = [\"a b\"]\nleeway = \"1h\"\n\
             [[auth.issuers]]\nissuer = \"http://login.example\"\nalgorithms = [\"HS256\"]\n",
            "x.toml:3: auth.resource: \"http://b.example/mcp\" is not https, so tokens could be intercepted: write the address that clients use, such as https://bridge.example.com/mcp\n\
             x.toml:4: auth.required_scopes[0]: \"a b\" is not a scope: write one word, without quotes and backslashes\n\
             x.toml:5: auth.leeway: too long: write at most \"5m\"\n\
             x.toml:7: auth.issuers[0].issuer: not a valid URL: write one with https (http only for 127.0.0.1, ::1 and localhost)\n\
             x.toml:8: auth.issuers[0].algorithms[0]: unknown value \"HS256\"; did you mean \"RS256\"? (known: \"RS256\", \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\", \"ES512\", \"EdDSA\")",
        ),
        (
            "[store]\nkind = \"redis\"\n",
            "x.toml:2: store.kind: unknown value \"redis\" (known: \"sqlite\", \"postgres\")",
        ),
        (
            "[reconciler]\nlease = \"1s\"\n",
            "x.toml:2: reconciler.lease: 1s is too short: write at least \"2s\"",
        ),
        (
            "[reconciler]\nquickest_look = \"1m\"\n",
            "x.toml:2: reconciler.quickest_look: 1m is longer than `slowest_look` (30s): change one of them",
        ),
        (
            "[limits]\nidle_for = \"0s\"\n",
            "x.toml:2: limits.idle_for: must not be zero: write a time such as \"10s\"",
        ),
        (
            "[limits]\nmax_json_depth = 500\n",
            "x.toml:2: limits.max_json_depth: 500 is out of range: write a number from 8 to 127",
        ),
        (
            "[limits]\nmax_head_bytes = 100\n",
            "x.toml:2: limits.max_head_bytes: 100 is too small for clients: write at least 1024",
        ),
        (
            "[lifetime]\nmin_ttl = \"60d\"\n",
            "x.toml:2: lifetime.min_ttl: 60d is longer than `max_ttl` (30d): change one of them",
        ),
        (
            "[concurrency_groups.a]\nlimit = 0\n",
            "x.toml:2: concurrency_groups.a.limit: 0 is not valid: write a whole number from 1 to 4294967295",
        ),
        ("a = \n", "x.toml:1: not valid TOML: missing value after the `=`: add one"),
    ] {
        assert_eq!(error_text(text), expected, "{text}");
    }
}

/// A depth that rows cannot store is capped, with a warning.
#[test]
fn deep_message_limit_is_capped() {
    let config = read("[limits]\nmax_json_depth = 127\n").unwrap();
    assert_eq!(config.bounds.of_messages().json.depth, 100);
    let warnings = config.warnings(Timestamp::from_millis(0));
    assert!(
        warnings.iter().any(|warning| warning.contains("max_json_depth is 127, and 100 is used")),
        "{warnings:?}"
    );
    assert_eq!(
        read("[limits]\nmax_json_depth = 100\n").unwrap().warnings(Timestamp::from_millis(0)).len(),
        0
    );
}

/// All errors of a config are reported at once, sorted by line.
#[test]
fn config_errors_follow_line_order() {
    let text = error_text(
        "[server]\nlisen = \"x\"\npage_size = 0\n[store]\nkind = \"x\"\n[backends.a]\nkind = \"x\"\n\
         [tools.t]\nbackend = \"b\"\ntarget = {}\ntask_support = \"x\"\n[tolls]\n",
    );
    let lines: Vec<_> =
        text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "x.toml:2: server.lisen:",
            "x.toml:3: server.page_size:",
            "x.toml:5: store.kind:",
            "x.toml:7: backends.a.kind:",
            "x.toml:9: tools.t.backend:",
            "x.toml:11: tools.t.task_support:",
            "x.toml:12: tolls:",
        ]
    );
}

#[test]
fn parameters_table_becomes_input_schema() {
    let config = read(
        "[backends.here]\nkind = \"sim\"\n[tools.t]\nbackend = \"here\"\ntarget = {}\n[tools.t.parameters]\n\
         path = { type = \"string\", description = \"Where.\", min_length = 1, pattern = \"^/\" }\n\
         depth = { type = \"integer\", default = 3, minimum = 0, maximum = 9 }\n\
         mode = { enum = [\"fast\", \"slow\"], required = false }\n\
         names = { type = \"array\", items = { type = \"string\", format = \"email\" }, max_items = 2 }\n\
         doc = { type = \"file\", required = false, roots = [\"in\"], max_bytes = 10 }\n",
    )
    .unwrap();
    let tool = &config.tools[0];
    let schema = &tool.client_schema;
    assert_eq!(schema["required"], serde_json::json!(["names", "path"]));
    assert_eq!(schema["additionalProperties"], false);
    let properties = &schema["properties"];
    assert_eq!(
        properties["path"],
        serde_json::json!({"type": "string", "description": "Where.", "minLength": 1, "pattern": "^/"})
    );
    assert_eq!(
        properties["depth"],
        serde_json::json!({"type": "integer", "default": 3, "minimum": 0, "maximum": 9})
    );
    assert_eq!(properties["mode"], serde_json::json!({"type": "string", "enum": ["fast", "slow"]}));
    assert_eq!(
        properties["names"],
        serde_json::json!({"type": "array", "items": {"type": "string", "format": "email"}, "maxItems": 2})
    );
    assert_eq!(properties["doc"]["oneOf"].as_array().map(Vec::len), Some(2));
    assert_eq!(tool.file_parameters["doc"].roots, [Path::new("/etc/bridge/in")]);
    assert_eq!(tool.file_parameters["doc"].max_bytes, 10);
}

/// An address that other machines can reach needs auth, also if it comes from the command line.
#[test]
fn command_line_address_needs_auth() {
    let mut config = read("").unwrap();
    assert!(config.listen_on("0.0.0.0:1".parse().unwrap()).unwrap_err().contains("other machines can reach"));
    assert_eq!(config.listen_on("[::1]:1".parse().unwrap()), Ok(()));
    let key = "0".repeat(64);
    let mut config =
        read(&format!("[auth]\nmode = \"api_keys\"\n[[auth.keys]]\nprincipal = \"a\"\nsha256 = \"{key}\"\n"))
            .unwrap();
    assert_eq!(config.listen_on("0.0.0.0:1".parse().unwrap()), Ok(()));
}

/// Missing files are tracked too. A changed file changes the part of the config that refers to it.
#[test]
fn config_tracks_referenced_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in
        [("in.json", "{\"type\": \"object\"}"), ("a.md", "# A"), ("p.md", "{{ x }}"), ("c.png", "png")]
    {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let text = "[backends.here]\nkind = \"sim\"\n[tools.t]\nbackend = \"here\"\ntarget = {}\ninput_schema = \"in.json\"\n\
                [resources.r]\nuri = \"a:b\"\nfile = \"a.md\"\n[prompts.p]\narguments = [{ name = \"x\" }]\n\
                messages = [{ file = \"p.md\" }, { image = \"c.png\" }, { resource = \"a:b\" }]\n";
    let file = folder.path().join("x.toml");
    std::fs::write(&file, text).unwrap();
    let load = super::read(&file, &registry(), Some(Path::new("/state")));
    let config = load.config.unwrap();
    let names = |sources: &Sources| -> Vec<_> {
        sources.files().map(|file| file.strip_prefix(folder.path()).unwrap().to_owned()).collect()
    };
    assert_eq!(names(&load.sources), ["x.toml", "in.json", "a.md", "p.md", "c.png"].map(PathBuf::from));
    std::fs::write(&file, text.replace("a.md", "none.md")).unwrap();
    let wrong = super::read(&file, &registry(), Some(Path::new("/state")));
    assert!(wrong.config.is_err());
    let missing_file = PathBuf::from("none.md");
    assert!(names(&wrong.sources).contains(&missing_file), "one that is missing is waited for");

    std::fs::write(folder.path().join("a.md"), "# B").unwrap();
    std::fs::write(&file, text).unwrap();
    let reloaded = super::read(&file, &registry(), Some(Path::new("/state"))).config.unwrap();
    assert_eq!(config.parts.differences(&reloaded.parts).to_string(), "resources changed: r");
    let resource = config.resources.get("a:b").unwrap();
    assert_eq!(
        (&*resource.metadata.mime_type, &resource.body),
        ("text/markdown", &Body::Text("# A".to_owned()))
    );
    assert!(resource.metadata.annotations.last_modified.is_some());
}
