//! The operators' view of a store: rows of all owners with their related data, and inconsistent data. It
//! reads, and must not judge: [`super::check`] does.

use async_trait::async_trait;

use super::row::{RowValue, Slots, TaskRow};
use taskbridge_core::sessions::SessionSettings;
use taskbridge_core::tasks::store::{Result, Store};
use taskbridge_core::tasks::task::{Task, TaskId};

/// A row, with the columns that the store keeps in addition to its body.
#[derive(Clone, Debug)]
pub struct SurveyRow {
    /// The row's id, from its column.
    pub id: String,
    /// The version, from its column.
    pub version: i64,
    /// The task, or the reason why it is unreadable.
    pub task: Result<Task, String>,
    /// The columns that do not match the body; empty if the task is unreadable.
    pub mismatches: Vec<&'static str>,
    /// The holder of its lease.
    pub holder: Option<String>,
    /// The expiry of its lease, in milliseconds by the store's clock.
    pub lease_until: Option<i64>,
    /// True if a result is stored.
    pub has_output: bool,
}

/// Read-only queries for operators.
#[async_trait]
pub trait Survey: Store {
    /// Returns up to `limit` rows with ids greater than `after`, in the order of their ids. Each row is
    /// read with its related data in one snapshot.
    async fn rows(&self, after: &str, limit: usize) -> Result<Vec<SurveyRow>>;

    /// Returns up to `limit` ids with this prefix, of rows and of histories whose row was deleted.
    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>>;

    /// Returns the number of rows whose job may still run, by backend and stored identity.
    async fn count_unfinished(&self) -> Result<Vec<UnfinishedRows>>;

    /// Returns the data that belongs to rows. Of orphans (in each table), of tasks whose history is ahead,
    /// and of unreadable entries there are at most a hundred; everything else is complete. It reads with
    /// several queries, not in one snapshot: while servers run, a violation may be out of date.
    async fn related_records(&self) -> Result<RelatedRecords>;
}

/// Unfinished rows of one backend and one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedRows {
    /// The backend's name.
    pub backend: String,
    /// The identity of the engine that the backend was connected to, if known.
    pub identity: Option<String>,
    /// The number of rows.
    pub count: i64,
    /// The smallest and the largest of their ids.
    pub ids: [String; 2],
}

/// Only a row with a due time can have a running job; an index contains those rows alone.
pub(super) const UNFINISHED: &str = "SELECT of_backend, identity, count(*), min(id), max(id) FROM tasks
     WHERE due_at IS NOT NULL AND of_backend IS NOT NULL GROUP BY of_backend, identity ORDER BY of_backend, identity";

/// The data that belongs to rows, and its violations.
#[derive(Clone, Debug, Default)]
pub struct RelatedRecords {
    /// Records of other tables, by the table's name, that belong to no task.
    pub orphans: Vec<(&'static str, String)>,
    /// The leased groups: backend, key, holder and expiry.
    pub groups: Vec<(String, String, String, i64)>,
    /// The claimed questions: task, key and the expiry of the claim.
    pub deliveries: Vec<(String, String, i64)>,
    /// Tasks whose history is ahead of their row: task, version in the history, version of the row.
    pub histories_ahead: Vec<(String, i64, i64)>,
    /// Sessions, by nonce prefix, with state for a task that has neither a row nor a history.
    pub dangling_sessions: Vec<(String, String)>,
    /// Sessions with unreadable settings, by nonce prefix.
    pub unreadable_sessions: Vec<String>,
    /// The number of rows in each slot.
    pub slots: Vec<(String, i64)>,
    /// All pending notices.
    pub notices: Vec<PendingNotice>,
    /// Tasks with an unreadable history entry, and the reason.
    pub unreadable_entries: Vec<(String, String)>,
    /// When the oldest entry of all histories was written.
    pub first_entry: Option<i64>,
}

/// A notice to be sent to a receiver.
#[derive(Clone, Debug)]
pub struct PendingNotice {
    /// The notice's id.
    pub id: String,
    /// The receiver.
    pub receiver: String,
    /// When it may be sent, in milliseconds by the store's clock.
    pub due_at: i64,
    /// The reason why it is unreadable, if it is.
    pub unreadable: Option<String>,
}

impl PendingNotice {
    pub(super) fn of(id: String, receiver: String, due_at: i64, body: &str) -> Self {
        let unreadable = super::row::notice(id.clone(), &receiver, body).err();
        Self { id, receiver, due_at, unreadable }
    }
}

/// Tables whose records belong to tasks.
pub(super) const DEPENDENT_TABLES: [&str; 4] = ["slots", "outputs", "once", "deliveries"];

/// Length of the nonce prefix that is shown: the whole nonce would allow its reader to take over the
/// session.
const NONCE_PREFIX_CHARS: usize = 8;

/// Number of history entries that are read at once.
#[cfg(feature = "postgres")]
pub(super) const PAGE_SIZE: usize = 1_000;

/// Maximum number of unreadable entries that are reported. The queries for orphans and for histories that are
/// ahead have the same number as a literal.
pub(super) const MAX_REPORTED: usize = 100;

impl RelatedRecords {
    /// Checks an entry of a task's history.
    pub(super) fn check_entry(&mut self, task: String, what: &str) {
        if let Err(error) = super::entry::parse_transition(what)
            && self.unreadable_entries.len() < MAX_REPORTED
        {
            self.unreadable_entries.push((task, error.to_string()));
        }
    }

    /// Checks the settings of a session, and returns the tasks for which it has state.
    pub(super) fn check_session(&mut self, nonce: &str, settings: &str) -> Vec<(String, TaskId)> {
        let nonce_prefix: String = nonce.chars().take(NONCE_PREFIX_CHARS).collect();
        match taskbridge_sdk::from_json::<SessionSettings>(settings.as_bytes()) {
            Ok(settings) => settings
                .held
                .into_iter()
                .map(|client_task| (nonce_prefix.clone(), client_task.of.task))
                .collect(),
            Err(_) => {
                self.unreadable_sessions.push(nonce_prefix);
                Vec::new()
            }
        }
    }
}

/// Columns that are not compared with the body: the body itself, and those that old replicas do not write.
const NOT_COMPARED: [&str; 3] = ["body", "of_backend", "log_until"];

/// Returns the columns that differ from the body, as `is_stored` compares each with its value. `slots` are
/// those that the row has taken, as `encode_key` encodes them. The result is `body` alone if the task cannot
/// be written as JSON.
pub(super) fn compare_columns<E>(
    task: &Task,
    is_stored: impl Fn(&str, RowValue<'_>) -> Result<bool, E>,
    mut slots: Vec<String>,
    encode_key: impl Fn(&str) -> String,
) -> Result<Vec<&'static str>, E> {
    let Ok(row) = TaskRow::of(task) else { return Ok(vec!["body"]) };
    let mut mismatches = Vec::new();
    for (name, value) in row.all_columns() {
        let column = name.trim_start_matches(':');
        if !NOT_COMPARED.contains(&column) && !is_stored(column, value)? {
            mismatches.push(column);
        }
    }
    let mut taken: Vec<String> = match &row.slots {
        Slots::Taken(slots) => slots.iter().map(|slot| encode_key(slot)).collect(),
        Slots::Free | Slots::Never => Vec::new(),
    };
    taken.sort_unstable();
    taken.dedup();
    slots.sort_unstable();
    if taken != slots {
        mismatches.push("slots");
    }
    Ok(mismatches)
}
