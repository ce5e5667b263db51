//! Tests of access rules: examples, and properties for arbitrary rules and callers.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::auth::Identity;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn principal(name: &str, scopes: &[&str], groups: &[&str], claims: &Value) -> Principal {
    let claims = claims.as_object().cloned().unwrap_or_default();
    let identity = Identity { scopes: set(scopes), groups: set(groups), claims, ..Identity::named(name) };
    Principal {
        owner: Owner::new(name),
        identified: true,
        identity: Arc::new(identity),
        ..Principal::anonymous()
    }
}

fn rules(verb: Verb, rule: Rule) -> Rules {
    let mut rules = Rules::default();
    rules.set(verb, rule);
    rules
}

/// Without rules every caller may call, and only the owner sees, cancels and answers.
#[test]
fn access_without_rules_follows_ownership() {
    let (ann, bob) = (principal("ann", &[], &[], &json!({})), principal("bob", &[], &[], &json!({})));
    let rules = Rules::default();
    assert!(!rules.are_shared());
    assert_eq!(evaluate(&rules, Verb::Call, &bob, None), Verdict::Allowed);
    for verb in [Verb::See, Verb::Cancel, Verb::Answer] {
        assert_eq!(evaluate(&rules, verb, &ann, Some(&ann.owner)), Verdict::Allowed, "{verb:?}");
        assert_eq!(evaluate(&rules, verb, &bob, Some(&ann.owner)), Verdict::Denied, "{verb:?}");
    }
}

/// All kinds of condition must hold. Only a missing scope is reported as one that the caller can obtain.
#[test]
fn access_rule_requires_all_conditions() {
    let conditions = CallerConditions {
        scopes: set(&["deploy", "prod"]),
        groups: set(&["release", "ops"]),
        principals: set(&["ann", "bob"]),
        claims: BTreeMap::from([("org.unit".to_owned(), vec![json!("data"), json!(7)])]),
    };
    let rules = rules(Verb::Call, Rule { conditions: Some(conditions), ..Rule::default() });
    let unit = |unit: Value| json!({"org": {"unit": unit}});
    for (caller, verdict) in [
        (principal("ann", &["deploy", "prod", "x"], &["ops"], &unit(json!(["x", "data"]))), Verdict::Allowed),
        (principal("bob", &["deploy", "prod"], &["release"], &json!({"org.unit": 7})), Verdict::Allowed),
        (
            principal("ann", &["deploy"], &["ops"], &unit(json!("data"))),
            Verdict::MissingScopes(set(&["prod"])),
        ),
        (principal("cid", &["deploy", "prod"], &["ops"], &unit(json!("data"))), Verdict::Denied),
        (principal("ann", &[], &["other"], &unit(json!("data"))), Verdict::Denied),
        (principal("ann", &["deploy", "prod"], &["ops"], &unit(json!("dat"))), Verdict::Denied),
        (principal("ann", &["deploy", "prod"], &["ops"], &json!({"org": "data"})), Verdict::Denied),
    ] {
        assert_eq!(evaluate(&rules, Verb::Call, &caller, None), verdict, "{caller:?}");
    }
}

/// With `not_caller` the owner of a task never answers its questions, even as a member of the group.
#[test]
fn not_caller_rule_excludes_owner() {
    let conditions = Some(CallerConditions { groups: set(&["approvers"]), ..CallerConditions::default() });
    let rules = rules(Verb::Answer, Rule { conditions, owner: false, not_caller: true });
    let ann = principal("ann", &[], &["approvers"], &json!({}));
    let bob = principal("bob", &[], &["approvers"], &json!({}));
    let cid = principal("cid", &[], &[], &json!({}));
    assert!(rules.are_shared());
    assert_eq!(evaluate(&rules, Verb::Answer, &ann, Some(&ann.owner)), Verdict::OwnerExcluded);
    assert_eq!(evaluate(&rules, Verb::Answer, &bob, Some(&ann.owner)), Verdict::Allowed);
    assert_eq!(
        evaluate(&rules, Verb::See, &bob, Some(&ann.owner)),
        Verdict::Allowed,
        "a caller who may answer may see"
    );
    assert_eq!(evaluate(&rules, Verb::Cancel, &bob, Some(&ann.owner)), Verdict::Denied);
    assert_eq!(evaluate(&rules, Verb::See, &cid, Some(&ann.owner)), Verdict::Denied);
    assert_eq!(evaluate(&rules, Verb::See, &ann, Some(&ann.owner)), Verdict::Allowed);
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[ab]", 0..3)
}

