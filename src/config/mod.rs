//! The config: parses strict TOML into a resolved [`Config`], and reads the environment (see [`locate`]). It
//! reports all errors that are detectable without starting anything at once, with file, line, field and fix.
//!
//! `reading` turns text into values. `callers`, `server`, `tools` and `offers` have the tables: their shapes
//! define the accepted fields. Each folder uses only those before it in the order `reading`, `callers`,
//! `server`, `tools`; `offers` uses only `reading`. This module reads all tables and builds the result. It
//! must not connect to anything.

mod callers;
mod offers;
mod reading;
pub mod schema;
mod server;
mod tools;

pub use callers::auth::{ApiKey, AuthMode, Authentication};
pub use callers::certificates::CertificateRule;
pub use callers::issuers::OauthSettings;
pub use reading::locate;
pub use reading::parts::{Differences, Parts};
pub use reading::problem::{Problem, Problems};
pub use reading::sources::Sources;
pub use server::console::Console;
pub use server::limits::Limits;
pub use server::metrics::MetricsPage;
pub use server::owner_limits::OwnerLimits;
pub use server::shape::{Log, LogFormat, Network, Reconciler, Server};
pub use server::store::{Database, StoreSettings};
pub use server::telemetry::TraceExport;
pub use tools::backends::Backend;
pub use tools::discover::Discover;
pub use tools::discovered::{ToolRules, as_toml};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use taskbridge_sdk::{Registry, Timestamp};

use crate::access::Rules;
use crate::catalog::{Definition, Prompts, Resources};
use crate::mcp::transport::http::Tls;
use crate::notify::Receiver;
use crate::seal::Key;
use callers::{access, auth};
use offers::{prompts, resources, values};
use reading::include;
use reading::reader::Reader;
use reading::secret;
use server::shape::{ConcurrencyGroup, Lifetime};
use server::store::Store;
use server::{audit, check, console, limits, metrics, notify, seal, store, telemetry, tls};
use tools::{backends, definition, programs, slots};

/// A valid config.
#[derive(Debug)]
pub struct Config {
    /// The file.
    pub file: PathBuf,
    /// Its folder, the base of relative paths; absolute.
    pub dir: PathBuf,
    /// Listen address and request settings.
    pub server: Server,
    /// Settings of the server log.
    pub log: Log,
    /// TLS settings.
    pub tls: Option<Tls>,
    /// Limits per caller, connection and message.
    pub bounds: Limits,
    /// Authentication settings.
    pub auth: Authentication,
    /// The rules of `[access]`: the default for tools, and the rules for tasks of tools that are no longer
    /// offered.
    pub access: Rules,
    /// Settings of the console.
    pub console: Console,
    /// Sealing keys: the first one seals, all of them open. If empty, the store's own key is used.
    pub seal: Vec<Key>,
    /// Settings of the audit log.
    pub audit: crate::audit::Settings,
    /// Settings of the store.
    pub store: StoreSettings,
    /// Settings of the reconciler.
    pub reconciler: Reconciler,
    /// The backends, by name.
    pub backends: BTreeMap<String, Backend>,
    /// The tools.
    pub tools: Vec<Definition>,
    /// The settings for reading discovered tools.
    pub tool_rules: ToolRules,
    /// The limit of each slot, in jobs; `None` is unlimited.
    pub slot_limits: BTreeMap<String, Option<u32>>,
    /// The resources of the config, apart from those of jobs.
    pub resources: Resources,
    /// The prompts.
    pub prompts: Prompts,
    /// The receivers of notices.
    pub notify: Vec<Receiver>,
    /// The metrics page.
    pub metrics: Option<MetricsPage>,
    /// The trace collector.
    pub telemetry: Option<TraceExport>,
    /// Digests of the config by part.
    pub parts: Parts,
    /// The environment variables that settings of the server and of backends refer to, in order of their names.
    pub variables: Vec<String>,
}

/// The result of reading a config file, valid or not.
#[derive(Debug)]
pub struct ConfigLoad {
    /// The config, or its problems.
    pub config: Result<Config, Problems>,
    /// The file and those that it refers to, with their state before they were read.
    pub sources: Sources,
}

/// The tables of a config file, and the list of files that it includes.
const TABLES: [&str; 21] = [
    "include",
    "server",
    "limits",
    "log",
    "auth",
    "access",
    "console",
    "seal",
    "audit",
    "store",
    "reconciler",
    "lifetime",
    "concurrency_groups",
    "adapters",
    "backends",
    "tools",
    "resources",
    "prompts",
    "notify",
    "metrics",
    "telemetry",
];

