//! [`Hooks`]: verifies and parses what an engine posts to `/hooks/NAME` of the server. It must not call the
//! engine, because the sender is waiting.

use crate::{JobHandle, JobKey};

/// Ability to receive HTTP notifications of changed jobs from the engine, or from a system next to it.
pub trait Hooks: Send + Sync {
    /// Parses one delivery. Returns `None` if it does not prove that it comes from a sender that the config
    /// trusts.
    ///
    /// - The proof is a signature of the body or a shared secret. It is compared in constant time
    ///   ([`same_secret`]) before anything in the body is used.
    /// - A verified delivery that names no jobs of this backend returns empty lists of jobs and keys.
    /// - It only reads: a delivery that arrives twice, late or out of order gives the same result.
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent>;
}

/// HTTP request that was posted to the hook.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Headers whose values are text, with names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// Body, byte for byte.
    pub body: &'a [u8],
    /// Rest of the path after `/hooks/NAME/`, as it was sent; empty if there is none. An adapter can register
    /// an address with the job's key and a proof in it, such as `/hooks/NAME/KEY/PROOF`.
    pub path: &'a str,
}

impl<'a> Delivery<'a> {
    /// Returns the value of a header. `name` must be in lower case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// Content of a delivery. It is only a hint: the server polls the jobs that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookEvent {
    /// Jobs that may have changed.
    pub jobs: Vec<JobHandle>,
    /// Jobs that may have changed, by our keys ([`JobKey::parse`]), for a sender that cannot name the handle:
    /// it was registered before the start returned one.
    pub keys: Vec<JobKey>,
    /// The delivery's own id, if the engine gives it one. The server remembers a limited number of ids, and
    /// ignores a delivery whose id it remembers.
    pub id: Option<String>,
}

/// Returns true if two secrets or two signatures are equal. The time taken depends only on their lengths. An
/// empty `expected` never matches.
pub fn same_secret(given: &[u8], expected: &[u8]) -> bool {
    use subtle::ConstantTimeEq as _;
    !expected.is_empty() && bool::from(given.ct_eq(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_secret_matches_nothing() {
        assert!(same_secret(b"abc", b"abc"));
        assert!(!same_secret(b"abd", b"abc") && !same_secret(b"ab", b"abc") && !same_secret(b"", b""));
    }
}
