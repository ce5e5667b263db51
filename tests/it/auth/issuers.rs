//! Tests for issuers that rotate their keys, are unavailable, or receive many requests.

use futures_util::future::join_all;
use serde_json::json;

use super::{PATIENCE, answered, config, trusting};
use crate::support::Place;
use crate::support::issuer::{Issuer, Signer};

/// Tokens of the old key and of the new key are both accepted.
#[tokio::test]
async fn key_rotation_rejects_no_token() {
    let (old, new) = (Signer::ed("old"), Signer::ec("new"));
    let issuer = Issuer::with(&[&old]).await;
    let (_place, server) = trusting(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let (by_old, by_new) = (old.sign(&json!({}), &claims), new.sign(&json!({}), &claims));
    assert_eq!(answered(&server, &by_old).await.0, 200);
    issuer.publish(&[&old, &new]);
    assert_eq!(answered(&server, &by_new).await.0, 200, "a key that is new is looked for at once");
    assert_eq!(answered(&server, &by_old).await.0, 200);
    assert_eq!(issuer.asked_for_keys(), 2);
}

/// Many tokens with made-up key ids cause at most three requests to the issuer.
#[tokio::test]
async fn unknown_key_ids_are_not_forwarded() {
    let (key, stranger) = (Signer::ed("one"), Signer::ed("x"));
    let issuer = Issuer::with(&[&key]).await;
    let (_place, server) = trusting(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let flood: Vec<String> =
        (0..200).map(|n| stranger.sign(&json!({"kid": format!("k{n}")}), &claims)).collect();
    for refused in join_all(flood.iter().map(|token| answered(&server, token))).await {
        assert_eq!(refused.0, 401, "{}", refused.1);
    }
    assert!(issuer.asked_for_keys() <= 3, "it was asked {} times", issuer.asked_for_keys());
    assert_eq!(answered(&server, &key.sign(&json!({}), &claims)).await.0, 200);
}

/// During an outage, cached keys stay valid and unknown keys get 503. The server retries by itself.
#[tokio::test]
async fn issuer_outage_keeps_cached_keys() {
    let (key, new) = (Signer::ed("one"), Signer::ed("two"));
    let issuer = Issuer::with(&[&key]).await;
    issuer.goes_down(true);
    let (place, server) = trusting(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let token = key.sign(&json!({}), &claims);
    let (status, message) = answered(&server, &token).await;
    assert!(status == 503 && message.contains("try again"), "{status} {message}");
    issuer.goes_down(false);
    let comes_back = async {
        while answered(&server, &token).await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, comes_back).await.expect("it is found again");
    issuer.goes_down(true);
    issuer.publish(&[&key, &new]);
    let by_new = new.sign(&json!({}), &claims);
    assert_eq!(answered(&server, &by_new).await.0, 503, "it cannot be told whether this key is the issuer's");
    assert_eq!(answered(&server, &token).await.0, 200, "its keys are known");
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    assert!(log.contains("the issuer's keys cannot be fetched; nobody can be let in by it"), "{log}");
}

/// New rules for tokens apply at once, and the cached keys of the issuer are not fetched again.
#[tokio::test]
async fn new_rules_keep_cached_keys() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let place = Place::new(&config(&issuer.config()));
    let server = place.serve();
    let with = |more| key.sign(&json!({}), &issuer.claims("ann", &more));
    let (plain, granted) = (with(json!({})), with(json!({"scope": "run"})));
    assert_eq!(answered(&server, &plain).await.0, 200);
    let stricter =
        issuer.config().replace("[[auth.issuers]]", "required_scopes = [\"run\"]\n[[auth.issuers]]");
    std::fs::write(place.config(), config(&stricter)).unwrap();
    let in_force = async {
        while answered(&server, &plain).await.0 != 403 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, in_force).await.expect("the config is read again");
    assert_eq!(answered(&server, &granted).await.0, 200);
    assert_eq!(issuer.asked_for_keys(), 1, "its keys are kept over the change");
}

#[tokio::test]
async fn doctor_checks_issuer() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let place = Place::new(&config(&format!("{}{}", issuer.config(), issuer.introspection())));
    let well = place.run(place.command("doctor")).await;
    assert_eq!(well.code, Some(0), "{}{}", well.stdout, well.stderr);
    assert!(well.stdout.contains("tokens can be checked by 1 key"), "{}", well.stdout);
    assert!(well.stdout.contains("it can be asked about tokens"), "{}", well.stdout);
    issuer.goes_down(true);
    let ill = place.run(place.command("doctor")).await;
    assert_eq!(ill.code, Some(1), "{}", ill.stdout);
    assert!(ill.stdout.contains("503"), "{}", ill.stdout);
}

/// No log and no error contains the query or the password in an address of an issuer.
#[tokio::test]
async fn issuer_address_secrets_are_hidden() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let keys_at = |uri: String| config(&format!("{}jwks_uri = \"{uri}\"\n", issuer.config()));
    let place = Place::new(&keys_at(format!("{}/nothing?code=hush-hush", issuer.url())));
    let server = place.serve();
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    assert_eq!(answered(&server, &token).await.0, 503);
    let doctor = place.run(place.command("doctor")).await;
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    for said in [&log, &doctor.stdout] {
        assert!(said.contains(&format!("{}/nothing", issuer.url())), "{said}");
        assert!(!said.contains("hush-hush"), "{said}");
    }
    let named = |text: &str| text.replace("127.0.0.1", "bridge:hush-hush@127.0.0.1");
    let elsewhere = format!("issuer = \"{}\"", issuer.url());
    for (field, text) in [
        ("auth.issuers[0].jwks_uri", keys_at(named(issuer.url()))),
        ("auth.issuers[0].issuer", config(&issuer.config().replace(&elsewhere, &named(&elsewhere)))),
        (
            "auth.issuers[0].introspection.endpoint",
            config(&format!("{}{}", issuer.config(), named(&issuer.introspection()))),
        ),
    ] {
        std::fs::write(place.config(), text).unwrap();
        let refused = place.run(place.command("check")).await;
        assert_eq!(refused.code, Some(1), "{field}: {}", refused.stdout);
        assert!(refused.stderr.contains(&format!("{field}: ")), "{}", refused.stderr);
        assert!(!refused.stderr.contains("hush-hush"), "{}", refused.stderr);
    }
}
