//! `[telemetry]`: the export of spans to a collector. It must not print header values.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::locate;
use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;

/// The variable with the collector URL if the config has none.
const OTLP_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Path of the collector's traces endpoint.
const TRACES_PATH: &str = "/v1/traces";

/// Distributed tracing: the server exports spans to an OpenTelemetry collector by OTLP over HTTP. A client's
/// trace (`traceparent`) continues through its request to the engine call, and the job gets the trace
/// context. Changes take effect after a restart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Telemetry {
    /// The collector URL, such as `http://127.0.0.1:4318`; `/v1/traces` is appended if missing. Without it,
    /// and without `$OTEL_EXPORTER_OTLP_ENDPOINT`, nothing is sent.
    otlp: Option<String>,
    /// Headers for the collector, such as `authorization`. A value is a text, `{ env = "NAME" }` or
    /// `{ file = "PATH" }`.
    headers: BTreeMap<String, Secret>,
    /// The service name of this server.
    service_name: String,
    /// The sampling rate, from 0 to 1, of traces that start at this server. A trace that a client started
    /// (`traceparent`) keeps the client's sampling decision.
    sample: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        let service_name = "taskbridge".to_owned();
        Self { otlp: None, headers: BTreeMap::new(), service_name, sample: 1.0 }
    }
}

/// The settings of the trace export.
#[derive(Clone)]
pub struct TraceExport {
    /// The endpoint URL.
    pub endpoint: Url,
    /// Headers of the requests.
    pub headers: Vec<(String, String)>,
    /// The service name of this server.
    pub service: String,
    /// The sampling rate of traces that start at this server.
    pub sample: f64,
}

/// Shows only the origin of the endpoint: headers contain secrets, and the rest of the URL may.
impl fmt::Debug for TraceExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceExport")
            .field("endpoint", &self.endpoint.origin().ascii_serialization())
            .finish_non_exhaustive()
    }
}

/// Validates and converts the table. Returns `None` if nothing is exported.
pub(in crate::config) fn traces(
    reader: &mut Reader<'_>,
    telemetry: &Telemetry,
    dir: &Path,
) -> Option<TraceExport> {
    let Telemetry { otlp, headers, service_name, sample } = telemetry;
    if !(0.0..=1.0).contains(sample) {
        reader.problem("telemetry.sample", format!("{sample} is out of range: write a number from 0 to 1"));
    }
    let read_header = |(name, value): (&String, &Secret)| {
        let value = value.reveal(reader, &format!("telemetry.headers.{name}"), dir)?;
        Some((name.clone(), value))
    };
    let headers = headers.iter().filter_map(read_header).collect();
    let text = otlp.clone().or_else(|| locate::variable(OTLP_VARIABLE)).filter(|text| !text.is_empty())?;
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(mut endpoint) = url else {
        let prefix =
            if otlp.is_some() { String::new() } else { format!("the value is from ${OTLP_VARIABLE}: ") };
        let message =
            format!("{prefix}not the URL of a collector: write one such as \"http://127.0.0.1:4318\"");
        reader.problem("telemetry.otlp", message);
        return None;
    };
    let path = endpoint.path().trim_end_matches('/');
    if !path.ends_with(TRACES_PATH) {
        let path = format!("{path}{TRACES_PATH}");
        endpoint.set_path(&path);
    }
    Some(TraceExport { endpoint, headers, service: service_name.clone(), sample: *sample })
}
