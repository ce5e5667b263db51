//! Tests for signed tokens: the valid ones, and every way in which a token can be invalid.

use aws_lc_rs::hmac;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

use super::{answered, begin, challenge, shown, trusting};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{Client, Modern, Place, text};

fn part(value: &Value) -> String {
    BASE64URL_NOPAD.encode(value.to_string().as_bytes())
}

/// Covers every algorithm, both generations, and an audience among several.
#[tokio::test]
async fn valid_token_is_accepted() {
    let (rsa, ec, ed) = (Signer::rsa("one"), Signer::ec("two"), Signer::ed("three"));
    let issuer = Issuer::with(&[&rsa, &ec, &ed]).await;
    let (_place, server) = trusting(&issuer);
    for (key, header) in [
        (&rsa, json!({})),
        (&rsa, json!({"alg": "PS256"})),
        (&ec, json!({"typ": "JWT"})),
        (&ed, json!({"typ": null})),
    ] {
        let token = key.sign(&header, &issuer.claims("ann", &json!({})));
        assert_eq!(answered(&server, &token).await, (200, String::new()), "{} {header}", key.id);
    }
    let token = rsa.sign(
        &json!({}),
        &issuer.claims("ann", &json!({"aud": ["other", crate::support::issuer::RESOURCE]})),
    );
    let client = Client::open_with(server.url(), &token).await.unwrap();
    assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
    let modern = Modern::without_tasks(server.url()).with_key(&token);
    assert_eq!(text(&modern.call("hello", &json!({}), json!({})).await.unwrap()), "hello\n");
    assert_eq!(issuer.asked_for_keys(), 1, "keys are kept");
}

