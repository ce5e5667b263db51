//! `[[notify]]`: who is told that tasks end or ask. It must not connect to anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::problem::unknown;
use super::reader::Reader;
use super::secret::Secret;
use super::{duration, files};
use crate::notify::{Key, Receiver};

/// Somebody who is told by a signed POST, as a CloudEvent, that a task ended or asks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Notify {
    /// Where it is posted to. Without TLS only on this machine, unless `allow_plain` says otherwise.
    url: String,
    /// What it hears of.
    #[serde(default = "everything")]
    on: Vec<On>,
    /// The tools that it hears of. Without this, all.
    #[serde(default)]
    tools: Vec<String>,
    /// What the POST is signed with, by the Standard Webhooks scheme: `whsec_` and 24 to 64 random bytes in Base64, or a
    /// list of such secrets while one is being replaced.
    secret: Secrets,
    /// Whether it is told the ids of tasks. Where callers are not told apart, whoever holds an id may use the task.
    /// Without it the event names the task by the SHA-256 of its id.
    #[serde(default)]
    task_id: bool,
    /// `source` of the events, an absolute address or a path, to tell several bridges apart.
    #[serde(default = "source")]
    source: String,
    /// Whether the POST may go to another machine without TLS, where others on the way can read it.
    #[serde(default)]
    allow_plain: bool,
    /// A file of certificates (PEM) of authorities to trust, in place of this machine's.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// A proxy that it is reached by. Without it, the environment's `HTTPS_PROXY` and `NO_PROXY` are followed, unless it is on this
    /// machine.
    #[serde(default)]
    proxy: Option<String>,
    /// How long it may take to answer.
    #[serde(default = "timeout", with = "duration")]
    #[schemars(with = "String")]
    timeout: Duration,
    /// How long a notice is tried, from what it tells of on.
    #[serde(default = "give_up_after", with = "duration")]
    #[schemars(with = "String")]
    give_up_after: Duration,
}

/// Something to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum On {
    /// A task has ended, however it came out.
    Ended,
    /// A task asks something and waits for the answer.
    Asks,
}

/// One secret or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "it is no text, no { env = \"NAME\" }, no { file = \"PATH\" } and no list of these"
)]
enum Secrets {
    /// One.
    One(Secret),
    /// Several, while one is being replaced.
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

/// Reads all of them. `tools` are the names of all tools.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: Option<Value>,
    dir: &Path,
    tools: &[String],
) -> Vec<Receiver> {
    let entries = match value {
        None => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            reader.problem("notify", "it is not a list: write [[notify]] above its fields");
            return Vec::new();
        }
    };
    let mut receivers: Vec<Receiver> = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let field = format!("notify[{index}]");
        let Some(entry) = reader.read::<Notify>(&field, entry) else { continue };
        let Some(receiver) = receiver(reader, &field, entry, dir, tools) else { continue };
        if receivers.iter().any(|known| known.url == receiver.url) {
            let message = "another [[notify]] has this address: say in one of them all that it is to hear of";
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
    let known: Vec<&str> = tools.iter().map(String::as_str).collect();
    for (index, tool) in entry.tools.iter().enumerate().filter(|(_, tool)| !tools.contains(tool)) {
        reader.problem(format!("{}[{index}]", at("tools")), unknown("tool", tool, &known));
    }
    if entry.on.is_empty() {
        reader.problem(at("on"), "it is empty: list \"ended\", \"asks\" or both");
    }
    if entry.timeout.is_zero() || entry.timeout > Duration::from_secs(300) {
        reader.problem(at("timeout"), "it must be more than nothing, and 5m at most");
    }
    if fluent_uri::UriRef::parse(entry.source.as_str()).is_err() || entry.source.is_empty() {
        reader.problem(
            at("source"),
            "it is no address and no path: write one such as https://bridge.example.com",
        );
    }
    let url = address(reader, &at("url"), &entry.url);
    if let Some(url) = &url
        && url.scheme() == "http"
        && !is_loopback(url)
        && !entry.allow_plain
    {
        let message = "others on the way could read and change it: use https, or say `allow_plain = true`";
        reader.problem(at("url"), message);
    }
    let proxy = entry.proxy.as_deref().map(|proxy| address(reader, &at("proxy"), proxy));
    let authorities = entry.ca_file.as_ref().map(|file| files::read(reader, &at("ca_file"), dir.join(file)));
    let keys = keys(reader, &at("secret"), &entry.secret, dir);
    Some(Receiver {
        url: url?,
        ended: entry.on.contains(&On::Ended),
        asks: entry.on.contains(&On::Asks),
        tools: entry.tools,
        keys,
        tells_id: entry.task_id,
        source: entry.source,
        proxy: proxy.flatten(),
        authorities: authorities.flatten().map(|read| read.bytes),
        timeout: entry.timeout,
        give_up_after: entry.give_up_after,
    })
}

/// An address by HTTP. What stands there may hold a secret, and is not repeated.
fn address(reader: &mut Reader<'_>, field: &str, text: &str) -> Option<Url> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Some(url),
        _ => {
            reader.problem(
                field,
                "it is no address by HTTP: write one such as https://hooks.example.com/tasks",
            );
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
        reader.problem(field, "it is empty: name at least one secret");
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
