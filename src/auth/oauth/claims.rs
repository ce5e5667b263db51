//! Reads the claims of a verified token, or of an introspection response: audience, validity period, and
//! identity. Pure: the signature of the token, or the source of the response, was verified before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::Timestamp;

use super::flaw::Flaw;
use crate::auth::Identity;
use crate::tasks::task::Owner;

/// Maximum length of a display name, in characters.
const LONGEST_NAME: usize = 256;

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
    pub fn new(at: &str) -> Self {
        Self(at.to_owned())
    }

    fn of<'a>(&self, claims: &'a Value) -> Option<&'a Value> {
        if self.0.starts_with('/') { claims.pointer(&self.0) } else { claims.get(&self.0) }
    }
}

/// The identity and expiry of a token's bearer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bearer {
    /// The owner of the bearer's tasks.
    pub owner: Owner,
    /// The bearer's identity.
    pub who: Identity,
    /// Expiry, including the leeway. `None` if the claims have no expiry.
    pub until: Option<Timestamp>,
}

impl ClaimRules {
    /// Reads the claims of a signed token, which must contain all required claims itself (RFC 9068).
    pub(super) fn of_token(&self, claims: Map<String, Value>, now: Timestamp) -> Result<Bearer, Flaw> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(Flaw::Issuer);
        }
        if !claims.contains_key("aud") {
            return Err(Flaw::Audience);
        }
        if !claims.contains_key("exp") {
            return Err(Flaw::Lacks("exp"));
        }
        // ID tokens have these claims, and access tokens do not.
        if ["at_hash", "c_hash", "nonce"].iter().any(|name| claims.contains_key(*name)) {
            return Err(Flaw::Type);
        }
        self.of(claims, now, false)
    }

    /// Reads an introspection response (RFC 7662). `for_us` means that the issuer answers only for tokens for
    /// this server, so that `aud` may be missing.
    ///
    /// # Errors
    /// If the claims are invalid, or the token is inactive.
    pub fn of_word(&self, claims: Map<String, Value>, now: Timestamp, for_us: bool) -> Result<Bearer, Flaw> {
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(Flaw::Inactive);
        }
        if claims.get("iss").is_some_and(|issuer| issuer.as_str() != Some(&self.issuer)) {
            return Err(Flaw::Issuer);
        }
        if !claims.contains_key("aud") && !for_us {
            return Err(Flaw::Audience);
        }
        self.of(claims, now, true)
    }

    /// Reads claims. `told` means that they come from an introspection response, not from a token.
    fn of(&self, claims: Map<String, Value>, now: Timestamp, told: bool) -> Result<Bearer, Flaw> {
        let claims = Value::Object(claims);
        if let Some(audience) = claims.get("aud")
            && !texts(audience).any(|audience| self.audiences.iter().any(|ours| ours == audience))
        {
            return Err(Flaw::Audience);
        }
        let until = moment(&claims, "exp")?.map(|until| until + self.leeway);
        if until.is_some_and(|until| until <= now) {
            return Err(Flaw::Expired);
        }
        for name in ["nbf", "iat"] {
            if moment(&claims, name)?.is_some_and(|from| from > now + self.leeway) {
                return Err(Flaw::Early);
            }
        }
        if claims.get("cnf").is_some() {
            return Err(Flaw::Bound);
        }
        let text = |claim: &Claim| claim.of(&claims).and_then(Value::as_str).filter(|text| !text.is_empty());
        let subject = match (text(&Claim::new("sub")), text(&Claim::new("client_id"))) {
            (Some(subject), _) => Subject::Named(subject),
            // An issuer may report only `client_id` for a client that acts for itself; a signed token has it
            // as `sub`.
            (None, Some(client)) if told => Subject::Client(client),
            _ => return Err(Flaw::Lacks("sub")),
        };
        let tenant = match &self.tenant {
            None => None,
            Some(claim) => Some(text(claim).ok_or(Flaw::Lacks("the tenant"))?.to_owned()),
        };
        let name = text(&self.name).map_or_else(|| shown(subject.text()), shown);
        let owner = owner(&self.issuer, tenant.as_deref(), subject);
        let groups = self.groups.of(&claims).into_iter().flat_map(texts).map(str::to_owned).collect();
        let who = Identity {
            name,
            issuer: Some(self.issuer.clone()),
            subject: subject.named().map(str::to_owned),
            client: subject.client().map(str::to_owned),
            tenant,
            scopes: self.scopes(&claims),
            groups,
            claims: Map::new(),
        };
        let claims = match claims {
            Value::Object(claims) => claims,
            _ => Map::new(),
        };
        Ok(Bearer { owner, who: Identity { claims, ..who }, until })
    }

    /// Returns the scopes from `scope` (RFC 8693) and `scp`, which some issuers use, with the scopes that
    /// they imply.
    fn scopes(&self, claims: &Value) -> BTreeSet<String> {
        let said = ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).flat_map(texts);
        let mut left: Vec<&str> = said.flat_map(str::split_ascii_whitespace).collect();
        let mut scopes = BTreeSet::new();
        while let Some(scope) = left.pop() {
            if scopes.insert(scope.to_owned()) {
                left.extend(self.implied.get(scope).into_iter().flatten().map(String::as_str));
            }
        }
        scopes
    }
}

