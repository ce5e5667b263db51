//! [`Discoveries`]: polls backends for the tools that they offer and merges them with the tools of the
//! config. It must not change a task: the tasks of a removed tool continue with the data in their rows.
//!
//! The store keeps the last result of each backend. So a server offers these tools before the backend answers
//! again, or even connects.
//!
//! Each server runs its own discovery. A server cannot call a tool that it has not discovered yet, but it
//! does act on the tasks of that tool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use taskbridge_sdk::{Backend, DiscoveredTool, Error, ErrorKind, Registry, Result};
use tokio::time::Instant;

use serde::{Deserialize, Serialize};

use super::offered::ConfiguredCatalog;
use crate::catalog::Catalog;
use crate::config::{Discover, ToolRules};
use crate::tasks::store::Store;

/// Timeout of one discovery. A backend may have to read many pages slowly.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(300);
/// How long the first discovery of new backends may delay the caller, so that their tools are offered from
/// the start. Slower backends are added later.
const FIRST_RESULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Backoff after the first failed discovery. It doubles after each further one, up to the configured
/// interval. A longer `Limited` delay of the engine is respected.
const MIN_BACKOFF: Duration = Duration::from_secs(5);
/// Largest discovery result that is kept in the store, in bytes.
const MAX_STORED_BYTES: usize = 4 << 20;
/// Maximum number of names in one log line.
const MAX_LISTED_NAMES: usize = 20;

/// The tools that backends offer.
#[derive(Default)]
pub(super) struct Discoveries {
    sources: BTreeMap<String, Source>,
    /// Problems of tools that are already logged.
    logged_problems: BTreeSet<String>,
    /// Tools that were read from the store, for backends that are not polled yet.
    stored: BTreeMap<String, Tools>,
}

/// Tools by the names that the backend uses for them.
type Tools = BTreeMap<String, DiscoveredTool>;

/// A discovery result as the store keeps it.
#[derive(Serialize, Deserialize)]
struct StoredDiscovery {
    /// Kind of the backend. The result of another kind is ignored.
    kind: String,
    tools: Vec<DiscoveredTool>,
}

/// The discovery state of one backend.
struct Source {
    backend: Arc<dyn Backend>,
    settings: Discover,
    /// The tools of its last result, by name.
    tools: Tools,
    /// True if the store may have an older result.
    unsaved: bool,
    /// Number of failures since the last result.
    failures: u32,
    /// True after the first result or failure.
    has_answered: bool,
    /// The next discovery, including the delay before it.
    pending: BoxFuture<'static, Result<Vec<DiscoveredTool>>>,
}

impl Discoveries {
    /// Polls exactly these backends from now on, and waits up to `FIRST_RESULT_TIMEOUT` for the first result
    /// of new ones. The tools of a backend whose connection is the same are kept. A new connection starts
    /// with the tools that [`Self::load`] read.
    pub(super) async fn set_backends(&mut self, backends: Vec<(String, Arc<dyn Backend>, Discover)>) {
        let mut before = std::mem::take(&mut self.sources);
        for (name, backend, settings) in backends {
            let source = match before.remove(&name) {
                Some(source) if Arc::ptr_eq(&source.backend, &backend) && source.settings == settings => {
                    source
                }
                Some(source) if Arc::ptr_eq(&source.backend, &backend) => {
                    Source { pending: discover_after(backend, Duration::ZERO), settings, ..source }
                }
                _ => Source::new(backend, settings, self.stored.remove(&name).unwrap_or_default()),
            };
            self.sources.insert(name, source);
        }
        let first_results = async {
            while self.sources.values().any(|source| !source.has_answered) {
                self.next_result().await;
            }
        };
        // `changed` receives the results of slower backends.
        drop(tokio::time::timeout(FIRST_RESULT_TIMEOUT, first_results).await);
    }

