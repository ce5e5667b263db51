//! Step Functions from a distance: an hour without it, and two servers of which one cannot read the queue. What one server
//! does with it is in `step_functions.rs`; `tests/e2e/engines` has real clients over it, at random.

mod outage;
pub(crate) mod recorder;
mod replicas;
pub(crate) mod standin;
