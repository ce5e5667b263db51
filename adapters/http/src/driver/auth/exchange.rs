//! Exchange of a user and a password for a token, by a request to the engine itself.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use taskbridge_sdk::{Error, Result};

use super::cache::FreshToken;
use super::fixed::header_name;
use super::oauth::token_request;
use super::token::{self, TokenHeader, TokenSource};
use crate::config::auth::{Exchange, ExchangeRequest, Invalid};
use crate::driver::net::Client;
use crate::language::{Expression, Scope, encode_pairs};

/// Deepest nesting of the request's JSON.
const MAX_DEPTH: usize = 16;

pub(super) struct Exchanger {
    client: Client,
    config: Exchange,
    timeout: Duration,
}

/// Checks the config, offline.
pub(super) fn check(config: &Exchange) -> Result<(), Invalid> {
    if config.request.json.is_some() == config.request.form.is_some() {
        return Err(Invalid::new("auth.exchange.request", "needs either `json` or `form`"));
    }
    if !config.request.path.starts_with('/') {
        return Err(Invalid::new("auth.exchange.request.path", "must begin with `/`"));
    }
    header_name("auth.exchange.header", &config.header).map(drop)
}

pub(super) fn connect(
    config: &Exchange,
    client: &Client,
    timeout: Duration,
) -> Result<TokenHeader<Exchanger>, Invalid> {
    check(config)?;
    let source = Exchanger { client: client.clone(), config: config.clone(), timeout };
    let name = header_name("auth.exchange.header", &config.header)?;
    Ok(TokenHeader::new(source, name, &config.prefix))
}

#[async_trait]
impl TokenSource for Exchanger {
    async fn fetch(&self) -> Result<FreshToken> {
        let url = self.client.url(&self.config.request.path).map_err(Error::config)?;
        let (body, content_type) = self.body(&self.config.request);
        let request = token_request(url, content_type, body, self.timeout);
        let reply = self.client.send(request).await.map_err(|error| token::send_error(&error))?;
        token::check_status(&reply)?;
        let body: Value =
            serde_json::from_slice(&reply.body).map_err(|_| token::format_error("the reply is not JSON"))?;
        let reply = Scope::default().with("body", body);
        let text = |expression: &Expression| expression.text(&reply).ok().flatten();
        let token = text(&self.config.token).unwrap_or_default();
        let seconds = self.config.expires_in.as_ref().and_then(text).and_then(|text| text.parse().ok());
        let lasts = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(FreshToken { token: token::check_token(&token)?, lasts: lasts.unwrap_or(self.config.lasts) })
    }
}

impl Exchanger {
    fn body(&self, request: &ExchangeRequest) -> (Bytes, &'static str) {
        match (&request.json, &request.form) {
            (Some(json), _) => (Bytes::from(self.fill_json(json, 0).to_string()), "application/json"),
            (None, form) => {
                let pairs: Vec<(&str, String)> =
                    form.iter().flatten().map(|(name, value)| (name.as_str(), self.fill(value))).collect();
                (Bytes::from(encode_pairs(&pairs)), "application/x-www-form-urlencoded")
            }
        }
    }

    fn fill_json(&self, value: &Value, depth: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) if depth < MAX_DEPTH => {
                items.iter().map(|item| self.fill_json(item, depth + 1)).collect()
            }
            Value::Object(fields) if depth < MAX_DEPTH => {
                fields.iter().map(|(name, value)| (name.clone(), self.fill_json(value, depth + 1))).collect()
            }
            other => other.clone(),
        }
    }

    /// Replaces the two texts. They are values only: a password with braces is not replaced again.
    fn fill(&self, text: &str) -> String {
        let password = self.config.password.reveal().trim_end_matches(['\r', '\n']);
        match text {
            "{{ user }}" => self.config.user.clone(),
            "{{ password }}" => password.to_owned(),
            other => other.to_owned(),
        }
    }
}
