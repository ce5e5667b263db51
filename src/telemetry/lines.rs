//! [`JsonLineFormat`]: log lines as JSON objects. The trace and the task are at the top level (`trace_id`,
//! `task`), so that all lines of either can be found.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::trace::{self, TraceContext};

/// Formats JSON log lines.
pub(super) struct JsonLineFormat(Format<Json>);

impl Default for JsonLineFormat {
    fn default() -> Self {
        Self(tracing_subscriber::fmt::format().json().flatten_event(true))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        // Fast path: most lines belong to no span.
        if !line.contains("\"span\":") && !line.contains("\"traceparent\":") {
            return writer.write_str(&line);
        }
        let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(&line) else {
            return writer.write_str(&line);
        };
        let span_field = |name: &str| {
            let spans = fields.get("spans").and_then(Value::as_array).into_iter().flatten();
            spans.rev().find_map(|span| span.get(name)).cloned()
        };
        let parent = fields.get("traceparent").cloned().or_else(|| span_field("traceparent"));
        let parent = parent.as_ref().and_then(Value::as_str).and_then(TraceContext::parse);
        let (trace_context, task) = (trace::current().or(parent), span_field("task"));
        if let Some(trace_context) = trace_context {
            fields.entry("trace_id").or_insert_with(|| trace_context.trace_id().into());
        }
        if let Some(task) = task {
            fields.entry("task").or_insert(task);
        }
        writeln!(writer, "{}", Value::Object(fields))
    }
}
