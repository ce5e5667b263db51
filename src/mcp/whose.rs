//! [`Whose`]: by whom what one caller does is counted: by owner, or by where they are if callers are not told apart. One of those
//! must not shut out all.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use crate::auth::{Principal, of_one_user};

/// By whom something is counted. In place of a name, so that counting takes no memory for each request. Two callers can have the
/// same one by a chance of 1 in 2^64, which nobody can improve on without the key: then they share what one of them may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Whose(u64);

/// What names are hashed by in this process.
static KEYED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Whose {
    /// An owner wherever they are, or whoever has this address or network.
    pub(super) fn of(principal: &Principal) -> Self {
        Self(match principal.identified {
            true => KEYED.hash_one((1, principal.owner.as_str())),
            false => KEYED.hash_one((2, principal.from.map(of_one_user))),
        })
    }

    /// Somebody of this name.
    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self(KEYED.hash_one((1, name)))
    }
}
