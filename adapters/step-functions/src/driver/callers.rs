//! Credentials of AWS calls. With `per_caller`, a call that starts, stops or answers uses a session of the
//! person on whose behalf it is made. The bridge's own credentials assume one role, under the person's name
//! and tags. All other calls use the bridge's own credentials: reads, so that one call reports on the
//! executions of many people, heartbeats, the queue, and the rejection of an invalid question. It must never
//! use other credentials in place of a person's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_sfn::config::Builder;
use aws_sdk_sts::types::Tag;
use parking_lot::Mutex;
use taskbridge_sdk::{Error, ErrorKind, OnBehalfOf, Result};
use tokio::time::{Instant, timeout};

use crate::config::PerCaller;
use crate::config::session::Session;
use crate::driver::error::{Failure, Repeat};

/// Maximum number of cached sessions. The least recently used one is evicted.
const MAX_SESSIONS: usize = 1000;
/// How long before its end a session is renewed. It is still usable if the renewal fails.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// How long before its end a session is no longer used.
const MARGIN: Duration = Duration::from_secs(30);
/// Session name of the self-check at AWS.
const DOCTOR: &str = "taskbridge-doctor";

/// Signer of a call.
#[derive(Clone)]
pub(crate) enum Signer {
    /// The bridge itself.
    Bridge,
    /// A person, with the credentials of this session.
    Person(Session, Credentials),
}

impl Signer {
    /// Returns the config that replaces the credentials of a client for one call.
    pub(crate) fn config(&self) -> Builder {
        let config = aws_sdk_sfn::Config::builder();
        match self {
            Self::Bridge => config,
            Self::Person(_, credentials) => config.credentials_provider(credentials.clone()),
        }
    }
}

/// Cache of people's sessions.
pub(crate) struct CallerSessions {
    sts: aws_sdk_sts::Client,
    pub(crate) config: PerCaller,
    /// How long a call waits while another requests the same session.
    wait_timeout: Duration,
    cache: Mutex<HashMap<Session, CachedSession>>,
}

struct CachedSession {
    last_used: Instant,
    /// Locked during a request, so that the session is requested once.
    current: Arc<tokio::sync::Mutex<Option<CachedCredentials>>>,
}

#[derive(Clone)]
struct CachedCredentials {
    credentials: Credentials,
    requested_at: Instant,
}

/// Remaining usability of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionFreshness {
    /// It is used as it is.
    Fresh,
    /// A new session is requested. This one is used if the request fails temporarily.
    Stale,
    Expired,
}

impl SessionFreshness {
    fn of(lifetime: Duration, age: Duration) -> Self {
        match lifetime.saturating_sub(age) {
            remaining if remaining > RENEW_BEFORE => Self::Fresh,
            remaining if remaining > MARGIN => Self::Stale,
            _ => Self::Expired,
        }
    }
}

impl CallerSessions {
    pub(crate) fn new(sts: aws_sdk_sts::Client, config: PerCaller, wait_timeout: Duration) -> Self {
        Self { sts, config, wait_timeout, cache: Mutex::default() }
    }

    /// Returns the signer for calls on behalf of a person.
    ///
    /// # Errors
    /// `Denied` without a person. `Rejected` if the person cannot be described to AWS. Otherwise the error of
    /// assuming the role.
    pub(crate) async fn signer(&self, on_behalf_of: Option<&OnBehalfOf>) -> Result<Signer> {
        let on_behalf_of = on_behalf_of.ok_or_else(|| {
            Error::denied(
                "the backend needs the identity of the caller (`per_caller`), and this request has none: nothing was done; \
                 authenticate with an API key or a token",
            )
        })?;
        let session = Session::of(on_behalf_of, &self.config.session_tags).map_err(Error::rejected)?;
        let credentials = self.credentials(&session).await?;
        Ok(Signer::Person(session, credentials))
    }

    /// Returns the signer of the self-check.
    pub(crate) async fn checkup_signer(&self) -> Result<Signer> {
        self.signer(Some(&OnBehalfOf::named(DOCTOR))).await
    }