/// Reads a config file.
///
/// # Errors
/// If the config is invalid: all its problems.
pub fn load(file: &Path, registry: &Registry, state_home: Option<&Path>) -> Result<Config, Problems> {
    read(file, registry, state_home).config
}

/// Reads a config file, and returns the result with the files that were read.
pub fn read(file: &Path, registry: &Registry, state_home: Option<&Path>) -> ConfigLoad {
    read_file(file, registry, state_home, true)
}

/// Reads a config file without the environment variables and files of secrets. The result must not be served.
///
/// # Errors
/// If the config is invalid: all its problems.
pub fn check_without_secrets(
    file: &Path,
    registry: &Registry,
    state_home: Option<&Path>,
) -> Result<Config, Problems> {
    read_file(file, registry, state_home, false).config
}

fn read_file(
    file: &Path,
    registry: &Registry,
    state_home: Option<&Path>,
    reveals_secrets: bool,
) -> ConfigLoad {
    let mut sources = Sources::default();
    sources.add(file);
    let unreadable = |error: std::io::Error| {
        let message = format!("the config file cannot be read: {error}");
        Problems(vec![Problem { file: file.to_owned(), line: None, field: String::new(), message }])
    };
    let text = std::fs::read_to_string(file);
    let dir = std::path::absolute(file);
    let config = match (text.map_err(unreadable), dir.map_err(unreadable)) {
        (Ok(text), Ok(dir)) => {
            let dir = dir.parent().unwrap_or(Path::new("/"));
            let inputs = ParseInputs { file, dir, registry, state_home, reveals_secrets };
            read_text(&text, &inputs, &mut sources)
        }
        (Err(problems), _) | (_, Err(problems)) => Err(problems),
    };
    ConfigLoad { config, sources }
}

/// Reads the text of a config file. `dir` is the base of relative paths.
///
/// # Errors
/// If the config is invalid: all its problems.
pub fn parse(
    file: &Path,
    dir: &Path,
    text: &str,
    registry: &Registry,
    state_home: Option<&Path>,
) -> Result<Config, Problems> {
    let inputs = ParseInputs { file, dir, registry, state_home, reveals_secrets: true };
    read_text(text, &inputs, &mut Sources::default())
}

/// The inputs of a config other than its text.
struct ParseInputs<'a> {
    file: &'a Path,
    /// The base of relative paths.
    dir: &'a Path,
    registry: &'a Registry,
    state_home: Option<&'a Path>,
    /// False if secrets are not read.
    reveals_secrets: bool,
}

