//! [`KeySet`]: the published keys of an issuer that can verify tokens (RFC 7517). It must not fetch anything,
//! and takes no key from a token.

use serde::Deserialize;
use serde_json::Value;

use super::algorithm::{Algorithm, JwkFields, PublicKey};
use super::jwt::Jwt;
use super::token_error::TokenError;

/// Maximum number of keys in one document.
const MAX_KEYS: usize = 100;

/// Maximum number of keys that are tried for one token. A token without a key id could be signed by any of
/// them.
const MAX_CANDIDATES: usize = 8;

/// The keys of an issuer.
#[derive(Debug, Default)]
pub struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

/// The attributes of a JWK other than its key material.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JwkAttributes {
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
}

impl KeySet {
    /// Parses a JWKS document.
    ///
    /// # Errors
    /// If the document is no JWKS, or has no usable keys or too many; the text states why.
    pub fn parse(document: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(document).map_err(|_| "invalid JSON".to_owned())?;
        let Some(entries) = document["keys"].as_array() else { return Err("no `keys`".to_owned()) };
        if entries.len() > MAX_KEYS {
            return Err(format!("{} keys, the limit is {MAX_KEYS}", entries.len()));
        }
        let keys: Vec<Key> = entries.iter().filter_map(Key::parse).collect();
        if keys.is_empty() {
            return Err("no key that can verify tokens".to_owned());
        }
        Ok(Self(keys))
    }

    /// Returns the number of keys; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Verifies the signature of a token and returns the key that matches.
    pub(super) fn check(&self, token: &Jwt<'_>) -> Result<&PublicKey, TokenError> {
        let has_key_id = |key: &&Key| token.key_id().is_none() || key.id.as_deref() == token.key_id();
        let supports_algorithm = |key: &&Key| {
            key.public.supports(token.algorithm)
                && key.algorithm.is_none_or(|algorithm| algorithm == token.algorithm)
        };
        let mut candidates =
            self.0.iter().filter(has_key_id).filter(supports_algorithm).take(MAX_CANDIDATES).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::Key);
        }
        let matching =
            candidates.find(|key| key.public.verifies(token.algorithm, token.signed_bytes, &token.signature));
        matching.map(|key| &key.public).ok_or(TokenError::Signature)
    }

    /// Returns true if the set has this key for this algorithm.
    pub(super) fn has(&self, public: &PublicKey, algorithm: Algorithm) -> bool {
        self.0.iter().any(|key| key.public == *public && key.algorithm.is_none_or(|own| own == algorithm))
    }
}

impl Key {
    fn parse(jwk: &Value) -> Option<Self> {
        let attributes = JwkAttributes::deserialize(jwk).ok()?;
        let signs = attributes.used_for.is_none_or(|used_for| used_for == "sig");
        let verifies = attributes.key_ops.is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !signs || !verifies {
            return None;
        }
        // A key for an unknown algorithm is not valid for any known one.
        let algorithm = match &attributes.alg {
            None => None,
            Some(name) => Some(Algorithm::from_name(name)?),
        };
        let public = PublicKey::from_jwk(&JwkFields::deserialize(jwk).ok()?)?;
        Some(Self { id: attributes.kid, algorithm, public })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn parse(document: &Value) -> Result<KeySet, String> {
        KeySet::parse(document.to_string().as_bytes())
    }

    /// Encryption keys and malformed entries of a key set are skipped.
    #[test]
    fn jwks_keeps_only_signing_keys() {
        let key = |extra: Value| {
            let mut key = json!({"kty": "OKP", "crv": "Ed25519", "x": X});
            key.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            key
        };
        let keys = parse(&json!({"keys": [
            key(json!({"kid": "plain"})),
            key(json!({"kid": "signs", "use": "sig", "key_ops": ["verify"], "alg": "EdDSA", "d": "AAAA"})),
            key(json!({"kid": "encrypts", "use": "enc"})),
            key(json!({"kid": "derives", "key_ops": ["deriveKey"]})),
            key(json!({"kid": "secret", "kty": "oct", "k": "AAAA"})),
            key(json!({"kid": "other", "alg": "HS256"})),
            "nonsense",
        ]}));
        let keys = keys.unwrap();
        let ids: Vec<_> = keys.0.iter().map(|key| key.id.as_deref().unwrap()).collect();
        assert_eq!(ids, ["plain", "signs"]);
    }

    #[test]
    fn key_set_error_names_reason() {
        let many: Vec<Value> = (0..=MAX_KEYS).map(|_| json!({"kty": "OKP"})).collect();
        for (document, expected) in [
            (json!([]), "no `keys`"),
            (json!({"keys": []}), "no key that"),
            (json!({"keys": [{"kty": "oct", "k": "AAAA"}]}), "no key that"),
            (json!({"keys": many}), "101 keys"),
        ] {
            assert!(parse(&document).unwrap_err().contains(expected), "{document}");
        }
        assert_eq!(KeySet::parse(b"<html>").unwrap_err(), "invalid JSON");
    }
}
