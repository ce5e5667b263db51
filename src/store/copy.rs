//! What one store holds, on its way into another: everything but leases, which belong to processes that have ended. It
//! must not know how either of them keeps it.

use std::fmt;
use std::path::Path;

use super::{postgres, sqlite};
use crate::tasks::store::Result;
use crate::tasks::task::Task;

/// All that a store holds.
pub(in crate::store) struct Kept {
    pub(super) tasks: Vec<TaskKept>,
    pub(super) once: Vec<Key>,
    pub(super) entries: Vec<EntryKept>,
    pub(super) notices: Vec<NoticeKept>,
    pub(super) history: Vec<Note>,
    pub(super) sessions: Vec<Session>,
    pub(super) keys: Vec<(String, Vec<u8>)>,
}

/// A row, and its result as it is written.
pub(in crate::store) struct TaskKept {
    pub(super) task: Task,
    pub(super) output: Option<String>,
}

/// A caller's idempotency key.
pub(in crate::store) struct Key {
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) digest: String,
    pub(super) task: String,
}

/// An entry of a task's history, as it is written.
pub(in crate::store) struct EntryKept {
    pub(super) task: String,
    pub(super) version: i64,
    pub(super) at: i64,
    pub(super) replica: String,
    pub(super) what: String,
}

/// What a receiver is owed, as it is written.
pub(in crate::store) struct NoticeKept {
    pub(super) id: String,
    pub(super) receiver: String,
    pub(super) since: i64,
    pub(super) due_at: i64,
    pub(super) attempts: i32,
    pub(super) body: String,
}

/// How long the jobs of a tool took.
pub(in crate::store) struct Note {
    pub(super) tool: String,
    pub(super) took: String,
    pub(super) median: i64,
}

/// What a session has set, or the note that it was ended.
pub(in crate::store) struct Session {
    pub(super) nonce: String,
    pub(super) forget_after: i64,
    pub(super) settings: Option<String>,
}

/// How much was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Tasks in all.
    pub tasks: usize,
    /// Those of them that have not ended.
    pub running: usize,
    /// Results.
    pub outputs: usize,
    /// Idempotency keys.
    pub once: usize,
    /// Entries of histories of tasks.
    pub entries: usize,
    /// Tools whose durations are known.
    pub history: usize,
    /// Sessions that were ended or have set something.
    pub sessions: usize,
}

impl Kept {
    pub(super) fn count(&self) -> Copied {
        Copied {
            tasks: self.tasks.len(),
            running: self.tasks.iter().filter(|kept| !kept.task.has_ended()).count(),
            outputs: self.tasks.iter().filter(|kept| kept.output.is_some()).count(),
            once: self.once.len(),
            entries: self.entries.len(),
            history: self.history.len(),
            sessions: self.sessions.len(),
        }
    }
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, running, outputs, once, entries, history, sessions } = self;
        write!(
            f,
            "{tasks} tasks ({running} not ended), {outputs} results, {once} idempotency keys, {sessions} sessions, \
             {entries} entries of histories, durations of {history} tools"
        )
    }
}

/// Copies a SQLite file into a PostgreSQL schema that holds nothing yet, in one transaction.
///
/// # Errors
/// If a server has the file open, the schema holds something, or one of them cannot be used.
pub async fn from_sqlite(file: &Path, to: postgres::Place) -> Result<Copied> {
    // Before the file is touched: a place that cannot be reached is the likelier mistake.
    postgres::migrate(&to).await?;
    let kept = sqlite::read(file)?;
    let copied = kept.count();
    postgres::write(&to, &kept).await?;
    Ok(copied)
}
