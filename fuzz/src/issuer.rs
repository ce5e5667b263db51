//! Fuzz target of an issuer's responses: documents with its keys, and token introspection. A document must
//! contain usable keys or be refused. Introspection must refuse tokens that are inactive, of another issuer
//! or for another server.

use serde_json::{Value, json};
use taskbridge::auth::oauth::KeySet;
use taskbridge::clock::{Clock as _, System};

use super::draw::Draw;
use super::endpoint::Endpoint;
use super::token::{AUDIENCE, ISSUER, check_audience, claim_rules, mutated};

/// Maximum number of keys in one document.
const MAX_KEYS: usize = 100;

/// Parses responses.
pub fn target(_: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    match draw.below(3) {
        0 => check_keys(draw.rest()),
        1 => {
            let mut document = document();
            for _ in 0..draw.below(4) {
                draw.mutate(&mut document);
            }
            check_keys(document.to_string().as_bytes());
        }
        _ => {
            let introspection = json!({
                "active": true, "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "client_id": "c",
                "exp": 4_000_000_000_u64, "scope": "run",
            });
            check_introspection(&mutated(&mut draw, introspection), draw.once_in(2));
        }
    }
}

fn check_keys(document: &[u8]) {
    if let Ok(keys) = KeySet::parse(document) {
        assert!((1..=MAX_KEYS).contains(&keys.len()), "{} keys", keys.len());
        let listed: Value = serde_json::from_slice(document).unwrap();
        let usable = |key: &&Value| ["RSA", "EC", "OKP"].iter().any(|kind| key["kty"] == *kind);
        assert!(keys.len() <= listed["keys"].as_array().unwrap().iter().filter(usable).count(), "{listed}");
    }
}

/// Returns a document with keys of each kind, including a shared secret.
fn document() -> Value {
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "use": "sig", "alg": "EdDSA", "key_ops": ["verify"], "x": x},
        {"kty": "EC", "crv": "P-256", "kid": "b", "x": x, "y": x},
        {"kty": "RSA", "kid": "c", "n": "x".repeat(342), "e": "AQAB"},
        {"kty": "oct", "kid": "d", "k": x},
    ]})
}

fn check_introspection(introspection: &Value, for_us: bool) {
    let Some(claims) = introspection.as_object() else { return };
    let Ok(bearer) = claim_rules().read_introspection(claims.clone(), System.now(), for_us) else { return };
    assert_eq!(claims["active"], true);
    assert!(claims.get("iss").is_none_or(|issuer| issuer == ISSUER), "{introspection}");
    match claims.get("aud") {
        Some(audience) => check_audience(audience),
        None => assert!(for_us, "{introspection}"),
    }
    assert!(!claims.contains_key("cnf"), "{introspection}");
    let owner: Value = serde_json::from_str(bearer.owner.as_str()).unwrap();
    let subject =
        claims.get("sub").and_then(Value::as_str).filter(|sub| !sub.is_empty()).map(|sub| json!(sub));
    let identity = subject.unwrap_or_else(|| json!({"client_id": claims["client_id"].as_str().unwrap()}));
    assert_eq!(owner, json!([ISSUER, identity]), "{introspection}");
}
