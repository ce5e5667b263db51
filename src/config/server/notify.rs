//! `[[notify]]`: receivers of notices when tasks end or ask. It must not connect to anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::config::reading::duration::DurationText;
use crate::config::reading::files;
use crate::config::reading::problem::unknown_name;
use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;
use crate::notify::{Key, Receiver};

/// A receiver of signed CloudEvents, sent by POST, when a task ends or asks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Notify {
    /// The URL of the receiver. Plain HTTP is only accepted for this machine, unless `allow_plain` is set.
    url: String,
    /// The events to send.
    #[serde(default = "everything")]
    on: Vec<On>,
    /// The tools whose tasks are reported. Default: all.
    #[serde(default)]
    tools: Vec<String>,
    /// The signing secret (Standard Webhooks): `whsec_` and 24 to 64 random bytes in Base64, or a list of
    /// such secrets during a rotation.
    secret: Secrets,
    /// Whether events contain task ids. Where callers are anonymous, everyone who has an id may use the task.
    /// Without it, the event contains the SHA-256 of the id.
    #[serde(default)]
    task_id: bool,
    /// The `source` of the events, an absolute URI or a path, to distinguish several bridges.
    #[serde(default = "source")]
    source: String,
    /// Whether plain HTTP to another machine is accepted, which others on the network can read.
    #[serde(default)]
    allow_plain: bool,
    /// A file of CA certificates (PEM) to trust, instead of those of this machine.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// The HTTP proxy for requests to it. Default: `HTTPS_PROXY` and `NO_PROXY` of the environment, unless it
    /// is on this machine or link-local.
    #[serde(default)]
    proxy: Option<String>,
    /// Timeout of a delivery attempt.
    #[serde(default = "timeout", with = "DurationText")]
    timeout: Duration,
    /// How long delivery is retried, counted from the event.
    #[serde(default = "give_up_after", with = "DurationText")]
    give_up_after: Duration,
}

/// An event that can be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum On {
    /// A task has ended, with any outcome.
    Ended,
    /// A task has a question and waits for the answer.
    Asks,
}

/// One secret or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a string, { env = \"NAME\" }, { file = \"PATH\" } or a list of these")]
enum Secrets {
    /// One.
    One(Secret),
    /// Several, during a rotation.
    Several(Vec<Secret>),
}

fn everything() -> Vec<On> {
    vec![On::Ended, On::Asks]
}

fn source() -> String {
    "/taskbridge".to_owned()
}

fn timeout() -> Duration {
    Duration::from_secs(15)
}

fn give_up_after() -> Duration {
    Duration::from_secs(86_400)
}

/// Reads all receivers. `tools` are the names of all tools.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    value: Option<Value>,
    dir: &Path,
    tools: &[String],
) -> Vec<Receiver> {
    let entries = match value {
        None => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            reader.problem("notify", "must be a list: write [[notify]] above its fields");
            return Vec::new();
        }
    };
    let mut receivers: Vec<Receiver> = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let field = format!("notify[{index}]");
        let Some(entry) = reader.read::<Notify>(&field, entry) else { continue };
        let Some(receiver) = receiver(reader, &field, entry, dir, tools) else { continue };
        if receivers.iter().any(|other| other.url == receiver.url) {
            let message = "another [[notify]] has this address: combine the two";
            reader.problem(format!("{field}.url"), message);
        }
        receivers.push(receiver);
    }
    receivers
}

fn receiver(
    reader: &mut Reader<'_>,
    field: &str,
    entry: Notify,
    dir: &Path,
    tools: &[String],
) -> Option<Receiver> {
    let at = |name: &str| format!("{field}.{name}");
    let tool_names: Vec<&str> = tools.iter().map(String::as_str).collect();
    for (index, tool) in entry.tools.iter().enumerate().filter(|(_, tool)| !tools.contains(tool)) {
        reader.problem(format!("{}[{index}]", at("tools")), unknown_name("tool", tool, &tool_names));
    }
    if entry.on.is_empty() {
        reader.problem(at("on"), "must not be empty: list \"ended\", \"asks\" or both");
    }
    if entry.timeout.is_zero() || entry.timeout > Duration::from_secs(300) {
        reader.problem(at("timeout"), "must be more than zero, and at most 5m");
    }
    if fluent_uri::UriRef::parse(entry.source.as_str()).is_err() || entry.source.is_empty() {
        reader.problem(at("source"), "not a URL or a path: write one such as https://bridge.example.com");
    }
    let url = address(reader, &at("url"), &entry.url);
    if let Some(url) = &url
        && url.scheme() == "http"
        && !is_loopback(url)
        && !entry.allow_plain
    {
        let message =
            "others on the network could read and change it: use https, or set `allow_plain = true`";
        reader.problem(at("url"), message);
    }
    let proxy = entry.proxy.as_deref().map(|proxy| address(reader, &at("proxy"), proxy));
    let authorities = entry.ca_file.as_ref().map(|file| files::read(reader, &at("ca_file"), dir.join(file)));
    let keys = keys(reader, &at("secret"), &entry.secret, dir);
    Some(Receiver {
        url: url?,
        notify_ended: entry.on.contains(&On::Ended),
        notify_questions: entry.on.contains(&On::Asks),
        tools: entry.tools,
        keys,
        includes_task_id: entry.task_id,
        source: entry.source,
        proxy: proxy.flatten(),
        authorities: authorities.flatten().map(|file| file.bytes),
        timeout: entry.timeout,
        give_up_after: entry.give_up_after,
    })
}

/// Reads an HTTP URL. It may contain a secret, so messages do not contain it.
fn address(reader: &mut Reader<'_>, field: &str, text: &str) -> Option<Url> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Some(url),
        _ => {
            reader.problem(field, "not an HTTP URL: write one such as https://hooks.example.com/tasks");
            None
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

fn keys(reader: &mut Reader<'_>, field: &str, secrets: &Secrets, dir: &Path) -> Vec<Key> {
    let secrets = match secrets {
        Secrets::One(secret) => vec![(field.to_owned(), secret)],
        Secrets::Several(all) => {
            all.iter().enumerate().map(|(index, secret)| (format!("{field}[{index}]"), secret)).collect()
        }
    };
    if secrets.is_empty() {
        reader.problem(field, "must not be empty: list at least one secret");
    }
    let mut keys = Vec::new();
    for (field, secret) in secrets {
        let Some(text) = secret.reveal(reader, &field, dir) else { continue };
        match Key::of(&text) {
            Ok(key) => keys.push(key),
            Err(error) => reader.problem(field, error.to_string()),
        }
    }
    keys
}
