//! `taskbridge store copy`: what a SQLite file holds, on its way into PostgreSQL: everything but leases, which belong to
//! processes that have ended. Row by row, as the columns are, so that a row that cannot be understood is copied as well.
//!
//! Tasks must never run in two stores. Before anything is copied, the file is marked as moved to the target, and no program
//! serves it from then on. The target keeps the copy's id, in the transaction that writes the rows. So whatever is killed
//! when, the same command ends what was begun: it finds the target empty and copies, or finds this copy there and is done.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use super::postgres::{self, Target};
use super::sqlite::Source;
use crate::clock::{self, Clock, System};
use crate::tasks::store::{Result, StoreError};

/// What a SQLite file says of having been copied: the value of [`MOVED`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Moved {
    /// The id of the copy.
    pub(super) copy: String,
    /// Where to, for people.
    pub(super) to: String,
    /// When the copy was begun.
    pub(super) at: Timestamp,
    /// True once the target has it.
    pub(super) complete: bool,
}

/// The fact of a file that was copied elsewhere.
pub(super) const MOVED: &str = "moved";

/// The fact of a schema that is a copy: the copy's id.
pub(super) const COPY: &str = "copy";

impl Moved {
    /// Why the file is not served, and what to do.
    pub(super) fn refusal(&self, file: &Path) -> String {
        let Self { to, at, .. } = self;
        let reopen = format!("`taskbridge store reopen sqlite:{}`", file.display());
        if self.complete {
            format!(
                "its tasks were copied to {to} on {at}: start with the config of that store. To serve this file again, \
                 drop the copy first, so that nothing runs twice, and then run {reopen}"
            )
        } else {
            format!(
                "a copy of it to {to} was begun on {at} and may be complete: run the same `taskbridge store copy` again. \
                 To give the copy up, drop what there is of it, and then run {reopen}"
            )
        }
    }
}

/// How the values of a column are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Small,
    Flag,
    /// Text that may hold any character.
    Text,
    /// Text of any length that rows are looked for by.
    Key,
    /// Text without zero bytes: JSON, ids of our own.
    Plain,
    Bytes,
}

/// A table, with the columns that are copied.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, Kind)],
    /// What rows are read in the order of.
    pub(super) order: &'static str,
}

/// A value of a row on its way.
pub(super) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

use Kind::{Bytes, Flag, Key, Number, Plain, Small, Text};

/// All that is copied. What refers to tasks comes behind them.
pub(super) const TABLES: [Table; 11] = [
    Table {
        name: "tasks",
        columns: &[
            ("id", Text),
            ("owner", Key),
            ("tool", Text),
            ("created_at", Number),
            ("version", Number),
            ("expires_at", Number),
            ("due_at", Number),
            ("backend", Text),
            ("grp", Text),
            ("opened_at", Number),
            ("handle", Text),
            ("closed", Flag),
            ("session", Key),
            ("line", Key),
            ("digest", Key),
            ("waiting_until", Number),
            ("body", Plain),
            ("log_until", Number),
            ("of_backend", Text),
            ("identity", Text),
            ("bytes", Number),
        ],
        order: "n",
    },
    Table { name: "outputs", columns: &[("task", Text), ("body", Plain)], order: "task" },
    Table { name: "slots", columns: &[("slot", Key), ("task", Text)], order: "task" },
    Table {
        name: "once",
        columns: &[("scope", Key), ("key", Key), ("digest", Text), ("task", Text)],
        order: "task",
    },
    Table {
        name: "entries",
        columns: &[("task", Text), ("version", Number), ("at", Number), ("replica", Text), ("what", Text)],
        order: "n",
    },
    Table {
        name: "notices",
        columns: &[
            ("id", Plain),
            ("receiver", Plain),
            ("since", Number),
            ("due_at", Number),
            ("attempts", Small),
            ("body", Text),
        ],
        order: "id",
    },
    Table { name: "history", columns: &[("tool", Key), ("took", Plain), ("median", Number)], order: "tool" },
    Table {
        name: "sessions",
        columns: &[("nonce", Key), ("forget_after", Number), ("settings", Plain)],
        order: "nonce",
    },
    Table { name: "keys", columns: &[("name", Plain), ("value", Bytes)], order: "name" },
    Table { name: "audit", columns: &[("n", Number), ("at", Number), ("line", Plain)], order: "n" },
    Table { name: "facts", columns: &[("name", Plain), ("value", Plain)], order: "name" },
];

/// How much was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Tasks that have not ended.
    running: usize,
    /// Rows by table, in the order of [`TABLES`].
    rows: [usize; TABLES.len()],
}

impl Copied {
    /// Counts what is there, before it is copied.
    pub(super) fn of(running: usize) -> Self {
        Self { running, ..Self::default() }
    }

    /// Counts rows of the table at this place.
    pub(super) fn add(&mut self, table: usize, rows: usize) {
        self.rows[table] += rows;
    }
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [tasks, outputs, _, once, entries, notices, history, sessions, _, audit, _] = self.rows;
        let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        write!(
            f,
            "{} ({} not ended), {}, {}, {}, {} of histories, {}, durations of {}, {} of the audit log",
            counted(tasks, "task"),
            self.running,
            counted(outputs, "result"),
            counted(once, "idempotency key"),
            counted(sessions, "session"),
            if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") },
            counted(notices, "notice"),
            counted(history, "tool"),
            counted(audit, "line"),
        )
    }
}

/// Copies a SQLite file into a PostgreSQL schema that holds nothing yet, in one transaction; `None` if an earlier attempt did
/// that, and this one only ended it. The file is not served any more from then on.
///
/// # Errors
/// If a server has the file open, it was moved elsewhere, the schema holds something else, or one of them cannot be used.
pub async fn from_sqlite(file: &Path, to: postgres::Place) -> Result<Option<Copied>> {
    // Before the file is touched: a place that cannot be reached is the likelier mistake.
    postgres::migrate(&to).await?;
    let mut target = Target::open(&to).await?;
    let source = Source::open(file)?;
    let name = to.to_string();
    let known = source.moved()?;
    let moved = match &known {
        Some(moved) if moved.complete || moved.to != name => {
            return Err(StoreError::Unavailable(format!("{}: {}", file.display(), moved.refusal(file))));
        }
        Some(moved) => moved.clone(),
        None => {
            let copy = data_encoding::HEXLOWER.encode(&clock::random::<16>(&System));
            let moved = Moved { copy, to: name, at: System.now(), complete: false };
            source.mark(Some(&moved))?;
            moved
        }
    };
    let copied = match target.fill(&source, &moved.copy).await {
        Ok(None) => None,
        // From here on nobody knows whether it is there: the mark stays.
        Ok(Some(filled)) => Some(filled.commit().await?),
        Err(error) => {
            if known.is_none() {
                source.mark(None)?;
            }
            return Err(error);
        }
    };
    source.mark(Some(&Moved { complete: true, ..moved }))?;
    target.analyze().await?;
    Ok(copied)
}

/// Has a file that was marked as moved served again. False if it was not.
///
/// # Errors
/// If a server has the file open, or it cannot be written.
pub fn reopen(file: &Path) -> Result<bool> {
    let source = Source::open(file)?;
    let was = source.moved()?.is_some();
    if was {
        source.mark(None)?;
    }
    Ok(was)
}
