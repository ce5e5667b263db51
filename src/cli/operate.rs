//! Opens the store of a config for an operator's command, with the settings that commands need. The store
//! must exist with the current schema.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Registry;

use super::{File, load};
use crate::app::open_existing_store;
use crate::audit::Settings;
use crate::config::Config;
use crate::config::locate::Environment;
use crate::notify::Receivers;
use crate::store::survey::Survey;
use crate::tasks::audit::AuditLineStore;

/// An open store, with the settings that commands need.
pub(super) struct OperatorContext {
    pub(super) store: Arc<dyn Survey>,
    /// The location of the store, for messages.
    pub(super) location: String,
    /// The replica name under which this command writes.
    pub(super) replica: String,
    /// True if histories are recorded.
    pub(super) history_enabled: bool,
    /// Retention of histories.
    pub(super) history_retention: Duration,
    /// The receivers of notices about changes by a command.
    pub(super) receivers: Receivers,
    /// Lease duration of servers.
    pub(super) lease: Duration,
    /// Settings of the audit log.
    pub(super) audit: Settings,
    /// The audit log in the store.
    pub(super) audit_lines: Arc<dyn AuditLineStore>,
    /// The limit of each slot, in jobs; `None` is unlimited.
    pub(super) limits: BTreeMap<String, Option<u32>>,
}

/// Opens the store of the config.
pub(super) async fn open(registry: &Registry, file: &File) -> Result<OperatorContext, String> {
    let config: Config = load(registry, file, &Environment::of_process())?.0;
    let location = config.store.database.to_string();
    let receivers = Receivers::new(config.notify);
    let opened = open_existing_store(&config.store.database).await;
    let (store, audit_lines) = opened.map_err(|error| format!("taskbridge: {error}"))?;
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let audit = config.audit;
    let (history_retention, lease) = (config.store.history, config.reconciler.lease);
    let replica = format!("operator@{node}");
    Ok(OperatorContext {
        store,
        location,
        replica,
        history_enabled: !history_retention.is_zero(),
        history_retention,
        receivers,
        lease,
        audit,
        audit_lines,
        limits: config.slot_limits,
    })
}
