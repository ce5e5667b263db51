//! Tests for opaque tokens: the server asks the issuer (introspection), seldom, and caches its answer for a
//! while.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{TIMEOUT, initialize_request, serve, status_for_token};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{Client, text};

async fn introspecting_issuer() -> (Signer, Issuer, String) {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = format!("{}{}", issuer.config(), issuer.introspection());
    (key, issuer, auth)
}

/// An invalid answer is refused, and only tokens that can be of the issuer are sent to it.
#[tokio::test]
async fn introspection_answer_is_cached() {
    let (key, issuer, auth) = introspecting_issuer().await;
    let (dir, server) = serve(&auth);
    let claims_with = |extra: Value| issuer.claims("ann", &extra);
    issuer.set_introspection("good-token", claims_with(json!({"active": true, "scope": "run"})));
    let client = Client::open_with_key(server.url(), "good-token").await.unwrap();
    for _ in 0..5 {
        assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
    }
    assert_eq!(issuer.introspection_requests(), 1, "its word is kept");

    issuer.set_introspection(
        "for-others",
        claims_with(json!({"active": true, "aud": "https://other.example"})),
    );
    issuer.set_introspection("for-nobody", claims_with(json!({"active": true, "aud": null})));
    issuer.set_introspection("over", claims_with(json!({"active": true, "exp": seconds(-60)})));
    issuer
        .set_introspection("of-others", claims_with(json!({"active": true, "iss": "https://other.example"})));
    issuer
        .set_introspection("of-nobody", claims_with(json!({"active": true, "sub": null, "client_id": null})));
    issuer.set_introspection("of-a-machine", claims_with(json!({"active": true, "sub": null})));
    issuer.set_introspection("half-said", claims_with(json!({})));
    for (token, expected) in [
        ("unheard-of", "not active"),
        ("for-others", "another server"),
        ("for-nobody", "another server"),
        ("over", "expired"),
        ("of-others", "not from an issuer"),
        ("of-nobody", "sub"),
        ("half-said", "not active"),
    ] {
        for _ in 0..2 {
            let (status, message) = status_for_token(&server, token).await;
            assert!(status == 401 && message.contains(expected), "{token}: {status} {message}");
        }
    }
    assert_eq!(issuer.introspection_requests(), 8, "a bad word is kept, too");
    assert_eq!(status_for_token(&server, "of-a-machine").await.0, 200, "a client may act for itself");
    let signed = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    assert_eq!(status_for_token(&server, &signed).await.0, 200, "signed ones are good beside them");
    assert_eq!(status_for_token(&server, "tb_some-key-of-ours").await.0, 401);
    assert_eq!(issuer.introspection_requests(), 9, "neither is asked about");
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(!log.contains("good-token") && !log.contains("client:secret"), "{log}");
}

/// Without an answer of the issuer, an unknown token gets 503 and not 401, and a cached answer still applies.
#[tokio::test]
async fn introspection_outage_rejects_no_token() {
    let (_key, issuer, auth) = introspecting_issuer().await;
    let (dir, server) = serve(&auth);
    issuer.set_introspection("good", issuer.claims("ann", &json!({"active": true})));
    issuer.set_down(true);
    let (status, message) = status_for_token(&server, "good").await;
    assert!(status == 503 && message.contains("try again"), "{status} {message}");
    issuer.set_down(false);
    assert_eq!(status_for_token(&server, "good").await.0, 200, "nothing was kept of that");
    issuer.set_down(true);
    assert_eq!(status_for_token(&server, "good").await.0, 200, "what was said before counts for a while");
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("tokens cannot be introspected"), "{log}");

    // If the issuer rejects the client secret, the server answers 503 and does not report the token as
    // invalid.
    let (_other, issuer, auth) = introspecting_issuer().await;
    let (_dir, server) = serve(&auth.replace("client:secret", "another"));
    assert_eq!(status_for_token(&server, "good").await.0, 503);
    assert_eq!(issuer.introspection_requests(), 1);
}

#[tokio::test]
async fn unknown_tokens_do_not_block_valid() {
    let (_key, issuer, auth) = introspecting_issuer().await;
    let (_dir, server) = serve(&auth);
    issuer.set_introspection("good", issuer.claims("ann", &json!({"active": true})));
    assert_eq!(status_for_token(&server, "good").await.0, 200);
    let flood: Vec<String> = (0..200).map(|n| format!("made-up-{n}")).collect();
    let (refused, good) = tokio::join!(
        join_all(flood.iter().map(|token| status_for_token(&server, token))),
        status_for_token(&server, "good")
    );
    assert!(refused.iter().all(|(status, _)| matches!(status, 401 | 503)));
    assert_eq!(good.0, 200);
}

/// While the issuer is slow about made-up tokens of one address, valid tokens are answered.
#[tokio::test]
async fn slow_introspection_blocks_no_other_caller() {
    let (_key, issuer, auth) = introspecting_issuer().await;
    // Without a cache, the server asks the issuer each time.
    let (_dir, server) = serve(&format!("{auth}cache_for = \"0s\"\n"));
    issuer.set_introspection("known", issuer.claims("ann", &json!({"active": true})));
    issuer.set_introspection("new", issuer.claims("bob", &json!({"active": true})));
    assert_eq!(status_for_token(&server, "known").await.0, 200);
    issuer.hang_on_unknown_tokens();
    let flood_client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let flood_client = flood_client.local_address(IpAddr::from([127, 0, 0, 2])).build().unwrap();
    let made_up = |n| {
        let request = initialize_request(&server).bearer_auth(format!("made-up-{n}")).build().unwrap();
        let flood_client = flood_client.clone();
        async move { flood_client.execute(request).await.unwrap().status().as_u16() }
    };
    let valid_requests = async {
        let pending = async {
            while issuer.introspection_requests() < 4 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TIMEOUT, pending).await.expect("made-up tokens are asked about");
        // When this request is answered, the other made-up ones have arrived as well.
        let _ = made_up(1_000).await;
        tokio::join!(status_for_token(&server, "known"), status_for_token(&server, "new"))
    };
    let flood = join_all((0..100).map(made_up));
    tokio::select! {
        _ = async { flood.await; std::future::pending::<()>().await } => {}
        (known, new) = valid_requests => assert_eq!((known.0, new.0), (200, 200), "{} {}", known.1, new.1),
    }
}
