//! [`TokenHeader`]: a token from a [`TokenSource`] in a header, with a cache. It must not know the source.

use async_trait::async_trait;
use http::HeaderName;
use taskbridge_sdk::{Error, ErrorKind, Result, Secret};
use zeroize::Zeroizing;

use super::cache::{FreshToken, TokenCache};
use super::credential::Credential;
use super::fixed;
use crate::driver::net::{Reply, Request, SendError};

/// What a request for a token is called in messages.
const WHAT: &str = "requesting a token";
/// Longest token, in bytes.
const MAX_TOKEN: usize = 16 * 1024;
/// Maximum size of a token reply, in bytes.
pub(super) const MAX_REPLY: u64 = 64 * 1024;

/// Where tokens come from.
#[async_trait]
pub(super) trait TokenSource: Send + Sync {
    /// Requests a new token.
    async fn fetch(&self) -> Result<FreshToken>;
}

/// A token in a header.
pub(super) struct TokenHeader<S> {
    source: S,
    name: HeaderName,
    /// Text before the token, such as `Bearer `.
    prefix: String,
    cache: TokenCache,
}

impl<S> TokenHeader<S> {
    pub(super) fn new(source: S, name: HeaderName, prefix: &str) -> Self {
        Self { source, name, prefix: prefix.to_owned(), cache: TokenCache::default() }
    }
}

#[async_trait]
impl<S: TokenSource> Credential for TokenHeader<S> {
    async fn apply(&self, request: &mut Request) -> Result<()> {
        let token = self.cache.get(async || self.source.fetch().await).await?;
        let text = Zeroizing::new(format!("{}{}", self.prefix, token.reveal()));
        fixed::set(request, &self.name, &text)
    }

    fn refused(&self) -> bool {
        self.cache.clear();
        true
    }
}

/// Checks the text of a token.
pub(super) fn check_token(token: &str) -> Result<Secret> {
    let token = token.trim();
    match token.is_empty() || token.len() > MAX_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        true => Err(Error::denied(format!("{WHAT}: the reply has no usable token"))),
        false => Ok(Secret::from(token)),
    }
}

/// Returns the error of a token request without a reply. The request that needs the token was not sent, so the
/// error is never `Uncertain`.
pub(super) fn send_error(error: &SendError) -> Error {
    let kind = match error {
        SendError::Forbidden(_) => ErrorKind::Config,
        SendError::NotSent(_) | SendError::Uncertain(_) | SendError::TooLarge { .. } => {
            ErrorKind::Unavailable
        }
    };
    Error::new(kind, format!("{WHAT}: {error}"))
}

/// Returns the error of a status that is no success. The body is left out: it can repeat the request.
pub(super) fn check_status(reply: &Reply) -> Result<()> {
    let kind = match reply.status.as_u16() {
        200..=299 => return Ok(()),
        429 => ErrorKind::Limited { after: None },
        400..=499 => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    let hint = if kind == ErrorKind::Denied { ": check the credentials of `auth`" } else { "" };
    let host = reply.url.host_str().unwrap_or_default();
    Err(Error::new(kind, format!("{WHAT}: {host} answers {}{hint}", reply.status.as_u16())))
}

/// Returns the error of a reply in another format.
pub(super) fn format_error(why: &str) -> Error {
    Error::denied(format!("{WHAT}: {why}"))
}
