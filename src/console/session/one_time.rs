//! [`OneTimeAddress`]: the address that the server prints for its single user. Its token signs in one
//! browser, once. A new one replaces it at once, for the next browser. It must not print anything itself.

use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::clock::{self, Entropy};

/// Number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// The address that signs in the next browser.
pub(in crate::console) struct OneTimeAddress {
    token: Mutex<String>,
    origin: String,
}

impl OneTimeAddress {
    /// Creates it with its first token, for this origin.
    pub(in crate::console) fn new(entropy: &dyn Entropy, origin: String) -> Self {
        Self { token: Mutex::new(token(entropy)), origin }
    }

    /// Returns the address.
    pub(in crate::console) fn address(&self) -> String {
        format!("{}/console/login?once={}", self.origin, self.token.lock())
    }

    /// Compares a token, and replaces it if it is the right one: in one step, so that it works once.
    pub(in crate::console) fn take(&self, presented: &str, entropy: &Arc<dyn Entropy>) -> bool {
        let mut current = self.token.lock();
        // Of equal length, so that the comparison takes the same time for every text.
        let (ours, theirs) = (Sha256::digest(current.as_bytes()), Sha256::digest(presented));
        let is_right = bool::from(ours.ct_eq(&theirs));
        if is_right {
            *current = token(&**entropy);
        }
        is_right
    }
}

fn token(entropy: &dyn Entropy) -> String {
    BASE64URL_NOPAD.encode(&clock::random::<TOKEN_BYTES>(entropy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;

    /// A token is taken once, and the next one works then.
    #[test]
    fn token_works_once() {
        let entropy = System::entropy();
        let address = OneTimeAddress::new(&*entropy, "http://localhost:1".to_owned());
        let token = || address.address().rsplit_once('=').unwrap().1.to_owned();
        let first = token();
        assert!(address.address().starts_with("http://localhost:1/console/login?once="));
        assert!(!address.take("", &entropy) && !address.take(&first[1..], &entropy));
        assert!(address.take(&first, &entropy) && !address.take(&first, &entropy));
        assert!(first != token() && address.take(&token(), &entropy));
    }
}
