//! [`Exporter`]: sends closed spans to a collector, as OTLP over HTTP in JSON (`POST /v1/traces`). It never
//! blocks other work: spans that cannot be sent are dropped, and the first failure after a success is logged.
//! It must not retry. At shutdown it sends the rest.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use serde_json::{Value, json};
use taskbridge_sdk::root_cause;
use tokio::sync::mpsc;

use super::spans::ClosedSpan;
use crate::config::TraceExport;

/// Maximum number of spans in one request.
const MAX_BATCH: usize = 512;
/// How long a span waits for others, to be sent in one batch.
const BATCH_DELAY: Duration = Duration::from_millis(500);
/// Request timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for sending the rest at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends closed spans.
pub(crate) struct Exporter {
    spans: mpsc::Receiver<ClosedSpan>,
    dropped_spans: Arc<AtomicU64>,
    /// The current batch, kept here so that dropping `run` does not lose it.
    batch: Vec<ClosedSpan>,
    client: Client,
    endpoint: reqwest::Url,
    headers: HeaderMap,
    service: String,
    failing: bool,
}

impl Exporter {
    /// Creates an exporter with the settings of the config.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub(super) fn new(
        traces: &TraceExport,
        spans: mpsc::Receiver<ClosedSpan>,
        dropped_spans: Arc<AtomicU64>,
    ) -> Result<Self, String> {
        let mut client =
            Client::builder().timeout(REQUEST_TIMEOUT).redirect(redirect::Policy::none()).no_proxy();
        if traces.endpoint.scheme() == "http" {
            // The CA certificates of this machine are not needed, and may not exist.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| format!("telemetry.otlp: {}", root_cause(&error)))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &traces.headers {
            let invalid = || format!("telemetry.headers.{name}: not a valid header");
            let name = HeaderName::try_from(name).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let (endpoint, service) = (traces.endpoint.clone(), traces.service.clone());
        Ok(Self {
            spans,
            dropped_spans,
            batch: Vec::new(),
            client,
            endpoint,
            headers,
            service,
            failing: false,
        })
    }

    /// Sends spans when they close, until the future is dropped.
    pub(crate) async fn run(&mut self) -> Infallible {
        loop {
            if self.spans.recv_many(&mut self.batch, MAX_BATCH).await == 0 {
                // The channel is closed, so no more spans can arrive.
                std::future::pending::<()>().await;
            }
            let gather = async {
                while self.batch.len() < MAX_BATCH {
                    let remaining = MAX_BATCH - self.batch.len();
                    if self.spans.recv_many(&mut self.batch, remaining).await == 0 {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(BATCH_DELAY, gather).await;
            self.send().await;
        }
    }

    /// Sends the remaining spans, up to a time limit.
    pub(crate) async fn finish(&mut self) {
        let rest = async {
            loop {
                while self.batch.len() < MAX_BATCH
                    && let Ok(span) = self.spans.try_recv()
                {
                    self.batch.push(span);
                }
                if self.batch.is_empty() {
                    return;
                }
                self.send().await;
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, rest).await;
    }

    async fn send(&mut self) {
        let body = body(&self.service, &self.batch).to_string();
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let response = request.header("content-type", "application/json").body(body).send().await;
        // Redirects are not followed, so a redirect response is an error.
        let response = response.map_err(|error| error.without_url().to_string());
        let result = response.and_then(|answer| match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the collector answers {status}")),
        });
        self.batch.clear();
        let lost = self.dropped_spans.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "spans are lost: they close faster than they can be sent");
        }
        match result {
            Ok(()) if std::mem::take(&mut self.failing) => tracing::info!("spans can be sent again"),
            Ok(()) => {}
            Err(error) if !std::mem::replace(&mut self.failing, true) => {
                tracing::warn!(error, "spans cannot be sent, and are lost");
            }
            Err(_) => {}
        }
    }
}

/// Returns an `ExportTraceServiceRequest`.
fn body(service: &str, spans: &[ClosedSpan]) -> Value {
    let scope = json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")});
    let resource = [("service.name", service), ("service.version", env!("CARGO_PKG_VERSION"))];
    let resource: Vec<Value> = resource.iter().map(|(key, value)| attribute(key, value)).collect();
    let spans: Vec<Value> = spans.iter().map(span_json).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Returns a `Span` in OTLP's JSON form: ids in hexadecimal, 64-bit numbers as strings.
fn span_json(span: &ClosedSpan) -> Value {
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let start_nanos = u128::try_from(span.started_at.as_millis()).unwrap_or(0) * 1_000_000;
    let kind = match span.name {
        "request" => 2,
        "engine call" => 3,
        _ => 1,
    };
    let outcome = span.attributes.iter().find(|(name, _)| *name == "taskbridge.outcome");
    let code = match outcome.map(|(_, value)| value.as_str()) {
        None => 0,
        Some("ok") => 1,
        Some(_) => 2,
    };
    json!({
        "traceId": hex(&span.trace_context.trace),
        "spanId": hex(&span.trace_context.span),
        "parentSpanId": span.parent.map(|parent| hex(&parent)).unwrap_or_default(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": start_nanos.to_string(),
        "endTimeUnixNano": (start_nanos + span.duration.as_nanos()).to_string(),
        "attributes": span.attributes.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
        "status": {"code": code},
    })
}
