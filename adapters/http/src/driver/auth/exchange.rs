//! Exchange of a user and a password for a token, by a request to the engine itself.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use taskbridge_sdk::{Error, Result};

use super::cache::FreshToken;
use super::expression::Expression;
use super::fixed::header_name;
use super::oauth::token_request;
use super::token::{self, TokenHeader, TokenSource};
use crate::config::auth::{Exchange, ExchangeRequest, Invalid};
use crate::driver::net::Client;
use crate::language::encode_pairs;

/// Deepest nesting of the request's JSON.
const MAX_DEPTH: usize = 16;

pub(super) struct Exchanger {
    client: Client,
    config: Exchange,
    token: Expression,
    expires_in: Option<Expression>,
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
    Expression::new("auth.exchange.token", &config.token)?;
    if let Some(text) = &config.expires_in {
        Expression::new("auth.exchange.expires_in", text)?;
    }
    header_name("auth.exchange.header", &config.header).map(drop)
}

pub(super) fn connect(
    config: &Exchange,
    client: &Client,
    timeout: Duration,
) -> Result<TokenHeader<Exchanger>, Invalid> {
    check(config)?;
    let expires_in = config.expires_in.as_deref();
    let source = Exchanger {
        client: client.clone(),
        config: config.clone(),
        token: Expression::new("auth.exchange.token", &config.token)?,
        expires_in: expires_in.map(|text| Expression::new("auth.exchange.expires_in", text)).transpose()?,
        timeout,
    };
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
        let token = self.token.text(&body).unwrap_or_default();
        let seconds = self.expires_in.as_ref().and_then(|expression| expression.text(&body));
        let lasts =
            seconds.and_then(|text| text.parse().ok()).and_then(|s| Duration::try_from_secs_f64(s).ok());
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
