//! Service accounts of Google Cloud: a statement that the account's key signs, exchanged for a token
//! (RFC 7523).

use std::time::Duration;

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Error, Result, Secret, root_cause};

use super::cache::FreshToken;
use super::oauth::TokenEndpoint;
use super::token::{TokenHeader, TokenSource};
use crate::config::auth::{Google, Invalid};

/// Google's token endpoint. That of the key file is not used: who can write the file could redirect the
/// statement.
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const DEFAULT_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Lifetime of the statement and of the token, in seconds: the longest that Google accepts.
const LASTS_SECONDS: i64 = 3600;
/// How much this machine's clock may be ahead, in seconds.
const CLOCK_SKEW_SECONDS: i64 = 10;

pub(super) struct ServiceAccount {
    endpoint: TokenEndpoint,
    key: EncodingKey,
    key_id: Option<String>,
    email: String,
    audience: String,
    scope: String,
}

/// The fields of a key file that are used.
#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: Secret,
    #[serde(default)]
    private_key_id: Option<String>,
}

/// The statement (JWT).
#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
}

pub(super) fn connect(config: &Google, timeout: Duration) -> Result<TokenHeader<ServiceAccount>, Invalid> {
    let invalid = |why: &str| Invalid::new("auth.google.credentials", why);
    let file: KeyFile = serde_json::from_str(config.credentials.reveal()).map_err(|_| {
        invalid("is not the JSON key of a service account: `client_email` or `private_key` is missing")
    })?;
    let key = EncodingKey::from_rsa_pem(file.private_key.reveal().as_bytes())
        .map_err(|_| invalid("has a `private_key` that is no RSA key in PEM"))?;
    let audience = config.token_url.clone().unwrap_or_else(|| TOKEN_URL.to_owned());
    let scope = match config.scopes.is_empty() {
        true => DEFAULT_SCOPE.to_owned(),
        false => config.scopes.join(" "),
    };
    let source = ServiceAccount {
        endpoint: TokenEndpoint::new("auth.google.token_url", &audience, timeout)?,
        key,
        key_id: file.private_key_id,
        email: file.client_email,
        audience,
        scope,
    };
    Ok(TokenHeader::new(source, AUTHORIZATION, "Bearer "))
}

#[async_trait]
impl TokenSource for ServiceAccount {
    async fn fetch(&self) -> Result<FreshToken> {
        // The statement contains the wall-clock time, which Google compares with its own.
        let now = jiff::Timestamp::now().as_second() - CLOCK_SKEW_SECONDS;
        let claims = Claims {
            iss: &self.email,
            scope: &self.scope,
            aud: &self.audience,
            iat: now,
            exp: now + LASTS_SECONDS,
        };
        let header = Header { kid: self.key_id.clone(), ..Header::new(Algorithm::RS256) };
        let statement = jsonwebtoken::encode(&header, &claims, &self.key)
            .map_err(|e| Error::config(format!("`auth.google`: signing failed: {}", root_cause(&e))))?;
        self.endpoint.request(&[("grant_type", GRANT), ("assertion", &statement)], None).await
    }
}
