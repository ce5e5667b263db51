//! The checks of `taskbridge doctor`: the config, the store and its sealed values, issuers, receivers, and
//! backends (`backend_checkup`). This module must not change anything, nor start anything that a
//! server would start.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use taskbridge_sdk::{DiscoveredTool, Error, ErrorKind, Finding, Registry, Verdict};

use super::backend_checkup::{check_backend, count_text, discover, pluralize};
use super::connect::Connector;
use super::stores::open_existing_store;
use crate::auth::oauth::{self, TrustedIssuer};
use crate::catalog::{Catalog, Definition};
use crate::clock::{self, Clock as _, System};
use crate::config::{self, Config, Database};
use crate::notify::Http;
use crate::seal::Seal;
use crate::store::survey::{Survey, UnfinishedRows};
use crate::tasks::store::StoreError;
use crate::tasks::task::Job;
use crate::tasks::tools::ToolCatalog as _;

/// Longest tool name that all model APIs accept.
const MAX_NAME_LENGTH: usize = 64;
/// Number of rows that are read at a time.
const PAGE: usize = 500;
/// Clock difference that causes a warning. It is harmless, because everything uses the store's clock.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(120);

/// One check and the part that it belongs to.
#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    /// "config", "store", "notify", "issuer ISSUER" or "backend NAME".
    pub of: String,
    /// The result of the check.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Checks everything that a server with this config needs.
pub async fn run_checks(config: &Config, registry: &Registry, program: &Path) -> Vec<CheckResult> {
    let mut all = Vec::new();
    let mut add = |of: &str, findings: Vec<Finding>| {
        all.extend(findings.into_iter().map(|finding| CheckResult { of: of.to_owned(), finding }));
    };
    add("config", check_config(config));
    let (findings, unfinished) = check_store(config).await;
    add("store", findings);
    add("store", unfinished.iter().filter_map(|tasks| missing_backend_warning(config, tasks)).collect());
    for issuer in config.auth.oauth.iter().flat_map(|tokens| &tokens.issuers) {
        add(&format!("issuer {}", issuer.claim_rules.issuer), check_issuer(issuer).await);
    }
    for receiver in &config.notify {
        let what = receiver.origin();
        let finding = match Http.probe(receiver).await {
            Ok(status) => Finding::ok(what, format!("reachable (HEAD: {status})")),
            Err(why) => Finding::fault(
                what,
                why,
                "start the receiver, or fix `url`, `proxy` or `ca_file` in [[notify]]",
            ),
        };
        add("notify", vec![finding]);
    }
    for (name, backend) in &config.backends {
        let unfinished_here: Vec<&UnfinishedRows> =
            unfinished.iter().filter(|tasks| tasks.backend == *name).collect();
        add(
            &format!("backend {name}"),
            check_backend(config, registry, program, name, backend, &unfinished_here).await,
        );
    }
    all
}

/// Checks whether this server could verify tokens of an issuer.
async fn check_issuer(issuer: &TrustedIssuer) -> Vec<Finding> {
    let check = match oauth::check_issuer(issuer.clone()).await {
        Ok(check) => check,
        Err(why) => {
            return vec![Finding::fault("way", why, "fix `ca_file` or `proxy` in [[auth.issuers]]")];
        }
    };
    let keys = match check.keys {
        Ok(n) => Finding::ok("keys", format!("tokens can be verified with {}", pluralize(n, "key"))),
        Err(why) => {
            Finding::fault("keys", why, "fix `issuer`, `jwks_uri`, `ca_file` or `proxy` in [[auth.issuers]]")
        }
    };
    let introspection = check.introspection.map(|result| match result {
        Ok(()) => Finding::ok("introspection", "the endpoint accepts introspection requests"),
        Err(why) => Finding::fault(
            "introspection",
            why,
            "fix `endpoint`, `client_id` or `client_secret` in [auth.issuers.introspection]",
        ),
    });
    let sign_in = check.sign_in.map(|result| match result {
        Ok(()) => Finding::ok("sign-in", "the metadata has what signing in to the console needs"),
        Err(why) => Finding::fault("sign-in", why, "fix `issuer`, or remove [auth.issuers.sign_in]"),
    });
    [Some(keys), introspection, sign_in].into_iter().flatten().collect()
}

/// Why a backend offers no tools.
pub enum DiscoveryFailure {
    /// The backend has no discovery, or none with this config.
    Unable(Error),
    /// The discovery failed.
    Failed(Error),
}

/// Returns the tools that the discovery of a backend finds, sorted by name.
///
/// # Errors
/// See [`DiscoveryFailure`].
pub async fn discover_tools(
    config: &Config,
    registry: &Registry,
    program: &Path,
    name: &str,
    backend: &config::Backend,
) -> Result<Vec<DiscoveredTool>, DiscoveryFailure> {
    let connector = Connector::of(config, registry, program, None);
    let connected = connector.connect(name, backend).await.map_err(DiscoveryFailure::Failed)?;
    let mut tools = discover(&*connected).await.map_err(|error| match error.kind() {
        ErrorKind::Config => DiscoveryFailure::Unable(error),
        _ => DiscoveryFailure::Failed(error),
    })?;
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tools)
}