fn any_principal() -> impl Strategy<Value = Principal> {
    ("[ab]", names(), names(), prop::option::of("[ab]")).prop_map(|(name, scopes, groups, claim)| {
        let claims = claim.map(|value| ("c".to_owned(), json!(value))).into_iter().collect();
        let identity = Identity { scopes, groups, claims, ..Identity::named(&name) };
        Principal {
            owner: Owner::new(&name),
            identified: true,
            identity: Arc::new(identity),
            ..Principal::anonymous()
        }
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let claims =
        prop::collection::btree_map("c", prop::collection::vec("[ab]".prop_map(Value::from), 1..3), 0..2);
    let conditions = (names(), names(), names(), claims).prop_map(|(scopes, groups, principals, claims)| {
        CallerConditions { scopes, groups, principals, claims }
    });
    (prop::option::of(conditions), any::<bool>(), any::<bool>())
        .prop_map(|(conditions, owner, not_caller)| Rule { conditions, owner, not_caller })
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (any_rule(), any_rule(), any_rule(), any_rule(), any_rule())
        .prop_map(|(call, see, cancel, answer, operate)| Rules { call, see, cancel, answer, operate })
}

proptest! {
    /// Under any rules: an owner can read, `not_caller` excludes the owner, a caller who may act can read,
    /// and additional scopes never remove a right.
    #[test]
    fn access_invariants_hold_under_rules(rules in any_rules(), caller in any_principal(), owner in "[ab]") {
        let owner = Owner::new(owner);
        let verdict_for = |verb, caller: &Principal| evaluate(&rules, verb, caller, Some(&owner));
        if caller.owner == owner {
            prop_assert_eq!(verdict_for(Verb::See, &caller), Verdict::Allowed);
            if rules.answer.not_caller {
                prop_assert_eq!(verdict_for(Verb::Answer, &caller), Verdict::OwnerExcluded);
            }
        }
        for verb in [Verb::Cancel, Verb::Answer] {
            if verdict_for(verb, &caller) == Verdict::Allowed {
                prop_assert_eq!(verdict_for(Verb::See, &caller), Verdict::Allowed);
            }
        }
        for verb in Verb::ALL {
            let before = verdict_for(verb, &caller);
            let with_scopes = |scopes: &BTreeSet<String>| {
                let mut identity = Identity::clone(&caller.identity);
                identity.scopes.extend(scopes.iter().cloned());
                Principal { identity: Arc::new(identity), ..caller.clone() }
            };
            if before == Verdict::Allowed {
                prop_assert_eq!(verdict_for(verb, &with_scopes(&set(&["a", "b", "z"]))), Verdict::Allowed);
            }
            if let Verdict::MissingScopes(scopes) = before {
                prop_assert!(!scopes.is_empty() && scopes.is_disjoint(&caller.identity.scopes));
                prop_assert_eq!(verdict_for(verb, &with_scopes(&scopes)), Verdict::Allowed, "the challenge lists all missing scopes");
            }
            // A rule without conditions admits only an owner.
            if rules.rule(verb).conditions.is_none() && verb != Verb::See && caller.owner != owner {
                prop_assert_eq!(verdict_for(verb, &caller), Verdict::Denied);
            }
        }
    }
}
