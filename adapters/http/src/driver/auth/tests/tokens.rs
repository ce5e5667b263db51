//! Tests of tokens that are requested: OAuth, exchange, Google, and the cache.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taskbridge_sdk::{ErrorKind, Secret};

use super::*;
use crate::driver::auth::cache::{FreshToken, TokenCache};
use crate::driver::net::tests::{Step, reply};

/// Server whose tokens are `t1`, `t2` and so on.
async fn token_server(lasts: u64) -> TestServer {
    let count = AtomicUsize::new(0);
    TestServer::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        reply(200, "", &json!({ "access_token": format!("t{number}"), "expires_in": lasts }).to_string())
    })
    .await
}

fn oauth(server: &TestServer, extra: Value) -> Value {
    let mut oauth = json!({
        "token_url": server.url.join("/token?tenant=1").unwrap().as_str(),
        "client_id": "cl:ent", "client_secret": "s3cret\n", "scope": "a b",
    });
    oauth.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({ "oauth": oauth })
}

#[tokio::test]
async fn client_credentials_become_cached_token() {
    let server = token_server(3600).await;
    let auth = auth(&server, oauth(&server, json!({}))).unwrap();
    for _ in 0..3 {
        assert_eq!(applied(&server, &auth, "authorization").await.unwrap(), "Bearer t1");
    }
    let received = server.received();
    assert_eq!((received.len(), received[0].line.as_str()), (1, "POST /token?tenant=1"));
    assert_eq!(received[0].body, "grant_type=client_credentials&scope=a%20b");
    // cl%3Aent:s3cret
    assert_eq!(received[0].header("authorization").as_deref(), Some("Basic Y2wlM0FlbnQ6czNjcmV0"));
    assert!(auth.refused(By::Own));
    assert_eq!(applied(&server, &auth, "authorization").await.unwrap(), "Bearer t2");
}

#[tokio::test]
async fn client_credentials_in_form() {
    let server = token_server(3600).await;
    let auth = auth(&server, oauth(&server, json!({ "in_form": true, "audience": "api" }))).unwrap();
    applied(&server, &auth, "authorization").await.unwrap();
    let received = &server.received()[0];
    assert!(received.body.ends_with("&audience=api&client_id=cl%3Aent&client_secret=s3cret"));
    assert_eq!(received.header("authorization"), None);
}

/// A token server that refuses or fails is no uncertain start, and its error does not show the secret.
#[tokio::test]
async fn failed_token_request_has_certain_kind() {
    let replies: [(fn() -> Step, ErrorKind); 5] = [
        (|| reply(401, "", "s3cret"), ErrorKind::Denied),
        (|| reply(200, "", "no json"), ErrorKind::Denied),
        (|| reply(429, "", ""), ErrorKind::Limited { after: None }),
        (|| reply(503, "", ""), ErrorKind::Unavailable),
        (|| Step::Close, ErrorKind::Unavailable),
    ];
    for (answer, kind) in replies {
        let server = TestServer::start(move |_| answer()).await;
        let auth = auth(&server, oauth(&server, json!({}))).unwrap();
        let error = applied(&server, &auth, "authorization").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn password_is_exchanged_for_token() {
    let server = TestServer::start(|_| reply(201, "", r#"{"jwt": {"token": "abc"}, "lasts": 30}"#)).await;
    let config = json!({ "exchange": {
        "user": "bridge", "password": "{{ user }}\"\n",
        "request": { "path": "/auth/token", "json": { "username": "{{ user }}", "in": [{ "p": "{{ password }}" }] } },
        "token": "body.jwt.token", "expires_in": "body.lasts", "header": "X-Token", "prefix": "",
    } });
    let auth = auth(&server, config).unwrap();
    assert_eq!(applied(&server, &auth, "x-token").await.unwrap(), "abc");
    let received = &server.received()[0];
    assert_eq!(received.line, "POST /auth/token");
    let body: Value = serde_json::from_str(&received.body).unwrap();
    assert_eq!(body, json!({ "username": "bridge", "in": [{ "p": "{{ user }}\"" }] }));
}

#[tokio::test]
async fn reply_without_token_is_denied() {
    let server = TestServer::start(|_| reply(200, "", r#"{"error": "s3cret"}"#)).await;
    let config = json!({ "exchange": {
        "user": "bridge", "password": "p", "token": "body.access_token",
        "request": { "path": "/auth/token", "form": { "user": "{{ user }}" } },
    } });
    let error = applied(&server, &auth(&server, config).unwrap(), "authorization").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(server.received()[0].body, "user=bridge");
}

/// The statement is signed by the account's key, and names the account, the scope and the endpoint.
#[tokio::test]
async fn service_account_signs_statement() {
    use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::KeyPair as _;
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};

    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let pem = data_encoding::BASE64.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
    let server = token_server(3600).await;
    let url = server.url.join("/token").unwrap().to_string();
    let file = json!({
        "client_email": "bridge@project.iam.gserviceaccount.com",
        "private_key": pem, "private_key_id": "k1",
        "token_uri": "https://evil.example/token",
    });
    let config = json!({ "google": { "credentials": file.to_string(), "token_url": url } });
    let auth = auth(&server, config).unwrap();
    assert_eq!(applied(&server, &auth, "authorization").await.unwrap(), "Bearer t1");
    let body = server.received()[0].body.clone();
    let statement = body.split("assertion=").nth(1).unwrap();
    let key = DecodingKey::from_rsa_der(pair.public_key().as_ref());
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&[&url]);
    let claims = jsonwebtoken::decode::<Value>(statement, &key, &validation).unwrap();
    assert_eq!(claims.header.kid.as_deref(), Some("k1"));
    assert_eq!(claims.claims["iss"], "bridge@project.iam.gserviceaccount.com");
    assert_eq!(claims.claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
}

fn fresh(token: &str, seconds: u64) -> Result<FreshToken> {
    Ok(FreshToken { token: Secret::from(token), lasts: Duration::from_secs(seconds) })
}

/// A token is replaced before its end, and kept to its end if it cannot be replaced.
#[tokio::test(start_paused = true)]
async fn token_is_replaced_before_its_end() {
    let cache = TokenCache::default();
    let fail = async || Err(Error::unavailable("away"));
    assert_eq!(cache.get(async || fresh("a", 600)).await.unwrap().reveal(), "a");
    tokio::time::advance(Duration::from_secs(539)).await;
    assert_eq!(cache.get(async || fresh("b", 600)).await.unwrap().reveal(), "a");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(cache.get(fail).await.unwrap().reveal(), "a", "it is still valid");
    assert_eq!(cache.get(async || fresh("b", 600)).await.unwrap().reveal(), "b");
    tokio::time::advance(Duration::from_secs(601)).await;
    assert!(cache.get(fail).await.is_err());
}

/// Users that need a token at the same time share one refresh.
#[tokio::test]
async fn refreshes_run_one_at_a_time() {
    let (cache, count) = (TokenCache::default(), AtomicUsize::new(0));
    let get = async || {
        let fetch = async || {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            fresh("a", 600)
        };
        cache.get(fetch).await.unwrap()
    };
    tokio::join!(get(), get(), get(), get());
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
