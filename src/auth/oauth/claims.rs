//! Reads the claims of a verified token, or of an introspection response: audience, validity period, and
//! identity. Pure: the signature of the token, or the source of the response, was verified before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::Timestamp;

use super::token_error::TokenError;
use crate::auth::Identity;
use crate::tasks::task::Owner;

/// Maximum length of a display name, in characters.
const MAX_NAME_CHARS: usize = 256;

/// How the tokens of an issuer are interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// Required issuer, compared exactly. An introspection response may omit it.
    pub issuer: String,
    /// Accepted audiences: the token must have one of these. An introspection response may omit them if
    /// `audience_implied` is set.
    pub audiences: Vec<String>,
    /// Accepted clock skew.
    pub leeway: Duration,
    /// The claim with the groups.
    pub groups: Claim,
    /// The claim with the tenant, if the owner depends on the tenant, too.
    pub tenant: Option<Claim>,
    /// The claim with the display name.
    pub name: Claim,
    /// Scopes that imply other scopes.
    pub implied: BTreeMap<String, Vec<String>>,
}

/// Reference to a claim: by its name, or by a JSON Pointer if it begins with a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim(String);

impl Claim {
    /// Creates a reference to the claim with this name or pointer.
    pub fn new(reference: &str) -> Self {
        Self(reference.to_owned())
    }

    fn get<'a>(&self, claims: &'a Value) -> Option<&'a Value> {
        if self.0.starts_with('/') { claims.pointer(&self.0) } else { claims.get(&self.0) }
    }
}

/// The identity and expiry of a token's bearer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bearer {
    /// The owner of the bearer's tasks.
    pub owner: Owner,
    /// The bearer's identity.
    pub identity: Identity,
    /// Expiry, including the leeway. `None` if the claims have no expiry.
    pub expires_at: Option<Timestamp>,
}

impl ClaimRules {
    /// Reads the claims of a signed token, which must contain all required claims itself (RFC 9068).
    pub(super) fn read_token(
        &self,
        claims: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Bearer, TokenError> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(TokenError::Issuer);
        }
        if !claims.contains_key("aud") {
            return Err(TokenError::Audience);
        }
        if !claims.contains_key("exp") {
            return Err(TokenError::MissingClaim("exp"));
        }
        // ID tokens have these claims, and access tokens do not.
        if ["at_hash", "c_hash", "nonce"].iter().any(|name| claims.contains_key(*name)) {
            return Err(TokenError::Type);
        }
        self.read_claims(claims, now, false)
    }

    /// Reads an introspection response (RFC 7662). `audience_implied` means that the issuer answers only for
    /// tokens for this server, so that `aud` may be missing.
    ///
    /// # Errors
    /// If the claims are invalid, or the token is inactive.
    pub fn read_introspection(
        &self,
        claims: Map<String, Value>,
        now: Timestamp,
        audience_implied: bool,
    ) -> Result<Bearer, TokenError> {
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(TokenError::Inactive);
        }
        if claims.get("iss").is_some_and(|issuer| issuer.as_str() != Some(&self.issuer)) {
            return Err(TokenError::Issuer);
        }
        if !claims.contains_key("aud") && !audience_implied {
            return Err(TokenError::Audience);
        }
        self.read_claims(claims, now, true)
    }

    /// Reads claims. `is_introspection` means that they come from an introspection response, not a token.
    pub(super) fn read_claims(
        &self,
        claims: Map<String, Value>,
        now: Timestamp,
        is_introspection: bool,
    ) -> Result<Bearer, TokenError> {
        let claims = Value::Object(claims);
        if let Some(audience) = claims.get("aud")
            && !strings(audience).any(|audience| self.audiences.iter().any(|accepted| accepted == audience))
        {
            return Err(TokenError::Audience);
        }
        let expires_at = timestamp_claim(&claims, "exp")?.map(|expires_at| expires_at + self.leeway);
        if expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(TokenError::Expired);
        }
        for name in ["nbf", "iat"] {
            if timestamp_claim(&claims, name)?.is_some_and(|not_before| not_before > now + self.leeway) {
                return Err(TokenError::NotYetValid);
            }
        }
        if claims.get("cnf").is_some() {
            return Err(TokenError::KeyBound);
        }
        let text = |claim: &Claim| claim.get(&claims).and_then(Value::as_str).filter(|text| !text.is_empty());
        let subject = match (text(&Claim::new("sub")), text(&Claim::new("client_id"))) {
            (Some(subject), _) => Subject::Sub(subject),
            // An issuer may report only `client_id` for a client that acts for itself; a signed token has it
            // as `sub`.
            (None, Some(client)) if is_introspection => Subject::ClientId(client),
            _ => return Err(TokenError::MissingClaim("sub")),
        };
        let tenant = match &self.tenant {
            None => None,
            Some(claim) => Some(text(claim).ok_or(TokenError::MissingClaim("the tenant"))?.to_owned()),
        };
        let name = text(&self.name).map_or_else(|| display_name(subject.text()), display_name);
        let owner = owner(&self.issuer, tenant.as_deref(), subject);
        let groups = self.groups.get(&claims).into_iter().flat_map(strings).map(str::to_owned).collect();
        let identity = Identity {
            name,
            issuer: Some(self.issuer.clone()),
            subject: subject.sub().map(str::to_owned),
            client_id: subject.client_id().map(str::to_owned),
            tenant,
            scopes: self.scopes(&claims),
            groups,
            claims: Map::new(),
        };
        let claims = match claims {
            Value::Object(claims) => claims,
            _ => Map::new(),
        };
        Ok(Bearer { owner, identity: Identity { claims, ..identity }, expires_at })
    }

    /// Returns the scopes from `scope` (RFC 8693) and `scp`, which some issuers use, with the scopes that
    /// they imply.
    fn scopes(&self, claims: &Value) -> BTreeSet<String> {
        let scope_claims = ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).flat_map(strings);
        let mut pending: Vec<&str> = scope_claims.flat_map(str::split_ascii_whitespace).collect();
        let mut scopes = BTreeSet::new();
        while let Some(scope) = pending.pop() {
            if scopes.insert(scope.to_owned()) {
                pending.extend(self.implied.get(scope).into_iter().flatten().map(String::as_str));
            }
        }
        scopes
    }
}