    /// Reads from the store the last results of backends that are not polled yet.
    pub(super) async fn load(&mut self, store: &dyn Store, rules: &ToolRules) {
        for (name, _) in rules.discovered() {
            if self.sources.contains_key(name) || self.stored.contains_key(name) {
                continue;
            }
            let stored = match store.fact(&fact_name(name)).await {
                Ok(text) => text.and_then(|text| serde_json::from_str::<StoredDiscovery>(&text).ok()),
                Err(error) => {
                    tracing::warn!(%error, "last discovery result of backend `{name}` cannot be read");
                    None
                }
            };
            if let Some(stored) = stored.filter(|stored| rules.kind(name) == Some(stored.kind.as_str())) {
                self.stored.insert(name.to_owned(), by_name(stored.tools));
            }
        }
    }

    /// Writes to the store the results that changed since the last call. A write that fails is not repeated
    /// before the next change.
    pub(super) async fn save(&mut self, store: &dyn Store, rules: &ToolRules) {
        for (name, source) in self.sources.iter_mut().filter(|(_, source)| source.unsaved) {
            source.unsaved = false;
            let Some(kind) = rules.kind(name) else { continue };
            let stored =
                StoredDiscovery { kind: kind.to_owned(), tools: source.tools.values().cloned().collect() };
            // A result that is too large is not kept; each server discovers it again.
            let Some(text) =
                serde_json::to_string(&stored).ok().filter(|text| text.len() <= MAX_STORED_BYTES)
            else {
                continue;
            };
            if let Err(error) = store.set_fact(&fact_name(name), &text).await {
                tracing::warn!(%error, "discovery result of backend `{name}` cannot be stored");
            }
        }
    }

    /// Waits until a backend offers different tools. Cancel safe.
    pub(super) async fn changed(&mut self) {
        while !self.next_result().await {}
    }

    /// Builds a catalog of the tools of the config and those of backends. If a name occurs twice, the
    /// config's tool wins over a backend's, and the first backend by name wins over another.
    pub(super) fn build_catalog(
        &mut self,
        configured_catalog: &ConfiguredCatalog,
        registry: &Registry,
    ) -> Catalog {
        let ConfiguredCatalog { catalog, tool_rules: rules } = configured_catalog;
        let (mut definitions, mut limits) = (Vec::new(), BTreeMap::new());
        let (mut offered_by, mut problems) = (BTreeMap::new(), BTreeSet::new());
        let polled = self.sources.iter().map(|(name, source)| (name, &source.tools));
        let unpolled = self.stored.iter().filter(|(name, _)| {
            !self.sources.contains_key(*name)
                && rules.discovered().any(|(discovered, _)| discovered == name.as_str())
        });
        let all: BTreeMap<&String, &Tools> = unpolled.chain(polled).collect();
        for (backend, tools) in all {
            for tool in tools.values() {
                let name = rules.name(backend, tool);
                if catalog.get(&name).is_some() {
                    continue;
                }
                if let Some(other) = offered_by.get(&name) {
                    problems.insert(format!(
                        "tool `{name}` of backend `{backend}` is omitted: backend `{other}` offers a tool of this \
                         name; set `prefix` in [backends.{backend}.discover]"
                    ));
                    continue;
                }
                match rules.read(registry, backend, tool) {
                    Ok((definition, slots)) => {
                        offered_by.insert(name.clone(), backend);
                        limits.insert(format!("tool:{name}"), None);
                        limits.extend(slots.into_iter().map(|(slot, limit)| (slot, Some(limit))));
                        definitions.push(definition);
                    }
                    Err(error) => {
                        problems.insert(format!("tool `{name}` of backend `{backend}` is omitted: {error}"));
                    }
                }
            }
        }
        for problem in problems.difference(&self.logged_problems) {
            tracing::warn!("{problem}");
        }
        self.logged_problems = problems;
        catalog.with_tools(definitions, limits)
    }

    /// Waits for the next result. Returns true if it differs from the previous one.
    async fn next_result(&mut self) -> bool {
        if self.sources.is_empty() {
            return std::future::pending().await;
        }
        let pending = self.sources.values_mut().map(|source| &mut source.pending);
        let (result, index, _) = select_all(pending).await;
        match self.sources.iter_mut().nth(index) {
            Some((name, source)) => source.apply(name, result),
            None => false,
        }
    }
}

