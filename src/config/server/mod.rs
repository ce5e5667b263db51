//! The server's own tables, one file each. `shape` has the small ones: `[server]`, `[log]`, `[reconciler]`,
//! `[lifetime]` and `[concurrency_groups]`; `check` validates them. This module must not open or connect to
//! anything. Of its sibling folders it uses only `reading` and `callers`.

pub(super) mod audit;
pub(super) mod check;
pub(super) mod console;
pub(super) mod limits;
pub(super) mod metrics;
pub(super) mod notify;
pub(super) mod owner_limits;
pub(super) mod seal;
pub(super) mod shape;
pub(super) mod store;
pub(super) mod telemetry;
pub(super) mod tls;
