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
    assert!(claims.contains("no caller in [auth] matches this rule"), "keys have no claims: {claims}");
}

#[test]
fn unsatisfiable_access_rule_is_refused() {
    for (rule, expected) in [
        (
            "call = {}",
            "call: the rule admits no caller: add `groups`, `scopes`, `claims`, `principals`, `owner = true` or `everybody = true`",
        ),
        (
            "call = { groups = [] }",
            "call.groups: must not be empty, because no caller would match: add an entry, or remove it",
        ),
        (
            "see = { claims = { team = [] } }",
            "see.claims.team: must not be empty, because no claim would match: add a value",
        ),
        ("call = { groups = [\" \"] }", "call.groups: contains an empty name: remove it"),
        (
            "call = { scopes = [\"a b\"] }",
            "call.scopes: a scope has visible ASCII characters only, and no space, quote or backslash",
        ),
        ("call = { owner = true }", "call.owner: a call has no task yet, and so no owner: remove it"),
        (
            "see = { everybody = true, owner = true }",
            "see.owner: the owner of a task can always read it: remove this",
        ),
        (
            "cancel = { groups = [\"release\"], not_caller = true }",
            "cancel.not_caller: only allowed in `answer`: remove it",
        ),
        (
            "answer = { owner = true, not_caller = true }",
            "answer.not_caller: contradicts `owner = true`: keep one of the two",
        ),
        (
            "answer = { not_caller = true }",
            "answer: the rule excludes a caller, but admits none: add `groups`, `scopes`, `claims`, `principals` or `everybody = true`",
        ),
        (
            "call = { everybody = true, groups = [\"release\"] }",
            "call.everybody: every caller matches, whatever the other conditions are: remove this, or the conditions",
        ),
        (
            "call = { groups = [\"data\"] }",
            "call: no caller in [auth] matches this rule: add its groups and scopes to a key",
        ),
        (
            "see = { scopes = [\"deploy\", \"prod\"] }",
            "see: no caller in [auth] matches this rule: add its groups and scopes to a key",
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
        error_text(&alone)
            .contains("no caller in [auth] could answer the questions of another caller's task"),
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
        assert!(errors.contains("[auth] does not identify callers (mode = \"none\")"), "{rule}: {errors}");
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
    assert!(errors.contains("backends.here.discover.access.call: no caller in [auth] matches"), "{errors}");
}
