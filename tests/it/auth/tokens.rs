//! Tests for signed tokens: the valid ones, and every way in which a token can be invalid.

use aws_lc_rs::hmac;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

use super::{challenge, initialize_request, initialize_with, serve_with_issuer, status_for_token};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{Client, ModernClient, TestDir, text};

fn part(value: &Value) -> String {
    BASE64URL_NOPAD.encode(value.to_string().as_bytes())
}

/// Covers every algorithm, both generations, and an audience among several.
#[tokio::test]
async fn valid_token_is_accepted() {
    let (rsa, ec, ed) = (Signer::rsa("one"), Signer::ec("two"), Signer::ed("three"));
    let issuer = Issuer::with(&[&rsa, &ec, &ed]).await;
    let (_dir, server) = serve_with_issuer(&issuer);
    for (key, header) in [
        (&rsa, json!({})),
        (&rsa, json!({"alg": "PS256"})),
        (&ec, json!({"typ": "JWT"})),
        (&ed, json!({"typ": null})),
    ] {
        let token = key.sign(&header, &issuer.claims("ann", &json!({})));
        assert_eq!(status_for_token(&server, &token).await, (200, String::new()), "{} {header}", key.id);
    }
    let token = rsa.sign(
        &json!({}),
        &issuer.claims("ann", &json!({"aud": ["other", crate::support::issuer::RESOURCE]})),
    );
    let client = Client::open_with_key(server.url(), &token).await.unwrap();
    assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
    let modern = ModernClient::without_tasks(server.url()).with_key(&token);
    assert_eq!(text(&modern.call("hello", &json!({}), json!({})).await.unwrap()), "hello\n");
    assert_eq!(issuer.key_requests(), 1, "keys are kept");
}

/// No message and no log contains the token, and no address that it names is requested.
#[tokio::test]
async fn invalid_token_is_refused_with_reason() {
    let (key, other) = (Signer::rsa("one"), Signer::rsa("one"));
    let (ec, attacker_key) = (Signer::ec("two"), Signer::rsa("theirs"));
    let issuer = Issuer::with(&[&key, &ec]).await;
    let attacker = Issuer::with(&[&attacker_key]).await;
    let (dir, server) = serve_with_issuer(&issuer);
    let claims = issuer.claims("ann", &json!({}));
    let token_with = |extra: Value| key.sign(&json!({}), &issuer.claims("ann", &extra));
    let token_with_header = |header: Value| key.sign(&header, &claims);

    // Key confusion: the public key is used as an HMAC secret.
    let hmac_token = |secret: &[u8]| {
        let text =
            format!("{}.{}", part(&json!({"alg": "HS256", "kid": "one", "typ": "at+jwt"})), part(&claims));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
        format!("{text}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
    };
    let jwk = key.jwk();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----",
        BASE64.encode(jwk["n"].as_str().unwrap().as_bytes())
    );
    let unsigned = |alg: &str| format!("{}.{}.", part(&json!({"alg": alg})), part(&claims));
    let good = token_with_header(json!({}));
    let changed = {
        let (head, rest) = good.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        format!("{head}.{}.{signature}", part(&issuer.claims("root", &json!({}))))
    };
    let to_attacker = format!("{}/keys", attacker.url());
    let attacker_token = |header: Value| attacker_key.sign(&header, &claims);

    let (signature, algorithm, unknown_key) =
        ("signature is wrong", "algorithm is not accepted", "does not publish");
    for (case, token, expected) in [
        ("signed by another key of that name", other.sign(&json!({}), &claims), signature),
        ("changed after it was signed", changed, signature),
        ("its signature cut short", good[..good.len() - 10].to_owned(), signature),
        ("without a signature", unsigned("none"), algorithm),
        ("without a signature, written otherwise", unsigned("NoNe"), algorithm),
        ("without a signature, as if signed", unsigned("RS256"), signature),
        ("the public key as a secret", hmac_token(jwk["n"].as_str().unwrap().as_bytes()), algorithm),
        ("the public key in PEM as a secret", hmac_token(pem.as_bytes()), algorithm),
        ("of one key by the algorithm of another", ec.sign(&json!({"alg": "RS256"}), &claims), unknown_key),
        ("a key id that is a path", token_with_header(json!({"kid": "../../../../dev/null"})), unknown_key),
        ("a key id that is SQL", token_with_header(json!({"kid": "one' OR '1'='1"})), unknown_key),
        ("a key id that is an address", token_with_header(json!({"kid": to_attacker})), unknown_key),
        ("jku", attacker_token(json!({"jku": to_attacker})), unknown_key),
        ("jku with a known key id", attacker_token(json!({"jku": to_attacker, "kid": "one"})), signature),
        ("x5u", attacker_token(json!({"x5u": to_attacker, "kid": "one"})), signature),
        ("jwk", attacker_token(json!({"jwk": attacker_key.jwk(), "kid": "one"})), signature),
        ("x5c", attacker_token(json!({"x5c": ["AAAA"], "kid": "one"})), signature),
        ("crit", token_with_header(json!({"crit": ["exp"]})), "critical header fields"),
        ("another type", token_with_header(json!({"typ": "dpop+jwt"})), "not an access token"),
        ("an ID token", token_with(json!({"aud": "client-7"})), "another server"),
        ("an ID token beside an access token", token_with(json!({"at_hash": "x"})), "not an access token"),
        ("an ID token that a client asked for", token_with(json!({"nonce": "n"})), "not an access token"),
        ("expired", token_with(json!({"exp": seconds(-31)})), "expired"),
        ("without an end", token_with(json!({"exp": null})), "exp"),
        ("not yet valid", token_with(json!({"nbf": seconds(60)})), "not valid yet"),
        ("issued in the future", token_with(json!({"iat": seconds(600)})), "not valid yet"),
        ("for another server", token_with(json!({"aud": "https://other.example/mcp"})), "another server"),
        (
            "for this server with a slash",
            token_with(json!({"aud": "http://127.0.0.1:8808/mcp/"})),
            "another server",
        ),
        ("for nobody", token_with(json!({"aud": null})), "another server"),
        ("of another issuer", token_with(json!({"iss": attacker.url()})), "not from an issuer"),
        (
            "of an issuer of a similar name",
            token_with(json!({"iss": format!("{}/", issuer.url())})),
            "not from an issuer",
        ),
        (
            "of another issuer, by its own key",
            attacker_key.sign(&json!({}), &attacker.claims("ann", &json!({}))),
            "not from an issuer",
        ),
        ("of nobody", token_with(json!({"sub": null})), "sub"),
        ("bound to a key", token_with(json!({"cnf": {"jkt": "x"}})), "bound to a key"),
        ("too large", token_with(json!({"filler": "x".repeat(17_000)})), "too large"),
        (
            "encrypted",
            format!("{}.AAAA.AAAA.AAAA.AAAA", part(&json!({"alg": "RSA-OAEP", "enc": "A256GCM"}))),
            "not well formed",
        ),
        ("that only its issuer could read", "opaque-token".to_owned(), "is opaque"),
        (
            "a key that was never made",
            "tb_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            "API key is not known",
        ),
    ] {
        let (status, message) = status_for_token(&server, &token).await;
        assert!(status == 401 && message.contains(expected), "{case}: {status} {message}");
        assert!(token.len() < 20 || !message.contains(&token), "{case}: the token is repeated");
    }
    assert_eq!(status_for_token(&server, &good).await.0, 200, "the right one is good all the same");
    assert_eq!(
        (attacker.key_requests(), attacker.unknown_path_requests()),
        (0, 0),
        "nobody is asked whom a token names"
    );
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    let good_signature = good.rsplit_once('.').unwrap().1;
    assert!(!log.contains(good_signature), "no token is logged");
}

