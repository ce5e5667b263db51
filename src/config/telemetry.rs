//! `[telemetry]`: whether spans are sent to a collector, and where. It must not show what headers hold.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use super::locate;
use super::reader::Reader;
use super::secret::Secret;

/// The variable that names the collector where the config does not.
const OTLP_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where a collector takes spans, below its address.
const PATH: &str = "/v1/traces";

/// Spans for distributed tracing, sent to an OpenTelemetry collector by OTLP over HTTP: from a client's request, by its
/// `traceparent`, to the call of the engine, which is handed its place. A change takes effect when the server is started again.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Telemetry {
    /// The collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added where it is not there. Without it, and without
    /// `$OTEL_EXPORTER_OTLP_ENDPOINT`, nothing is sent.
    otlp: Option<String>,
    /// Headers that the collector wants, such as `authorization`. A value is a text, `{ env = "NAME" }` or `{ file = "PATH" }`.
    headers: BTreeMap<String, Secret>,
    /// How this server is called there.
    service_name: String,
    /// The part that is kept of the traces that begin here, from 0 to 1. Whether a client's trace is kept, its `traceparent` says.
    sample: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        let service_name = "taskbridge".to_owned();
        Self { otlp: None, headers: BTreeMap::new(), service_name, sample: 1.0 }
    }
}

/// Where spans are sent.
#[derive(Clone)]
pub struct Traces {
    /// Where.
    pub to: Url,
    /// What is sent with them.
    pub headers: Vec<(String, String)>,
    /// How this server is called there.
    pub service: String,
    /// The part that is kept of the traces that begin here.
    pub sample: f64,
}

/// Headers hold secrets, and an address may.
impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("at", &self.to.origin().ascii_serialization()).finish_non_exhaustive()
    }
}

/// Where spans are sent, if they are.
pub(super) fn traces(reader: &mut Reader<'_>, telemetry: &Telemetry, dir: &Path) -> Option<Traces> {
    let Telemetry { otlp, headers, service_name, sample } = telemetry;
    if !(0.0..=1.0).contains(sample) {
        reader.problem("telemetry.sample", format!("{sample} is no part: write a number from 0 to 1"));
    }
    let read = |(name, value): (&String, &Secret)| {
        let value = value.reveal(reader, &format!("telemetry.headers.{name}"), dir)?;
        Some((name.clone(), value))
    };
    let headers = headers.iter().filter_map(read).collect();
    let text = otlp.clone().or_else(|| locate::variable(OTLP_VARIABLE)).filter(|text| !text.is_empty())?;
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(mut to) = url else {
        let said =
            if otlp.is_some() { String::new() } else { format!("${OTLP_VARIABLE} says where spans go: ") };
        let message =
            format!("{said}it is no address of a collector: write one such as \"http://127.0.0.1:4318\"");
        reader.problem("telemetry.otlp", message);
        return None;
    };
    let path = to.path().trim_end_matches('/');
    if !path.ends_with(PATH) {
        let path = format!("{path}{PATH}");
        to.set_path(&path);
    }
    Some(Traces { to, headers, service: service_name.clone(), sample: *sample })
}
