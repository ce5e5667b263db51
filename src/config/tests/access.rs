//! Errors in access rules, with their exact messages. It must not decide about a caller.

use super::*;
use crate::access::{CallerConditions, Rule, Rules};

/// Two keys; one has a group and a scope.
const KEYS: &str = "[auth]\nmode = \"api_keys\"\n\
    [[auth.keys]]\nprincipal = \"ann\"\nsha256 = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"\n\
    groups = [\"release\"]\nscopes = [\"deploy\"]\n\
    [[auth.keys]]\nprincipal = \"bob\"\nsha256 = \"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"\n";

fn with(access: &str) -> String {
    format!("{KEYS}[backends.here]\nkind = \"sim\"\n[tools.t]\nbackend = \"here\"\ntarget = {{}}\n{access}\n")
}

fn groups(names: &[&str]) -> CallerConditions {
    CallerConditions {
        groups: names.iter().map(|name| (*name).to_owned()).collect(),
        ..CallerConditions::default()
    }
}

/// A tool's rules replace those of `[access]`, verb by verb.
#[test]
fn tool_access_overrides_default_access() {
    let text = with(
        "access.answer = { groups = [\"release\"], not_caller = true }\n\
         [tools.other]\nbackend = \"here\"\ntarget = {}\n\
         [access]\ncall = { groups = [\"release\"] }\nanswer = { owner = true }\nsee = { everybody = true }",
    );
    let config = read(&text).unwrap();
    let release = || Some(groups(&["release"]));
    let table = Rules {
        call: Rule { conditions: release(), ..Rule::default() },
        see: Rule::any_caller(),
        ..Rules::default()
    };
    assert_eq!(config.access, table);
    let of = |name: &str| config.tools.iter().find(|tool| tool.name == name).unwrap().access.clone();
    assert_eq!(of("other"), table);
    let answer = Rule { conditions: release(), owner: false, not_caller: true };
    assert_eq!(of("t"), Rules { answer, ..table });
    assert_eq!(read(&with("")).unwrap().tools[0].access, Rules::default());
    let claims = read(&with("access.call = { claims = { team = \"data\", level = [1, 2] } }"))
        .unwrap_err()
        .to_string();
    assert!(claims.contains("nobody that [auth] lists could meet it"), "keys have no claims: {claims}");
}

#[test]
fn unsatisfiable_access_rule_is_refused() {
    for (rule, expected) in [
        (
            "call = {}",
            "call: it names nobody: add `groups`, `scopes`, `claims`, `principals`, `owner = true` or `everybody = true`",
        ),
        (
            "call = { groups = [] }",
            "call.groups: it is empty, so nobody could meet it: name one, or remove it",
        ),
        (
            "see = { claims = { team = [] } }",
            "see.claims.team: it is empty, so no claim could be one of it: list a value",
        ),
        ("call = { groups = [\" \"] }", "call.groups: one of the names is empty: nobody has that"),
        (
            "call = { scopes = [\"a b\"] }",
            "call.scopes: a scope has visible ASCII characters only, and no space, quote or backslash",
        ),
        (
            "call = { owner = true }",
            "call.owner: before a call there is no task that somebody could own: remove it",
        ),
        (
            "see = { everybody = true, owner = true }",
            "see.owner: the owner of a task can always look at it: remove it",
        ),
        (
            "cancel = { groups = [\"release\"], not_caller = true }",
            "cancel.not_caller: it goes with `answer`: remove it",
        ),
        (
            "answer = { owner = true, not_caller = true }",
            "answer.not_caller: `owner = true` says the opposite: keep one of the two",
        ),
        (
            "answer = { not_caller = true }",
            "answer: it says who must not, and nobody who may: add `groups`, `scopes`, `claims`, `principals` or `everybody = true`",
        ),
        (
            "call = { everybody = true, groups = [\"release\"] }",
            "call.everybody: everybody would meet it whatever else stands here: remove this, or the conditions",
        ),
        (
            "call = { groups = [\"data\"] }",
            "call: nobody that [auth] lists could meet it: give a key the groups and scopes that this names",
        ),
        (
            "see = { scopes = [\"deploy\", \"prod\"] }",
            "see: nobody that [auth] lists could meet it: give a key the groups and scopes that this names",
        ),
        ("call = { principals = [\"anna\"] }", "call.principals[0]: unknown principal `anna`"),
        ("call = { grups = [\"x\"] }", "call.grups: unknown field `grups`"),
    ] {
        let errors = error_text(&with(&format!("access.{rule}")));
        let first = errors.lines().next().unwrap();
        assert!(first.starts_with(&format!("x.toml:16: tools.t.access.{expected}")), "{rule}: {errors}");
    }
}

/// A `not_caller` rule that only the caller could meet is refused.
#[test]
fn not_caller_rule_needs_two_principals() {
    let rule = "access.answer = { principals = [\"ann\"], not_caller = true }";
    assert!(read(&with(rule)).is_ok(), "ann answers what bob's tasks ask");
    let alone = with(rule).replace("principal = \"bob\"", "principal = \"ann\"");
    assert!(
        error_text(&alone).contains("nobody could answer what another one's task asks"),
        "{}",
        error_text(&alone)
    );
}

/// Without auth, a rule about groups, scopes or other callers is refused.
#[test]
fn person_rules_need_auth() {
    for rule in [
        "call = { groups = [\"release\"] }",
        "see = { scopes = [\"x\"] }",
        "answer = { everybody = true, not_caller = true }",
    ] {
        let errors = with_tool(&format!("access.{rule}\n"));
        assert!(errors.contains("[auth] tells nobody from anybody (mode = \"none\")"), "{rule}: {errors}");
    }
    assert!(read("[access]\ncall = { everybody = true }\n").is_ok());
}

/// Access rules for discovered tools are checked in the backend's `discover` table.
#[test]
fn discover_access_error_names_table() {
    let text = format!(
        "{KEYS}[backends.here]\nkind = \"sim\"\n[backends.here.discover]\naccess.call = {{ groups = [\"data\"] }}\n"
    );
    let errors = error_text(&text);
    assert!(errors.contains("backends.here.discover.access.call: nobody that [auth] lists"), "{errors}");
}
