//! The spans that a client's trace goes on in here: whatever is logged while its request is answered names the trace, and
//! what it starts goes on with it. A request without a trace has a span only where spans are kept, and else costs nothing.

use serde_json::Value;
use taskbridge_sdk::Trace;
use tracing::Span;

use super::params;
use crate::trace;

/// The span of a request: one that belongs to a trace, or one that begins a trace.
pub(super) fn of(method: &str, params: &Value) -> Span {
    match params::trace(params) {
        Ok(Some(trace)) => {
            tracing::info_span!(target: trace::TARGET, "request", method, traceparent = trace.parent)
        }
        // What is wrong with `_meta` is said by whoever reads it for more than this.
        Ok(None) | Err(_) => tracing::trace_span!(target: trace::TARGET, "request", method),
    }
}

/// How the trace of a request goes on in the task that it makes.
pub(super) fn carry(came: Option<Trace>) -> Option<Trace> {
    trace::carry(came)
}
