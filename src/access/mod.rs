//! Access rules as plain data: who may call a tool and act on its tasks. [`evaluate`] is the only
//! function that evaluates them. This module must not depend on a protocol, a store or the config file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::auth::Principal;
use crate::tasks::task::Owner;

/// An operation that a rule permits or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Call the tool and see it in lists.
    Call,
    /// Read a task: its status, result, log and artifacts.
    See,
    /// Cancel a task.
    Cancel,
    /// Answer the questions of a task.
    Answer,
    /// Read the tasks of all owners in the console.
    Operate,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Verb; 5] = [Self::Call, Self::See, Self::Cancel, Self::Answer, Self::Operate];

    /// Returns the verb's name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::See => "see",
            Self::Cancel => "cancel",
            Self::Answer => "answer",
            Self::Operate => "operate",
        }
    }
}

/// The rules of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Who may call the tool.
    pub call: Rule,
    /// Who may read its tasks, in addition to the owner and to callers who may cancel or answer them.
    pub see: Rule,
    /// Who may cancel its tasks.
    pub cancel: Rule,
    /// Who may answer the questions of its tasks.
    pub answer: Rule,
    /// Who may read its tasks in the console, whoever owns them. Clients of the protocol have no such right.
    pub operate: Rule,
}

/// Who may do one operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Callers that match these conditions.
    pub conditions: Option<CallerConditions>,
    /// The owner of the task.
    pub owner: bool,
    /// Excludes the owner of the task, even if another condition matches: the operation takes two people. It
    /// has no effect on [`Verb::See`], since an owner may always read.
    pub not_caller: bool,
}

/// Conditions on a caller. All kinds of condition that are set must match; without any, every caller matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallerConditions {
    /// The caller has all of these scopes.
    pub scopes: BTreeSet<String>,
    /// The caller is in one of these groups.
    pub groups: BTreeSet<String>,
    /// The caller is one of these, by the owner name of their tasks. (A display name does not prove
    /// identity.)
    pub principals: BTreeSet<String>,
    /// Each of these claims of the caller equals or contains one of these values. A name with dots is a path
    /// into objects.
    pub claims: BTreeMap<String, Vec<Value>>,
}

/// The result of evaluating a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The caller may do it.
    Allowed,
    /// The caller could do it with these additional scopes.
    MissingScopes(BTreeSet<String>),
    /// The caller owns the task, and the rule requires a different person.
    OwnerExcluded,
    /// No condition of the rule matches the caller.
    Denied,
}

impl Default for Rules {
    /// Every admitted caller may call; everything else is reserved for the task's owner.
    fn default() -> Self {
        let owner_only = Rule { owner: true, ..Rule::default() };
        Self {
            call: Rule::any_caller(),
            see: owner_only.clone(),
            cancel: owner_only.clone(),
            answer: owner_only,
            operate: Rule::default(),
        }
    }
}

impl Rules {
    /// Returns the rule of a verb.
    pub fn rule(&self, verb: Verb) -> &Rule {
        match verb {
            Verb::Call => &self.call,
            Verb::See => &self.see,
            Verb::Cancel => &self.cancel,
            Verb::Answer => &self.answer,
            Verb::Operate => &self.operate,
        }
    }

    /// Replaces the rule of a verb.
    pub fn set(&mut self, verb: Verb, rule: Rule) {
        *match verb {
            Verb::Call => &mut self.call,
            Verb::See => &mut self.see,
            Verb::Cancel => &mut self.cancel,
            Verb::Answer => &mut self.answer,
            Verb::Operate => &mut self.operate,
        } = rule;
    }

    /// Returns true if anybody but its owner may read a task or act on it.
    pub fn are_shared(&self) -> bool {
        [&self.see, &self.cancel, &self.answer, &self.operate]
            .into_iter()
            .any(|rule| rule.conditions.is_some())
    }
}

impl Rule {
    /// Returns a rule that matches every admitted caller.
    pub fn any_caller() -> Self {
        Self { conditions: Some(CallerConditions::default()), ..Self::default() }
    }
}

/// Returns whether a caller may act on a tool, or on one of its tasks: the one that belongs to `owner`, if
/// given.
pub fn evaluate(rules: &Rules, verb: Verb, principal: &Principal, owner: Option<&Owner>) -> Verdict {
    let is_own = owner == Some(&principal.owner);
    let rule = rules.rule(verb);
    if verb == Verb::See {
        // A caller who may cancel or answer must be able to read the task.
        let implied = || [Verb::Cancel, Verb::Answer].map(|verb| evaluate(rules, verb, principal, owner));
        if is_own || implied().contains(&Verdict::Allowed) {
            return Verdict::Allowed;
        }
    }
    if rule.not_caller && is_own {
        return Verdict::OwnerExcluded;
    }
    if rule.owner && is_own {
        return Verdict::Allowed;
    }
    match &rule.conditions {
        Some(conditions) => conditions.evaluate(principal),
        None => Verdict::Denied,
    }
}

impl CallerConditions {
    fn evaluate(&self, principal: &Principal) -> Verdict {
        let identity = &principal.identity;
        let in_group = self.groups.is_empty() || !self.groups.is_disjoint(&identity.groups);
        let by_name = self.principals.is_empty() || self.principals.contains(principal.owner.as_str());
        let by_claims =
            self.claims.iter().all(|(name, values)| claim_matches(&identity.claims, name, values));
        if !(in_group && by_name && by_claims) {
            return Verdict::Denied;
        }
        let missing: BTreeSet<String> = self.scopes.difference(&identity.scopes).cloned().collect();
        if missing.is_empty() { Verdict::Allowed } else { Verdict::MissingScopes(missing) }
    }
}

/// Returns true if a claim equals one of these values, or is a list that contains one.
fn claim_matches(caller_claims: &Map<String, Value>, name: &str, values: &[Value]) -> bool {
    let nested = || {
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(caller_claims.get(first)?, |at, step| at.get(step))
    };
    match caller_claims.get(name).or_else(nested) {
        Some(Value::Array(items)) => items.iter().any(|held| values.contains(held)),
        Some(claim) => values.contains(claim),
        None => false,
    }
}

#[cfg(test)]
mod tests;
