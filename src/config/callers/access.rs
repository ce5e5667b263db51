//! `[access]`, `[tools.NAME.access]` and `access` of a backend's discovery: who may call tools and act on
//! their tasks. It reports every error in a rule that is detectable without a request, above all rules that
//! no caller can match. It must not decide about a caller; [`crate::access::evaluate`] does that.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::auth::{ApiKey, AuthMode, Authentication};
use super::certificates::CertificateRule;
use crate::access::{self, CallerConditions, Rules, Verb, Verdict};
use crate::auth::{Certificates, Identity, Principal};
use crate::config::reading::problem::unknown_name;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;
use crate::tasks::task::Owner;

/// Who may call tools and act on their tasks. `[access]` sets the default for all tools.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// Who may call the tool. Other callers do not see it. Default: every caller that `[auth]` admits.
    pub call: Option<Rule>,
    /// Who may read its tasks, with their results, logs and artifacts, in addition to their owner and those
    /// who may cancel or answer. Default: no one else.
    pub see: Option<Rule>,
    /// Who may cancel its tasks. Default: their owner.
    pub cancel: Option<Rule>,
    /// Who may answer the questions of its tasks, including `confirm`. Default: their owner.
    pub answer: Option<Rule>,
    /// Who may read its tasks in the console, whoever owns them. Such reads are in the audit log. A rule needs
    /// `principals`. In `[access]`, they also see the audit log and check the backends. Default: no one.
    pub operate: Option<Rule>,
}

/// Who may do something: callers that match all conditions of this table.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// The caller has all of these scopes. A caller that only lacks scopes gets their names (HTTP 403,
    /// `insufficient_scope`).
    pub scopes: Option<Vec<String>>,
    /// The caller is in one of these groups.
    pub groups: Option<Vec<String>>,
    /// The caller is one of these: the `principal` of an API key, or an owner as `taskbridge tasks` shows it.
    pub principals: Option<Vec<String>>,
    /// Each of these claims of the token equals or contains the value, or one of the values. A name with dots
    /// is a path into objects.
    pub claims: BTreeMap<String, Claim>,
    /// Matches every caller that `[auth]` admits.
    pub everybody: bool,
    /// Also matches the owner of the task.
    pub owner: bool,
    /// With `answer`: excludes the owner of the task, so that it takes two people (four eyes).
    pub not_caller: bool,
}

/// The accepted values of a claim.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Claim {
    /// One of these values.
    Any(Vec<Value>),
    /// This value.
    One(Value),
}

/// The possible callers, as far as the config determines them.
#[derive(Clone, Debug)]
pub(in crate::config) enum PossibleCallers {
    /// All callers are anonymous.
    Anonymous,
    /// Exactly these callers.
    Listed(Vec<Principal>),
    /// Callers of an external issuer.
    External,
}

impl PossibleCallers {
    /// Returns the callers that this authentication admits.
    pub(in crate::config) fn of(auth: &Authentication) -> Self {
        match auth.mode {
            AuthMode::None => Self::Anonymous,
            AuthMode::ApiKeys | AuthMode::Certificates => {
                let keys = auth.keys.iter().map(key_principal);
                Self::Listed(keys.chain(auth.certificates.iter().map(certificate_principal)).collect())
            }
            AuthMode::Oauth => Self::External,
        }
    }
}

/// Returns the principal of a key.
fn key_principal(key: &ApiKey) -> Principal {
    let (scopes, groups) = (key.scopes.iter().cloned().collect(), key.groups.iter().cloned().collect());
    let who = Arc::new(Identity { scopes, groups, ..Identity::named(&key.principal) });
    Principal { owner: Owner::new(&key.principal), identified: true, identity: who, ..Principal::anonymous() }
}

/// Returns the principal of a certificate rule.
fn certificate_principal(rule: &CertificateRule) -> Principal {
    let (owner, who) = (Certificates::owner(&rule.principal), Arc::new(rule.identity()));
    Principal { owner, identified: true, identity: who, ..Principal::anonymous() }
}

/// Reads the rules of `field`, with `defaults` as the default.
pub(in crate::config) fn rules(
    reader: &mut Reader<'_>,
    field: &str,
    access: Option<&Access>,
    defaults: &Rules,
    callers: &PossibleCallers,
) -> Rules {
    let mut rules = defaults.clone();
    let Some(access) = access else { return rules };
    let Access { call, see, cancel, answer, operate } = access;
    let all = [
        (Verb::Call, call),
        (Verb::See, see),
        (Verb::Cancel, cancel),
        (Verb::Answer, answer),
        (Verb::Operate, operate),
    ];
    for (verb, rule) in all {
        let Some(rule) = rule else { continue };
        let field = join(field, verb.name());
        check(reader, &field, verb, rule, callers);
        rules.set(verb, rule.resolve());
        if reader.is_clean(&field)
            && let PossibleCallers::Listed(principals) = callers
            && !is_satisfiable(verb, &rule.resolve(), principals)
        {
            let message = match rule.not_caller {
                true => {
                    "no caller in [auth] could answer the questions of another caller's task: add the groups or \
                     scopes of this rule to a key"
                }
                false => "no caller in [auth] matches this rule: add its groups and scopes to a key",
            };
            reader.problem(field, message);
        }
    }
    rules
}

