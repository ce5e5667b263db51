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
use crate::failure::{Failure, Repeat};
use crate::session::Session;

/// Maximum number of cached sessions. The least recently used one is evicted.
const MOST: usize = 1000;
/// How long before its end a session is renewed. It is still usable if the renewal fails.
const AHEAD: Duration = Duration::from_secs(300);
/// How long before its end a session is no longer used.
const MARGIN: Duration = Duration::from_secs(30);
/// Session name of the self-check at AWS.
const DOCTOR: &str = "taskbridge-doctor";

/// Signer of a call.
#[derive(Clone)]
pub(crate) enum Signer {
    /// The bridge itself.
    Own,
    /// A person, with the credentials of this session.
    Person(Session, Credentials),
}

impl Signer {
    /// Returns the config that replaces the credentials of a client for one call.
    pub(crate) fn config(&self) -> Builder {
        let config = aws_sdk_sfn::Config::builder();
        match self {
            Self::Own => config,
            Self::Person(_, credentials) => config.credentials_provider(credentials.clone()),
        }
    }
}

/// Cache of people's sessions.
pub(crate) struct CallerSessions {
    pub(crate) sts: aws_sdk_sts::Client,
    pub(crate) wanted: PerCaller,
    /// How long a call waits while another requests the same session.
    within: Duration,
    kept: Mutex<HashMap<Session, CachedSession>>,
}

struct CachedSession {
    used: Instant,
    /// Locked during a request, so that the session is requested once.
    current: Arc<tokio::sync::Mutex<Option<Current>>>,
}

#[derive(Clone)]
struct Current {
    credentials: Credentials,
    since: Instant,
}

/// Remaining usability of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionFreshness {
    /// It is used as it is.
    Whole,
    /// A new session is requested. This one is used if the request fails temporarily.
    Rest,
    Nothing,
}

impl SessionFreshness {
    fn of(lasts: Duration, age: Duration) -> Self {
        match lasts.saturating_sub(age) {
            left if left > AHEAD => Self::Whole,
            left if left > MARGIN => Self::Rest,
            _ => Self::Nothing,
        }
    }
}

impl CallerSessions {
    pub(crate) fn new(sts: aws_sdk_sts::Client, wanted: PerCaller, within: Duration) -> Self {
        Self { sts, wanted, within, kept: Mutex::default() }
    }

    /// Returns the signer for calls on behalf of a person.
    ///
    /// # Errors
    /// `Denied` without a person. `Rejected` if the person cannot be described to AWS. Otherwise the error of
    /// assuming the role.
    pub(crate) async fn signer(&self, whom: Option<&OnBehalfOf>) -> Result<Signer> {
        let whom = whom.ok_or_else(|| {
            Error::denied(
                "this backend acts in the name of whoever asks (`per_caller`), and nobody is named here: nothing was done. \
                 Callers have to be known by an API key or a token",
            )
        })?;
        let session = Session::of(whom, &self.wanted.session_tags).map_err(Error::rejected)?;
        let credentials = self.credentials(&session).await?;
        Ok(Signer::Person(session, credentials))
    }

    /// Returns the signer of the self-check.
    pub(crate) async fn doctor(&self) -> Result<Signer> {
        self.signer(Some(&OnBehalfOf::named(DOCTOR))).await
    }

    /// Drops a session that AWS no longer accepts.
    pub(crate) fn forget(&self, signer: &Signer) {
        if let Signer::Person(session, _) = signer {
            self.kept.lock().remove(session);
        }
    }

    async fn credentials(&self, session: &Session) -> Result<Credentials> {
        let kept = self.kept(session);
        let late = |_| {
            Error::unavailable("AssumeRole: another call waits for this session, and has no answer in time")
        };
        let mut current = timeout(self.within, kept.lock()).await.map_err(late)?;
        let lasts = self.wanted.session_duration;
        let worth = current.as_ref().map_or(SessionFreshness::Nothing, |current| {
            SessionFreshness::of(lasts, current.since.elapsed())
        });
        if let (Some(current), SessionFreshness::Whole) = (&*current, worth) {
            return Ok(current.credentials.clone());
        }
        // The monotonic time since the request needs no correct wall clock.
        let since = Instant::now();
        let error = match self.assume(session).await {
            Ok(credentials) => {
                *current = Some(Current { credentials: credentials.clone(), since });
                return Ok(credentials);
            }
            Err(error) => error,
        };
        let passes =
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Uncertain | ErrorKind::Limited { .. });
        match &*current {
            Some(current) if passes && worth == SessionFreshness::Rest => Ok(current.credentials.clone()),
            _ => Err(error),
        }
    }

    fn kept(&self, session: &Session) -> Arc<tokio::sync::Mutex<Option<Current>>> {
        let (mut kept, used) = (self.kept.lock(), Instant::now());
        if let Some(known) = kept.get_mut(session) {
            known.used = used;
            return known.current.clone();
        }
        if kept.len() >= MOST {
            let last = kept.iter().min_by_key(|(_, known)| known.used).map(|(session, _)| session.clone());
            last.and_then(|session| kept.remove(&session));
        }
        let current = Arc::default();
        kept.insert(session.clone(), CachedSession { used, current: Arc::clone(&current) });
        current
    }

    async fn assume(&self, session: &Session) -> Result<Credentials> {
        let Session { name, tags } = session;
        let PerCaller { role_arn, external_id, source_identity, session_duration, .. } = &self.wanted;
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
        let sent = call.send().await;
        let said = sent.map_err(|e| Error::from(Failure::of("AssumeRole", Repeat::Safe, e)))?;
        let made = said.credentials.ok_or_else(|| Error::unavailable("AssumeRole: no credentials came"))?;
        // Without an expiry: this file decides how long they are used.
        Ok(Credentials::new(
            made.access_key_id,
            made.secret_access_key,
            Some(made.session_token),
            None,
            "per_caller",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session is refreshed from `AHEAD` before its end, and not used from `MARGIN` before its end.
    #[test]
    fn session_is_refreshed_before_expiry() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        for (age, worth) in [
            (Duration::ZERO, SessionFreshness::Whole),
            (minutes(9), SessionFreshness::Whole),
            (minutes(10), SessionFreshness::Rest),
            (minutes(14), SessionFreshness::Rest),
            (minutes(15) - MARGIN, SessionFreshness::Nothing),
            (minutes(16), SessionFreshness::Nothing),
        ] {
            assert_eq!(SessionFreshness::of(minutes(15), age), worth, "{age:?}");
        }
    }
}
