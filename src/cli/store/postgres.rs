//! The commands for a PostgreSQL store: `taskbridge migrate` and `taskbridge store copy`.

use std::path::{Path, PathBuf};

use taskbridge_sdk::Registry;

use super::runtime;
use crate::cli::{File, load, print};
use crate::config::Database;
use crate::config::locate::Environment;
use crate::store::copy::from_sqlite;
use crate::store::postgres::{self, ConnectionConfig, MigrationReport};
use crate::tasks::store::StoreError;

/// Copies a SQLite file into the database of the config file `to`.
pub(super) fn copy(registry: &Registry, from: &Path, to: PathBuf) -> Result<(), String> {
    let database = database(registry, &File { config: Some(to) })?;
    let result = block_on(from_sqlite(from, database.clone()))?;
    let file = from.display();
    print(&match result {
        Some(result) => {
            format!("copied {file} to {database}: {result}\n{file} is not served any more\n")
        }
        None => format!("{database} has the copy of {file} already; {file} is not served any more\n"),
    });
    Ok(())
}

/// Migrates the schema to the current version.
pub(in crate::cli) fn migrate(registry: &Registry, file: &File) -> Result<(), String> {
    let database = database(registry, file)?;
    let MigrationReport { before, after, applied } = block_on(postgres::migrate(&database))?;
    if applied.is_empty() {
        print(&format!("{database}: up to date, version {after}\n"));
    } else {
        print(&format!("{database}: from version {before} to {after}: {}\n", applied.join(", ")));
    }
    Ok(())
}

/// Returns the PostgreSQL database of a config.
fn database(registry: &Registry, file: &File) -> Result<ConnectionConfig, String> {
    let config = load(registry, file, &Environment::of_process())?.0;
    match config.store.database {
        Database::Postgres(connection) => Ok(connection),
        Database::Sqlite(path) => Err(format!(
            "taskbridge: {}: [store] has the SQLite file {}, which each server migrates at its start: set kind = \
             \"postgres\" and `url`",
            config.file.display(),
            path.display()
        )),
    }
}

fn block_on<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    runtime()?.block_on(work).map_err(|error| format!("taskbridge: {error}"))
}
