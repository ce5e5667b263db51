//! Reads the claims of a verified ID token (OpenID Connect Core, section 3.1.3.7), and what a session keeps of
//! them. Pure: the signature was verified before. An ID token never authenticates a request of the protocol.

use serde_json::{Map, Value};
use taskbridge_sdk::Timestamp;

use super::claims::{Bearer, ClaimRules};
use super::token_error::TokenError;

/// Claims that are about the token and not about the person.
const ABOUT_THE_TOKEN: [&str; 13] = [
    "iss",
    "aud",
    "azp",
    "exp",
    "nbf",
    "iat",
    "jti",
    "nonce",
    "at_hash",
    "c_hash",
    "s_hash",
    "sid",
    "auth_time",
];

impl ClaimRules {
    /// Reads the claims of an ID token for this client, with this nonce. Returns those that a session keeps,
    /// with the scopes that the issuer granted.
    pub(super) fn read_id_token(
        &self,
        mut claims: Map<String, Value>,
        client: &str,
        nonce: &str,
        scope: &str,
        now: Timestamp,
    ) -> Result<Map<String, Value>, TokenError> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&self.issuer) {
            return Err(TokenError::Issuer);
        }
        let is_only_audience = match claims.get("aud") {
            Some(Value::String(audience)) => audience == client,
            Some(Value::Array(audiences)) => {
                audiences.iter().any(|audience| audience == client)
                    && (audiences.len() == 1 || text("azp") == Some(client))
            }
            _ => false,
        };
        if !is_only_audience || text("azp").is_some_and(|party| party != client) {
            return Err(TokenError::Audience);
        }
        if text("nonce") != Some(nonce) {
            return Err(TokenError::Nonce);
        }
        for name in ["exp", "iat"] {
            if !claims.contains_key(name) {
                return Err(TokenError::MissingClaim(name));
            }
        }
        // The audience of access tokens is another.
        claims.remove("aud");
        claims.insert("scope".to_owned(), scope.into());
        self.read_claims(claims.clone(), now, false)?;
        claims.retain(|name, _| !ABOUT_THE_TOKEN.contains(&name.as_str()));
        Ok(claims)
    }

    /// Reads the claims that a session keeps. The session has its own expiry.
    pub(super) fn read_session(
        &self,
        claims: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Bearer, TokenError> {
        self.read_claims(claims, now, false)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::auth::oauth::Claim;

    const NOW: i64 = 1_800_000_000;

    fn rules() -> ClaimRules {
        ClaimRules {
            issuer: "https://login.example".to_owned(),
            audiences: vec!["https://bridge.example/mcp".to_owned()],
            leeway: Duration::from_secs(30),
            groups: Claim::new("groups"),
            tenant: None,
            name: Claim::new("name"),
            implied: BTreeMap::new(),
        }
    }

    /// Reads the claims of a valid ID token with changed values; null removes one.
    fn read(changes: &Value) -> Result<Map<String, Value>, TokenError> {
        let mut claims = json!({
            "iss": "https://login.example", "aud": "console", "sub": "ann", "nonce": "n", "name": "Ann",
            "exp": NOW + 60, "iat": NOW, "groups": ["data"], "at_hash": "x",
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(changes.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        let now = Timestamp::from_millis(NOW * 1000);
        rules().read_id_token(claims.clone(), "console", "n", "openid bridge", now)
    }

    /// The session has the owner that an access token of the same person has, and the granted scopes.
    #[test]
    fn session_has_owner_of_access_tokens() {
        let kept = read(&json!({})).unwrap();
        assert_eq!(
            Value::Object(kept.clone()),
            json!({"sub": "ann", "name": "Ann", "groups": ["data"], "scope": "openid bridge"})
        );
        let long_after = Timestamp::from_millis((NOW + 100_000) * 1000);
        let bearer = rules().read_session(kept, long_after).unwrap();
        assert_eq!(bearer.owner.as_str(), r#"["https://login.example","ann"]"#);
        assert!(bearer.identity.groups.contains("data") && bearer.identity.scopes.contains("bridge"));
    }

    /// A token for another client, of another sign-in, or outside its time is refused.
    #[test]
    fn other_id_tokens_are_refused() {
        assert!(read(&json!({"aud": ["console", "other"], "azp": "console"})).is_ok());
        for (changes, error) in [
            (json!({"iss": "https://evil.example"}), TokenError::Issuer),
            (json!({"aud": "https://bridge.example/mcp"}), TokenError::Audience),
            (json!({"aud": ["console", "other"]}), TokenError::Audience),
            (json!({"azp": "other"}), TokenError::Audience),
            (json!({"aud": null}), TokenError::Audience),
            (json!({"nonce": "m"}), TokenError::Nonce),
            (json!({"nonce": null}), TokenError::Nonce),
            (json!({"exp": NOW - 60}), TokenError::Expired),
            (json!({"exp": null}), TokenError::MissingClaim("exp")),
            (json!({"iat": NOW + 60}), TokenError::NotYetValid),
            (json!({"iat": null}), TokenError::MissingClaim("iat")),
            (json!({"sub": null}), TokenError::MissingClaim("sub")),
        ] {
            assert_eq!(read(&changes), Err(error), "{changes}");
        }
    }
}