/// A token in the query, in a form or in a second header is refused.
#[tokio::test]
async fn token_is_accepted_in_header_only() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let (_dir, server) = serve_with_issuer(&issuer);
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    let twice = initialize_request(&server).bearer_auth(&token).bearer_auth(&token).send().await.unwrap();
    assert!(challenge(&twice).contains("invalid_request"), "{}", challenge(&twice));
    assert_eq!(twice.status(), 401);
    let second_header =
        initialize_request(&server).bearer_auth("wrong").bearer_auth(&token).send().await.unwrap();
    assert_eq!(second_header.status(), 401, "none of two is chosen");
    let mut request = initialize_request(&server).build().unwrap();
    request.url_mut().set_query(Some(&format!("access_token={token}")));
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let in_query = client.execute(request).await;
    assert_eq!(in_query.unwrap().status(), 401);
    let form = initialize_request(&server).header("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(form.body(format!("access_token={token}")).send().await.unwrap().status(), 401);
    assert_eq!(
        initialize_request(&server).basic_auth("ann", Some(&token)).send().await.unwrap().status(),
        401
    );
    assert_eq!(initialize_with(&server, &token).await.status(), 200);
}

#[tokio::test]
async fn insufficient_scope_names_required_scopes() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace(
        "[[auth.issuers]]",
        "required_scopes = [\"run\", \"see\"]\nimplied_scopes = { admin = [\"run\", \"see\"] }\n[[auth.issuers]]",
    );
    let (_dir, server) = super::serve(&auth);
    let token_with = |extra: Value| key.sign(&json!({}), &issuer.claims("ann", &extra));
    for (extra, status) in [
        (json!({}), 403),
        (json!({"scope": "run"}), 403),
        (json!({"scope": "run see"}), 200),
        (json!({"scp": ["see", "run", "more"]}), 200),
        (json!({"scope": "admin"}), 200),
        (json!({"scope": "RUN SEE"}), 403),
        (json!({"scope": "run,see"}), 403),
    ] {
        let response = initialize_with(&server, &token_with(extra.clone())).await;
        assert_eq!(response.status(), status, "{extra}");
        if status == 403 {
            let challenge = challenge(&response);
            assert!(
                challenge.contains("error=\"insufficient_scope\"") && challenge.contains("scope=\"run see\""),
                "{challenge}"
            );
            assert!(challenge.contains(
                "resource_metadata=\"http://127.0.0.1:8808/.well-known/oauth-protected-resource/mcp\""
            ));
        }
    }
    let unauthenticated = initialize_request(&server).send().await.unwrap();
    assert_eq!(
        challenge(&unauthenticated),
        "Bearer scope=\"run see\", resource_metadata=\"http://127.0.0.1:8808/.well-known/oauth-protected-resource/mcp\""
    );
}

