//! Tests for streams whose token expires or is revoked: they end with it.

use serde_json::json;

use super::{TIMEOUT, serve, serve_with_issuer};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{Client, Events, ModernClient, text};

pub(super) async fn wait_for_end(events: &mut Events) {
    let ended = async { while events.next().await.unwrap_or(None).is_some() {} };
    tokio::time::timeout(TIMEOUT, ended).await.expect("the stream goes on");
}

/// Applies to listening streams and to subscriptions. A stream of another token continues.
#[tokio::test]
async fn stream_ends_with_its_token() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace("[[auth.issuers]]", "leeway = \"0s\"\n[[auth.issuers]]");
    let (_dir, server) = serve(&auth);
    let token_until = |exp: i64| key.sign(&json!({}), &issuer.claims("ann", &json!({"exp": exp})));
    let (short, long) = (token_until(seconds(4)), token_until(seconds(3600)));
    let client = Client::open_with_key(server.url(), &short).await.unwrap();
    let modern = ModernClient::without_tasks(server.url()).with_key(&short);
    let mut listening = client.listen().await.unwrap();
    let (mut subscription, _) = modern.subscribe(json!({"toolsListChanged": true})).await.unwrap();
    let other = Client::open_with_key(server.url(), &long).await.unwrap();
    let mut other_stream = other.listen().await.unwrap();
    tokio::join!(wait_for_end(&mut listening), wait_for_end(&mut subscription));
    assert!(client.listen().await.is_err(), "it cannot be opened again with that token");
    let next_event = tokio::time::timeout(std::time::Duration::from_millis(200), other_stream.next()).await;
    assert!(next_event.is_err(), "the stream of a token that is good goes on");
}

#[tokio::test]
async fn stream_ends_when_issuer_is_removed() {
    let (key, second) = (Signer::ed("one"), Signer::ed("two"));
    let (issuer, other) = (Issuer::with(&[&key]).await, Issuer::with(&[&second]).await);
    let (dir, server) = serve_with_issuer(&issuer);
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    let client = Client::open_with_key(server.url(), &token).await.unwrap();
    let mut listening = client.listen().await.unwrap();
    std::fs::write(dir.config(), super::config(&other.config())).unwrap();
    wait_for_end(&mut listening).await;
    assert_eq!(super::status_for_token(&server, &token).await.0, 401);
}

/// A call that began with a valid token is answered after the token has expired.
#[tokio::test]
async fn pending_answer_survives_token_expiry() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace("[[auth.issuers]]", "leeway = \"0s\"\n[[auth.issuers]]");
    let (_dir, server) = serve(&auth);
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({"exp": seconds(4)})));
    let client = Client::open_with_key(server.url(), &token).await.unwrap();
    let modern = ModernClient::without_tasks(server.url()).with_key(&token);
    let no_arguments = json!({});
    let (one, two) =
        tokio::join!(client.call("slow", json!({})), modern.call("slow", &no_arguments, json!({})));
    assert_eq!([text(&one.unwrap()), text(&two.unwrap())], ["late\n", "late\n"]);
    assert_eq!(super::status_for_token(&server, &token).await.0, 401, "the next request needs another");
}

/// New rules reject the algorithm, the key source or the type of its token.
#[tokio::test]
async fn stream_ends_when_token_becomes_invalid() {
    let (key, other) = (Signer::ec("one"), Signer::ed("two"));
    let (issuer, foreign) = (Issuer::with(&[&key, &other]).await, Issuer::with(&[&other]).await);
    let config = |extra: &str| super::config(&format!("{}{extra}", issuer.config()));
    for (extra, reason) in [
        ("algorithms = [\"EdDSA\"]\n".to_owned(), "its algorithm is not accepted"),
        (format!("jwks_uri = \"{}/keys\"\n", foreign.url()), "keys come from elsewhere"),
        ("require_at_jwt = true\n".to_owned(), "it does not say that it is an access token"),
    ] {
        let (dir, server) = serve_with_issuer(&issuer);
        let claims = issuer.claims("ann", &json!({}));
        let listen_with = async |signer: &Signer, typ: &str| {
            let token = signer.sign(&json!({"typ": typ}), &claims);
            Client::open_with_key(server.url(), &token).await.unwrap().listen().await.unwrap()
        };
        let (mut listening, mut other_stream) =
            (listen_with(&key, "JWT").await, listen_with(&other, "at+jwt").await);
        std::fs::write(dir.config(), config(&extra)).unwrap();
        wait_for_end(&mut listening).await;
        if !extra.contains("jwks_uri") {
            let next_event =
                tokio::time::timeout(std::time::Duration::from_millis(200), other_stream.next()).await;
            assert!(next_event.is_err(), "a stream goes on whose token is good, although {reason}");
        }
    }
}

#[tokio::test]
async fn stream_ends_when_key_is_withdrawn() {
    let (key, next) = (Signer::ed("one"), Signer::ed("two"));
    let issuer = Issuer::with(&[&key]).await;
    let (dir, server) = serve_with_issuer(&issuer);
    let token = |key: &Signer| key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    let client = Client::open_with_key(server.url(), &token(&key)).await.unwrap();
    let mut listening = client.listen().await.unwrap();
    issuer.publish(&[&next]);
    assert_eq!(super::status_for_token(&server, &token(&next)).await.0, 200);
    assert_eq!(super::status_for_token(&server, &token(&key)).await.0, 401);
    // Streams are checked once a minute, and whenever new rules take effect.
    let renamed = issuer.config().replace("[[auth.issuers]]", "resource_name = \"x\"\n[[auth.issuers]]");
    std::fs::write(dir.config(), super::config(&renamed)).unwrap();
    wait_for_end(&mut listening).await;
}
