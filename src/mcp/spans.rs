//! The spans that a client's trace goes on in here: whatever is logged while its request is answered names the trace.
//! Requests without a trace have none, and cost nothing.

use serde_json::Value;
use tracing::Span;

use super::params;

/// The span of a request that belongs to a trace, and for others none.
pub(super) fn of(method: &str, params: &Value) -> Span {
    match params::trace(params) {
        Ok(Some(trace)) => tracing::info_span!("request", method, traceparent = trace.parent),
        // What is wrong with `_meta` is said by whoever reads it for more than this.
        Ok(None) | Err(_) => Span::none(),
    }
}
