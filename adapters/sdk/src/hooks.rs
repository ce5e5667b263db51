//! [`Hooks`]: what an engine posts to `/hooks/NAME` of the server, proven and read. It must not ask the engine anything:
//! the sender waits.

use crate::JobHandle;

/// The engine, or something beside it, can say by HTTP that jobs changed.
pub trait Hooks: Send + Sync {
    /// Reads one delivery. `None` if it is not proven that it comes from whom the config trusts.
    ///
    /// - The proof (a signature of the body, or a shared secret) is compared in constant time ([`same_secret`]), before
    ///   anything that the body says is believed.
    /// - What is proven and says nothing about jobs here is a delivery about none.
    /// - It only reads: a delivery that comes twice, late or out of order says the same.
    fn read(&self, delivery: &Delivery<'_>) -> Option<Told>;
}

/// What was posted.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The headers that are text, with their names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl<'a> Delivery<'a> {
    /// The header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// What a delivery says: a hint, which the server follows by looking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The jobs that may have changed.
    pub jobs: Vec<JobHandle>,
    /// The delivery's own id, if the engine gives it one: what comes again under it is passed over.
    pub id: Option<String>,
}

/// Whether two secrets, or two signatures, are the same. How long it takes tells nothing but their lengths.
pub fn same_secret(given: &[u8], wanted: &[u8]) -> bool {
    use subtle::ConstantTimeEq as _;
    !wanted.is_empty() && bool::from(given.ct_eq(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_never_the_same() {
        assert!(same_secret(b"abc", b"abc"));
        assert!(!same_secret(b"abd", b"abc") && !same_secret(b"ab", b"abc") && !same_secret(b"", b""));
    }
}
