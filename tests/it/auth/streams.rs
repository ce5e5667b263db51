//! Tests for streams whose token expires or is revoked: they end with it.

use serde_json::json;

use super::{PATIENCE, serve, trusting};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{Client, Events, Modern, text};

pub(super) async fn ends(events: &mut Events) {
    let ended = async { while events.next().await.unwrap_or(None).is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream goes on");
}

/// Applies to listening streams and to subscriptions. A stream of another token continues.
#[tokio::test]
async fn stream_ends_with_its_token() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace("[[auth.issuers]]", "leeway = \"0s\"\n[[auth.issuers]]");
    let (_place, server) = serve(&auth);
    let until = |exp: i64| key.sign(&json!({}), &issuer.claims("ann", &json!({"exp": exp})));
    let (short, long) = (until(seconds(4)), until(seconds(3600)));
    let client = Client::open_with(server.url(), &short).await.unwrap();
    let modern = Modern::without_tasks(server.url()).with_key(&short);
    let mut listening = client.listen().await.unwrap();
    let (mut subscribed, _) = modern.subscribe(json!({"toolsListChanged": true})).await.unwrap();
    let other = Client::open_with(server.url(), &long).await.unwrap();
    let mut kept = other.listen().await.unwrap();
    tokio::join!(ends(&mut listening), ends(&mut subscribed));
    assert!(client.listen().await.is_err(), "it cannot be opened again with that token");
    let more = tokio::time::timeout(std::time::Duration::from_millis(200), kept.next()).await;
    assert!(more.is_err(), "the stream of a token that is good goes on");
}

#[tokio::test]
async fn stream_ends_when_issuer_is_removed() {
    let (key, second) = (Signer::ed("one"), Signer::ed("two"));
    let (issuer, other) = (Issuer::with(&[&key]).await, Issuer::with(&[&second]).await);
    let (place, server) = trusting(&issuer);
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    let client = Client::open_with(server.url(), &token).await.unwrap();
    let mut listening = client.listen().await.unwrap();
    std::fs::write(place.config(), super::config(&other.config())).unwrap();
    ends(&mut listening).await;
    assert_eq!(super::answered(&server, &token).await.0, 401);
}

/// A call that began with a valid token is answered after the token has expired.
#[tokio::test]
async fn pending_answer_survives_token_expiry() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace("[[auth.issuers]]", "leeway = \"0s\"\n[[auth.issuers]]");
    let (_place, server) = serve(&auth);
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({"exp": seconds(4)})));
    let client = Client::open_with(server.url(), &token).await.unwrap();
    let modern = Modern::without_tasks(server.url()).with_key(&token);
    let nothing = json!({});
    let (one, two) = tokio::join!(client.call("slow", json!({})), modern.call("slow", &nothing, json!({})));
    assert_eq!([text(&one.unwrap()), text(&two.unwrap())], ["late\n", "late\n"]);
    assert_eq!(super::answered(&server, &token).await.0, 401, "the next request needs another");
}

/// New rules reject the algorithm, the key source or the type of its token.
#[tokio::test]
async fn stream_ends_when_token_becomes_invalid() {
    let (key, other) = (Signer::ec("one"), Signer::ed("two"));
    let (issuer, foreign) = (Issuer::with(&[&key, &other]).await, Issuer::with(&[&other]).await);
    let config = |more: &str| super::config(&format!("{}{more}", issuer.config()));
    for (more, what) in [
        ("algorithms = [\"EdDSA\"]\n".to_owned(), "its algorithm is not accepted"),
        (format!("jwks_uri = \"{}/keys\"\n", foreign.url()), "keys come from elsewhere"),
        ("require_at_jwt = true\n".to_owned(), "it does not say that it is an access token"),
    ] {
        let (place, server) = trusting(&issuer);
        let claims = issuer.claims("ann", &json!({}));
        let shows = async |signer: &Signer, typ: &str| {
            let token = signer.sign(&json!({"typ": typ}), &claims);
            Client::open_with(server.url(), &token).await.unwrap().listen().await.unwrap()
        };
        let (mut listening, mut kept) = (shows(&key, "JWT").await, shows(&other, "at+jwt").await);
        std::fs::write(place.config(), config(&more)).unwrap();
        ends(&mut listening).await;
        if !more.contains("jwks_uri") {
            let more = tokio::time::timeout(std::time::Duration::from_millis(200), kept.next()).await;
            assert!(more.is_err(), "a stream goes on whose token is good, although {what}");
        }
    }
}

#[tokio::test]
async fn stream_ends_when_key_is_withdrawn() {
    let (key, next) = (Signer::ed("one"), Signer::ed("two"));
    let issuer = Issuer::with(&[&key]).await;
    let (place, server) = trusting(&issuer);
    let token = |key: &Signer| key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    let client = Client::open_with(server.url(), &token(&key)).await.unwrap();
    let mut listening = client.listen().await.unwrap();
    issuer.publish(&[&next]);
    assert_eq!(super::answered(&server, &token(&next)).await.0, 200);
    assert_eq!(super::answered(&server, &token(&key)).await.0, 401);
    // Streams are checked once a minute, and whenever new rules take effect.
    let renamed = issuer.config().replace("[[auth.issuers]]", "resource_name = \"x\"\n[[auth.issuers]]");
    std::fs::write(place.config(), super::config(&renamed)).unwrap();
    ends(&mut listening).await;
}
