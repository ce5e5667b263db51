//! [`CallerKey`]: the caller key of counters and limits. It is the owner or, for callers who cannot be
//! distinguished, the network address. One of them must not use up the limits of all.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use crate::auth::{Principal, client_limit_key};

/// The caller key: a hash instead of a name, so that counting allocates no memory per request. Two callers
/// have the same key with a probability of 1 in 2^64, and then share their limits. The hash key is random and
/// secret, so a caller cannot raise this probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallerKey(u64);

/// The hash key of this process.
static HASH_STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl CallerKey {
    /// Returns the key of an identified owner, whatever the address. For other callers, returns the key of
    /// the client address (for IPv6, of its /64 network). Those without an address share one key.
    pub(crate) fn of(principal: &Principal) -> Self {
        Self(match principal.identified {
            true => HASH_STATE.hash_one((1, principal.owner.as_str())),
            false => HASH_STATE.hash_one((2, principal.client_address.map(client_limit_key))),
        })
    }

    /// Returns the key of an owner with this name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(HASH_STATE.hash_one((1, name)))
    }
}