/// The issuer's identifier of a subject.
#[derive(Clone, Copy)]
enum Subject<'a> {
    /// `sub`.
    Sub(&'a str),
    /// `client_id`, which may equal the `sub` of a user.
    ClientId(&'a str),
}

impl<'a> Subject<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Sub(text) | Self::ClientId(text) => text,
        }
    }

    fn sub(self) -> Option<&'a str> {
        if let Self::Sub(name) = self { Some(name) } else { None }
    }

    fn client_id(self) -> Option<&'a str> {
        if let Self::ClientId(id) = self { Some(id) } else { None }
    }
}

/// Returns the owner of a subject's tasks as a JSON array, so that no issuer, tenant or subject can imitate
/// another one. Names of API keys cannot begin like a JSON array.
fn owner(issuer: &str, tenant: Option<&str>, subject: Subject<'_>) -> Owner {
    let last = match subject {
        Subject::Sub(name) => Value::from(name),
        Subject::ClientId(id) => json!({"client_id": id}),
    };
    let parts: Vec<Value> = [issuer].into_iter().chain(tenant).map(Value::from).chain([last]).collect();
    Owner::new(Value::from(parts).to_string())
}

/// Returns a string, or each string of a list.
fn strings(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value.as_str().into_iter().chain(list.iter().filter_map(Value::as_str))
}

/// Returns a time in seconds since 1970, which may have a fraction. A value that is present must be valid.
fn timestamp_claim(claims: &Value, name: &'static str) -> Result<Option<Timestamp>, TokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0).ok_or(TokenError::Malformed)?;
    // Times after the last representable date need no precise value.
    #[expect(clippy::cast_possible_truncation, reason = "the value is bounded")]
    let millis = (seconds.min(1e11) * 1000.0) as i64;
    Ok(Some(Timestamp::from_millis(millis)))
}

