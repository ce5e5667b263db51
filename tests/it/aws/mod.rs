//! Tests for Step Functions in bad conditions: an hour without AWS, and two servers where one cannot read the
//! queue. `step_functions.rs` tests one server. `tests/e2e/engines` runs real clients at random.

mod outage;
pub(crate) mod recorder;
mod replicas;
pub(crate) mod standin;