fn read_text(text: &str, inputs: &ParseInputs<'_>, sources: &mut Sources) -> Result<Config, Problems> {
    let ParseInputs { file, dir, registry, state_home, reveals_secrets } = *inputs;
    let source = include::load(file, dir, text, sources)?;
    let mut reader = Reader::new(&source);
    reader.reveals_secrets = reveals_secrets;
    let mut fields = source.fields.clone();
    let mut part = |name: &str| fields.remove(name);

    let server: Server = reader.section("server", part("server"));
    let bounds: Limits = reader.section("limits", part("limits"));
    let log: Log = reader.section("log", part("log"));
    let auth: auth::Auth = reader.section("auth", part("auth"));
    let access: access::Access = reader.section("access", part("access"));
    let console: Console = reader.section("console", part("console"));
    let seal: seal::Seal = reader.section("seal", part("seal"));
    let audit: audit::Audit = reader.section("audit", part("audit"));
    let store: Store = reader.section("store", part("store"));
    let telemetry: telemetry::Telemetry = reader.section("telemetry", part("telemetry"));
    let metrics: metrics::Metrics = reader.section("metrics", part("metrics"));
    let reconciler: Reconciler = reader.section("reconciler", part("reconciler"));
    let lifetime: Lifetime = reader.section("lifetime", part("lifetime"));
    let groups: BTreeMap<String, ConcurrencyGroup> =
        reader.section("concurrency_groups", part("concurrency_groups"));
    let programs = programs::read(&mut reader, registry, dir, part("adapters"));
    let backend_tables = reader.table("backends", part("backends"));
    let tool_tables = reader.table("tools", part("tools"));
    let resource_tables = reader.table("resources", part("resources"));
    let prompt_tables = reader.table("prompts", part("prompts"));
    let notify_tables = part("notify");
    reader.report_unknown_fields("", &fields, &TABLES);

    let client_ca = server.tls.as_ref().is_some_and(tls::TlsTable::asks_clients);
    let auth = auth::read(&mut reader, auth, dir, client_ca);
    check::all(&mut reader, &server, &auth, &reconciler, &lifetime);
    limits::check(&mut reader, &bounds);
    console::check(&mut reader, &console, &server, &auth);
    let callers = access::PossibleCallers::of(&auth);
    let access = access::rules(&mut reader, "access", Some(&access), &Rules::default(), &callers);
    let backend_names: Vec<String> = backend_tables.keys().cloned().collect();
    let (mut backends, mut faulty) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in backend_tables {
        match backends::read(&mut reader, registry, store.is_shared(), dir, &programs, (&name, value)) {
            Ok(backend) => {
                backends::check_access(&mut reader, &name, &backend, &access, &callers);
                backends.insert(name, backend);
            }
            Err(Some(partial)) => {
                faulty.insert(name, partial);
            }
            Err(None) => {}
        }
    }
    let context = definition::Context {
        registry,
        dir,
        backends: &backends,
        faulty: &faulty,
        backend_names: &backend_names,
        groups: &groups,
        lifetime: &lifetime,
        access: &access,
        callers: &callers,
        owner: &bounds.owner,
    };
    let tool_names: Vec<String> = tool_tables.keys().cloned().collect();
    let mut definitions = Vec::new();
    let mut used_slots = BTreeMap::new();
    for (name, value) in tool_tables {
        if let Some((definition, slots)) = definition::read(&mut reader, &context, &name, value) {
            definitions.push(definition);
            used_slots.extend(slots);
        }
    }
    let slot_limits = slots::limits(used_slots, tool_names.iter().map(String::as_str), &backends, &groups);
    let tools = values::Tools { valid: &definitions, names: &tool_names };
    let resources = resources::read(&mut reader, resource_tables, dir, tools);
    let all_resources = reader.is_clean("resources");
    let context = prompts::Context { dir, tools, resources: &resources, all_resources };
    let prompts = prompts::read(&mut reader, prompt_tables, context);
    let tls = tls::read(&mut reader, server.tls.as_ref(), dir);
    let seal = seal::keys(&mut reader, &seal, dir);
    let notify = notify::read(&mut reader, notify_tables, dir, &tool_names);
    let telemetry = telemetry::traces(&mut reader, &telemetry, dir);
    let metrics = metrics::page(&mut reader, &metrics, dir);
    let audit = audit::settings(&mut reader, audit, dir);
    let store = store::resolve(&mut reader, store, dir, state_home);
    sources.extend(reader.sources());
    let (rules, owner) = (access.clone(), bounds.owner.clone());
    let tool_rules = ToolRules {
        dir: dir.to_owned(),
        backends: backends.clone(),
        groups,
        lifetime,
        access: rules,
        callers,
        owner,
    };
    let parts = Parts::of(&source.fields, reader.contents());
    let variables = secret::variables(&source.fields);
    reader.finish(Config {
        file: file.to_owned(),
        dir: dir.to_owned(),
        server,
        tls,
        bounds,
        log,
        auth,
        access,
        console,
        seal,
        audit,
        store,
        reconciler,
        backends,
        tools: definitions,
        tool_rules,
        slot_limits,
        resources,
        prompts,
        notify,
        metrics,
        telemetry,
        parts,
        variables,
    })
}

impl Config {
    /// Returns warnings about this valid config.
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let mut all = check::warnings(&self.server, self.tls.as_ref(), now);
        all.extend(limits::warning(&self.bounds));
        let lease = self.reconciler.lease;
        all.extend(self.backends.iter().flat_map(|(name, it)| backends::timeout_warnings(name, it, lease)));
        all
    }

    /// Returns the settings of the console in the browser, or `None` if there is none.
    pub fn console(&self) -> Option<crate::console::Settings> {
        self.console.settings(&self.server, &self.auth)
    }

    /// Replaces the listen address of the file.
    ///
    /// # Errors
    /// If other machines could reach that address and the config does not authenticate callers.
    pub fn listen_on(&mut self, address: SocketAddr) -> Result<(), String> {
        check::check_listen_address(address, &self.auth)?;
        self.server.listen = address;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
