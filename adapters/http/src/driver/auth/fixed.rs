//! [`FixedHeader`]: a credential that the config contains, as one header.

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use taskbridge_sdk::{Error, Result, Secret};
use zeroize::Zeroizing;

use super::credential::Credential;
use crate::config::auth::Invalid;
use crate::driver::net::Request;

/// Headers that a credential must not replace.
const RESERVED: [&str; 6] =
    ["host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"];

/// One header with a secret value.
pub(super) struct FixedHeader {
    name: HeaderName,
    value: Secret,
}

/// Creates `Authorization: Bearer TOKEN`.
pub(super) fn bearer(field: &str, token: &Secret) -> Result<FixedHeader, Invalid> {
    let text = Zeroizing::new(format!("Bearer {}", visible(field, token)?));
    Ok(FixedHeader { name: AUTHORIZATION, value: Secret::from(text.as_str()) })
}

/// Creates `Authorization: Basic ..` (RFC 7617).
pub(super) fn basic(field: &str, user: &str, password: &Secret) -> Result<FixedHeader, Invalid> {
    if user.contains(':') || user.contains(char::is_control) {
        return Err(Invalid::new(field, "contains a colon or a control character: remove it"));
    }
    // Files often end with a line break.
    let password = password.reveal().trim_end_matches(['\r', '\n']);
    let pair = Zeroizing::new(format!("{user}:{password}"));
    let text = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
    Ok(FixedHeader { name: AUTHORIZATION, value: Secret::from(text.as_str()) })
}

/// Creates a header of the config.
pub(super) fn header(field: &str, name: &str, value: &Secret) -> Result<FixedHeader, Invalid> {
    let name = header_name("auth.header.name", name)?;
    Ok(FixedHeader { name, value: Secret::from(visible(field, value)?) })
}

/// Parses the name of a header for a credential.
pub(super) fn header_name(field: &str, name: &str) -> Result<HeaderName, Invalid> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
    let parsed = parsed.filter(|parsed| !RESERVED.contains(&parsed.as_str()));
    parsed.ok_or_else(|| Invalid::new(field, format!("is {name:?}, which no credential can be sent in")))
}

/// Returns the text of a secret without the line break at its end. Files often have one. A check without secrets
/// gives empty ones.
fn visible<'a>(field: &str, secret: &'a Secret) -> Result<&'a str, Invalid> {
    let text = secret.reveal().trim();
    let is_unread = secret.reveal().is_empty();
    match (is_unread || !text.is_empty()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        true => Ok(text),
        false => Err(Invalid::new(field, "is empty, or has characters that no header can have")),
    }
}

/// Sets a header whose value libraries do not print.
pub(super) fn set(request: &mut Request, name: &HeaderName, value: &str) -> Result<()> {
    let message = "the credential has characters that no header can have";
    let mut value = HeaderValue::from_str(value).map_err(|_| Error::denied(message))?;
    value.set_sensitive(true);
    request.headers.insert(name.clone(), value);
    Ok(())
}

#[async_trait]
impl Credential for FixedHeader {
    async fn apply(&self, request: &mut Request) -> Result<()> {
        set(request, &self.name, self.value.reveal())
    }
}