/// The issuer's identifier of a subject.
#[derive(Clone, Copy)]
enum Subject<'a> {
    /// `sub`.
    Named(&'a str),
    /// `client_id`, which may equal the `sub` of a user.
    Client(&'a str),
}

impl<'a> Subject<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Named(text) | Self::Client(text) => text,
        }
    }

    fn named(self) -> Option<&'a str> {
        if let Self::Named(name) = self { Some(name) } else { None }
    }

    fn client(self) -> Option<&'a str> {
        if let Self::Client(id) = self { Some(id) } else { None }
    }
}

/// Returns the owner of a subject's tasks as a JSON array, so that no issuer, tenant or subject can imitate
/// another one. Names of API keys cannot begin like a JSON array.
fn owner(issuer: &str, tenant: Option<&str>, subject: Subject<'_>) -> Owner {
    let last = match subject {
        Subject::Named(name) => Value::from(name),
        Subject::Client(id) => json!({"client_id": id}),
    };
    let parts: Vec<Value> = [issuer].into_iter().chain(tenant).map(Value::from).chain([last]).collect();
    Owner::new(Value::from(parts).to_string())
}

/// Returns a string, or each string of a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value.as_str().into_iter().chain(list.iter().filter_map(Value::as_str))
}

/// Returns a time in seconds since 1970, which may have a fraction. A value that is present must be valid.
fn moment(claims: &Value, name: &'static str) -> Result<Option<Timestamp>, Flaw> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0).ok_or(Flaw::Form)?;
    // Times after the last representable date need no precise value.
    #[expect(clippy::cast_possible_truncation, reason = "it is bounded")]
    let millis = (seconds.min(1e11) * 1000.0) as i64;
    Ok(Some(Timestamp::from_millis(millis)))
}

