//! Opens the store of a config: for a server, which creates or migrates it, or for a command of an operator,
//! which does neither. It must not read or write rows.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use super::AppError;
use crate::clock::System;
use crate::config::{Config, Database};
use crate::sessions::ServerStore;
#[cfg(feature = "postgres")]
use crate::store::postgres::{PostgresStore, StoreClock};
use crate::store::sqlite::{Mode, SqliteStore};
use crate::store::survey::Survey;
use crate::tasks::audit::AuditLineStore;
use crate::tasks::store::{Holder, StoreError};

/// Number of PostgreSQL connections that one command uses.
#[cfg(feature = "postgres")]
const COMMAND_CONNECTIONS: usize = 2;

/// Opens the store for a server, and creates it if it does not exist.
pub(super) async fn open_store(
    config: &Config,
    holder: &Holder,
) -> Result<(Arc<dyn ServerStore>, Arc<dyn AuditLineStore>), AppError> {
    match &config.store.database {
        Database::Sqlite(path) => {
            make_folder(path.parent().unwrap_or(Path::new("/")))?;
            let store = Arc::new(SqliteStore::open(path, System::clock(), Mode::Threaded)?);
            store.lock_holder(holder).await;
            Ok((Arc::clone(&store) as _, store))
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(connection) => {
            make_folder(&config.store.backends_dir)?;
            let store = Arc::new(PostgresStore::open(connection.clone(), StoreClock::Database).await?);
            Ok((Arc::clone(&store) as _, store))
        }
    }
}

/// Opens a store that exists with the current schema. Nothing is created or migrated.
///
/// # Errors
/// If the store does not exist, has another schema or cannot be reached.
pub async fn open_existing_store(
    database: &Database,
) -> Result<(Arc<dyn Survey>, Arc<dyn AuditLineStore>), StoreError> {
    match database {
        Database::Sqlite(path) => {
            let store = Arc::new(SqliteStore::open_existing(path, System::clock(), Mode::Threaded)?);
            Ok((Arc::clone(&store) as _, store))
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(connection) => {
            let connection = connection.clone().without_migration().with_connections(COMMAND_CONNECTIONS);
            let store = Arc::new(PostgresStore::open(connection, StoreClock::Database).await?);
            Ok((Arc::clone(&store) as _, store))
        }
    }
}

/// Creates a folder for state that only its user can access.
fn make_folder(folder: &Path) -> Result<(), AppError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| AppError::Folder { folder: folder.to_owned(), source })
}