/// The challenge for a tool has the scopes of the tool and of the server. A token with exactly these is
/// sufficient.
#[tokio::test]
async fn tool_challenge_lists_every_scope() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace("[[auth.issuers]]", "required_scopes = [\"mcp\"]\n[[auth.issuers]]");
    let dir = TestDir::new(&format!(
        "{}\n[tools.deploy]\nbackend = \"here\"\ntarget.command = [\"echo\", \"deployed\"]\naccess.call = {{ scopes = [\"deploy\"] }}\n",
        super::config(&auth)
    ));
    let server = dir.serve();
    let token_with_scope =
        |scope: &str| key.sign(&json!({}), &issuer.claims("ann", &json!({"scope": scope})));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "deploy", "arguments": {}}});
    let client = Client::open_with_key(server.url(), &token_with_scope("mcp")).await.unwrap();
    let refused =
        initialize_request(&server).body(call.to_string()).header("Mcp-Session-Id", client.session());
    let refused = refused.bearer_auth(token_with_scope("mcp")).send().await.unwrap();
    assert_eq!(refused.status(), 403);
    let challenge = challenge(&refused);
    let scopes = challenge.split_once("scope=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    assert_eq!(scopes, "deploy mcp", "{challenge}");
    // A token with exactly these scopes is sufficient.
    let client = Client::open_with_key(server.url(), &token_with_scope(scopes)).await.unwrap();
    assert_eq!(text(&client.call("deploy", json!({})).await.unwrap()), "deployed\n");
}

#[tokio::test]
async fn require_at_jwt_rejects_other_types() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let (_dir, server) = super::serve(&format!("{}require_at_jwt = true\n", issuer.config()));
    let claims = issuer.claims("ann", &json!({}));
    for (typ, status) in
        [(json!("at+jwt"), 200), (json!("application/AT+JWT"), 200), (json!("JWT"), 401), (json!(null), 401)]
    {
        let (actual, message) = status_for_token(&server, &key.sign(&json!({"typ": typ}), &claims)).await;
        assert_eq!(actual, status, "{typ}: {message}");
        assert!(status == 200 || message.contains("not an access token"), "{typ}: {message}");
    }
}

/// Tokens of another subject, tenant or issuer, and a key with the same name, do not see the tasks.
#[tokio::test]
async fn token_subject_owns_its_tasks() {
    let (key, other) = (Signer::ed("one"), Signer::ed("one"));
    let (issuer, second) = (Issuer::with(&[&key]).await, Issuer::with(&[&other]).await);
    let digest = {
        use sha2::Digest as _;
        data_encoding::HEXLOWER.encode(&sha2::Sha256::digest("machine"))
    };
    let auth = format!(
        "{}tenant_claim = \"tid\"\n[[auth.issuers]]\nissuer = \"{}\"\n[[auth.keys]]\nprincipal = \"ann\"\nsha256 = \"{digest}\"\n",
        issuer.config(),
        second.url()
    );
    let (_dir, server) = super::serve(&auth);
    let token_for =
        |subject: &str, tenant: &str| key.sign(&json!({}), &issuer.claims(subject, &json!({"tid": tenant})));
    let ann = Client::open_with_key(server.url(), &token_for("ann", "t1")).await.unwrap();
    let task = ann.start("hello", json!({})).await.unwrap();
    let second_session = Client::open_with_key(server.url(), &token_for("ann", "t1")).await.unwrap();
    assert_eq!(second_session.list().await.unwrap().len(), 1, "it is the same person with another token");
    let other_issuer_token = other.sign(&json!({}), &second.claims("ann", &json!({})));
    for (label, token) in [
        ("somebody else", token_for("bob", "t1")),
        ("of another tenant", token_for("ann", "t2")),
        ("of another issuer", other_issuer_token),
        ("a machine of that name", "machine".to_owned()),
    ] {
        let other_client = Client::open_with_key(server.url(), &token).await.unwrap();
        assert!(other_client.get(&task).await.is_err(), "{label}");
        assert_eq!(other_client.list().await.unwrap().len(), 0, "{label}");
        let session_status = status_in_session(&server, &ann, &token).await;
        assert_eq!(session_status, 404, "{label} with her session");
    }
    assert_eq!(
        status_for_token(&server, &key.sign(&json!({}), &issuer.claims("ann", &json!({})))).await.0,
        401,
        "of no tenant"
    );
}

/// Returns the status of a request that uses another owner's session.
async fn status_in_session(server: &crate::support::Server, ann: &Client, token: &str) -> u16 {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let request = initialize_request(server)
        .body(ping.to_string())
        .header("Mcp-Session-Id", ann.session())
        .bearer_auth(token);
    request.send().await.unwrap().status().as_u16()
}
