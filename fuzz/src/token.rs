//! `Authorization` where callers have tokens of an issuer: any bytes, and tokens whose parts are made up. The issuer has no
//! keys that can be had, so that nobody is let in, and nothing but refusals comes of it.

use std::cell::OnceCell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use taskbridge::auth::oauth::{Algorithm, Claim, OAuth, Reading, Resource, Source, Trusted, Way};
use taskbridge::auth::{ApiKeys, Authenticator, Peer, Presented};
use taskbridge::clock::System;
use tokio::runtime::Runtime;

use super::draw::Draw;
use super::endpoint::Endpoint;

const ISSUER: &str = "http://127.0.0.1:9";

/// Shows headers.
pub fn target(_: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let header = match draw.below(3) {
        0 => draw.rest().to_vec(),
        1 => [b"Bearer ".as_slice(), draw.rest()].concat(),
        _ => made_up(draw),
    };
    thread_local! {
        static SHOWN: OnceCell<(Runtime, Authenticator)> = const { OnceCell::new() };
    }
    SHOWN.with(|shown| {
        let (runtime, authenticator) = shown.get_or_init(|| (runtime(), authenticator()));
        let (peer, authorization) = (Peer::default(), Some(header.as_slice()));
        let presented = Presented { authorization, peer: &peer };
        let refused = runtime.block_on(authenticator.authenticate(&presented));
        assert!(refused.is_err(), "let in by {}", header.escape_ascii());
    });
}

/// A token with a head, claims and a signature of its form.
fn made_up(mut draw: Draw<'_>) -> Vec<u8> {
    let algorithms = ["RS256", "ES256", "EdDSA", "HS256", "none", "None", ""];
    let mut head = json!({"alg": draw.one_of(&algorithms), "typ": "at+jwt", "kid": draw.word()});
    let mut claims = json!({"iss": ISSUER, "aud": "https://bridge.example/mcp", "sub": draw.word(), "exp": 4_000_000_000_u64});
    draw.bend(&mut head);
    draw.bend(&mut claims);
    let coded = |text: &[u8]| URL_SAFE_NO_PAD.encode(text);
    let parts =
        [coded(head.to_string().as_bytes()), coded(claims.to_string().as_bytes()), coded(draw.rest())];
    format!("Bearer {}", parts.join(".")).into_bytes()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn authenticator() -> Authenticator {
    let resource = Resource::new("https://bridge.example/mcp", None, Vec::new()).unwrap();
    let reading = Reading {
        issuer: ISSUER.to_owned(),
        audiences: vec![resource.id().to_owned()],
        leeway: std::time::Duration::from_secs(30),
        groups: Claim::new("groups"),
        tenant: None,
        name: Claim::new("name"),
        implied: Default::default(),
    };
    let url = ISSUER.parse().unwrap();
    let source =
        Source { issuer: ISSUER.to_owned(), url, keys: Some(ISSUER.parse().unwrap()), way: Way::default() };
    let trusted =
        Trusted { source, algorithms: Algorithm::all(), require_at_jwt: false, reading, introspection: None };
    let oauth = OAuth::new(resource, Vec::new(), [trusted], System::clock()).unwrap();
    Authenticator::OAuth(Box::new(oauth), ApiKeys::default())
}
