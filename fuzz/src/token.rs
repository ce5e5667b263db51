//! Fuzz target of `Authorization` with tokens of an issuer that has a real key. Random bytes, tokens with
//! invented parts, and valid tokens with changes must all be refused. Tokens that the issuer signed with
//! other claims may only be accepted with all required claims.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use taskbridge::auth::oauth::{
    Algorithm, Claim, ClaimRules, IssuerNetwork, OAuth, Resource, Source, TrustedIssuer,
};
use taskbridge::auth::{ApiKeys, Authenticator, Peer, Presented, Principal};
use taskbridge::clock::{Clock as _, System};
use tokio::runtime::Runtime;

use super::draw::Draw;
use super::endpoint::Endpoint;

pub(crate) const ISSUER: &str = "http://127.0.0.1:9";
pub(crate) const AUDIENCE: &str = "https://bridge.example/mcp";
pub(crate) const LEEWAY: Duration = Duration::from_secs(30);

/// Sends headers.
pub fn target(_: &Endpoint, bytes: &[u8]) {
    thread_local! {
        static SHOWN: OnceCell<Shown> = const { OnceCell::new() };
    }
    SHOWN.with(|shown| {
        let shown = shown.get_or_init(Shown::new);
        let mut draw = Draw::of(bytes);
        match draw.below(5) {
            0 => shown.refuses(draw.rest()),
            1 => shown.refuses(&bearer(draw.rest())),
            2 => {
                let (head, claims) = (bent(&mut draw, head()), bent(&mut draw, claims()));
                shown.refuses(&bearer(&token(&head, &claims, |_| draw.rest().to_vec())));
            }
            3 => {
                let right = shown.signed(&head(), &claims());
                let changed = draw.garble(&right);
                if changed.trim_ascii() != right {
                    shown.refuses(&bearer(&changed));
                }
            }
            _ => {
                let (head, claims) = (bent(&mut draw, head()), bent(&mut draw, claims()));
                let header = bearer(&shown.signed(&head, &claims));
                if let Some(principal) = shown.lets_in(&header) {
                    assert!(names_an_algorithm(&head), "let in by {head}");
                    is_meant(&claims);
                    let owner = json!([ISSUER, claims["sub"].as_str().unwrap()]).to_string();
                    assert_eq!(principal.owner.as_str(), owner, "{claims}");
                }
            }
        }
    });
}

/// A server that trusts the issuer, and the issuer's key.
struct Shown {
    runtime: Runtime,
    authenticator: Authenticator,
    key: Ed25519KeyPair,
}

impl Shown {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
        let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
        let shown = Self { runtime, authenticator: authenticator(&published(keys.to_string())), key };
        // Otherwise everything below could be refused for another reason.
        assert!(shown.lets_in(&bearer(&shown.signed(&head(), &claims()))).is_some());
        shown
    }

    fn lets_in(&self, header: &[u8]) -> Option<Principal> {
        let peer = Peer::default();
        let presented = Presented { authorization: Some(header), peer: &peer };
        self.runtime.block_on(self.authenticator.authenticate(&presented)).ok()
    }

    fn refuses(&self, header: &[u8]) {
        assert!(self.lets_in(header).is_none(), "let in by {}", header.escape_ascii());
    }

    fn signed(&self, head: &Value, claims: &Value) -> Vec<u8> {
        token(head, claims, |text| self.key.sign(text).as_ref().to_vec())
    }
}

fn bearer(token: &[u8]) -> Vec<u8> {
    [b"Bearer ".as_slice(), token].concat()
}

fn token(head: &Value, claims: &Value, signature: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let coded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", coded(head), coded(claims));
    let signature = signature(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)).into_bytes()
}

/// Returns the head of a valid token.
fn head() -> Value {
    json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "k"})
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": 4_000_000_000_u64, "iat": 1, "scope": "run",
        "groups": ["data"],
    })
}

/// Returns a mutated value; sometimes the mutation changes a relevant member.
pub(crate) fn bent(draw: &mut Draw<'_>, mut value: Value) -> Value {
    const NAMES: [&str; 14] = [
        "alg", "typ", "crit", "iss", "aud", "sub", "exp", "nbf", "iat", "nonce", "at_hash", "cnf", "active",
        "jwk",
    ];
    const VALUES: [&str; 6] = ["none", "HS256", "RS256", "JWT", ISSUER, AUDIENCE];
    for _ in 0..draw.below(3) {
        match draw.below(3) {
            0 => draw.bend(&mut value),
            1 => value[draw.one_of(&NAMES)] = draw.json(),
            _ => value[draw.one_of(&NAMES)] = json!(draw.one_of(&VALUES)),
        }
        if !value.is_object() {
            break;
        }
    }
    value
}

/// Reports whether a head has the algorithm of the issuer's key, and not the type of another token.
fn names_an_algorithm(head: &Value) -> bool {
    let typ = head["typ"].as_str().map(str::to_ascii_lowercase);
    ["EdDSA", "Ed25519"].contains(&head["alg"].as_str().unwrap_or_default())
        && head["crit"].is_null()
        && typ.is_none_or(|typ| ["at+jwt", "application/at+jwt", "jwt"].contains(&typ.as_str()))
}

/// Checks the claims of an accepted token.
fn is_meant(claims: &Value) {
    let now = System.now().as_millis() as f64 / 1000.0;
    let moment = |name: &str| claims.get(name).map(|moment| moment.as_f64().unwrap());
    let has = |name: &str| claims.get(name).is_some();
    assert_eq!(claims["iss"], ISSUER);
    is_for_us(&claims["aud"]);
    assert!(moment("exp").unwrap() > now - 60.0, "{claims}");
    assert!([moment("nbf"), moment("iat")].into_iter().flatten().all(|from| from < now + 60.0), "{claims}");
    assert!(!["nonce", "at_hash", "c_hash", "cnf"].into_iter().any(has), "{claims}");
    assert!(!claims["sub"].as_str().unwrap().is_empty());
}

/// Asserts that an audience is this server, or contains it.
pub(crate) fn is_for_us(audience: &Value) {
    let listed = audience.as_array().is_some_and(|all| all.iter().any(|one| one == AUDIENCE));
    assert!(audience == AUDIENCE || listed, "{audience}");
}

pub(crate) fn reading() -> ClaimRules {
    ClaimRules {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        leeway: LEEWAY,
        groups: Claim::new("groups"),
        tenant: None,
        name: Claim::new("name"),
        implied: BTreeMap::new(),
    }
}

fn authenticator(keys: &str) -> Authenticator {
    let resource = Resource::new(AUDIENCE, None, Vec::new()).unwrap();
    let source = Source {
        issuer: ISSUER.to_owned(),
        url: ISSUER.parse().unwrap(),
        keys: Some(keys.parse().unwrap()),
        way: IssuerNetwork::default(),
    };
    let trusted = TrustedIssuer {
        source,
        algorithms: Algorithm::all(),
        require_at_jwt: false,
        reading: reading(),
        introspection: None,
    };
    let oauth = OAuth::new(resource, Vec::new(), [trusted], System::clock()).unwrap();
    Authenticator::OAuth(Box::new(oauth), ApiKeys::default())
}

/// Serves a document at an address on this machine until the process ends, and returns the address.
#[expect(clippy::disallowed_methods, reason = "it answers while the target waits")]
fn published(document: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/keys", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut asked in listener.incoming().flatten() {
            let _ = asked.read(&mut [0; 4096]);
            let length = document.len();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let _ = asked.write_all(format!("{head}{document}").as_bytes());
        }
    });
    address
}
