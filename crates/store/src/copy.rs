//! `taskbridge store copy`: copies a SQLite file into PostgreSQL: everything but the leases of processes,
//! which have ended. It copies row by row and column by column, so that unreadable rows are copied as well.
//!
//! Tasks must never run in two stores. Before the copy, the file is marked as moved to the target, and no
//! program serves it any more. The target stores the copy's id in the transaction that writes the rows. So
//! after a kill at any point, the same command completes the copy: it finds the target empty and copies, or
//! finds this copy and is done.

use std::fmt;
use std::path::Path;

use taskbridge_core::clock::{self, Clock, System};
use taskbridge_core::tasks::store::{Result, StoreError};

use super::postgres::{self, Target};
use super::sqlite::{CopyRecord, Source};

/// The fact that marks a schema as a copy: the copy's id.
pub(super) const COPY_FACT: &str = "copy";

/// The storage type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Number,
    Small,
    Flag,
    /// Text that may contain any character.
    Text,
    /// Text of any length that rows are looked up by.
    Key,
    /// Text without zero bytes: JSON, ids of our own.
    Plain,
    Bytes,
}

/// A table, with the columns that are copied.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, ColumnType)],
    /// The sort order of the rows.
    pub(super) order: &'static str,
}

/// A value of a row during the copy.
pub(super) enum CopyValue {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

use ColumnType::{Bytes, Flag, Key, Number, Plain, Small, Text};

/// All tables that are copied. Tables that reference tasks come after them.
pub(super) const TABLES: [Table; 12] = [
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
        name: "deliveries",
        columns: &[
            ("task", Text),
            ("key", Text),
            ("n", Number),
            ("until", Number),
            ("over", Flag),
            ("problem", Text),
        ],
        order: "task, key",
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

/// The number of copied rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Tasks that have not ended.
    running: usize,
    /// Rows by table, in the order of [`TABLES`].
    rows: [usize; TABLES.len()],
}

impl CopyCounts {
    /// Creates the count before the copy starts.
    pub(super) fn of(running: usize) -> Self {
        Self { running, ..Self::default() }
    }

    /// Adds rows of the table with this index.
    pub(super) fn add(&mut self, table: usize, rows: usize) {
        self.rows[table] += rows;
    }
}

impl fmt::Display for CopyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [tasks, outputs, _, once, _, entries, notices, history, sessions, _, audit, _] = self.rows;
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

/// Copies a SQLite file into an empty PostgreSQL schema, in one transaction. Returns `None` if an earlier
/// attempt copied it, and this one only completed the marks. The file is not served any more.
///
/// # Errors
/// If a server has the file open, if an earlier copy of it is complete, or if one was begun to another
/// target. If the schema contains other data, or one of the two cannot be used. If nothing was committed, a
/// mark that this call set is removed again.
pub async fn from_sqlite(file: &Path, to: postgres::ConnectionConfig) -> Result<Option<CopyCounts>> {
    // Before the file is changed: an unreachable target is the likelier mistake.
    postgres::migrate(&to).await?;
    let mut target = Target::open(&to).await?;
    let source = Source::open(file)?;
    let name = to.to_string();
    let existing_record = source.copy_record()?;
    let record = match &existing_record {
        Some(record) if record.complete || record.to != name => {
            return Err(StoreError::Unavailable(format!("{}: {}", file.display(), record.refusal(file))));
        }
        Some(record) => record.clone(),
        None => {
            let copy = data_encoding::HEXLOWER.encode(&clock::random::<16>(&System));
            let record = CopyRecord { copy, to: name, at: System.now(), complete: false };
            source.mark(Some(&record))?;
            record
        }
    };
    let counts = match target.fill(&source, &record.copy).await {
        Ok(None) => None,
        // If the commit fails, it is unknown whether the copy exists: the mark stays.
        Ok(Some(import)) => Some(import.commit().await?),
        Err(error) => {
            if existing_record.is_none() {
                source.mark(None)?;
            }
            return Err(error);
        }
    };
    source.mark(Some(&CopyRecord { complete: true, ..record }))?;
    target.analyze().await?;
    Ok(counts)
}
