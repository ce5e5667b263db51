//! The W3C trace context of this process (Trace Context, level 1). [`current`] returns the context of
//! the current span if spans are recorded ([`crate::telemetry`]), and `None` otherwise. It must not create or
//! send spans.

use std::fmt;

use taskbridge_sdk::Trace;
use tracing::Span;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

/// The target of spans that belong to a trace. It separates them from spans of libraries, whose fields are
/// arbitrary. The modules of [`crate::tasks`] repeat it as a string literal.
pub const TARGET: &str = "spans";

/// The context of a span, as other systems reference it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace id.
    pub trace: [u8; 16],
    /// The span id.
    pub span: [u8; 8],
    /// Whether the trace is sampled.
    pub sampled: bool,
}

/// Formats it as `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.sampled))
    }
}

impl TraceContext {
    /// Parses a `traceparent`.
    pub fn parse(parent: &str) -> Option<Self> {
        let parent = Trace::new(parent, None)?.parent;
        let mut parts =
            parent.split('-').skip(1).map(|part| data_encoding::HEXLOWER.decode(part.as_bytes()).ok());
        let (trace, span, flags) = (parts.next()??, parts.next()??, parts.next()??);
        let sampled = flags.first().is_some_and(|flags| flags & 1 == 1);
        Some(Self { trace: trace.try_into().ok()?, span: span.try_into().ok()?, sampled })
    }

    /// Returns the trace id in hexadecimal.
    pub fn trace_id(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.trace)
    }
}

/// Returns the context of the current span.
pub fn current() -> Option<TraceContext> {
    of(&Span::current())
}

/// Returns the context of a span.
pub fn of(span: &Span) -> Option<TraceContext> {
    let context = span.with_subscriber(|(id, dispatch)| {
        let spans = dispatch.downcast_ref::<Registry>()?;
        let span = spans.span(id)?;
        span.extensions().get::<TraceContext>().copied()
    });
    context.flatten()
}

/// Returns the trace context to pass on: the current span as the parent, or else the received context.
pub fn propagate(received: Option<Trace>) -> Option<Trace> {
    match current() {
        Some(context) => {
            Some(Trace { parent: context.to_string(), state: received.and_then(|trace| trace.state) })
        }
        None => received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `traceparent` that is parsed and printed again is the same text.
    #[test]
    fn trace_parent_round_trips() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let context = TraceContext::parse(parent).unwrap();
        assert_eq!((context.to_string().as_str(), context.sampled), (parent, true));
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert!(!TraceContext::parse(&parent.replace("-01", "-02")).unwrap().sampled);
        assert_eq!(TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"), None);
        assert_eq!(propagate(None), None, "without spans a trace is unchanged");
    }
}
