//! Who may do what with a tool and with the tasks that it makes: rules as plain data, and [`may`], the one function that
//! decides by them. It must not know a protocol, a store or the config file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::auth::Principal;
use crate::tasks::task::Owner;

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// To call the tool, and to know that it is there.
    Call,
    /// To look at a task: where it stands, its result, its log and its artifacts.
    See,
    /// To cancel a task.
    Cancel,
    /// To answer what a task asks.
    Answer,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 4] = [Self::Call, Self::See, Self::Cancel, Self::Answer];

    /// Its name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::See => "see",
            Self::Cancel => "cancel",
            Self::Answer => "answer",
        }
    }
}

/// The rules of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Who may call it.
    pub call: Rule,
    /// Who, beside a task's owner and those who may do more with it, may look at its tasks.
    pub see: Rule,
    /// Who may cancel its tasks.
    pub cancel: Rule,
    /// Who may answer what its tasks ask.
    pub answer: Rule,
}

/// Who may do one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Those who are like this.
    pub who: Option<Who>,
    /// The owner of the task.
    pub owner: bool,
    /// Never the owner of the task, whoever they are: it takes two people.
    pub not_caller: bool,
}

/// What somebody must be like. Each kind of condition that stands here must be met; without any, everybody is like this.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Who {
    /// They have all of these scopes.
    pub scopes: BTreeSet<String>,
    /// They are in one of these groups.
    pub groups: BTreeSet<String>,
    /// They are one of these, by the name of the owner of their tasks. (What people call them is no proof of who they are.)
    pub principals: BTreeSet<String>,
    /// Each of these claims of theirs has, or holds, one of these values. A name with dots leads into objects.
    pub claims: BTreeMap<String, Vec<Value>>,
}

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They may.
    May,
    /// They might, with these scopes beside those that they have.
    Lacks(BTreeSet<String>),
    /// They must not: it is their own task, and takes somebody else.
    Own,
    /// They are none of those who may.
    MayNot,
}

impl Default for Rules {
    /// Everybody who was let in may call; all else is for a task's owner.
    fn default() -> Self {
        let owners = Rule { owner: true, ..Rule::default() };
        Self { call: Rule::everybody(), see: owners.clone(), cancel: owners.clone(), answer: owners }
    }
}

impl Rules {
    /// The rule of a verb.
    pub fn of(&self, verb: Verb) -> &Rule {
        match verb {
            Verb::Call => &self.call,
            Verb::See => &self.see,
            Verb::Cancel => &self.cancel,
            Verb::Answer => &self.answer,
        }
    }

    /// Replaces the rule of a verb.
    pub fn set(&mut self, verb: Verb, rule: Rule) {
        *match verb {
            Verb::Call => &mut self.call,
            Verb::See => &mut self.see,
            Verb::Cancel => &mut self.cancel,
            Verb::Answer => &mut self.answer,
        } = rule;
    }

    /// True if somebody else than its owner may do something with a task.
    pub fn are_shared(&self) -> bool {
        [&self.see, &self.cancel, &self.answer].into_iter().any(|rule| rule.who.is_some())
    }
}

impl Rule {
    /// Everybody who was let in.
    pub fn everybody() -> Self {
        Self { who: Some(Who::default()), ..Self::default() }
    }
}

/// Whether somebody may do something with a tool, or with a task of it: that of `owner`, where there is one.
pub fn may(rules: &Rules, verb: Verb, principal: &Principal, owner: Option<&Owner>) -> Verdict {
    let is_own = owner == Some(&principal.owner);
    let rule = rules.of(verb);
    if verb == Verb::See {
        // Whoever may do more with a task must be able to see what they do.
        let more = || [Verb::Cancel, Verb::Answer].map(|verb| may(rules, verb, principal, owner));
        if is_own || more().contains(&Verdict::May) {
            return Verdict::May;
        }
    }
    if rule.not_caller && is_own {
        return Verdict::Own;
    }
    if rule.owner && is_own {
        return Verdict::May;
    }
    match &rule.who {
        Some(who) => who.judge(principal),
        None => Verdict::MayNot,
    }
}

impl Who {
    fn judge(&self, principal: &Principal) -> Verdict {
        let them = &principal.who;
        let in_group = self.groups.is_empty() || !self.groups.is_disjoint(&them.groups);
        let by_name = self.principals.is_empty() || self.principals.contains(principal.owner.as_str());
        let by_claims = self.claims.iter().all(|(name, values)| claims(&them.claims, name, values));
        if !(in_group && by_name && by_claims) {
            return Verdict::MayNot;
        }
        let lacking: BTreeSet<String> = self.scopes.difference(&them.scopes).cloned().collect();
        if lacking.is_empty() { Verdict::May } else { Verdict::Lacks(lacking) }
    }
}

/// True if a claim has one of these values, or is a list that holds one.
fn claims(all: &Map<String, Value>, name: &str, values: &[Value]) -> bool {
    let led_to = || {
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(all.get(first)?, |at, step| at.get(step))
    };
    match all.get(name).or_else(led_to) {
        Some(Value::Array(held)) => held.iter().any(|held| values.contains(held)),
        Some(claimed) => values.contains(claimed),
        None => false,
    }
}

#[cfg(test)]
mod tests;