/// Returns a display name without control characters, which could mislead readers.
fn display_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn claim_rules() -> ClaimRules {
        ClaimRules {
            issuer: "https://login.example".to_owned(),
            audiences: vec!["https://bridge.example/mcp".to_owned(), "api://bridge".to_owned()],
            leeway: Duration::from_secs(30),
            groups: Claim::new("groups"),
            tenant: None,
            name: Claim::new("name"),
            implied: BTreeMap::new(),
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(NOW * 1000)
    }

    /// Returns the claims of a valid token with changed values; null removes one.
    fn claims_with(changes: &Value) -> Map<String, Value> {
        let mut claims = json!({
            "iss": "https://login.example", "aud": "https://bridge.example/mcp", "sub": "ann",
            "exp": NOW + 60, "iat": NOW - 60,
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(changes.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        claims.clone()
    }

    fn read_token(changes: &Value) -> Result<Bearer, TokenError> {
        claim_rules().read_token(claims_with(changes), now())
    }

    /// Owner, name, scopes, groups and expiry are read from the claims of a token.
    #[test]
    fn token_claims_become_identity() {
        let bearer = read_token(&json!({
            "aud": ["other", "api://bridge"], "scope": "read  write", "scp": ["more"], "name": "Ann\u{1b}[1m",
            "groups": ["data", "release"], "exp": NOW as f64 + 0.5,
        }));
        let bearer = bearer.unwrap();
        assert_eq!(bearer.owner.as_str(), r#"["https://login.example","ann"]"#);
        assert_eq!(bearer.expires_at, Some(Timestamp::from_millis(NOW * 1000 + 30_500)));
        let Identity { name, issuer, subject, client_id: client, tenant, scopes, groups, claims } =
            bearer.identity;
        assert_eq!((name.as_str(), subject.as_deref(), client, tenant), ("Ann[1m", Some("ann"), None, None));
        assert_eq!(issuer.as_deref(), Some("https://login.example"));
        assert_eq!(Vec::from_iter(scopes), ["more", "read", "write"]);
        assert_eq!(Vec::from_iter(groups), ["data", "release"]);
        assert_eq!(claims["scope"], "read  write");
    }

    /// A token with a wrong issuer, audience, expiry or `nbf` is refused, with some leeway for clocks.
    #[test]
    fn token_for_other_audience_is_refused() {
        for (changes, error) in [
            (json!({"iss": "https://login.example/"}), TokenError::Issuer),
            (json!({"iss": "HTTPS://login.example"}), TokenError::Issuer),
            (json!({"iss": ["https://login.example"]}), TokenError::Issuer),
            (json!({"iss": null}), TokenError::Issuer),
            (json!({"aud": "https://bridge.example"}), TokenError::Audience),
            (json!({"aud": "https://bridge.example/mcp/"}), TokenError::Audience),
            (json!({"aud": ["a", "b"]}), TokenError::Audience),
            (json!({"aud": []}), TokenError::Audience),
            (json!({"aud": {"x": "https://bridge.example/mcp"}}), TokenError::Audience),
            (json!({"aud": null}), TokenError::Audience),
            (json!({"exp": NOW - 30}), TokenError::Expired),
            (json!({"exp": 0}), TokenError::Expired),
            (json!({"exp": null}), TokenError::MissingClaim("exp")),
            (json!({"exp": "never"}), TokenError::Malformed),
            (json!({"exp": -1}), TokenError::Malformed),
            (json!({"nbf": NOW + 31}), TokenError::NotYetValid),
            (json!({"iat": NOW + 31}), TokenError::NotYetValid),
            (json!({"iat": "yesterday"}), TokenError::Malformed),
            (json!({"sub": null}), TokenError::MissingClaim("sub")),
            (json!({"sub": ""}), TokenError::MissingClaim("sub")),
            (json!({"sub": 7}), TokenError::MissingClaim("sub")),
            (json!({"at_hash": "x"}), TokenError::Type),
            (json!({"nonce": "x"}), TokenError::Type),
            (json!({"cnf": {"jkt": "x"}}), TokenError::KeyBound),
        ] {
            assert_eq!(read_token(&changes), Err(error), "{changes}");
        }
        for changes in [json!({"exp": NOW - 29}), json!({"nbf": NOW + 30}), json!({"exp": 1e300})] {
            assert!(read_token(&changes).is_ok(), "{changes}");
        }
    }

    #[test]
    fn no_two_subjects_are_one_owner() {
        let owner = |issuer: &str, tenant: Option<&str>, subject: &str| {
            super::owner(issuer, tenant, Subject::Sub(subject))
        };
        let owners = [
            super::owner("a", None, Subject::ClientId("b")),
            owner("a", None, r#"{"client_id":"b"}"#),
            owner("a", None, "b"),
            owner("a", Some("b"), "c"),
            owner("a", None, r#"b","c"#),
            owner(r#"a","b"#, None, "c"),
            owner("a", Some(""), "b"),
            owner("a|b", None, "c"),
            owner("a", None, "b|c"),
            owner("a", None, "b\0"),
        ];
        let texts: BTreeSet<&str> = owners.iter().map(Owner::as_str).collect();
        assert_eq!(texts.len(), owners.len());
        assert!(texts.iter().all(|text| text.starts_with('[')));
    }

    /// Group, tenant and name claims can be JSON pointers or plain names, and scopes can imply others.
    #[test]
    fn claims_are_read_at_configured_pointers() {
        let rules = ClaimRules {
            groups: Claim::new("/realm_access/roles"),
            tenant: Some(Claim::new("https://example.com/tenant")),
            implied: BTreeMap::from([
                ("admin".to_owned(), vec!["write".to_owned()]),
                ("write".to_owned(), vec!["read".to_owned(), "admin".to_owned()]),
            ]),
            ..claim_rules()
        };
        let changes = json!({
            "realm_access": {"roles": ["ops"]}, "https://example.com/tenant": "t1", "scope": "admin",
        });
        let bearer = rules.read_token(claims_with(&changes), now()).unwrap();
        assert_eq!(bearer.owner.as_str(), r#"["https://login.example","t1","ann"]"#);
        assert_eq!(Vec::from_iter(bearer.identity.groups), ["ops"]);
        assert_eq!(Vec::from_iter(bearer.identity.scopes), ["admin", "read", "write"]);
        assert_eq!(
            rules.read_token(claims_with(&json!({})), now()),
            Err(TokenError::MissingClaim("the tenant"))
        );
    }

    /// The issuer and the expiry may be missing, and so may the audience if the response is for this server.
    #[test]
    fn introspection_response_may_omit_claims() {
        let read_response = |changes: &Value, audience_implied| {
            let mut response = claims_with(&json!({"active": true}));
            response.extend(changes.as_object().unwrap().clone());
            response.retain(|_, value| !value.is_null());
            claim_rules().read_introspection(response, now(), audience_implied)
        };
        assert!(read_response(&json!({"iss": null}), false).is_ok());
        assert_eq!(read_response(&json!({"exp": null}), false).unwrap().expires_at, None);
        assert!(read_response(&json!({"aud": null}), true).is_ok());
        for (changes, error) in [
            (json!({"active": false}), TokenError::Inactive),
            (json!({"active": "true"}), TokenError::Inactive),
            (json!({"active": null}), TokenError::Inactive),
            (json!({"iss": "https://other.example"}), TokenError::Issuer),
            (json!({"aud": null}), TokenError::Audience),
            (json!({"exp": NOW - 60}), TokenError::Expired),
            (json!({"sub": null}), TokenError::MissingClaim("sub")),
        ] {
            assert_eq!(read_response(&changes, false), Err(error), "{changes}");
        }
        let machine = read_response(&json!({"sub": null, "client_id": "nightly"}), false).unwrap();
        assert_eq!(machine.owner.as_str(), r#"["https://login.example",{"client_id":"nightly"}]"#);
        assert_eq!((machine.identity.name.as_str(), &machine.identity.subject), ("nightly", &None));
        assert_eq!(machine.identity.client_id.as_deref(), Some("nightly"));
        assert_eq!(
            read_token(&json!({"sub": null, "client_id": "nightly"})),
            Err(TokenError::MissingClaim("sub"))
        );
        assert_eq!(
            read_response(&json!({"aud": "other"}), true),
            Err(TokenError::Audience),
            "an explicit audience is checked"
        );
    }
}
