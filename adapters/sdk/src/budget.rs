//! [`Budget`]: how many calls an engine still allows, for whoever watches over the server. Nothing is decided by it.

/// A count of calls that an engine allows in a period, or all at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// What it is for, in a word that is always the same: an operation, a credential's hour. There are few of them.
    pub name: String,
    /// How many calls are left.
    pub left: f64,
    /// How many there are when none was made.
    pub limit: f64,
}
