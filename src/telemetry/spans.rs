//! [`Spans`]: assigns trace contexts to the server's own spans, and passes closed spans to the exporter. A
//! span with a `traceparent` continues that trace, across processes: a request continues its client's trace,
//! an action that of its row. Only the fields in [`attribute`] are exported, because others could contain
//! data from callers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use taskbridge_sdk::Timestamp;
use tokio::sync::mpsc;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::clock::{self, Clock, Entropy, System};
use crate::trace::TraceContext;

/// Maximum length of an attribute value, in characters.
const MAX_VALUE_CHARS: usize = 128;

/// Returns the attribute name for a field.
fn attribute(field: &str) -> Option<&'static str> {
    Some(match field {
        "method" => "rpc.method",
        "verb" => "taskbridge.verb",
        "tool" => "taskbridge.tool",
        // The beginning of the task id, as in the log.
        "task" => "taskbridge.task",
        "backend" => "taskbridge.backend",
        "operation" => "taskbridge.operation",
        "outcome" => "taskbridge.outcome",
        _ => return None,
    })
}

/// A closed span.
#[derive(Debug)]
pub(super) struct ClosedSpan {
    pub(super) trace_context: TraceContext,
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: &'static str,
    pub(super) started_at: Timestamp,
    pub(super) duration: std::time::Duration,
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// An open span.
struct OpenSpan {
    parent: Option<[u8; 8]>,
    started_at: Timestamp,
    started: Instant,
    fields: SpanFields,
}

/// The recorded fields of a span.
#[derive(Default)]
struct SpanFields {
    traceparent: Option<String>,
    attributes: Vec<(&'static str, String)>,
}

/// The tracing layer that records spans.
pub(super) struct Spans {
    sender: mpsc::Sender<ClosedSpan>,
    /// Number of closed spans that were dropped because the queue was full.
    dropped_spans: Arc<AtomicU64>,
    /// The sampling rate of traces that start here.
    sample: f64,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Spans {
    pub(super) fn new(sender: mpsc::Sender<ClosedSpan>, dropped_spans: Arc<AtomicU64>, sample: f64) -> Self {
        Self { sender, dropped_spans, sample, clock: System::clock(), entropy: System::entropy() }
    }

    /// Returns the context of a new span, in the parent's trace or in a new one.
    fn new_context(&self, parent: Option<TraceContext>) -> TraceContext {
        let span = clock::random(&*self.entropy);
        match parent {
            Some(TraceContext { trace, sampled, .. }) => TraceContext { trace, span, sampled },
            None => {
                let trace: [u8; 16] = clock::random(&*self.entropy);
                let (first, _) = trace.split_first_chunk().expect("a trace id has 16 bytes");
                let draw = u64::from_be_bytes(*first) as f64 / u64::MAX as f64;
                TraceContext { trace, span, sampled: draw < self.sample || self.sample >= 1.0 }
            }
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = SpanFields::default();
        attributes.record(&mut fields);
        let enclosing = || span.parent()?.extensions().get::<TraceContext>().copied();
        let parent = fields.traceparent.as_deref().and_then(TraceContext::parse).or_else(enclosing);
        let open = OpenSpan {
            parent: parent.map(|parent| parent.span),
            started_at: self.clock.now(),
            started: Instant::now(),
            fields,
        };
        let mut extensions = span.extensions_mut();
        extensions.insert(self.new_context(parent));
        extensions.insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<OpenSpan>()
        {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(trace_context) = extensions.get_mut::<TraceContext>().copied() else { return };
        let Some(OpenSpan { parent, started_at, started, fields }) = extensions.remove::<OpenSpan>() else {
            return;
        };
        if !trace_context.sampled {
            return;
        }
        let (duration, attributes) = (started.elapsed(), fields.attributes);
        let closed_span =
            ClosedSpan { trace_context, parent, name: span.name(), started_at, duration, attributes };
        // Never waits for the exporter.
        if self.sender.try_send(closed_span).is_err() {
            self.dropped_spans.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl SpanFields {
    fn record_field(&mut self, field: &Field, value: impl FnOnce() -> String) {
        if field.name() == "traceparent" {
            self.traceparent = Some(value());
        } else if let Some(name) = attribute(field.name()) {
            self.attributes.push((name, value().chars().take(MAX_VALUE_CHARS).collect()));
        }
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_field(field, || value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_field(field, || format!("{value:?}"));
    }
}
