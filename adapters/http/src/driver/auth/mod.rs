//! Credentials of requests: the backend's own, and those of people. It must not send requests of jobs, and
//! must not show a credential.
//!
//! | `auth.` | credentials | kept until |
//! |---|---|---|
//! | `bearer`, `basic`, `header` | of the config | - |
//! | `oauth` | OAuth client credentials | a minute before the end of the token, or a 401 |
//! | `exchange` | user and password for a token | the same |
//! | `google` | service account: a signed statement for a token | the same |
//! | `sigv4` | AWS credential chain; each request is signed | as the chain says |

mod cache;
mod callers;
mod credential;
mod exchange;
mod fixed;
mod google;
mod oauth;
mod sigv4;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{ConnectContext, Error, OnBehalfOf, Result};

use crate::config::auth::{AuthConfig, Invalid, Kind, PerCaller};
use crate::driver::net::{Client, Request};
use callers::Callers;
use credential::Credential;

/// Longest time of a request for a token. It is a part of the time of the call that needs the token.
const LONGEST_TOKEN_REQUEST: Duration = Duration::from_secs(5);

/// For whom a request is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    /// The backend: reads, so that one list reports on the jobs of many people.
    Own,
    /// A person: requests that change something. `None` if the person is unknown. Without `per_caller`, the
    /// backend's own credentials are used.
    Person(Option<&'a OnBehalfOf>),
}

/// Source of the credentials of one backend.
pub(crate) struct Auth {
    own: Option<Arc<dyn Credential>>,
    callers: Option<Callers>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("per_caller", &self.callers.is_some()).finish_non_exhaustive()
    }
}

impl Auth {
    /// Checks the config, offline. Returns the field, and what is wrong with it.
    pub(crate) fn check(config: &AuthConfig, per_caller: Option<&PerCaller>) -> Result<(), (String, String)> {
        let result = per_caller.map(|per_caller| Callers::new(config, per_caller)).transpose();
        let checked = result.and_then(|_| match config.kind()? {
            None => Ok(()),
            Some(Kind::Bearer(token)) => fixed::bearer("auth.bearer", token).map(drop),
            Some(Kind::Basic(basic)) => {
                fixed::basic("auth.basic.user", &basic.user, &basic.password).map(drop)
            }
            Some(Kind::Header(header)) => {
                fixed::header("auth.header.value", &header.name, &header.value).map(drop)
            }
            Some(Kind::OAuth(oauth)) => oauth::connect(oauth, LONGEST_TOKEN_REQUEST).map(drop),
            Some(Kind::Exchange(exchange)) => exchange::check(exchange),
            Some(Kind::SigV4(sigv4)) => sigv4::check(sigv4),
            // A check without secrets gives empty ones.
            Some(Kind::Google(google)) if google.credentials.reveal().is_empty() => Ok(()),
            Some(Kind::Google(google)) => google::connect(google, LONGEST_TOKEN_REQUEST).map(drop),
        });
        checked.map_err(|Invalid { field, message }| (field, message))
    }

    /// Creates the source. It sends nothing yet.
    ///
    /// # Errors
    /// `Config`, with the field that is wrong.
    pub(crate) fn new(
        config: &AuthConfig,
        per_caller: Option<&PerCaller>,
        client: &Client,
        context: &ConnectContext,
    ) -> Result<Self> {
        let timeout = LONGEST_TOKEN_REQUEST.min(context.call_timeout);
        let callers = per_caller.map(|per_caller| Callers::new(config, per_caller)).transpose()?;
        let own: Option<Arc<dyn Credential>> = match config.kind()? {
            None => None,
            Some(Kind::Bearer(token)) => Some(Arc::new(fixed::bearer("auth.bearer", token)?)),
            Some(Kind::Basic(basic)) => {
                Some(Arc::new(fixed::basic("auth.basic.user", &basic.user, &basic.password)?))
            }
            Some(Kind::Header(header)) => {
                Some(Arc::new(fixed::header("auth.header.value", &header.name, &header.value)?))
            }
            Some(Kind::OAuth(oauth)) => Some(Arc::new(oauth::connect(oauth, timeout)?)),
            Some(Kind::Exchange(exchange)) => Some(Arc::new(exchange::connect(exchange, client, timeout)?)),
            Some(Kind::SigV4(sigv4)) => Some(Arc::new(sigv4::Signer::new(sigv4)?)),
            Some(Kind::Google(google)) => Some(Arc::new(google::connect(google, timeout)?)),
        };
        Ok(Self { own, callers })
    }

    /// Adds the credentials to a complete request, which must not change afterwards: a signature covers it.
    /// The request must go to an address below `base`.
    ///
    /// # Errors
    /// `Denied` if there are no credentials for this person, or the server of the tokens refuses them;
    /// `Unavailable` if they cannot be obtained now. In all cases nothing of the request was sent.
    pub(crate) async fn apply(&self, request: &mut Request, by: By<'_>) -> Result<()> {
        match self.credential(by)? {
            Some(credential) => credential.apply(request).await,
            None => Ok(()),
        }
    }

    /// Drops cached credentials that the engine has refused with 401. Returns true if the next attempt will
    /// use new ones.
    pub(crate) fn refused(&self, by: By<'_>) -> bool {
        matches!(self.credential(by), Ok(Some(credential)) if credential.refused())
    }

    fn credential(&self, by: By<'_>) -> Result<Option<&dyn Credential>> {
        let (By::Person(person), Some(callers)) = (by, &self.callers) else { return Ok(self.own.as_deref()) };
        let Some(person) = person else {
            return Err(Error::denied(
                "the backend acts with the credentials of each person, and the person is unknown",
            ));
        };
        let found = callers.of(person).ok_or_else(|| {
            let id = person.id();
            Error::denied(format!("there are no credentials of {id:?}: add a token to `per_caller.tokens`"))
        })?;
        Ok(Some(found))
    }
}
