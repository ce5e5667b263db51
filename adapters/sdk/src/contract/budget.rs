//! [`Budget`]: how many calls an engine still allows, for monitoring. It must not influence any decision.

/// Number of calls that an engine allows, per period or in total.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Name of the budget, such as an operation or a credential's hourly limit. It never changes, and there
    /// are few of them.
    pub name: String,
    /// Number of calls left.
    pub remaining: f64,
    /// Number of calls allowed when none was made yet.
    pub limit: f64,
}