impl Source {
    /// Creates a source that previously offered these tools.
    fn new(backend: Arc<dyn Backend>, settings: Discover, tools: Tools) -> Self {
        let pending = discover_after(Arc::clone(&backend), Duration::ZERO);
        Self { backend, settings, tools, unsaved: false, failures: 0, has_answered: false, pending }
    }

    /// Records a result and schedules the next discovery. Returns true if the offered tools changed.
    fn apply(&mut self, name: &str, result: Result<Vec<DiscoveredTool>>) -> bool {
        self.has_answered = true;
        let tools = match result {
            Ok(tools) => tools,
            Err(error) => {
                let wait = self.wait_after(&error);
                self.pending = discover_after(Arc::clone(&self.backend), wait);
                if self.failures == 1 {
                    let count = self.tools.len();
                    tracing::warn!(
                        "discovery of backend `{name}` failed: {error}; the previous tools stay ({count}), and discovery is retried"
                    );
                }
                return false;
            }
        };
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!("discovery of backend `{name}` succeeds again");
        }
        self.pending = discover_after(Arc::clone(&self.backend), self.settings.every);
        let before = std::mem::replace(&mut self.tools, by_name(tools));
        let differences = differences(&before, &self.tools);
        self.unsaved |= !differences.is_empty();
        if !differences.is_empty() {
            tracing::info!("tools of backend `{name}` changed ({}): {differences}", self.tools.len());
        }
        !differences.is_empty()
    }

    fn wait_after(&mut self, error: &Error) -> Duration {
        let doubled = MIN_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(self.settings.every);
        self.failures = self.failures.saturating_add(1);
        match error.kind() {
            ErrorKind::Limited { after: Some(after) } => doubled.max(after),
            _ => doubled,
        }
    }
}

/// Returns the key under which the store keeps the last result of a backend.
fn fact_name(backend: &str) -> String {
    format!("discovery:{backend}")
}

fn by_name(tools: Vec<DiscoveredTool>) -> Tools {
    tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect()
}

/// Runs the discovery of a backend after a delay.
fn discover_after(
    backend: Arc<dyn Backend>,
    delay: Duration,
) -> BoxFuture<'static, Result<Vec<DiscoveredTool>>> {
    let start_at = Instant::now() + delay;
    Box::pin(async move {
        tokio::time::sleep_until(start_at).await;
        let Some(discovery) = backend.abilities().discovery else {
            return Err(Error::config("discovery is not supported: remove `discover`"));
        };
        match tokio::time::timeout(DISCOVERY_TIMEOUT, discovery.discover()).await {
            Ok(tools) => tools,
            Err(_) => {
                let message = format!("discovery timed out after {} seconds", DISCOVERY_TIMEOUT.as_secs());
                Err(Error::unavailable(message))
            }
        }
    })
}

/// "added: a, b; changed: c"
fn differences(before: &BTreeMap<String, DiscoveredTool>, now: &BTreeMap<String, DiscoveredTool>) -> String {
    let names = |filter: &dyn Fn(&str) -> bool, tools: &BTreeMap<String, DiscoveredTool>| -> Vec<String> {
        tools.keys().filter(|name| filter(name)).cloned().collect()
    };
    let groups = [
        ("added", names(&|name| !before.contains_key(name), now)),
        ("removed", names(&|name| !now.contains_key(name), before)),
        ("changed", names(&|name| before.get(name).is_some_and(|tool| now.get(name) != Some(tool)), now)),
    ];
    let groups = groups.into_iter().filter(|(_, names)| !names.is_empty());
    groups.map(|(word, names)| format!("{word}: {}", join_names(&names))).collect::<Vec<_>>().join("; ")
}

