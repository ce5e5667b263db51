//! `taskbridge migrate` and `taskbridge store`: maintenance of a store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use taskbridge_sdk::Registry;
use tokio::runtime::Runtime;

use super::operate::{Opened, open};
use super::{File, load, print};
use crate::app::counted;
use crate::config::Database;
use crate::config::locate::Environment;
use crate::store::check::{self, Expectations, Finding};
use crate::store::copy;
use crate::store::postgres::{self, ConnectionConfig, Migrated};
use crate::tasks::store::StoreError;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Copy a SQLite store into an empty PostgreSQL store, including running tasks. Stop the server first,
    /// and start it with the new config afterwards. The SQLite file can no longer be served. Run an
    /// interrupted copy again to complete it.
    Copy {
        /// The source: `sqlite:` and the path of the database file.
        #[arg(long, value_name = "sqlite:FILE", value_parser = sqlite)]
        from: PathBuf,
        /// The config file whose [store] names the PostgreSQL database.
        #[arg(long, value_name = "CONFIG")]
        to: PathBuf,
    },
    /// Serve a SQLite file again after a copy. Drop the copy first: tasks in both stores would run twice.
    Reopen {
        /// `sqlite:` and the path of the database file.
        #[arg(value_name = "sqlite:FILE", value_parser = sqlite)]
        file: PathBuf,
    },
    /// Find rows that break an invariant, and print what that means and what to do. Exits with 1 if there are
    /// any.
    Check {
        #[command(flatten)]
        file: File,
    },
}

fn sqlite(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Err("write sqlite: and the path of the database file".to_owned()),
    }
}

/// Runs the subcommand.
pub(super) fn run(registry: &Registry, command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Copy { from, to } => {
            let place = place(registry, &File { config: Some(to) })?;
            let copied = block_on(copy::from_sqlite(&from, place.clone()))?;
            let file = shown(&from);
            print(&match copied {
                Some(copied) => {
                    format!("copied {file} to {place}: {copied}\n{file} is not served any more\n")
                }
                None => format!("{place} has the copy of {file} already; {file} is not served any more\n"),
            });
            Ok(ExitCode::SUCCESS)
        }
        Command::Reopen { file } => {
            let was = copy::reopen(&file).map_err(|error| format!("taskbridge: {error}"))?;
            let file = shown(&file);
            print(&if was {
                format!("{file} is served again\n")
            } else {
                format!("{file} was not copied: nothing to do\n")
            });
            Ok(ExitCode::SUCCESS)
        }
        Command::Check { file } => {
            let runtime = runtime()?;
            runtime.block_on(async { check(&open(registry, &file).await?).await })
        }
    }
}

/// Number of rows that are read at a time.
const PAGE: usize = 500;

async fn check(opened: &Opened) -> Result<ExitCode, String> {
    let told = |error: StoreError| format!("taskbridge: {error}");
    let store = &opened.store;
    let now = store.now().await.map_err(told)?;
    let terms =
        Expectations { now, lease: opened.lease, history: opened.history, limits: opened.limits.clone() };
    let mut found = check::strays(&store.related_records().await.map_err(told)?, &terms);
    let (mut count, mut after) = (0, String::new());
    loop {
        let rows = store.rows(&after, PAGE).await.map_err(told)?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.id);
        count += rows.len();
        found.extend(rows.iter().flat_map(|row| check::row(row, &terms)));
    }
    for Finding { row, wrong, means, todo } in &found {
        print(&format!("{row}: {wrong}\n  means: {means}\n  do:    {todo}\n"));
    }
    let place = &opened.place;
    match found.len() {
        0 => print(&format!("{place}: {}, nothing wrong\n", counted(count, "task"))),
        n => print(&format!("{place}: {}, {}\n", counted(count, "task"), counted(n, "finding"))),
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shown(path: &Path) -> impl std::fmt::Display {
    path.display()
}

/// Migrates the schema to the current version.
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

/// Returns the PostgreSQL database of a config.
fn place(registry: &Registry, file: &File) -> Result<ConnectionConfig, String> {
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

pub(super) fn runtime() -> Result<Runtime, String> {
    Runtime::new().map_err(|error| format!("taskbridge: no threads can be started: {error}"))
}

fn block_on<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    runtime()?.block_on(work).map_err(|error| format!("taskbridge: {error}"))
}