    /// Drops a session that AWS no longer accepts.
    pub(crate) fn forget(&self, signer: &Signer) {
        if let Signer::Person(session, _) = signer {
            self.cache.lock().remove(session);
        }
    }

    async fn credentials(&self, session: &Session) -> Result<Credentials> {
        let entry = self.cache_entry(session);
        let timed_out =
            |_| Error::unavailable("AssumeRole: timed out while another call requests this session");
        let mut current = timeout(self.wait_timeout, entry.lock()).await.map_err(timed_out)?;
        let lifetime = self.config.session_duration;
        let freshness = current.as_ref().map_or(SessionFreshness::Expired, |current| {
            SessionFreshness::of(lifetime, current.requested_at.elapsed())
        });
        if let (Some(current), SessionFreshness::Fresh) = (&*current, freshness) {
            return Ok(current.credentials.clone());
        }
        // The monotonic time since the request needs no correct wall clock.
        let requested_at = Instant::now();
        let error = match self.assume(session).await {
            Ok(credentials) => {
                *current = Some(CachedCredentials { credentials: credentials.clone(), requested_at });
                return Ok(credentials);
            }
            Err(error) => error,
        };
        let is_transient =
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Uncertain | ErrorKind::Limited { .. });
        match &*current {
            Some(current) if is_transient && freshness == SessionFreshness::Stale => {
                Ok(current.credentials.clone())
            }
            _ => Err(error),
        }
    }

    fn cache_entry(&self, session: &Session) -> Arc<tokio::sync::Mutex<Option<CachedCredentials>>> {
        let (mut cache, now) = (self.cache.lock(), Instant::now());
        if let Some(cached) = cache.get_mut(session) {
            cached.last_used = now;
            return cached.current.clone();
        }
        if cache.len() >= MAX_SESSIONS {
            let oldest =
                cache.iter().min_by_key(|(_, cached)| cached.last_used).map(|(session, _)| session.clone());
            oldest.and_then(|session| cache.remove(&session));
        }
        let current = Arc::default();
        cache.insert(session.clone(), CachedSession { last_used: now, current: Arc::clone(&current) });
        current
    }

    /// Returns the ARN of the bridge's own user or session, if AWS returns it.
    pub(crate) async fn bridge_arn(&self) -> Option<String> {
        self.sts.get_caller_identity().send().await.ok()?.arn
    }

    async fn assume(&self, session: &Session) -> Result<Credentials> {
        let Session { name, tags } = session;
        let PerCaller { role_arn, external_id, source_identity, session_duration, .. } = &self.config;
        let seconds = i32::try_from(session_duration.as_secs()).unwrap_or(i32::MAX);
        let mut call = self.sts.assume_role().role_arn(role_arn).role_session_name(name);
        call = call.set_external_id(external_id.clone()).duration_seconds(seconds);
        if *source_identity {
            call = call.source_identity(name);
        }
        for (key, value) in tags {
            let tag = Tag::builder().key(key).value(value).build();
            call = call.tags(tag.map_err(|e| Error::config(format!("per_caller.session_tags.{key}: {e}")))?);
        }
        let result = call.send().await;
        let response = result.map_err(|e| Error::from(Failure::of("AssumeRole", Repeat::Safe, e)))?;
        let credentials = response
            .credentials
            .ok_or_else(|| Error::unavailable("AssumeRole: the response has no credentials"))?;
        // Without an expiry: this file decides how long they are used.
        Ok(Credentials::new(
            credentials.access_key_id,
            credentials.secret_access_key,
            Some(credentials.session_token),
            None,
            "per_caller",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session is refreshed from `RENEW_BEFORE` before its end, and not used from `MARGIN` before its end.
    #[test]
    fn session_is_refreshed_before_expiry() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        for (age, freshness) in [
            (Duration::ZERO, SessionFreshness::Fresh),
            (minutes(9), SessionFreshness::Fresh),
            (minutes(10), SessionFreshness::Stale),
            (minutes(14), SessionFreshness::Stale),
            (minutes(15) - MARGIN, SessionFreshness::Expired),
            (minutes(16), SessionFreshness::Expired),
        ] {
            assert_eq!(SessionFreshness::of(minutes(15), age), freshness, "{age:?}");
        }
    }
}
