//! [`AccessControl`]: the access rules of the endpoint, which a new config can replace while connections are
//! open. Callers who lose access also lose their open streams. It must not know what requests ask for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::origin::OriginPolicy;
use crate::auth::{Authenticator, Certificate, Peer, Principal, RequestCredentials, SignIn, Unauthorized};
use crate::limits::in_flight_limit::InFlightLimit;
use crate::limits::rate::RateLimit;
use crate::mcp::transport::http::connections::forwarded::Proxies;
use crate::mcp::transport::http::connections::limits::ConnectionLimits;
use crate::mcp::transport::http::connections::tls::Tls;
use crate::mcp::transport::http::{MAX_DELAY, MINUTE};

/// Maximum time until the clock is read again, because the system time can be changed.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Maximum number of connections to a page on another address, such as the metrics. They use reserved
/// descriptors.
const PAGE_CONNECTIONS: usize = 8;

/// Who may use the server, and from where.
#[derive(Clone, Debug)]
pub struct AccessRules {
    /// Authenticates callers.
    pub auth: Authenticator,
    /// The allowed web page origins and the server's host names.
    pub origin_policy: OriginPolicy,
    /// The limits of a connection.
    pub limits: ConnectionLimits,
    /// The TLS configuration.
    pub tls: Option<Tls>,
    /// The trusted proxies.
    pub proxies: Proxies,
}

impl AccessRules {
    /// Rules of a page on another address: no authentication, no TLS, few connections, and otherwise the
    /// default limits.
    pub fn plain() -> Self {
        let auth = Authenticator::None { single_user: false };
        let limits = ConnectionLimits { connections: PAGE_CONNECTIONS, ..ConnectionLimits::default() };
        let (origin_policy, proxies) = Default::default();
        Self { auth, origin_policy, limits, tls: None, proxies }
    }

    /// Authenticates a request. A client certificate counts only while the current authorities vouch for it,
    /// however long its connection lasts. Otherwise it is ignored, and the other credentials are checked.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub(in crate::mcp::transport::http) async fn authenticate(
        &self,
        presented: &RequestCredentials<'_>,
    ) -> Result<Principal, Unauthorized> {
        let RequestCredentials { authorization, peer: &Peer { address, ref certificate } } = *presented;
        if certificate.as_ref().is_none_or(|cert| self.trusts_certificate(cert)) {
            return self.auth.authenticate(presented).await;
        }
        let peer = Peer { address, certificate: None };
        self.auth.authenticate(&RequestCredentials { authorization, peer: &peer }).await
    }

    /// Derives the caller of a browser session again. A client certificate counts as for
    /// [`Self::authenticate`].
    ///
    /// # Errors
    /// See [`Authenticator::signed_in`].
    pub(crate) fn signed_in(&self, sign_in: &SignIn, peer: &Peer) -> Result<Principal, Unauthorized> {
        self.auth.signed_in(sign_in, &self.trusted_peer(peer))
    }

    /// Returns the peer without a certificate that the current authorities do not vouch for.
    pub(crate) fn trusted_peer(&self, peer: &Peer) -> Peer {
        let certificate = peer.certificate.clone().filter(|cert| self.trusts_certificate(cert));
        Peer { address: peer.address, certificate }
    }

    /// Returns true if these rules would still admit this caller with the same identity.
    fn still_admits(&self, principal: &Principal) -> bool {
        principal.certificate().is_none_or(|cert| self.trusts_certificate(cert))
            && self.auth.still_admits(principal)
    }

    /// Returns true if a connection that began under other rules may continue under these. The trusted
    /// proxies must be the same, and TLS must accept its client.
    fn permits_connection(&self, peer: &Peer, initial_rules: &AccessRules) -> bool {
        let tls_permits = match (&self.tls, &initial_rules.tls) {
            (None, None) => true,
            (Some(tls), Some(_)) => tls.would_accept(peer.certificate.as_deref()),
            _ => false,
        };
        tls_permits && self.proxies == initial_rules.proxies
    }

    fn trusts_certificate(&self, certificate: &Certificate) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.trusts(certificate))
    }
}

/// The rules in force, and what callers use at the moment.
pub struct AccessControl {
    rules: watch::Sender<Arc<AccessRules>>,
    /// The use of limits per owner that several front ends of this process share.
    pub(crate) usage: OwnerUsage,
}

/// The use of limits per owner.
pub(crate) struct OwnerUsage {
    /// Polls per second.
    pub(crate) polls: RateLimit,
    /// Tool calls per minute.
    pub(crate) calls: RateLimit,
    /// Open streams and pending requests.
    pub(crate) in_flight: InFlightLimit,
}

impl AccessControl {
    /// Starts with these rules.
    pub fn new(rules: AccessRules) -> Self {
        let (polls, calls) = (RateLimit::per_second(MAX_DELAY), RateLimit::within(MINUTE));
        let usage = OwnerUsage { polls, calls, in_flight: InFlightLimit::default() };
        Self { rules: watch::Sender::new(Arc::new(rules)), usage }
    }

    /// Replaces the rules. Keeps the cached data of token issuers.
    pub fn replace(&self, mut rules: AccessRules) {
        rules.auth.inherit(&self.rules().auth);
        self.rules.send_replace(Arc::new(rules));
    }

    /// Returns the rules in force.
    pub(crate) fn rules(&self) -> Arc<AccessRules> {
        Arc::clone(&self.rules.borrow())
    }

    /// Waits until the rules in force no longer permit a connection that began under `initial_rules`.
    pub(in crate::mcp::transport::http) async fn wait_until_disallowed(
        &self,
        peer: &Peer,
        initial_rules: &AccessRules,
    ) {
        // The sender lives in `self`, so the wait has no other way to end.
        drop(self.rules.subscribe().wait_for(|rules| !rules.permits_connection(peer, initial_rules)).await);
    }

    /// Waits until this caller would no longer be admitted with the same identity. New rules take effect at
    /// once. The expiry of credentials takes effect after `grace`.
    pub(in crate::mcp::transport::http) async fn wait_until_revoked(
        &self,
        principal: &Principal,
        grace: Duration,
    ) {
        let mut rules = self.rules.subscribe();
        loop {
            let remaining = {
                let rules = rules.borrow_and_update();
                if !rules.still_admits(principal) {
                    return;
                }
                match rules.auth.time_left(principal, grace) {
                    Some(remaining) if remaining.is_zero() => return,
                    remaining => remaining,
                }
            };
            // The sender lives in `self`, so rules can change during the whole wait.
            match remaining {
                None => drop(rules.changed().await),
                Some(remaining) => drop(timeout(remaining.min(MAX_WAIT), rules.changed()).await),
            }
        }
    }
}