/// Returns true if one of these callers matches the rule: a rule with `owner` always does (except for
/// `call`), and one with `not_caller` needs a task of another of these callers.
fn is_satisfiable(verb: Verb, rule: &access::Rule, principals: &[Principal]) -> bool {
    let mut rules = Rules::default();
    rules.set(verb, rule.clone());
    let other_owner = Owner::new("");
    let may =
        |principal: &Principal, owner| access::evaluate(&rules, verb, principal, owner) == Verdict::Allowed;
    principals.iter().any(|caller| match (verb, rule.owner, rule.not_caller) {
        (Verb::Call, ..) => may(caller, None),
        (_, true, _) => true,
        (_, _, true) => {
            principals.iter().any(|other| other.owner != caller.owner && may(caller, Some(&other.owner)))
        }
        // On a task of somebody else: an owner may see the own task under any rule, which says nothing about
        // this one.
        (_, _, false) => may(caller, Some(&other_owner)),
    })
}

impl Rule {
    fn resolve(&self) -> access::Rule {
        let set = |names: &Option<Vec<String>>| names.iter().flatten().cloned().collect();
        let values = |claim: &Claim| match claim {
            Claim::Any(values) => values.clone(),
            Claim::One(value) => vec![value.clone()],
        };
        let claims = self.claims.iter().map(|(name, claim)| (name.clone(), values(claim))).collect();
        let who = CallerConditions {
            scopes: set(&self.scopes),
            groups: set(&self.groups),
            principals: set(&self.principals),
            claims,
        };
        let who = (self.everybody || self.has_conditions()).then_some(who);
        access::Rule { conditions: who, owner: self.owner, not_caller: self.not_caller }
    }

    fn has_conditions(&self) -> bool {
        self.conditions().next().is_some()
    }

    /// Returns the names of the conditions that are set.
    fn conditions(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.scopes.is_some(), "scopes"),
            (self.groups.is_some(), "groups"),
            (self.principals.is_some(), "principals"),
            (!self.claims.is_empty(), "claims"),
        ]
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name))
    }
}

/// Reports errors in a single rule.
fn check(reader: &mut Reader<'_>, field: &str, verb: Verb, rule: &Rule, callers: &PossibleCallers) {
    let lists = [("scopes", &rule.scopes), ("groups", &rule.groups), ("principals", &rule.principals)];
    for (name, list) in lists {
        match list {
            Some(names) if names.is_empty() => {
                reader.problem(
                    join(field, name),
                    "must not be empty, because no caller would match: add an entry, or remove it",
                );
            }
            Some(names) if names.iter().any(|name| name.trim().is_empty()) => {
                reader.problem(join(field, name), "contains an empty name: remove it");
            }
            _ => {}
        }
    }
    // RFC 6749, section 3.3. Scopes also appear in a header.
    let is_allowed = |c: char| c.is_ascii_graphic() && !"\"\\".contains(c);
    if rule.scopes.iter().flatten().any(|scope| !scope.chars().all(is_allowed)) {
        let message = "a scope has visible ASCII characters only, and no space, quote or backslash";
        reader.problem(join(field, "scopes"), message);
    }
    let claims = join(field, "claims");
    for (name, claim) in &rule.claims {
        if *claim == Claim::Any(Vec::new()) {
            reader
                .problem(join(&claims, name), "must not be empty, because no claim would match: add a value");
        }
    }
    if rule.everybody && rule.has_conditions() {
        let message =
            "every caller matches, whatever the other conditions are: remove this, or the conditions";
        reader.problem(join(field, "everybody"), message);
    }
    if verb == Verb::Operate && rule.principals.is_none() {
        reader.problem(
            join(field, "principals"),
            "missing: this right is granted by name, so list the callers",
        );
    } else if !rule.everybody && !rule.has_conditions() && !rule.owner {
        let message = match rule.not_caller {
            true => {
                "the rule excludes a caller, but admits none: add `groups`, `scopes`, `claims`, `principals` or `everybody = true`"
            }
            false => {
                "the rule admits no caller: add `groups`, `scopes`, `claims`, `principals`, `owner = true` or `everybody = true`"
            }
        };
        reader.problem(field, message);
    }
    let misplaced = match verb {
        Verb::Call if rule.owner => Some(("owner", "a call has no task yet, and so no owner: remove it")),
        Verb::Operate if rule.owner => Some(("owner", "the owner of a task can always read it: remove this")),
        Verb::See if rule.owner => Some(("owner", "the owner of a task can always read it: remove this")),
        Verb::Answer if rule.owner && rule.not_caller => {
            Some(("not_caller", "contradicts `owner = true`: keep one of the two"))
        }
        Verb::Call | Verb::See | Verb::Cancel | Verb::Operate if rule.not_caller => {
            Some(("not_caller", "only allowed in `answer`: remove it"))
        }
        _ => None,
    };
    if let Some((name, message)) = misplaced {
        reader.problem(join(field, name), message);
    }
    check_possible(reader, field, rule, callers);
}

/// Reports conditions that no possible caller can match.
fn check_possible(reader: &mut Reader<'_>, field: &str, rule: &Rule, callers: &PossibleCallers) {
    match callers {
        PossibleCallers::Anonymous => {
            let person_condition = rule.conditions().next().or(rule.not_caller.then_some("not_caller"));
            if let Some(name) = person_condition {
                let message = "[auth] does not identify callers (mode = \"none\"), so no caller matches: set another \
                               mode, or remove the rule";
                reader.problem(join(field, name), message);
            }
        }
        PossibleCallers::Listed(principals) => {
            let names: Vec<&str> = principals.iter().map(|principal| principal.owner.as_str()).collect();
            for (index, name) in rule.principals.iter().flatten().enumerate() {
                if !names.contains(&name.as_str()) {
                    let field = format!("{}[{index}]", join(field, "principals"));
                    reader.problem(field, unknown_name("principal", name, &names));
                }
            }
        }
        PossibleCallers::External => {}
    }
}