fn join_names(names: &[String]) -> String {
    match names.len().checked_sub(MAX_LISTED_NAMES) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MAX_LISTED_NAMES].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::sim::{Fault, Mode, Operation, SimEngine};

    use super::*;

    fn tool(name: &str) -> DiscoveredTool {
        DiscoveredTool { name: name.to_owned(), ..DiscoveredTool::default() }
    }

    fn settings(every: u64) -> Discover {
        Discover { every: Duration::from_secs(every), ..Discover::default() }
    }

    /// The first retry comes soon, the later ones less often. A retry-after of the engine is respected.
    #[tokio::test(start_paused = true)]
    async fn discovery_of_unavailable_backend_backs_off() {
        let engine = SimEngine::new(Mode::Keyed);
        engine.offer(vec![tool("a")]);
        engine.set_outage(true);
        let (mut all, started) = (Discoveries::default(), Instant::now());
        all.set_backends(vec![("sim".to_owned(), engine.backend(), settings(3600))]).await;
        assert!(started.elapsed() < MIN_BACKOFF, "the caller does not wait for a failed backend");
        let mut polled_at = Vec::new();
        for _ in 0..4 {
            assert!(!all.next_result().await);
            polled_at.push(started.elapsed().as_secs());
        }
        assert_eq!(polled_at, [5, 15, 35, 75]);
        engine.set_outage(false);
        all.changed().await;
        assert_eq!(started.elapsed().as_secs(), 155);
        assert_eq!(all.sources["sim"].tools.keys().collect::<Vec<_>>(), ["a"]);

        // A backend whose discovery fails keeps its tools.
        engine.inject(Operation::Discover, Fault::Limited(Duration::from_secs(100)));
        engine.offer(vec![tool("b")]);
        let since = Instant::now();
        assert!(!all.next_result().await);
        assert_eq!((since.elapsed().as_secs(), all.sources["sim"].tools.len()), (3600, 1));
        all.changed().await;
        assert_eq!(since.elapsed().as_secs(), 3700, "the delay of the engine is used");
        assert_eq!(all.sources["sim"].tools.keys().collect::<Vec<_>>(), ["b"]);
    }

    /// Startup stops waiting after `FIRST_RESULT_TIMEOUT`, and the late response is still used.
    #[tokio::test(start_paused = true)]
    async fn slow_discovery_does_not_delay_startup() {
        let engine = SimEngine::new(Mode::Keyed);
        engine.offer(vec![tool("a")]);
        engine.inject(Operation::Discover, Fault::Slow(Duration::from_secs(60)));
        let (mut all, started) = (Discoveries::default(), Instant::now());
        all.set_backends(vec![("sim".to_owned(), engine.backend(), settings(300))]).await;
        assert_eq!(started.elapsed(), FIRST_RESULT_TIMEOUT);
        all.changed().await;
        assert_eq!(started.elapsed().as_secs(), 60);
    }

    /// A changed period or backend is polled at once; an unchanged one keeps its schedule.
    #[tokio::test(start_paused = true)]
    async fn discovery_restarts_only_when_changed() {
        let engine = SimEngine::new(Mode::Keyed);
        engine.offer(vec![tool("a")]);
        let (mut all, backend) = (Discoveries::default(), engine.backend());
        let backends =
            |every: u64| vec![("sim".to_owned(), Arc::clone(&backend) as Arc<dyn Backend>, settings(every))];
        all.set_backends(backends(300)).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        engine.offer(vec![tool("b")]);
        all.set_backends(backends(300)).await;
        let started = Instant::now();
        all.changed().await;
        assert_eq!(started.elapsed().as_secs(), 100);
        engine.offer(Vec::new());
        let started = Instant::now();
        all.set_backends(backends(600)).await;
        all.changed().await;
        assert!(started.elapsed() < MIN_BACKOFF);
        all.set_backends(Vec::new()).await;
        assert!(all.sources.is_empty());
    }

    /// The text lists added, removed and changed tools, and counts those beyond the first 20.
    #[test]
    fn tool_differences_name_every_change() {
        let map =
            |tools: &[DiscoveredTool]| tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect();
        let changed = DiscoveredTool { title: Some("New".to_owned()), ..tool("c") };
        let text = differences(&map(&[tool("a"), tool("c")]), &map(&[tool("b"), changed]));
        assert_eq!(text, "added: b; removed: a; changed: c");
        let many: Vec<_> = (0..23).map(|n| tool(&format!("t{n:02}"))).collect();
        assert!(differences(&map(&[]), &map(&many)).ends_with("t19 and 3 more"));
    }
}
