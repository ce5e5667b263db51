//! `[limits.owner]`: limits per owner. It must not count anything.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::Deserialize;

/// Limits per owner. They do not apply to the single user of a server with `mode = "none"`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnerLimits {
    /// Maximum number of concurrent jobs, across all servers of the store. Further calls are refused.
    pub max_running: NonZeroU32,
    /// Maximum number of tasks that are kept and have not expired. Further calls are refused.
    pub max_kept: NonZeroU32,
    /// Maximum size of the tasks that are kept and have not expired, in bytes, including arguments and
    /// results. Further calls are refused. Results of earlier calls are still kept and may exceed it: those
    /// of up to `max_running` running jobs, and of calls that wait for a slot. The backend limits the size of
    /// each.
    pub max_bytes: NonZeroU64,
    /// Maximum number of tool calls per minute, per server (HTTP 429 beyond it).
    pub max_calls_per_minute: NonZeroU32,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        let nonzero = |n| NonZeroU32::new(n).expect("no limit is zero by default");
        Self {
            max_running: nonzero(500),
            max_kept: nonzero(50_000),
            max_bytes: const { NonZeroU64::new(1 << 30).expect("the default is not zero") },
            max_calls_per_minute: nonzero(3_000),
        }
    }
}
