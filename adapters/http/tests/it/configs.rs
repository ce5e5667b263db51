//! Wrong configs: each error names the field, the value and the fix. And recorded replies.

use serde_json::json;
use taskbridge_sdk::Registry;

use crate::world::{COMMON, KEYED, check, fields};

/// Returns what is reported of a config with this text after the others.
fn problem(text: &str) -> String {
    match check(&fields("http://127.0.0.1:9", &[COMMON, KEYED, text])) {
        Ok(()) => "fine".to_owned(),
        Err(problem) => format!("{}: {}", problem.field, problem.message),
    }
}

#[test]
fn wrong_config_is_reported_with_its_field() {
    for (text, expected) in [
        ("", "fine"),
        ("base = \"engine\"", "base: `engine` is not an address"),
        ("base = \"ftp://x\"", "base: an address has `http` or `https`"),
        ("base = \"https://a:b@x\"", "base: an address has `http` or `https`, and no user"),
        ("[log]\nbase = \"engine\"\npath = \"/x\"", "log: `engine` is not an address"),
        (
            "base = \"https://x\"\n[log]\nbase = \"http://x\"\npath = \"/x\"",
            "log.base: would send the credentials without TLS",
        ),
        ("[log]\nbase = \"http://x\"\npath = \"/x\"", "fine"),
        ("words = \"{{ body.x }}\"", "an expression has no braces: write `body.x`"),
        ("observ = 1", "unknown field `observ`"),
        ("call_timeout = \"soon\"", "call_timeout: "),
        ("cancel = true", "cancel: `true` does not say how"),
        ("preset = \"nothing\"", "preset: unknown preset `nothing`"),
        ("words = \"body.\"", "words: the expression `body.` is not valid"),
        (
            "words = \"body.x | nofilter\"",
            "words: the expression `body.x | nofilter` is not valid: the filter `nofilter` is unknown",
        ),
        (
            "[log]\npath = \"/jobs/{{ handle.id }/log\"",
            "log: the template `/jobs/{{ handle.id }/log` is not valid: `{{` has no `}}`",
        ),
        ("[log]\npath = \"{% if x %}/x\"", "log: the template `{% if x %}/x` is not valid: it has a block"),
        ("[log]\npath = \"jobs\"", "log.path: `jobs` must begin with `/`"),
        ("[log]\npath = \"/x\"\ntxt = \"y\"", "log: unknown field `txt`"),
        ("[observe]\npath = \"/x\"\nstate = \"'a'\"\nstates = { a = \"done\" }", "unknown variant `done`"),
        (
            "[[more]]\nas = \"files\"\npath = \"/{{ handle.id }}\"\nshared = true",
            "more[0].shared: is for a request",
        ),
        (
            "[[more]]\nas = \"files\"\npath = \"/a\"\n[[more]]\nas = \"files\"\npath = \"/b\"",
            "more[1].as: `files` is the name",
        ),
        ("[hook]\njobs = \"[]\"", "hook: needs exactly one proof"),
        ("[hook]\ntoken = { header = \"a\", secret = \"b\" }", "hook: needs `jobs` or `keys`"),
        (
            "[start]\npath = \"/x\"\nonce = \"key\"\nhandle = { id = \"body.a\" }",
            "start.once: \"key\" needs a request with the key",
        ),
        ("[start]\npath = \"/x\"\nonce = \"maybe\"\nhandle = {}", "unknown variant `maybe`"),
        (
            "[start]\npath = \"/{{ taskbridge.key }}\"\nonce = \"key\"\nhandle = {}",
            "start.handle: needs a member",
        ),
        (
            "[start]\npath = \"/{{ name | raw }}\"\nonce = \"none\"\nhandle = { id = \"body.a\" }",
            "start.path: `name` comes from a caller, so it must be encoded",
        ),
        (
            "[start]\npath = \"/x\"\njson = {}\nform = {}\nonce = \"none\"\nhandle = { id = \"body.a\" }",
            "start: a request has one of `json`, `form`, `multipart` and `graphql`",
        ),
        (
            "[list]\npath = \"/x\"\nitems = \"body\"\nid = \"item.id\"\njob = \"handle.id\"\nstate = \"item.s\"\nnext = { pages = 3 }",
            "list.next: needs exactly one of",
        ),
        (
            "[list]\npath = \"/x\"\nitems = \"body\"\nid = \"item.id\"\njob = \"handle.id\"\nstate = \"item.s\"\nnext = { link = true, pages = 300 }",
            "list.next: `pages` is 300",
        ),
    ] {
        let found = problem(text);
        let is_same = if expected == "fine" { found == expected } else { found.contains(expected) };
        assert!(is_same, "{text}\n  found: {found}\n  expected: {expected}");
    }
}

