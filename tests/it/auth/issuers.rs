//! Tests for issuers that rotate their keys, are unavailable, or receive many requests.

use futures_util::future::join_all;
use serde_json::json;

use super::{TIMEOUT, config, serve_with_issuer, status_for_token};
use crate::support::TestDir;
use crate::support::issuer::{Issuer, Signer};

/// Tokens of the old key and of the new key are both accepted.
#[tokio::test]
async fn key_rotation_rejects_no_token() {
    let (old, new) = (Signer::ed("old"), Signer::ec("new"));
    let issuer = Issuer::with(&[&old]).await;
    let (_dir, server) = serve_with_issuer(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let (by_old, by_new) = (old.sign(&json!({}), &claims), new.sign(&json!({}), &claims));
    assert_eq!(status_for_token(&server, &by_old).await.0, 200);
    issuer.publish(&[&old, &new]);
    assert_eq!(status_for_token(&server, &by_new).await.0, 200, "a key that is new is looked for at once");
    assert_eq!(status_for_token(&server, &by_old).await.0, 200);
    assert_eq!(issuer.key_requests(), 2);
}

/// Many tokens with made-up key ids cause at most three requests to the issuer.
#[tokio::test]
async fn unknown_key_ids_are_not_forwarded() {
    let (key, unknown_signer) = (Signer::ed("one"), Signer::ed("x"));
    let issuer = Issuer::with(&[&key]).await;
    let (_dir, server) = serve_with_issuer(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let flood: Vec<String> =
        (0..200).map(|n| unknown_signer.sign(&json!({"kid": format!("k{n}")}), &claims)).collect();
    for refused in join_all(flood.iter().map(|token| status_for_token(&server, token))).await {
        assert_eq!(refused.0, 401, "{}", refused.1);
    }
    assert!(issuer.key_requests() <= 3, "it was asked {} times", issuer.key_requests());
    assert_eq!(status_for_token(&server, &key.sign(&json!({}), &claims)).await.0, 200);
}

/// During an outage, cached keys stay valid and unknown keys get 503. The server retries by itself.
#[tokio::test]
async fn issuer_outage_keeps_cached_keys() {
    let (key, new) = (Signer::ed("one"), Signer::ed("two"));
    let issuer = Issuer::with(&[&key]).await;
    issuer.set_down(true);
    let (dir, server) = serve_with_issuer(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let token = key.sign(&json!({}), &claims);
    let (status, message) = status_for_token(&server, &token).await;
    assert!(status == 503 && message.contains("try again"), "{status} {message}");
    issuer.set_down(false);
    let recovery = async {
        while status_for_token(&server, &token).await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, recovery).await.expect("it is found again");
    issuer.set_down(true);
    issuer.publish(&[&key, &new]);
    let by_new = new.sign(&json!({}), &claims);
    assert_eq!(
        status_for_token(&server, &by_new).await.0,
        503,
        "it cannot be told whether this key is the issuer's"
    );
    assert_eq!(status_for_token(&server, &token).await.0, 200, "its keys are known");
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("the issuer's keys cannot be fetched; its tokens cannot be verified"), "{log}");
}

/// New rules for tokens apply at once, and the cached keys of the issuer are not fetched again.
#[tokio::test]
async fn new_rules_keep_cached_keys() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let dir = TestDir::new(&config(&issuer.config()));
    let server = dir.serve();
    let token_with = |extra| key.sign(&json!({}), &issuer.claims("ann", &extra));
    let (plain, granted) = (token_with(json!({})), token_with(json!({"scope": "run"})));
    assert_eq!(status_for_token(&server, &plain).await.0, 200);
    let stricter =
        issuer.config().replace("[[auth.issuers]]", "required_scopes = [\"run\"]\n[[auth.issuers]]");
    std::fs::write(dir.config(), config(&stricter)).unwrap();
    let reloaded = async {
        while status_for_token(&server, &plain).await.0 != 403 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, reloaded).await.expect("the config is read again");
    assert_eq!(status_for_token(&server, &granted).await.0, 200);
    assert_eq!(issuer.key_requests(), 1, "its keys are kept over the change");
}

#[tokio::test]
async fn doctor_checks_issuer() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let dir = TestDir::new(&config(&format!("{}{}", issuer.config(), issuer.introspection())));
    let healthy = dir.run(dir.command("doctor")).await;
    assert_eq!(healthy.code, Some(0), "{}{}", healthy.stdout, healthy.stderr);
    assert!(healthy.stdout.contains("tokens can be verified with 1 key"), "{}", healthy.stdout);
    assert!(healthy.stdout.contains("the endpoint accepts introspection requests"), "{}", healthy.stdout);
    issuer.set_down(true);
    let unhealthy = dir.run(dir.command("doctor")).await;
    assert_eq!(unhealthy.code, Some(1), "{}", unhealthy.stdout);
    assert!(unhealthy.stdout.contains("503"), "{}", unhealthy.stdout);
}

/// No log and no error contains the query or the password in an address of an issuer.
#[tokio::test]
async fn issuer_address_secrets_are_hidden() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let keys_at = |uri: String| config(&format!("{}jwks_uri = \"{uri}\"\n", issuer.config()));
    let dir = TestDir::new(&keys_at(format!("{}/nothing?code=hush-hush", issuer.url())));
    let server = dir.serve();
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    assert_eq!(status_for_token(&server, &token).await.0, 503);
    let doctor = dir.run(dir.command("doctor")).await;
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    for output in [&log, &doctor.stdout] {
        assert!(output.contains(&format!("{}/nothing", issuer.url())), "{output}");
        assert!(!output.contains("hush-hush"), "{output}");
    }
    let with_password = |text: &str| text.replace("127.0.0.1", "bridge:hush-hush@127.0.0.1");
    let issuer_line = format!("issuer = \"{}\"", issuer.url());
    for (field, text) in [
        ("auth.issuers[0].jwks_uri", keys_at(with_password(issuer.url()))),
        (
            "auth.issuers[0].issuer",
            config(&issuer.config().replace(&issuer_line, &with_password(&issuer_line))),
        ),
        (
            "auth.issuers[0].introspection.endpoint",
            config(&format!("{}{}", issuer.config(), with_password(&issuer.introspection()))),
        ),
    ] {
        std::fs::write(dir.config(), text).unwrap();
        let refused = dir.run(dir.command("check")).await;
        assert_eq!(refused.code, Some(1), "{field}: {}", refused.stdout);
        assert!(refused.stderr.contains(&format!("{field}: ")), "{}", refused.stderr);
        assert!(!refused.stderr.contains("hush-hush"), "{}", refused.stderr);
    }
}
