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
const LONGEST: usize = 128;

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
    pub(super) place: TraceContext,
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: &'static str,
    pub(super) began: Timestamp,
    pub(super) took: std::time::Duration,
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// An open span.
struct Open {
    parent: Option<[u8; 8]>,
    began: Timestamp,
    since: Instant,
    said: SpanFields,
}

/// The recorded fields of a span.
#[derive(Default)]
struct SpanFields {
    traceparent: Option<String>,
    attributes: Vec<(&'static str, String)>,
}

/// The tracing layer that records spans.
pub(super) struct Spans {
    closed: mpsc::Sender<ClosedSpan>,
    /// Number of closed spans that were dropped because the queue was full.
    lost: Arc<AtomicU64>,
    /// The sampling rate of traces that start here.
    sample: f64,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Spans {
    pub(super) fn new(closed: mpsc::Sender<ClosedSpan>, lost: Arc<AtomicU64>, sample: f64) -> Self {
        Self { closed, lost, sample, clock: System::clock(), entropy: System::entropy() }
    }

    /// Returns the context of a new span, in the parent's trace or in a new one.
    fn place(&self, parent: Option<TraceContext>) -> TraceContext {
        let span = clock::random(&*self.entropy);
        match parent {
            Some(TraceContext { trace, sampled, .. }) => TraceContext { trace, span, sampled },
            None => {
                let trace: [u8; 16] = clock::random(&*self.entropy);
                let (first, _) = trace.split_first_chunk().expect("it has more than 8 bytes");
                let draw = u64::from_be_bytes(*first) as f64 / u64::MAX as f64;
                TraceContext { trace, span, sampled: draw < self.sample || self.sample >= 1.0 }
            }
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = SpanFields::default();
        attributes.record(&mut said);
        let above = || span.parent()?.extensions().get::<TraceContext>().copied();
        let parent = said.traceparent.as_deref().and_then(TraceContext::parse).or_else(above);
        let open = Open {
            parent: parent.map(|parent| parent.span),
            began: self.clock.now(),
            since: Instant::now(),
            said,
        };
        let mut extensions = span.extensions_mut();
        extensions.insert(self.place(parent));
        extensions.insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.said);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(place) = extensions.get_mut::<TraceContext>().copied() else { return };
        let Some(Open { parent, began, since, said }) = extensions.remove::<Open>() else { return };
        if !place.sampled {
            return;
        }
        let (took, attributes) = (since.elapsed(), said.attributes);
        let closed = ClosedSpan { place, parent, name: span.name(), began, took, attributes };
        // Never waits for the exporter.
        if self.closed.try_send(closed).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl SpanFields {
    fn note(&mut self, field: &Field, value: impl FnOnce() -> String) {
        if field.name() == "traceparent" {
            self.traceparent = Some(value());
        } else if let Some(name) = attribute(field.name()) {
            self.attributes.push((name, value().chars().take(LONGEST).collect()));
        }
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, || value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, || format!("{value:?}"));
    }
}
