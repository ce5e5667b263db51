//! Opens the store of a config for an operator's command: one that is there, of the schema that this program knows, and
//! nothing is made or migrated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Registry;

use super::{File, load};
use crate::audit::Settings;
use crate::clock::System;
use crate::config::locate::Environment;
use crate::config::{Config, Database};
use crate::notify::Receivers;
use crate::store::postgres::{PostgresStore, StoreClock};
use crate::store::sqlite::{Mode, SqliteStore};
use crate::store::survey::Survey;
use crate::tasks::audit::Lines;

/// Connections that one command uses.
const CONNECTIONS: usize = 2;

/// A store, and what must be known with it.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Survey>,
    /// Where it is, for people.
    pub(super) place: String,
    /// The name under which this command writes.
    pub(super) name: String,
    /// True if histories are kept.
    pub(super) keeps: bool,
    /// For how long.
    pub(super) history: Duration,
    /// Who is owed notices of what a command does.
    pub(super) receivers: Receivers,
    /// How long servers lease rows.
    pub(super) lease: Duration,
    /// Where the audit log is kept.
    pub(super) audit: Settings,
    /// The audit log in the store.
    pub(super) lines: Arc<dyn Lines>,
    /// The most rows that may hold each slot.
    pub(super) limits: BTreeMap<String, Option<u32>>,
}

/// Opens the store that the config names.
pub(super) async fn open(registry: &Registry, file: &File) -> Result<Opened, String> {
    let config: Config = load(registry, file, &Environment::of_process())?.0;
    let place = config.store.database.to_string();
    let receivers = Receivers::new(config.notify);
    let (store, lines): (Arc<dyn Survey>, Arc<dyn Lines>) = match config.store.database {
        Database::Sqlite(path) => {
            let opened = SqliteStore::open_existing(&path, System::clock(), Mode::Threaded);
            let store = Arc::new(opened.map_err(|error| format!("taskbridge: {error}"))?);
            (Arc::clone(&store) as _, store)
        }
        Database::Postgres(place) => {
            let place = place.migrated_by_hand().with_connections(CONNECTIONS);
            let opened = PostgresStore::open(place, StoreClock::Database).await;
            let store = Arc::new(opened.map_err(|error| format!("taskbridge: {error}"))?);
            (Arc::clone(&store) as _, store)
        }
    };
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let audit = config.audit;
    let (history, lease) = (config.store.history, config.reconciler.lease);
    let name = format!("operator@{node}");
    Ok(Opened {
        store,
        place,
        name,
        keeps: !history.is_zero(),
        history,
        receivers,
        lease,
        audit,
        lines,
        limits: config.limits,
    })
}
