//! Tests of all kinds of credentials, against a small server.

mod aws;
mod fixed;
mod tokens;

use serde_json::{Value, json};
use taskbridge_sdk::{ConnectContext, OnBehalfOf, Result};

use super::*;
use crate::driver::net::tests::{LONG, TestServer};

fn context() -> ConnectContext {
    ConnectContext {
        name: "engine".to_owned(),
        config_dir: "/".into(),
        state_dir: "/".into(),
        program: "/".into(),
        call_timeout: LONG,
    }
}

fn parse(config: Value) -> AuthConfig {
    serde_json::from_value(config).unwrap()
}

fn auth(server: &TestServer, config: Value) -> Result<Auth> {
    Auth::new(&parse(config), None, &server.client(), &context())
}

/// Applies the backend's own credentials to a GET, and returns the header.
async fn applied(server: &TestServer, auth: &Auth, header: &str) -> Result<String> {
    let mut request = server.request(http::Method::GET, "/job");
    auth.apply(&mut request, By::Own).await?;
    assert!(request.headers[header].is_sensitive());
    Ok(request.headers[header].to_str().unwrap().to_owned())
}

/// The config has one kind of credential at most, and each error names its field without the secret.
#[test]
fn invalid_config_names_its_field() {
    let private_key = json!({ "client_email": "a@b", "private_key": "s3cret" }).to_string();
    for (config, expected) in [
        (json!({ "bearer": "s3cret", "basic": { "user": "a", "password": "s3cret" } }), "auth"),
        (json!({ "bearer": "s3cret\u{7}" }), "auth.bearer"),
        (json!({ "bearer": " " }), "auth.bearer"),
        (json!({ "basic": { "user": "a:b", "password": "s3cret" } }), "auth.basic.user"),
        (json!({ "header": { "name": "a b", "value": "s3cret" } }), "auth.header.name"),
        (json!({ "header": { "name": "Host", "value": "s3cret" } }), "auth.header.name"),
        (json!({ "header": { "name": "x", "value": "s3cret\r\nx: y" } }), "auth.header.value"),
        (
            json!({ "oauth": { "token_url": "http://login.example", "client_id": "a", "client_secret": "s3cret" } }),
            "auth.oauth.token_url",
        ),
        (
            json!({ "exchange": { "user": "a", "password": "s3cret", "token": "body.x", "request": { "path": "/t" } } }),
            "auth.exchange.request",
        ),
        (json!({ "sigv4": { "service": "a b", "region": "eu-west-1" } }), "auth.sigv4.service"),
        (
            json!({ "sigv4": { "service": "a", "region": "eu-west-1", "secret_access_key": "s3cret" } }),
            "auth.sigv4",
        ),
        (json!({ "google": { "credentials": "s3cret" } }), "auth.google.credentials"),
        (json!({ "google": { "credentials": private_key } }), "auth.google.credentials"),
    ] {
        let (field, message) = Auth::check(&parse(config.clone()), None).unwrap_err();
        assert_eq!(field, expected, "{config}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
    assert!(Auth::check(&AuthConfig::default(), None).is_ok());
    // `taskbridge check --no-secrets` reads none.
    assert!(Auth::check(&parse(json!({ "google": { "credentials": "" } })), None).is_ok());
}

/// All secrets of the shape are listed, so that the server resolves them.
#[test]
fn every_secret_is_listed() {
    let schema = serde_json::to_string(&schemars::schema_for!(AuthConfig)).unwrap();
    let secrets = schema.matches("The environment variable with the value.").count();
    let listed = crate::config::auth::SECRETS.iter().filter(|path| path.starts_with("auth.")).count();
    assert_eq!(secrets, listed);
}

fn person(name: &str) -> OnBehalfOf {
    OnBehalfOf::named(name)
}