/// Recorded replies mean what the config expects, or the check says what they mean.
#[test]
fn recorded_replies_are_tried_offline() {
    let running = "call = \"observe\"\nhandle = { id = \"7\" }\nbody = { state = \"RUNNING\", steps = { done = 1, all = 3 }, questions = [{ id = \"q1\", text = \"?\" }] }\n";
    for (recorded, expected) in [
        (format!("{running}expects = {{ state = \"running\", progress = [1.0, 3.0], questions = [\"q1\"] }}"), "fine"),
        (
            // A question that the reply lacks is none.
            format!("{running}expects = {{ state = \"running\", questions = [] }}\n[ask]\nitems = \"[body.question]\"\nid = \"item.id\"\nmessage = \"item.text\""),
            "fine",
        ),
        (
            format!("{running}expects = {{ state = \"succeeded\" }}"),
            "recorded[0].expects.state: is `succeeded`, but by this config the reply means `running`",
        ),
        (
            format!("{running}expects = {{ progress = [2.0, 3.0] }}"),
            "recorded[0].expects.progress: is [2.0, 3.0], but by this config the reply means [1.0, 3.0]",
        ),
        (
            "call = \"start\"\nstatus = 201\ntarget = { kind = \"a\" }\nbody = { id = \"x\" }\nexpects = { handle = { id = \"tb-aaaaaaaaaaaaaaaaaaaaaaaaaa\" } }"
                .to_owned(),
            "fine",
        ),
        (
            "call = \"start\"\nstatus = 422\ntarget = { kind = \"a\" }\nbody = { detail = \"no paper\" }\nexpects = { error = \"rejected\", message = \"no paper\" }"
                .to_owned(),
            "fine",
        ),
        (
            "call = \"start\"\nstatus = 500\ntarget = { kind = \"a\" }\nexpects = { error = \"rejected\" }".to_owned(),
            "recorded[0].expects.error: is `rejected`, but by this config the reply means `uncertain`",
        ),
        (
            "call = \"observe\"\nstatus = 404\nhandle = { id = \"7\" }\nexpects = { state = \"gone\" }".to_owned(),
            "fine",
        ),
        (
            "call = \"start\"\nexpects = { state = \"gone\" }".to_owned(),
            "recorded[0]: the target's `kind` has no value",
        ),
    ] {
        let found = problem(&format!("[[recorded]]\n{recorded}"));
        assert!(found.starts_with(expected), "{recorded}\n  found: {found}\n  expected: {expected}");
    }
}

/// A target has the fields that the backend names, and its templates use parameters of the tool.
#[test]
fn wrong_target_is_reported() {
    let registry = Registry::new().with::<taskbridge_http::Http>();
    let adapter = registry.get("http").unwrap();
    let config = fields("http://127.0.0.1:9", &[COMMON, KEYED]);
    let check = |target| {
        let problems = (adapter.check_target)(&config, &target, &["branch"]);
        problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect::<Vec<_>>()
    };
    assert_eq!(check(json!({"kind": "x-{{ branch }}"})), Vec::<String>::new());
    assert_eq!(check(json!({})), [": missing field `kind`"]);
    assert_eq!(
        check(json!({"kind": "{{ brunch }}", "kin": 1})),
        [
            "kin: unknown field (known: `kind`)",
            "kind: `brunch` is unknown: the tool's parameters are `branch`"
        ]
    );
}

/// Each preset has what a backend needs but its address and credentials, and its recorded replies mean what it
/// says.
#[test]
fn presets_are_valid() {
    let registry = Registry::new().with::<taskbridge_http::Http>();
    let presets = registry.get("http").unwrap().presets;
    assert!(presets.len() >= 6, "{presets:?}");
    for (name, text) in presets {
        let mut fields = json!({"preset": name, "base": "https://engine.example.com/api"});
        // A preset that signs in by itself needs to know as whom.
        if text.contains("[auth.exchange]") {
            fields["auth"] = json!({"exchange": {"user": "bridge", "password": "secret"}});
        }
        // And one whose jobs are in a project needs it.
        if text.contains("{{ vars.project }}") {
            fields["vars"] = json!({"project": "p"});
        }
        if let Err(problem) = check(&fields) {
            panic!("{name}: {}: {}", problem.field, problem.message);
        }
        let preset: toml::Table = text.parse().unwrap();
        assert!(preset["about"]["title"].as_str().is_some_and(|title| !title.is_empty()), "{name}");
        let proof = preset["about"]["proof"].as_str().unwrap();
        assert!(["real", "emulator", "contract", "documentation"].contains(&proof), "{name}: {proof}");
        assert!(preset.get("recorded").is_some(), "{name} has no recorded replies");
        assert!(text.lines().count() <= 130, "{name} is too long");
    }
}
