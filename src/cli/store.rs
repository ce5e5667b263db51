//! `taskbridge migrate` and `taskbridge store`: maintenance of a store.

#[cfg(feature = "postgres")]
pub(super) mod postgres;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use taskbridge_sdk::Registry;
use tokio::runtime::Runtime;

use super::operate::{OperatorContext, open};
use super::{File, print};
use crate::app::pluralize;
use crate::store::check::{self, Expectations, Finding};
use crate::tasks::store::StoreError;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Copy a SQLite store into an empty PostgreSQL store, including running tasks. Stop the server first,
    /// and start it with the new config afterwards. The SQLite file can no longer be served. Run an
    /// interrupted copy again to complete it.
    #[cfg(feature = "postgres")]
    Copy {
        /// The source: `sqlite:` and the path of the database file.
        #[arg(long, value_name = "sqlite:FILE", value_parser = sqlite)]
        from: PathBuf,
        // Not a doc comment: rustdoc takes `[store]` for a link.
        #[arg(
            long,
            value_name = "CONFIG",
            help = "The config file whose [store] names the PostgreSQL database"
        )]
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
        _ => Err("must be sqlite: followed by the path of the database file".to_owned()),
    }
}

/// Runs the subcommand.
pub(super) fn run(registry: &Registry, command: Command) -> Result<ExitCode, String> {
    match command {
        #[cfg(feature = "postgres")]
        Command::Copy { from, to } => {
            postgres::copy(registry, &from, to)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Reopen { file } => {
            let was_copied =
                crate::store::sqlite::reopen(&file).map_err(|error| format!("taskbridge: {error}"))?;
            let file = file.display();
            print(&if was_copied {
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

async fn check(context: &OperatorContext) -> Result<ExitCode, String> {
    let error_text = |error: StoreError| format!("taskbridge: {error}");
    let store = &context.store;
    let now = store.now().await.map_err(error_text)?;
    let expectations = Expectations {
        now,
        lease: context.lease,
        history: context.history_retention,
        limits: context.limits.clone(),
    };
    let mut findings =
        check::check_related_records(&store.related_records().await.map_err(error_text)?, &expectations);
    let (mut count, mut after) = (0, String::new());
    loop {
        let rows = store.rows(&after, PAGE).await.map_err(error_text)?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.id);
        count += rows.len();
        findings.extend(rows.iter().flat_map(|row| check::check_row(row, &expectations)));
    }
    for Finding { row, problem, consequence, fix } in &findings {
        print(&format!("{row}: {problem}\n  means: {consequence}\n  do:    {fix}\n"));
    }
    let location = &context.location;
    match findings.len() {
        0 => print(&format!("{location}: {}, nothing wrong\n", pluralize(count, "task"))),
        n => print(&format!("{location}: {}, {}\n", pluralize(count, "task"), pluralize(n, "finding"))),
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn runtime() -> Result<Runtime, String> {
    Runtime::new().map_err(|error| format!("taskbridge: threads cannot be started: {error}"))
}
