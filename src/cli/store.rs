//! `taskbridge migrate` and `taskbridge store`: what is done to a store by hand.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use taskbridge_sdk::Registry;

use super::{File, load, print};
use crate::config::Database;
use crate::config::locate::Environment;
use crate::store::copy;
use crate::store::postgres::{self, Migrated, Place};
use crate::tasks::store::StoreError;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Copy a SQLite store into an empty PostgreSQL store, with tasks that run. Stop the server first; start it again
    /// with the new config.
    Copy {
        /// What is copied: `sqlite:` and the path of the database file.
        #[arg(long, value_name = "sqlite:FILE", value_parser = sqlite)]
        from: PathBuf,
        /// The config file whose [store] names the PostgreSQL database.
        #[arg(long, value_name = "CONFIG")]
        to: PathBuf,
    },
}

fn sqlite(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Err("write sqlite: and the path of the database file".to_owned()),
    }
}

/// Does what the command line says.
pub(super) fn run(registry: &Registry, command: Command) -> Result<(), String> {
    let Command::Copy { from, to } = command;
    let place = place(registry, &File { config: Some(to) })?;
    let copied = block_on(copy::from_sqlite(&from, place.clone()))?;
    print(&format!("copied {} to {place}: {copied}\n", shown(&from)));
    Ok(())
}

fn shown(path: &Path) -> impl std::fmt::Display {
    path.display()
}

/// Brings the schema up to date.
pub(super) fn migrate(registry: &Registry, file: &File) -> Result<(), String> {
    let place = place(registry, file)?;
    let Migrated { before, after, made } = block_on(postgres::migrate(&place))?;
    if made.is_empty() {
        print(&format!("{place}: up to date, version {after}\n"));
    } else {
        print(&format!("{place}: from version {before} to {after}: {}\n", made.join(", ")));
    }
    Ok(())
}

/// The PostgreSQL database of a config.
fn place(registry: &Registry, file: &File) -> Result<Place, String> {
    let config = load(registry, file, &Environment::of_process())?.0;
    match config.store.database {
        Database::Postgres(place) => Ok(place),
        Database::Sqlite(path) => Err(format!(
            "taskbridge: {}: [store] names the SQLite file {}, which each server brings up to date by itself: set kind = \
             \"postgres\" and `url`",
            config.file.display(),
            path.display()
        )),
    }
}

fn block_on<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| format!("taskbridge: no threads can be started: {error}"))?;
    runtime.block_on(work).map_err(|error| format!("taskbridge: {error}"))
}
