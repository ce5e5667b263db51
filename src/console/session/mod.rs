//! Sessions of browsers. A session is a sealed value in a cookie: it names a credential, and the caller is
//! derived from that with each request. A session ends by time, by a sign-out, by a sign-out everywhere, or
//! because the rules in force no longer admit its credential. This module must not know the pages.

mod cookie;
pub(super) mod issuer;
pub(super) mod one_time;
pub(super) mod same_origin;
pub(super) mod sign_in;
pub(super) mod sign_out;

use std::time::Duration;

use axum::http::HeaderValue;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use self::cookie::Cookie;
use super::request::{Head, Visitor};
use super::{Console, Result};
use crate::auth::{Peer, Principal, SignIn};
use crate::mcp::features::authorization::Permit;
use crate::seal::Purpose;
use crate::tasks::store::StoreError;
use crate::tasks::task::Owner;

/// How old a cookie is when a request renews it. The idle time is that much inexact.
const RENEW_AFTER: Duration = Duration::from_secs(60);
/// Since when an inbox shows failures at the first visit.
const FIRST_LOOK_BACK: Duration = Duration::from_secs(86_400);
/// Domain of the digests that forms contain.
const FORM: &str = "console form";
/// Domain of the digests in the addresses of streams.
const LIVE: &str = "console live";

/// A session, as its cookie contains it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Session {
    /// Its name. It never leaves the server unsealed.
    #[serde(rename = "n")]
    nonce: String,
    /// The credential that it began with.
    #[serde(rename = "c")]
    sign_in: SignIn,
    /// Whose session it is. If the credential belongs to another owner now, the session has ended.
    #[serde(rename = "o")]
    owner: Owner,
    /// When it began.
    #[serde(rename = "i")]
    issued: Timestamp,
    /// When the cookie was renewed.
    #[serde(rename = "u")]
    used: Timestamp,
    /// Up to when the person has seen failures.
    #[serde(rename = "v")]
    pub(super) seen: Timestamp,
}

impl Session {
    fn new(console: &Console, sign_in: SignIn, owner: Owner, issued: Timestamp) -> Self {
        let nonce = console.parts.bridge.context.seal.nonce();
        Self { nonce, sign_in, owner, issued, used: issued, seen: issued - FIRST_LOOK_BACK }
    }

    /// Returns the session as it goes on from now.
    fn renewed(&self, now: Timestamp) -> Self {
        Self { used: now, ..self.clone() }
    }

    /// Returns the session after its person has seen the failures up to this time.
    pub(super) fn with_failures_seen(&self, until: Timestamp, now: Timestamp) -> Self {
        Self { seen: until.min(now).max(self.seen), ..self.renewed(now) }
    }

    /// Returns the name of the session in the store. Sessions of the protocol have other names.
    fn stored_name(&self) -> String {
        format!("console.{}", self.nonce)
    }

    /// Returns when it ends by itself, if no request renews it.
    pub(super) fn ends_at(&self, console: &Console) -> Timestamp {
        let settings = &console.parts.settings;
        (self.used + settings.idle).min(self.issued + settings.lifetime)
    }

    /// Returns the caller, if the session has not ended.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn principal(
        &self,
        console: &Console,
        peer: &Peer,
    ) -> Result<Option<Principal>, StoreError> {
        if console.now() >= self.ends_at(console) {
            return Ok(None);
        }
        let principal = console.parts.access_control.rules().signed_in(&self.sign_in, peer).ok();
        let Some(principal) = principal.filter(|by| by.identified && by.owner == self.owner) else {
            return Ok(None);
        };
        let has_ended = console.parts.bridge.sessions.store.has_ended(&self.stored_name()).await?
            || sign_out::everywhere_at(console, &self.owner).await?.is_some_and(|at| self.issued <= at);
        Ok((!has_ended).then_some(principal))
    }

    /// Returns true if this caller operates the whole server: by name, or as its single user.
    pub(super) fn is_operator(&self, console: &Console, principal: &Principal) -> bool {
        let catalog = console.parts.bridge.context.catalog();
        self.sign_in == SignIn::SingleUser || Permit::of(principal).operates(&catalog, None)
    }

    /// Returns what the forms of this session must contain. It is a keyed digest, so that a page that did not
    /// change stays the same text.
    fn form_token(&self, console: &Console) -> String {
        console.parts.bridge.context.seal.digest(&[FORM, &self.nonce])
    }

    /// Returns what the stream of a page carries as a proof that the page was opened, and of what was recorded
    /// as read then.
    pub(super) fn live_mark(&self, console: &Console, page: &str, read: &str) -> String {
        format!("{read}.{}", self.live_digest(console, page, read))
    }

    /// Returns what was recorded as read when the page of a stream was opened. `None` if the mark proves nothing.
    pub(super) fn read_by_mark<'a>(&self, console: &Console, page: &str, mark: &'a str) -> Option<&'a str> {
        let (read, digest) = mark.split_once('.')?;
        (digest == self.live_digest(console, page, read)).then_some(read)
    }

    fn live_digest(&self, console: &Console, page: &str, read: &str) -> String {
        console.parts.bridge.context.seal.digest(&[LIVE, &self.nonce, page, read])
    }

    /// Returns the session as a cookie.
    pub(super) fn cookie(&self, console: &Console, head: &Head) -> Result<HeaderValue> {
        let sealed = console.parts.bridge.context.seal.seal(Purpose::Console, self);
        let remaining = self.ends_at(console).since(console.now());
        Cookie::Session.set(head, console.parts.settings.is_secure, &sealed, remaining)
    }
}

/// Returns the person who sent a request, and the cookie that renews their session if it is due. `None` if
/// nobody is signed in.
pub(super) async fn visitor(
    console: &Console,
    head: &Head,
) -> Result<Option<(Visitor, Option<HeaderValue>)>> {
    let sealed = Cookie::Session.get(head, console.parts.settings.is_secure);
    let session: Option<Session> =
        sealed.and_then(|sealed| console.parts.bridge.context.seal.open(Purpose::Console, sealed));
    let Some(session) = session else { return Ok(None) };
    let Some(principal) = session.principal(console, &head.peer).await? else { return Ok(None) };
    let form_token = session.form_token(console);
    let now = console.now();
    // A page that stays open does not keep its session.
    let is_due = now.since(session.used) >= RENEW_AFTER && head.query.get("live").is_none();
    let renewed = is_due.then(|| session.renewed(now).cookie(console, head)).transpose()?;
    let is_operator = session.is_operator(console, &principal);
    Ok(Some((Visitor { principal, session, is_operator, form_token }, renewed)))
}

impl Console {
    /// Returns the time of the store's clock.
    pub(super) fn now(&self) -> Timestamp {
        self.parts.bridge.context.clock.now()
    }
}
