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
    Algorithm, Claim, ClaimRules, IssuerNetwork, KeySource, OAuth, Resource, TrustedIssuer,
};
use taskbridge::auth::{ApiKeys, Authenticator, Peer, Principal, RequestCredentials};
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
        static SERVER: OnceCell<TestServer> = const { OnceCell::new() };
    }
    SERVER.with(|server| {
        let server = server.get_or_init(TestServer::new);
        let mut draw = Draw::of(bytes);
        match draw.below(5) {
            0 => server.assert_refused(draw.rest()),
            1 => server.assert_refused(&bearer(draw.rest())),
            2 => {
                let (head, claims) = (mutated(&mut draw, head()), mutated(&mut draw, claims()));
                server.assert_refused(&bearer(&token(&head, &claims, |_| draw.rest().to_vec())));
            }
            3 => {
                let valid_token = server.sign(&head(), &claims());
                let changed = draw.mutate_bytes(&valid_token);
                if changed.trim_ascii() != valid_token {
                    server.assert_refused(&bearer(&changed));
                }
            }
            _ => {
                let (head, claims) = (mutated(&mut draw, head()), mutated(&mut draw, claims()));
                let header = bearer(&server.sign(&head, &claims));
                if let Some(principal) = server.authenticate(&header) {
                    assert!(is_valid_head(&head), "let in by {head}");
                    check_claims(&claims);
                    let owner = json!([ISSUER, claims["sub"].as_str().unwrap()]).to_string();
                    assert_eq!(principal.owner.as_str(), owner, "{claims}");
                }
            }
        }
    });
}

/// A server that trusts the issuer, and the issuer's key.
struct TestServer {
    runtime: Runtime,
    authenticator: Authenticator,
    key: Ed25519KeyPair,
}

impl TestServer {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
        let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
        let server = Self { runtime, authenticator: authenticator(&serve_document(keys.to_string())), key };
        // Otherwise everything below could be refused for another reason.
        assert!(server.authenticate(&bearer(&server.sign(&head(), &claims()))).is_some());
        server
    }

    fn authenticate(&self, header: &[u8]) -> Option<Principal> {
        let peer = Peer::default();
        let presented = RequestCredentials { authorization: Some(header), peer: &peer };
        self.runtime.block_on(self.authenticator.authenticate(&presented)).ok()
    }

    fn assert_refused(&self, header: &[u8]) {
        assert!(self.authenticate(header).is_none(), "let in by {}", header.escape_ascii());
    }

    fn sign(&self, head: &Value, claims: &Value) -> Vec<u8> {
        token(head, claims, |text| self.key.sign(text).as_ref().to_vec())
    }
}

fn bearer(token: &[u8]) -> Vec<u8> {
    [b"Bearer ".as_slice(), token].concat()
}

fn token(head: &Value, claims: &Value, signature: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", encode(head), encode(claims));
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
pub(crate) fn mutated(draw: &mut Draw<'_>, mut value: Value) -> Value {
    const NAMES: [&str; 14] = [
        "alg", "typ", "crit", "iss", "aud", "sub", "exp", "nbf", "iat", "nonce", "at_hash", "cnf", "active",
        "jwk",
    ];
    const VALUES: [&str; 6] = ["none", "HS256", "RS256", "JWT", ISSUER, AUDIENCE];
    for _ in 0..draw.below(3) {
        match draw.below(3) {
            0 => draw.mutate(&mut value),
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
fn is_valid_head(head: &Value) -> bool {
    let typ = head["typ"].as_str().map(str::to_ascii_lowercase);
    ["EdDSA", "Ed25519"].contains(&head["alg"].as_str().unwrap_or_default())
        && head["crit"].is_null()
        && typ.is_none_or(|typ| ["at+jwt", "application/at+jwt", "jwt"].contains(&typ.as_str()))
}

/// Checks the claims of an accepted token.
fn check_claims(claims: &Value) {
    let now = System.now().as_millis() as f64 / 1000.0;
    let claim_time = |name: &str| claims.get(name).map(|claim_time| claim_time.as_f64().unwrap());
    let has = |name: &str| claims.get(name).is_some();
    assert_eq!(claims["iss"], ISSUER);
    check_audience(&claims["aud"]);
    assert!(claim_time("exp").unwrap() > now - 60.0, "{claims}");
    assert!(
        [claim_time("nbf"), claim_time("iat")].into_iter().flatten().all(|from| from < now + 60.0),
        "{claims}"
    );
    assert!(!["nonce", "at_hash", "c_hash", "cnf"].into_iter().any(has), "{claims}");
    assert!(!claims["sub"].as_str().unwrap().is_empty());
}

/// Asserts that an audience is this server, or contains it.
pub(crate) fn check_audience(audience: &Value) {
    let listed = audience.as_array().is_some_and(|all| all.iter().any(|one| one == AUDIENCE));
    assert!(audience == AUDIENCE || listed, "{audience}");
}

pub(crate) fn claim_rules() -> ClaimRules {
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
    let source = KeySource {
        issuer: ISSUER.to_owned(),
        url: ISSUER.parse().unwrap(),
        keys_url: Some(keys.parse().unwrap()),
        network: IssuerNetwork::default(),
    };
    let trusted = TrustedIssuer {
        key_source: source,
        algorithms: Algorithm::all(),
        require_at_jwt: false,
        claim_rules: claim_rules(),
        introspection: None,
        sign_in: None,
    };
    let oauth = OAuth::new(resource, Vec::new(), [trusted], System::clock()).unwrap();
    Authenticator::OAuth(Box::new(oauth), ApiKeys::default())
}

/// Serves a document at an address on this machine until the process ends, and returns the address.
#[expect(clippy::disallowed_methods, reason = "it answers while the target waits")]
fn serve_document(document: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/keys", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let length = document.len();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(format!("{head}{document}").as_bytes());
        }
    });
    address
}
