//! What operators see of a store: rows of all owners with what lies beside them, and what fits nowhere. It reads, and
//! must not judge: [`super::check`] does.

use async_trait::async_trait;

use super::row::{Row, Slots};
use crate::tasks::store::{Result, Settings, Store};
use crate::tasks::task::{Task, TaskId};

/// A row, with what the store keeps beside its body.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The row's id, by its column.
    pub id: String,
    /// The version, by its column.
    pub version: i64,
    /// The task; if it cannot be understood, why not.
    pub task: Result<Task, String>,
    /// The columns that do not say what the body says.
    pub differs: Vec<&'static str>,
    /// Who holds the lease on it.
    pub holder: Option<String>,
    /// Until when, in milliseconds by the store's clock.
    pub lease_until: Option<i64>,
    /// True if a result is kept.
    pub has_output: bool,
}

/// For operators. Every method only reads.
#[async_trait]
pub trait Survey: Store {
    /// Rows in the order of their ids, those after this one, `limit` at most. Each is seen with all that belongs to it
    /// as it was at one moment.
    async fn rows(&self, after: &str, limit: usize) -> Result<Vec<Surveyed>>;

    /// Ids that begin like this, of rows and of histories whose row is gone; `limit` at most.
    async fn ids(&self, beginning: &str, limit: usize) -> Result<Vec<TaskId>>;

    /// Rows whose job may still run, counted by the backend and the identity that they are kept with.
    async fn unfinished(&self) -> Result<Vec<Unfinished>>;

    /// What lies beside the rows; of each kind of breach the first hundred.
    async fn strays(&self) -> Result<Strays>;
}

/// Unfinished rows of one backend and one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The backend's name.
    pub backend: String,
    /// What the backend was connected to, if that is known.
    pub identity: Option<String>,
    /// How many rows there are.
    pub count: i64,
    /// The first and the last of their ids.
    pub ids: [String; 2],
}

/// Only a row with a due time can have a job that runs; an index holds those rows alone.
pub(super) const UNFINISHED: &str = "SELECT of_backend, identity, count(*), min(id), max(id) FROM tasks
     WHERE due_at IS NOT NULL AND of_backend IS NOT NULL GROUP BY of_backend, identity ORDER BY of_backend, identity";

/// What lies beside the rows.
#[derive(Clone, Debug, Default)]
pub struct Strays {
    /// Lines of other tables, by the table's name, that belong to no task.
    pub orphans: Vec<(&'static str, String)>,
    /// The groups that are watched: backend, key, by whom and until when.
    pub groups: Vec<(String, String, String, i64)>,
    /// Tasks whose history tells of a version that their row has not reached: task, told, reached.
    pub ahead: Vec<(String, i64, i64)>,
    /// Sessions, by the beginning of their nonces, that hold something for a task of which there is neither row nor
    /// history.
    pub held: Vec<(String, String)>,
    /// Sessions whose settings cannot be understood.
    pub unreadable_sessions: Vec<String>,
    /// How many rows hold each slot.
    pub slots: Vec<(String, i64)>,
    /// Notices that cannot be understood, and the others with the moment at which they are due.
    pub notices: Vec<OwedNotice>,
    /// Tasks of whose history an entry cannot be understood, and why not.
    pub unreadable_entries: Vec<(String, String)>,
    /// When the first entry of any history was written.
    pub first_entry: Option<i64>,
}

/// A notice that a receiver is owed.
#[derive(Clone, Debug)]
pub struct OwedNotice {
    /// The notice's id.
    pub id: String,
    /// Whom it is for.
    pub receiver: String,
    /// When it may be sent, in milliseconds by the store's clock.
    pub due_at: i64,
    /// If it cannot be understood, why not.
    pub unreadable: Option<String>,
}

impl OwedNotice {
    pub(super) fn of(id: String, receiver: String, due_at: i64, body: &str) -> Self {
        let unreadable = super::row::notice(id.clone(), &receiver, body).err();
        Self { id, receiver, due_at, unreadable }
    }
}

/// Tables whose lines belong to tasks.
pub(super) const BESIDE: [&str; 3] = ["slots", "outputs", "once"];

/// How much of a nonce is shown: whoever knows all of it could take the session for theirs.
const NONCE_SHOWN: usize = 8;

/// How many entries are read at a time.
pub(super) const PAGE: usize = 1_000;

/// Of a kind of breach, how many are told.
pub(super) const TOLD: usize = 100;

impl Strays {
    /// Takes in an entry of a task's history.
    pub(super) fn entry(&mut self, task: String, what: &str) {
        if let Err(error) = super::entry::transition(what)
            && self.unreadable_entries.len() < TOLD
        {
            self.unreadable_entries.push((task, error.to_string()));
        }
    }

