//! Credentials of requests: how they are obtained, cached and renewed. It must not send requests of jobs, and
//! must not show a credential.

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::{ConnectContext, OnBehalfOf, Result, Secret};

use crate::net::{Client, Request};

/// Content of `auth`. Exactly one of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Token that is sent as `Authorization: Bearer TOKEN`.
    #[serde(default)]
    pub bearer: Option<Secret>,
}

/// Paths of the secrets in [`AuthConfig`], below `auth`.
pub(crate) const SECRETS: &[&str] = &["auth.bearer"];

/// Source of the credentials of one backend.
#[derive(Debug)]
pub(crate) struct Auth {
    config: AuthConfig,
}

impl Auth {
    /// Checks the config, offline. Returns the field below `auth`, and what is wrong with it.
    pub(crate) fn check(_config: &AuthConfig) -> Result<(), (String, String)> {
        Ok(())
    }

    /// Creates the source. It sends nothing yet.
    pub(crate) fn new(config: AuthConfig, _client: Client, _context: &ConnectContext) -> Result<Self> {
        Ok(Self { config })
    }

    /// Adds the credentials to a complete request, which must not change afterwards (a signature covers it).
    /// Credentials never go to an address that is not below `base`.
    ///
    /// # Errors
    /// `Denied` if there are no credentials for this person; `Unavailable` if they cannot be obtained now. In
    /// both cases nothing of the request was sent.
    pub(crate) async fn apply(&self, request: &mut Request, _by: Option<&OnBehalfOf>) -> Result<()> {
        if let Some(token) = &self.config.bearer {
            let value = http::HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
            let mut value = value.map_err(|_| taskbridge_sdk::Error::config("auth.bearer: invalid character"))?;
            value.set_sensitive(true);
            request.headers.insert(http::header::AUTHORIZATION, value);
        }
        Ok(())
    }

    /// Drops cached credentials that the engine has refused with 401. Returns true if the next attempt will
    /// use new ones.
    pub(crate) fn refused(&self, _by: Option<&OnBehalfOf>) -> bool {
        false
    }
}
