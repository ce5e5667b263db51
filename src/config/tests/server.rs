//! Errors in the server's own tables, with their exact messages. It must not listen.

use taskbridge_sdk::Timestamp;

use super::*;

#[test]
fn mistakes_in_the_servers_own_tables() {
    for (text, expected) in [
        (
            "[sever]\n",
            "x.toml:1: sever: unknown field `sever`; did you mean `server`? (known: `include`, `server`, `limits`, `log`, `auth`, `access`, `console`, `seal`, `audit`, `store`, `reconciler`, `lifetime`, `concurrency_groups`, `adapters`, `backends`, `tools`, `resources`, `prompts`, `notify`, `metrics`, `telemetry`)",
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

/// A call of a backend takes at most its share of a lease, whatever timeout its config has.
#[test]
fn timeout_beyond_lease_is_warned_of() {
    let backend = "[backends.ci]\nkind = \"github-actions\"\nrepository = \"a/b\"\ntoken = \"t\"\n";
    for (more, expected) in [
        ("", None),
        ("call_timeout = \"7s\"\n", None),
        (
            "call_timeout = \"1m\"\n",
            Some("backends.ci.call_timeout is 60s, and 7.5s is used, half of `reconciler.lease`"),
        ),
        ("call_timeout = \"1m\"\n[reconciler]\nlease = \"2m\"\n", None),
        (
            "[backends.lab]\nkind = \"slurm\"\njobs_dir = \"/jobs\"\ncommand_timeout = \"8s\"\n",
            Some("backends.lab.command_timeout is 8s, and 2.5s is used, a sixth of `reconciler.lease`"),
        ),
    ] {
        let (text, registry) = (format!("{backend}{more}"), crate::adapters::all());
        let config = parse(Path::new("x.toml"), Path::new("/"), &text, &registry, Some(Path::new("/state")));
        let warnings = config.unwrap().warnings(Timestamp::from_millis(0));
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{more}: {warnings:?}");
        assert!(expected.is_none_or(|expected| warnings[0].starts_with(expected)), "{more}: {warnings:?}");
    }
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
