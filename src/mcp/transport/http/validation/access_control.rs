//! [`AccessControl`]: the access rules of the endpoint, which a new config can replace while connections are
//! open. Callers who lose access also lose their open streams. It must not know what requests ask for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::origin::OriginPolicy;
use crate::auth::{Authenticator, Certificate, Peer, Principal, RequestCredentials, Unauthorized};
use crate::mcp::transport::http::connections::forwarded::Proxies;
use crate::mcp::transport::http::connections::limits::ConnectionLimits;
use crate::mcp::transport::http::connections::tls::Tls;

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

/// The rules in force.
#[derive(Debug)]
pub struct AccessControl(watch::Sender<Arc<AccessRules>>);

impl AccessControl {
    /// Starts with these rules.
    pub fn new(rules: AccessRules) -> Self {
        Self(watch::Sender::new(Arc::new(rules)))
    }

    /// Replaces the rules. Keeps the cached data of token issuers.
    pub fn replace(&self, mut rules: AccessRules) {
        rules.auth.inherit(&self.rules().auth);
        self.0.send_replace(Arc::new(rules));
    }

    /// Returns the rules in force.
    pub(in crate::mcp::transport::http) fn rules(&self) -> Arc<AccessRules> {
        Arc::clone(&self.0.borrow())
    }

    /// Waits until the rules in force no longer permit a connection that began under `initial_rules`.
    pub(in crate::mcp::transport::http) async fn wait_until_disallowed(
        &self,
        peer: &Peer,
        initial_rules: &AccessRules,
    ) {
        // The sender lives in `self`, so the wait has no other way to end.
        drop(self.0.subscribe().wait_for(|rules| !rules.permits_connection(peer, initial_rules)).await);
    }

    /// Waits until this caller would no longer be admitted with the same identity. New rules take effect at
    /// once. The expiry of credentials takes effect after `grace`.
    pub(in crate::mcp::transport::http) async fn wait_until_revoked(
        &self,
        principal: &Principal,
        grace: Duration,
    ) {
        let mut rules = self.0.subscribe();
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