fn check_config(config: &Config) -> Vec<Finding> {
    let (tools, backends) =
        (pluralize(config.tools.len(), "tool"), pluralize(config.backends.len(), "backend"));
    let says = format!("{}: {tools} on {backends}", config.file.display());
    let mut findings = vec![Finding::ok("file", says)];
    for Definition { name, description, .. } in &config.tools {
        let what = format!("tool `{name}`");
        if description.is_none() {
            let fix = format!("set `description` in [tools.{name}]: what it does and when to use it");
            findings.push(Finding::warning(&*what, "no description, by which models choose a tool", fix));
        }
        if name.len() > MAX_NAME_LENGTH {
            let says = format!(
                "the name has {} characters, and some clients refuse more than {MAX_NAME_LENGTH}",
                name.len()
            );
            findings.push(Finding::warning(what, says, "shorten the name"));
        }
    }
    findings
}

/// Returns a warning about unfinished tasks whose backend is missing in this config.
fn missing_backend_warning(config: &Config, tasks: &UnfinishedRows) -> Option<Finding> {
    let name = &tasks.backend;
    if config.backends.contains_key(name) {
        return None;
    }
    let engine = tasks.identity.as_ref().map(|identity| format!(" ({identity})")).unwrap_or_default();
    let says = format!(
        "{} of backend `{name}`{engine}, which is not in this config: servers with this config do not process such tasks",
        count_text(tasks)
    );
    let fix = format!(
        "start a server with a config that has [backends.{name}], or abandon each task with `taskbridge tasks abandon \
         ID`; list them with `taskbridge tasks list --state unended --backend {name}`"
    );
    Some(Finding::warning("unfinished tasks", says, fix))
}

async fn check_store(config: &Config) -> (Vec<Finding>, Vec<UnfinishedRows>) {
    let location = config.store.database.to_string();
    match &config.store.database {
        Database::Sqlite(path) if !path.exists() => {
            return (
                vec![Finding::ok(
                    "database",
                    format!("{location}: does not exist yet, the first server creates it"),
                )],
                Vec::new(),
            );
        }
        _ => {}
    }
    let check = async {
        let (store, _) = open_existing_store(&config.store.database).await?;
        let clock = Finding::clock("the store's", store.now().await?, System.now(), MAX_CLOCK_DIFFERENCE);
        // A wrong clock of this machine is only a warning, because tasks use the store's clock.
        let clock = Finding { verdict: clock.verdict.min(Verdict::Warning), ..clock };
        let database = Finding::ok("database", format!("{location}: the schema matches this version"));
        Ok((
            vec![database, clock, check_sealed_arguments(config, &*store).await?],
            store.count_unfinished().await?,
        ))
    };
    check.await.unwrap_or_else(|error: StoreError| {
        let fix = match error {
            _ if config.store.database.is_shared() => {
                "make the database reachable with the settings of [store]; if its schema is the cause, run `taskbridge migrate`"
            }
            // Other errors of a file include the fix in their own text.
            StoreError::Broken(_) => "follow the instructions in the error",
            _ => "make the file readable and writable for the server",
        };
        (vec![Finding::fault("database", error.to_string(), fix)], Vec::new())
    })
}

/// Checks whether the sealed arguments that are still needed can be opened.
async fn check_sealed_arguments(config: &Config, store: &dyn Survey) -> Result<Finding, StoreError> {
    let (mut total, mut lost, mut after) = (0usize, 0usize, String::new());
    let mut catalog: Option<Catalog> = None;
    loop {
        let rows = store.rows(&after, PAGE).await?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.id);
        for task in rows.iter().filter_map(|row| row.task.as_ref().ok()) {
            let (Job::Pending { spec, .. } | Job::Starting { spec, .. }) = &task.job else { continue };
            if spec.sealed.is_none() {
                continue;
            }
            // A store with such a row already has its own key, so this call creates none.
            if catalog.is_none() {
                let seal =
                    Seal::new(&store.seal_key(clock::random(&*System::entropy())).await?, System::entropy());
                seal.replace(&config.seal);
                catalog = Some(Catalog::new(Vec::new(), BTreeMap::new(), seal));
            }
            total += 1;
            lost += usize::from(catalog.as_ref().is_some_and(|catalog| catalog.open(spec).is_err()));
        }
    }
    let keys = match config.seal.len() {
        0 => "the store's own key".to_owned(),
        n => format!("{n} of [seal] keys"),
    };
    let what = "sealed arguments";
    Ok(match lost {
        0 if total == 0 => Finding::ok(what, format!("no waiting task has any; {keys} can open new ones")),
        0 => {
            let wait = if total == 1 { "waits" } else { "wait" };
            Finding::ok(
                what,
                format!(
                    "{} {wait} with sealed arguments, and {keys} can open them",
                    pluralize(total, "task")
                ),
            )
        }
        _ => Finding::fault(
            what,
            format!(
                "{lost} of {} cannot start: {keys} cannot open their arguments",
                pluralize(total, "task")
            ),
            "add the key that sealed them to [seal] keys again, after the first one",
        ),
    })
}