/// No message and no log contains the token, and no address that it names is requested.
#[tokio::test]
async fn invalid_token_is_refused_with_reason() {
    let (key, other) = (Signer::rsa("one"), Signer::rsa("one"));
    let (ec, elsewhere) = (Signer::ec("two"), Signer::rsa("theirs"));
    let issuer = Issuer::with(&[&key, &ec]).await;
    let attacker = Issuer::with(&[&elsewhere]).await;
    let (place, server) = trusting(&issuer);
    let right = issuer.claims("ann", &json!({}));
    let with = |more: Value| key.sign(&json!({}), &issuer.claims("ann", &more));
    let headed = |header: Value| key.sign(&header, &right);

    // Key confusion: the public key is used as an HMAC secret.
    let confused = |secret: &[u8]| {
        let text =
            format!("{}.{}", part(&json!({"alg": "HS256", "kid": "one", "typ": "at+jwt"})), part(&right));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
        format!("{text}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
    };
    let jwk = key.jwk();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----",
        BASE64.encode(jwk["n"].as_str().unwrap().as_bytes())
    );
    let unsigned = |alg: &str| format!("{}.{}.", part(&json!({"alg": alg})), part(&right));
    let good = headed(json!({}));
    let changed = {
        let (head, rest) = good.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        format!("{head}.{}.{signature}", part(&issuer.claims("root", &json!({}))))
    };
    let to_attacker = format!("{}/keys", attacker.url());
    let lured = |header: Value| elsewhere.sign(&header, &right);

    let (signature, algorithm, unknown_key) =
        ("signature is wrong", "a way that is not accepted", "does not publish");
    for (what, token, why) in [
        ("signed by another key of that name", other.sign(&json!({}), &right), signature),
        ("changed after it was signed", changed, signature),
        ("its signature cut short", good[..good.len() - 10].to_owned(), signature),
        ("without a signature", unsigned("none"), algorithm),
        ("without a signature, written otherwise", unsigned("NoNe"), algorithm),
        ("without a signature, as if signed", unsigned("RS256"), signature),
        ("the public key as a secret", confused(jwk["n"].as_str().unwrap().as_bytes()), algorithm),
        ("the public key in PEM as a secret", confused(pem.as_bytes()), algorithm),
        ("of one key by the algorithm of another", ec.sign(&json!({"alg": "RS256"}), &right), unknown_key),
        ("a key id that is a path", headed(json!({"kid": "../../../../dev/null"})), unknown_key),
        ("a key id that is SQL", headed(json!({"kid": "one' OR '1'='1"})), unknown_key),
        ("a key id that is an address", headed(json!({"kid": to_attacker})), unknown_key),
        ("jku", lured(json!({"jku": to_attacker})), unknown_key),
        ("jku with a known key id", lured(json!({"jku": to_attacker, "kid": "one"})), signature),
        ("x5u", lured(json!({"x5u": to_attacker, "kid": "one"})), signature),
        ("jwk", lured(json!({"jwk": elsewhere.jwk(), "kid": "one"})), signature),
        ("x5c", lured(json!({"x5c": ["AAAA"], "kid": "one"})), signature),
        ("crit", headed(json!({"crit": ["exp"]})), "must be understood"),
        ("another type", headed(json!({"typ": "dpop+jwt"})), "not an access token"),
        ("an ID token", with(json!({"aud": "client-7"})), "another server"),
        ("an ID token beside an access token", with(json!({"at_hash": "x"})), "not an access token"),
        ("an ID token that a client asked for", with(json!({"nonce": "n"})), "not an access token"),
        ("expired", with(json!({"exp": seconds(-31)})), "expired"),
        ("without an end", with(json!({"exp": null})), "exp"),
        ("not yet valid", with(json!({"nbf": seconds(60)})), "not valid yet"),
        ("issued in the future", with(json!({"iat": seconds(600)})), "not valid yet"),
        ("for another server", with(json!({"aud": "https://other.example/mcp"})), "another server"),
        (
            "for this server with a slash",
            with(json!({"aud": "http://127.0.0.1:8808/mcp/"})),
            "another server",
        ),
        ("for nobody", with(json!({"aud": null})), "another server"),
        ("of another issuer", with(json!({"iss": attacker.url()})), "not from an issuer"),
        (
            "of an issuer of a similar name",
            with(json!({"iss": format!("{}/", issuer.url())})),
            "not from an issuer",
        ),
        (
            "of another issuer, by its own key",
            elsewhere.sign(&json!({}), &attacker.claims("ann", &json!({}))),
            "not from an issuer",
        ),
        ("of nobody", with(json!({"sub": null})), "sub"),
        ("bound to a key", with(json!({"cnf": {"jkt": "x"}})), "bound to a key"),
        ("too large", with(json!({"filler": "x".repeat(17_000)})), "larger than this server takes"),
        (
            "encrypted",
            format!("{}.AAAA.AAAA.AAAA.AAAA", part(&json!({"alg": "RSA-OAEP", "enc": "A256GCM"}))),
            "not well formed",
        ),
        ("that only its issuer could read", "opaque-token".to_owned(), "cannot read"),
        (
            "a key that was never made",
            "tb_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            "API key is not known",
        ),
    ] {
        let (status, message) = answered(&server, &token).await;
        assert!(status == 401 && message.contains(why), "{what}: {status} {message}");
        assert!(token.len() < 20 || !message.contains(&token), "{what}: the token is repeated");
    }
    assert_eq!(answered(&server, &good).await.0, 200, "the right one is good all the same");
    assert_eq!((attacker.asked_for_keys(), attacker.strays()), (0, 0), "nobody is asked whom a token names");
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    let ends = good.rsplit_once('.').unwrap().1;
    assert!(!log.contains(ends), "no token is logged");
}

/// A token in the query, in a form or in a second header is refused.
#[tokio::test]
async fn token_is_accepted_in_header_only() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let (_place, server) = trusting(&issuer);
    let token = key.sign(&json!({}), &issuer.claims("ann", &json!({})));
    let twice = begin(&server).bearer_auth(&token).bearer_auth(&token).send().await.unwrap();
    assert!(challenge(&twice).contains("invalid_request"), "{}", challenge(&twice));
    assert_eq!(twice.status(), 401);
    let beside = begin(&server).bearer_auth("wrong").bearer_auth(&token).send().await.unwrap();
    assert_eq!(beside.status(), 401, "none of two is chosen");
    let mut request = begin(&server).build().unwrap();
    request.url_mut().set_query(Some(&format!("access_token={token}")));
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let in_query = client.execute(request).await;
    assert_eq!(in_query.unwrap().status(), 401);
    let form = begin(&server).header("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(form.body(format!("access_token={token}")).send().await.unwrap().status(), 401);
    assert_eq!(begin(&server).basic_auth("ann", Some(&token)).send().await.unwrap().status(), 401);
    assert_eq!(shown(&server, &token).await.status(), 200);
}

