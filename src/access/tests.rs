//! Tests of access rules: examples, and properties for arbitrary rules and callers.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::auth::Identity;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn somebody(name: &str, scopes: &[&str], groups: &[&str], claims: &Value) -> Principal {
    let claims = claims.as_object().cloned().unwrap_or_default();
    let who = Identity { scopes: set(scopes), groups: set(groups), claims, ..Identity::named(name) };
    Principal { owner: Owner::new(name), identified: true, who: Arc::new(who), ..Principal::anybody() }
}

fn rules(verb: Verb, rule: Rule) -> Rules {
    let mut rules = Rules::default();
    rules.set(verb, rule);
    rules
}

/// Without rules every caller may call, and only the owner sees, cancels and answers.
#[test]
fn access_without_rules_follows_ownership() {
    let (ann, bob) = (somebody("ann", &[], &[], &json!({})), somebody("bob", &[], &[], &json!({})));
    let rules = Rules::default();
    assert!(!rules.are_shared());
    assert_eq!(may(&rules, Verb::Call, &bob, None), Verdict::May);
    for verb in [Verb::See, Verb::Cancel, Verb::Answer] {
        assert_eq!(may(&rules, verb, &ann, Some(&ann.owner)), Verdict::May, "{verb:?}");
        assert_eq!(may(&rules, verb, &bob, Some(&ann.owner)), Verdict::MayNot, "{verb:?}");
    }
}

/// All kinds of condition must hold. Only a missing scope is reported as one that the caller can obtain.
#[test]
fn access_rule_requires_all_conditions() {
    let who = Who {
        scopes: set(&["deploy", "prod"]),
        groups: set(&["release", "ops"]),
        principals: set(&["ann", "bob"]),
        claims: BTreeMap::from([("org.unit".to_owned(), vec![json!("data"), json!(7)])]),
    };
    let rules = rules(Verb::Call, Rule { who: Some(who), ..Rule::default() });
    let unit = |unit: Value| json!({"org": {"unit": unit}});
    for (them, verdict) in [
        (somebody("ann", &["deploy", "prod", "x"], &["ops"], &unit(json!(["x", "data"]))), Verdict::May),
        (somebody("bob", &["deploy", "prod"], &["release"], &json!({"org.unit": 7})), Verdict::May),
        (somebody("ann", &["deploy"], &["ops"], &unit(json!("data"))), Verdict::Lacks(set(&["prod"]))),
        (somebody("cid", &["deploy", "prod"], &["ops"], &unit(json!("data"))), Verdict::MayNot),
        (somebody("ann", &[], &["other"], &unit(json!("data"))), Verdict::MayNot),
        (somebody("ann", &["deploy", "prod"], &["ops"], &unit(json!("dat"))), Verdict::MayNot),
        (somebody("ann", &["deploy", "prod"], &["ops"], &json!({"org": "data"})), Verdict::MayNot),
    ] {
        assert_eq!(may(&rules, Verb::Call, &them, None), verdict, "{them:?}");
    }
}

/// With `not_caller` the owner of a task never answers its questions, even as a member of the group.
#[test]
fn not_caller_rule_excludes_owner() {
    let who = Some(Who { groups: set(&["approvers"]), ..Who::default() });
    let rules = rules(Verb::Answer, Rule { who, owner: false, not_caller: true });
    let ann = somebody("ann", &[], &["approvers"], &json!({}));
    let bob = somebody("bob", &[], &["approvers"], &json!({}));
    let cid = somebody("cid", &[], &[], &json!({}));
    assert!(rules.are_shared());
    assert_eq!(may(&rules, Verb::Answer, &ann, Some(&ann.owner)), Verdict::Own);
    assert_eq!(may(&rules, Verb::Answer, &bob, Some(&ann.owner)), Verdict::May);
    assert_eq!(may(&rules, Verb::See, &bob, Some(&ann.owner)), Verdict::May, "to answer is to see");
    assert_eq!(may(&rules, Verb::Cancel, &bob, Some(&ann.owner)), Verdict::MayNot);
    assert_eq!(may(&rules, Verb::See, &cid, Some(&ann.owner)), Verdict::MayNot);
    assert_eq!(may(&rules, Verb::See, &ann, Some(&ann.owner)), Verdict::May);
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[ab]", 0..3)
}

fn anybody() -> impl Strategy<Value = Principal> {
    ("[ab]", names(), names(), prop::option::of("[ab]")).prop_map(|(name, scopes, groups, claim)| {
        let claims = claim.map(|value| ("c".to_owned(), json!(value))).into_iter().collect();
        let who = Identity { scopes, groups, claims, ..Identity::named(&name) };
        Principal { owner: Owner::new(&name), identified: true, who: Arc::new(who), ..Principal::anybody() }
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let claims =
        prop::collection::btree_map("c", prop::collection::vec("[ab]".prop_map(Value::from), 1..3), 0..2);
    let who = (names(), names(), names(), claims).prop_map(|(scopes, groups, principals, claims)| Who {
        scopes,
        groups,
        principals,
        claims,
    });
    (prop::option::of(who), any::<bool>(), any::<bool>()).prop_map(|(who, owner, not_caller)| Rule {
        who,
        owner,
        not_caller,
    })
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (any_rule(), any_rule(), any_rule(), any_rule()).prop_map(|(call, see, cancel, answer)| Rules {
        call,
        see,
        cancel,
        answer,
    })
}

proptest! {
    /// Under any rules: an owner can read, `not_caller` excludes the owner, a caller who may act can read,
    /// and additional scopes never remove a right.
    #[test]
    fn access_invariants_hold_under_rules(rules in any_rules(), them in anybody(), owner in "[ab]") {
        let owner = Owner::new(owner);
        let ask = |verb, them: &Principal| may(&rules, verb, them, Some(&owner));
        if them.owner == owner {
            prop_assert_eq!(ask(Verb::See, &them), Verdict::May);
            if rules.answer.not_caller {
                prop_assert_eq!(ask(Verb::Answer, &them), Verdict::Own);
            }
        }
        for verb in [Verb::Cancel, Verb::Answer] {
            if ask(verb, &them) == Verdict::May {
                prop_assert_eq!(ask(Verb::See, &them), Verdict::May);
            }
        }
        for verb in Verb::ALL {
            let before = ask(verb, &them);
            let more = |scopes: &BTreeSet<String>| {
                let mut who = Identity::clone(&them.who);
                who.scopes.extend(scopes.iter().cloned());
                Principal { who: Arc::new(who), ..them.clone() }
            };
            if before == Verdict::May {
                prop_assert_eq!(ask(verb, &more(&set(&["a", "b", "z"]))), Verdict::May);
            }
            if let Verdict::Lacks(scopes) = before {
                prop_assert!(!scopes.is_empty() && scopes.is_disjoint(&them.who.scopes));
                prop_assert_eq!(ask(verb, &more(&scopes)), Verdict::May, "the challenge names all that is missing");
            }
            // A rule without conditions admits only an owner.
            if rules.of(verb).who.is_none() && verb != Verb::See && them.owner != owner {
                prop_assert_eq!(ask(verb, &them), Verdict::MayNot);
            }
        }
    }
}
