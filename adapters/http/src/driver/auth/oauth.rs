//! OAuth 2.0 client credentials (RFC 6749, section 4.4), and the token endpoint that other grants share.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use reqwest::Url;
use serde::Deserialize;
use taskbridge_sdk::{Result, Secret, is_local_address};
use zeroize::Zeroizing;

use super::cache::FreshToken;
use super::token::{self, TokenHeader, TokenSource};
use crate::config::auth::{Invalid, OAuth};
use crate::driver::net::{Client, NetConfig, Request};
use crate::language::{encode_pairs, percent_encode};

/// Assumed lifetime of a token whose reply has none.
const DEFAULT_LASTS: Duration = Duration::from_secs(300);

/// A token endpoint.
pub(super) struct TokenEndpoint {
    client: Client,
    url: Url,
    timeout: Duration,
}

impl TokenEndpoint {
    /// Creates the client of an endpoint. It may have a private address.
    ///
    /// # Errors
    /// The address is not one of HTTP with TLS. On this machine, it may be without TLS.
    pub(super) fn new(field: &str, address: &str, timeout: Duration) -> Result<Self, Invalid> {
        let invalid = |why: &str| Invalid::new(field, format!("{address:?} {why}"));
        let url = Url::parse(address).map_err(|_| invalid("is not a URL"))?;
        if url.scheme() != "https" && !url.host_str().is_some_and(is_local_address) {
            return Err(invalid("would send credentials without TLS: use https"));
        }
        // The address of an endpoint may have a query, and `base` may not.
        let mut base = url.clone();
        base.set_query(None);
        base.set_fragment(None);
        let client = Client::new(&NetConfig::new(base)).map_err(|why| Invalid::new(field, why))?;
        Ok(Self { client, url, timeout })
    }

    /// Posts a form, and returns the token of the reply.
    pub(super) async fn request(&self, form: &[(&str, &str)], basic: Option<&str>) -> Result<FreshToken> {
        let form = Bytes::from(encode_pairs(form));
        let mut request =
            token_request(self.url.clone(), "application/x-www-form-urlencoded", form, self.timeout);
        if let Some(basic) = basic {
            super::fixed::set(&mut request, &AUTHORIZATION, basic)?;
        }
        let reply = self.client.send(request).await.map_err(|error| token::send_error(&error))?;
        token::check_status(&reply)?;
        let reply: TokenReply = serde_json::from_slice(&reply.body)
            .map_err(|_| token::format_error("the reply has no `access_token`"))?;
        let lasts = reply.expires_in.map_or(DEFAULT_LASTS, Duration::from_secs);
        Ok(FreshToken { token: token::check_token(reply.access_token.reveal())?, lasts })
    }
}

/// Creates a request for a token.
pub(super) fn token_request(url: Url, content_type: &'static str, body: Bytes, timeout: Duration) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let (method, max_reply) = (Method::POST, token::MAX_REPLY);
    Request { method, url, headers, body, max_reply, timeout, follow: false, download: false }
}

/// The reply of a token endpoint (RFC 6749, section 5.1).
#[derive(Deserialize)]
struct TokenReply {
    access_token: Secret,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// Client credentials.
pub(super) struct ClientCredentials {
    endpoint: TokenEndpoint,
    config: OAuth,
}

pub(super) fn connect(config: &OAuth, timeout: Duration) -> Result<TokenHeader<ClientCredentials>, Invalid> {
    let endpoint = TokenEndpoint::new("auth.oauth.token_url", &config.token_url, timeout)?;
    let source = ClientCredentials { endpoint, config: config.clone() };
    Ok(TokenHeader::new(source, AUTHORIZATION, "Bearer "))
}

#[async_trait]
impl TokenSource for ClientCredentials {
    async fn fetch(&self) -> Result<FreshToken> {
        let (id, secret) = (self.config.client_id.as_str(), self.config.client_secret.reveal().trim());
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(self.config.scope.as_deref().map(|scope| ("scope", scope)));
        form.extend(self.config.audience.as_deref().map(|audience| ("audience", audience)));
        if self.config.in_form {
            form.extend([("client_id", id), ("client_secret", secret)]);
            return self.endpoint.request(&form, None).await;
        }
        // Both are encoded as in a form first (RFC 6749, section 2.3.1).
        let pair = Zeroizing::new(format!("{}:{}", percent_encode(id), percent_encode(secret)));
        let basic = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
        self.endpoint.request(&form, Some(&basic)).await
    }
}
