//! Spans that continue a client's trace. Log lines of a request name the trace, and what the request starts
//! continues it. A request without a trace has a span only where spans are recorded; otherwise it costs
//! nothing. It must not know any method.

use serde_json::Value;
use taskbridge_sdk::Trace;
use tracing::Span;

use crate::mcp::wire::params;
use crate::trace;

/// Returns the span of a request: one that belongs to a trace, or one that begins a trace.
pub(crate) fn request_span(method: &str, params: &Value) -> Span {
    match params::trace(params) {
        Ok(Some(trace)) => {
            tracing::info_span!(target: trace::TARGET, "request", method, traceparent = trace.parent)
        }
        // An error in `_meta` is ignored here: the handler that parses it reports it.
        Ok(None) | Err(_) => tracing::trace_span!(target: trace::TARGET, "request", method),
    }
}

/// Returns the trace of the task that a request creates: the current span as the parent, or else the trace
/// that the request belongs to.
pub(crate) fn task_trace(received: Option<Trace>) -> Option<Trace> {
    trace::propagate(received)
}