/// Returns a display name without control characters, which could mislead readers.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn reading() -> ClaimRules {
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
    fn with(more: &Value) -> Map<String, Value> {
        let mut claims = json!({
            "iss": "https://login.example", "aud": "https://bridge.example/mcp", "sub": "ann",
            "exp": NOW + 60, "iat": NOW - 60,
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(more.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        claims.clone()
    }

    fn read(more: &Value) -> Result<Bearer, Flaw> {
        reading().of_token(with(more), now())
    }

    /// Owner, name, scopes, groups and expiry are read from the claims of a token.
    #[test]
    fn token_claims_become_identity() {
        let bearer = read(&json!({
            "aud": ["other", "api://bridge"], "scope": "read  write", "scp": ["more"], "name": "Ann\u{1b}[1m",
            "groups": ["data", "release"], "exp": NOW as f64 + 0.5,
        }));
        let bearer = bearer.unwrap();
        assert_eq!(bearer.owner.as_str(), r#"["https://login.example","ann"]"#);
        assert_eq!(bearer.until, Some(Timestamp::from_millis(NOW * 1000 + 30_500)));
        let Identity { name, issuer, subject, client, tenant, scopes, groups, claims } = bearer.who;
        assert_eq!((name.as_str(), subject.as_deref(), client, tenant), ("Ann[1m", Some("ann"), None, None));
        assert_eq!(issuer.as_deref(), Some("https://login.example"));
        assert_eq!(Vec::from_iter(scopes), ["more", "read", "write"]);
        assert_eq!(Vec::from_iter(groups), ["data", "release"]);
        assert_eq!(claims["scope"], "read  write");
    }

    /// A token with a wrong issuer, audience, expiry or `nbf` is refused, with some leeway for clocks.
    #[test]
    fn token_for_other_audience_is_refused() {
        for (more, flaw) in [
            (json!({"iss": "https://login.example/"}), Flaw::Issuer),
            (json!({"iss": "HTTPS://login.example"}), Flaw::Issuer),
            (json!({"iss": ["https://login.example"]}), Flaw::Issuer),
            (json!({"iss": null}), Flaw::Issuer),
            (json!({"aud": "https://bridge.example"}), Flaw::Audience),
            (json!({"aud": "https://bridge.example/mcp/"}), Flaw::Audience),
            (json!({"aud": ["a", "b"]}), Flaw::Audience),
            (json!({"aud": []}), Flaw::Audience),
            (json!({"aud": {"x": "https://bridge.example/mcp"}}), Flaw::Audience),
            (json!({"aud": null}), Flaw::Audience),
            (json!({"exp": NOW - 30}), Flaw::Expired),
            (json!({"exp": 0}), Flaw::Expired),
            (json!({"exp": null}), Flaw::Lacks("exp")),
            (json!({"exp": "never"}), Flaw::Form),
            (json!({"exp": -1}), Flaw::Form),
            (json!({"nbf": NOW + 31}), Flaw::Early),
            (json!({"iat": NOW + 31}), Flaw::Early),
            (json!({"iat": "yesterday"}), Flaw::Form),
            (json!({"sub": null}), Flaw::Lacks("sub")),
            (json!({"sub": ""}), Flaw::Lacks("sub")),
            (json!({"sub": 7}), Flaw::Lacks("sub")),
            (json!({"at_hash": "x"}), Flaw::Type),
            (json!({"nonce": "x"}), Flaw::Type),
            (json!({"cnf": {"jkt": "x"}}), Flaw::Bound),
        ] {
            assert_eq!(read(&more), Err(flaw), "{more}");
        }
        for more in [json!({"exp": NOW - 29}), json!({"nbf": NOW + 30}), json!({"exp": 1e300})] {
            assert!(read(&more).is_ok(), "{more}");
        }
    }

    #[test]
    fn no_two_subjects_are_one_owner() {
        let owner = |issuer: &str, tenant: Option<&str>, subject: &str| {
            super::owner(issuer, tenant, Subject::Named(subject))
        };
        let owners = [
            super::owner("a", None, Subject::Client("b")),
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
        let reading = ClaimRules {
            groups: Claim::new("/realm_access/roles"),
            tenant: Some(Claim::new("https://example.com/tenant")),
            implied: BTreeMap::from([
                ("admin".to_owned(), vec!["write".to_owned()]),
                ("write".to_owned(), vec!["read".to_owned(), "admin".to_owned()]),
            ]),
            ..reading()
        };
        let more = json!({
            "realm_access": {"roles": ["ops"]}, "https://example.com/tenant": "t1", "scope": "admin",
        });
        let bearer = reading.of_token(with(&more), now()).unwrap();
        assert_eq!(bearer.owner.as_str(), r#"["https://login.example","t1","ann"]"#);
        assert_eq!(Vec::from_iter(bearer.who.groups), ["ops"]);
        assert_eq!(Vec::from_iter(bearer.who.scopes), ["admin", "read", "write"]);
        assert_eq!(reading.of_token(with(&json!({})), now()), Err(Flaw::Lacks("the tenant")));
    }

    /// The issuer and the expiry may be missing, and so may the audience if the response is for this server.
    #[test]
    fn introspection_response_may_omit_claims() {
        let word = |more: &Value, for_us| {
            let mut word = with(&json!({"active": true}));
            word.extend(more.as_object().unwrap().clone());
            word.retain(|_, value| !value.is_null());
            reading().of_word(word, now(), for_us)
        };
        assert!(word(&json!({"iss": null}), false).is_ok());
        assert_eq!(word(&json!({"exp": null}), false).unwrap().until, None);
        assert!(word(&json!({"aud": null}), true).is_ok());
        for (more, flaw) in [
            (json!({"active": false}), Flaw::Inactive),
            (json!({"active": "true"}), Flaw::Inactive),
            (json!({"active": null}), Flaw::Inactive),
            (json!({"iss": "https://other.example"}), Flaw::Issuer),
            (json!({"aud": null}), Flaw::Audience),
            (json!({"exp": NOW - 60}), Flaw::Expired),
            (json!({"sub": null}), Flaw::Lacks("sub")),
        ] {
            assert_eq!(word(&more, false), Err(flaw), "{more}");
        }
        let machine = word(&json!({"sub": null, "client_id": "nightly"}), false).unwrap();
        assert_eq!(machine.owner.as_str(), r#"["https://login.example",{"client_id":"nightly"}]"#);
        assert_eq!((machine.who.name.as_str(), &machine.who.subject), ("nightly", &None));
        assert_eq!(machine.who.client.as_deref(), Some("nightly"));
        assert_eq!(read(&json!({"sub": null, "client_id": "nightly"})), Err(Flaw::Lacks("sub")));
        assert_eq!(word(&json!({"aud": "other"}), true), Err(Flaw::Audience), "what is said counts");
    }
}