#[tokio::test]
async fn insufficient_scope_names_required_scopes() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace(
        "[[auth.issuers]]",
        "required_scopes = [\"run\", \"see\"]\nimplied_scopes = { admin = [\"run\", \"see\"] }\n[[auth.issuers]]",
    );
    let (_place, server) = super::serve(&auth);
    let with = |more: Value| key.sign(&json!({}), &issuer.claims("ann", &more));
    for (more, status) in [
        (json!({}), 403),
        (json!({"scope": "run"}), 403),
        (json!({"scope": "run see"}), 200),
        (json!({"scp": ["see", "run", "more"]}), 200),
        (json!({"scope": "admin"}), 200),
        (json!({"scope": "RUN SEE"}), 403),
        (json!({"scope": "run,see"}), 403),
    ] {
        let response = shown(&server, &with(more.clone())).await;
        assert_eq!(response.status(), status, "{more}");
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
    let nothing = begin(&server).send().await.unwrap();
    assert_eq!(
        challenge(&nothing),
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
    let place = Place::new(&format!(
        "{}\n[tools.deploy]\nbackend = \"here\"\ntarget.command = [\"echo\", \"deployed\"]\naccess.call = {{ scopes = [\"deploy\"] }}\n",
        super::config(&auth)
    ));
    let server = place.serve();
    let with = |scope: &str| key.sign(&json!({}), &issuer.claims("ann", &json!({"scope": scope})));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "deploy", "arguments": {}}});
    let client = Client::open_with(server.url(), &with("mcp")).await.unwrap();
    let refused = begin(&server).body(call.to_string()).header("Mcp-Session-Id", client.session());
    let refused = refused.bearer_auth(with("mcp")).send().await.unwrap();
    assert_eq!(refused.status(), 403);
    let challenge = challenge(&refused);
    let asked = challenge.split_once("scope=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    assert_eq!(asked, "deploy mcp", "{challenge}");
    // A token with exactly these scopes is sufficient.
    let client = Client::open_with(server.url(), &with(asked)).await.unwrap();
    assert_eq!(text(&client.call("deploy", json!({})).await.unwrap()), "deployed\n");
}

#[tokio::test]
async fn require_at_jwt_rejects_other_types() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let (_place, server) = super::serve(&format!("{}require_at_jwt = true\n", issuer.config()));
    let claims = issuer.claims("ann", &json!({}));
    for (typ, status) in
        [(json!("at+jwt"), 200), (json!("application/AT+JWT"), 200), (json!("JWT"), 401), (json!(null), 401)]
    {
        let (answered, message) = answered(&server, &key.sign(&json!({"typ": typ}), &claims)).await;
        assert_eq!(answered, status, "{typ}: {message}");
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
    let (_place, server) = super::serve(&auth);
    let of =
        |subject: &str, tenant: &str| key.sign(&json!({}), &issuer.claims(subject, &json!({"tid": tenant})));
    let ann = Client::open_with(server.url(), &of("ann", "t1")).await.unwrap();
    let task = ann.start("hello", json!({})).await.unwrap();
    let again = Client::open_with(server.url(), &of("ann", "t1")).await.unwrap();
    assert_eq!(again.list().await.unwrap().len(), 1, "it is the same person with another token");
    let elsewhere = other.sign(&json!({}), &second.claims("ann", &json!({})));
    for (who, token) in [
        ("somebody else", of("bob", "t1")),
        ("of another tenant", of("ann", "t2")),
        ("of another issuer", elsewhere),
        ("a machine of that name", "machine".to_owned()),
    ] {
        let stranger = Client::open_with(server.url(), &token).await.unwrap();
        assert!(stranger.get(&task).await.is_err(), "{who}");
        assert_eq!(stranger.list().await.unwrap().len(), 0, "{who}");
        let stolen = ann_session(&server, &ann, &token).await;
        assert_eq!(stolen, 404, "{who} with her session");
    }
    assert_eq!(
        answered(&server, &key.sign(&json!({}), &issuer.claims("ann", &json!({})))).await.0,
        401,
        "of no tenant"
    );
}

/// Returns the status of a request that uses another owner's session.
async fn ann_session(server: &crate::support::Server, ann: &Client, token: &str) -> u16 {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let request =
        begin(server).body(ping.to_string()).header("Mcp-Session-Id", ann.session()).bearer_auth(token);
    request.send().await.unwrap().status().as_u16()
}
