//! `[limits.owner]`: how much one owner may have and do. It must not count anything.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::Deserialize;

/// How much one owner may have and do. None of it holds for the one user of a server with `mode = "none"`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnerLimits {
    /// Jobs at the same time, over all servers on the store. A call beyond it is refused.
    pub max_running: NonZeroU32,
    /// Tasks that are kept and have not expired. A call beyond it is refused.
    pub max_kept: NonZeroU32,
    /// Bytes of the tasks that are kept and have not expired, with their arguments and results. A call beyond it is refused. Results of
    /// calls that were accepted before are kept all the same: those of up to `max_running` jobs that run, and of calls that wait for a
    /// slot, come on top, each as large as its backend lets it be.
    pub max_bytes: NonZeroU64,
    /// Calls of tools in a minute, at each server (HTTP 429 beyond it).
    pub max_calls_per_minute: NonZeroU32,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        let some = |n| NonZeroU32::new(n).expect("no limit is zero by default");
        Self {
            max_running: some(500),
            max_kept: some(50_000),
            max_bytes: const { NonZeroU64::new(1 << 30).expect("it is not zero") },
            max_calls_per_minute: some(3_000),
        }
    }
}