    /// Takes in what a session has set, and gives the tasks for which it holds something.
    pub(super) fn session(&mut self, nonce: &str, settings: &str) -> Vec<(String, TaskId)> {
        let shown: String = nonce.chars().take(NONCE_SHOWN).collect();
        match taskbridge_sdk::from_json::<Settings>(settings.as_bytes()) {
            Ok(settings) => settings.held.into_iter().map(|held| (shown.clone(), held.of.task)).collect(),
            Err(_) => {
                self.unreadable_sessions.push(shown);
                Vec::new()
            }
        }
    }
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Number(i64),
    Text(String),
}

impl From<Option<i64>> for Cell {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Cell::Null, Cell::Number)
    }
}

impl From<Option<String>> for Cell {
    fn from(text: Option<String>) -> Self {
        text.map_or(Cell::Null, Cell::Text)
    }
}

/// The columns that repeat what the body says, in the order in which a survey selects them.
pub(super) const COLUMNS: [&str; 15] = [
    "owner",
    "tool",
    "created_at",
    "expires_at",
    "due_at",
    "backend",
    "grp",
    "opened_at",
    "handle",
    "closed",
    "session",
    "line",
    "digest",
    "waiting_until",
    "slots",
];

/// Which columns differ from what the body says. `key` and `text` are how the store keeps names and other texts, and
/// `slots` are those that the row holds, as they are kept.
pub(super) fn differs(
    id: &str,
    task: &Task,
    found: &[Cell],
    mut slots: Vec<String>,
    key: fn(&str) -> String,
    text: fn(&str) -> String,
) -> Vec<&'static str> {
    let Ok(row) = Row::of(task) else { return vec!["body"] };
    let key = |name: Option<&String>| Cell::from(name.map(|name| key(name)));
    let text = |name: Option<&String>| Cell::from(name.map(|name| text(name)));
    let expected = [
        key(Some(&row.owner)),
        text(Some(&row.tool)),
        Cell::Number(row.created_at),
        Cell::Number(row.expires_at),
        row.due_at.into(),
        text(row.open.backend.as_ref()),
        text(row.open.group.as_ref()),
        row.open.opened_at.into(),
        text(row.open.handle.as_ref()),
        Cell::Number(row.closed.into()),
        key(row.session.as_ref()),
        key(row.line.as_ref()),
        key(row.digest.as_ref()),
        row.waiting_until.into(),
    ];
    let mut differs: Vec<&'static str> = Vec::new();
    if row.id != id {
        differs.push("id");
    }
    let columns = COLUMNS.iter().zip(expected).zip(found);
    differs.extend(columns.filter(|((_, expected), found)| expected != *found).map(|((name, _), _)| *name));
    let mut held: Vec<String> = match &row.slots {
        Slots::Held(slots) => slots
            .iter()
            .map(|slot| match key(Some(slot)) {
                Cell::Text(slot) => slot,
                Cell::Null | Cell::Number(_) => String::new(),
            })
            .collect(),
        Slots::Free | Slots::Never => Vec::new(),
    };
    held.sort_unstable();
    held.dedup();
    slots.sort_unstable();
    if held != slots {
        differs.push("slots");
    }
    differs
}
