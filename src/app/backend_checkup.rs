//! The checks of one backend: its connection, its discovery, the targets of its tools, and unfinished tasks. It
//! must not change anything, nor start anything that a server would start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{Backend, DiscoveredTool, Error, Finding, Registry, ToolTarget};

use super::connect::{Connector, is_on_other_host};
use crate::config::{self, Config};
use crate::store::survey::UnfinishedRows;

/// Timeout of one backend for its check-up or its discovery.
pub(super) const CHECK_TIMEOUT: Duration = Duration::from_secs(300);

/// Checks a backend, and its unfinished tasks.
pub(super) async fn check_backend(
    config: &Config,
    registry: &Registry,
    program: &Path,
    name: &str,
    backend: &config::Backend,
    unfinished: &[&UnfinishedRows],
) -> Vec<Finding> {
    let here = config::locate::this_machine();
    if is_on_other_host(config, backend, &here) {
        let host = backend.host.as_deref().unwrap_or_default();
        return vec![Finding::ok("place", format!("the jobs run on `{host}`: run the doctor there, too"))];
    }
    let connected = match connect(config, registry, program, name, backend).await {
        Ok(connected) => connected,
        Err(fault) => return vec![fault],
    };
    let mut findings = check_connected(config, registry, name, backend, &*connected).await;
    if let Some(identity) = connected.identity() {
        let warnings = unfinished.iter().filter_map(|tasks| other_engine_warning(name, &identity, tasks));
        // Behind the connection.
        findings.splice(1..1, warnings);
    }
    findings
}

/// Connects to a backend. The error is the finding about it.
pub(super) async fn connect(
    config: &Config,
    registry: &Registry,
    program: &Path,
    name: &str,
    backend: &config::Backend,
) -> Result<Arc<dyn Backend>, Finding> {
    Connector::of(config, registry, program, None).connect(name, backend).await.map_err(|error| {
        let fix = format!(
            "fix [backends.{name}] or the engine; a server retries the connection, and refuses calls of these \
             tools until it succeeds"
        );
        Finding::fault("connection", error.to_string(), fix)
    })
}

/// Checks a connected backend, with its discovery and the targets of its tools.
pub(super) async fn check_connected(
    config: &Config,
    registry: &Registry,
    name: &str,
    backend: &config::Backend,
    connected: &dyn Backend,
) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("connection", format!("a backend of kind \"{}\"", backend.kind))];
    if backend.discover.is_some() {
        findings.push(check_discovery(config, registry, name, connected).await);
    }
    let Some(checkup) = connected.abilities().checkup else { return findings };
    let configured = config.tools.iter().filter(|tool| tool.backend == name);
    let tools: Vec<ToolTarget> = configured
        .map(|tool| ToolTarget::new(&tool.name, tool.target.clone()).with_schema(&tool.client_schema))
        .collect();
    match tokio::time::timeout(CHECK_TIMEOUT, checkup.check_up(&tools)).await {
        Ok(more) => findings.extend(more),
        Err(_) => {
            let says = format!("timed out after {} seconds", CHECK_TIMEOUT.as_secs());
            findings.push(Finding::fault("check-up", says, "check whether the engine responds"));
        }
    }
    findings
}

pub(super) async fn check_discovery(
    config: &Config,
    registry: &Registry,
    name: &str,
    backend: &dyn Backend,
) -> Finding {
    let what = "discovery";
    let tools = match discover(backend).await {
        Ok(tools) => tools,
        Err(error) => {
            return Finding::fault(
                what,
                error.to_string(),
                format!("fix [backends.{name}.discover], or the engine"),
            );
        }
    };
    let invalid = tools.iter().filter_map(|tool| config.tool_rules.read(registry, name, tool).err());
    let invalid: Vec<String> = invalid.map(|problems| problems.to_string()).collect();
    match invalid.len() {
        0 if tools.is_empty() => Finding::warning(
            what,
            "offers no tool",
            format!("change what [backends.{name}.discover] selects, or add to the engine what it selects"),
        ),
        0 => Finding::ok(what, format!("offers {}", pluralize(tools.len(), "tool"))),
        n => Finding::warning(
            what,
            format!("offers {}, {n} of them not usable", pluralize(tools.len(), "tool")),
            format!("fix them in the engine, or define them in the config:\n{}", invalid.join("\n")),
        ),
    }
}

/// Returns the tools that a backend offers.
pub(super) async fn discover(backend: &dyn Backend) -> Result<Vec<DiscoveredTool>, Error> {
    let discovery = backend.abilities().discovery;
    let discovery =
        discovery.ok_or_else(|| Error::config("this kind of backend does not support discovery"))?;
    let timeout_error =
        |_| Error::unavailable(format!("discovery timed out after {} seconds", CHECK_TIMEOUT.as_secs()));
    tokio::time::timeout(CHECK_TIMEOUT, discovery.discover())
        .await
        .unwrap_or_else(|elapsed| Err(timeout_error(elapsed)))
}

/// Returns a warning about unfinished tasks of a backend that were recorded under an identity other than that
/// of the connected engine.
fn other_engine_warning(name: &str, connected: &str, tasks: &UnfinishedRows) -> Option<Finding> {
    let identity = tasks.identity.as_deref().filter(|identity| *identity != connected)?;
    let says = format!(
        "{} of {identity}, but this config connects `{name}` to {connected}: its servers do not process such tasks",
        count_text(tasks)
    );
    let fix = format!(
        "start a server with a config that connects `{name}` to {identity}; to use both in one config, give this \
         backend another name; or abandon each task with `taskbridge tasks abandon ID`; list them with `taskbridge \
         tasks list --state unended --backend {name}`"
    );
    Some(Finding::warning("unfinished tasks", says, fix))
}

/// Formats the number of tasks, with examples.
pub(super) fn count_text(tasks: &UnfinishedRows) -> String {
    let count = usize::try_from(tasks.count).unwrap_or_default();
    let [first, last] = &tasks.ids;
    match count {
        1 => format!("1 unfinished task ({first}) is"),
        2 => format!("2 unfinished tasks ({first}, {last}) are"),
        _ => format!("{count} unfinished tasks ({first}, {last}, ...) are"),
    }
}

/// Formats a count with its noun: "1 tool", "2 tools".
pub fn pluralize(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
