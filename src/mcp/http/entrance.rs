//! [`Entrance`]: who is let in, and from where: what another config can replace while connections are open. Who is no
//! longer let in loses the streams that are open, too. It must not know what is asked behind it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::forwarded::Proxies;
use super::limits::ConnectionLimits;
use super::tls::Tls;
use crate::auth::{Authenticator, Certificate, Peer, Presented, Principal, Unauthorized};
use crate::mcp::origin::Doors;

/// How long is waited at most before the clock is looked at again: it can be set.
const LONGEST: Duration = Duration::from_secs(60);

/// Connections at once to a page beside the endpoint. They come out of the descriptors that the endpoint leaves in reserve.
const PAGE_CONNECTIONS: usize = 8;

/// Who is let in, and from where.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Who is asking.
    pub auth: Authenticator,
    /// Which pages may talk to the server, and by which names.
    pub doors: Doors,
    /// What a connection may take.
    pub limits: ConnectionLimits,
    /// What connections are secured by.
    pub tls: Option<Tls>,
    /// Whose word counts on where a request is from.
    pub proxies: Proxies,
}

impl Rules {
    /// The rules of a page beside the endpoint: no authentication, no TLS, few connections, and the default limits.
    pub fn plain() -> Self {
        let auth = Authenticator::None { single_user: false };
        let limits = ConnectionLimits { connections: PAGE_CONNECTIONS, ..ConnectionLimits::default() };
        let (doors, proxies) = Default::default();
        Self { auth, doors, limits, tls: None, proxies }
    }

    /// Who sent a request that shows this. A certificate counts for as long as the authorities in force vouch for it, however
    /// long its connection lasts.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub(super) async fn authenticate(&self, presented: &Presented<'_>) -> Result<Principal, Unauthorized> {
        let Presented { authorization, peer: &Peer { address, ref certificate } } = *presented;
        if certificate.as_ref().is_none_or(|shown| self.vouch_for(shown)) {
            return self.auth.authenticate(presented).await;
        }
        let peer = Peer { address, certificate: None };
        self.auth.authenticate(&Presented { authorization, peer: &peer }).await
    }

    /// True if somebody who was let in before would be let in now as well, and be the same.
    fn still_know(&self, principal: &Principal) -> bool {
        principal.certificate().is_none_or(|shown| self.vouch_for(shown)) && self.auth.still_knows(principal)
    }

    /// True if a connection that began under others may go on under these: the same proxies are believed, and its client would
    /// be served by what it showed.
    fn go_on_with(&self, peer: &Peer, began: &Rules) -> bool {
        let secured = match (&self.tls, &began.tls) {
            (None, None) => true,
            (Some(tls), Some(_)) => tls.serves(peer.certificate.as_deref()),
            _ => false,
        };
        secured && self.proxies == began.proxies
    }

    fn vouch_for(&self, shown: &Certificate) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.vouches(shown))
    }
}

/// The rules in force.
#[derive(Debug)]
pub struct Entrance(watch::Sender<Arc<Rules>>);

impl Entrance {
    /// These rules are in force first.
    pub fn new(rules: Rules) -> Self {
        Self(watch::Sender::new(Arc::new(rules)))
    }

    /// Puts other rules in force. What is known of whoever is asked about callers is kept.
    pub fn replace(&self, mut rules: Rules) {
        rules.auth.inherit(&self.rules().auth);
        self.0.send_replace(Arc::new(rules));
    }

    /// The rules in force.
    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.borrow())
    }

    /// Waits until a connection that began under some rules may not go on under those in force.
    pub(super) async fn parts_with(&self, peer: &Peer, began: &Rules) {
        // The sender lives in `self`, so this ends for no other reason.
        drop(self.0.subscribe().wait_for(|rules| !rules.go_on_with(peer, began)).await);
    }

    /// Waits until somebody who was let in would no longer be, as who they were: by other rules at once, and if what they were
    /// let in by is over, after this grace.
    pub(super) async fn turns_away(&self, principal: &Principal, grace: Duration) {
        let mut rules = self.0.subscribe();
        loop {
            let left = {
                let rules = rules.borrow_and_update();
                if !rules.still_know(principal) {
                    return;
                }
                match rules.auth.time_left(principal, grace) {
                    Some(left) if left.is_zero() => return,
                    left => left,
                }
            };
            // The sender lives in `self`, so there can be other rules for as long as this waits.
            match left {
                None => drop(rules.changed().await),
                Some(left) => drop(timeout(left.min(LONGEST), rules.changed()).await),
            }
        }
    }
}
