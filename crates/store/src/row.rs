//! Converts a task into a row: its body, and the columns that every store keeps in addition to it. Also the
//! columns of a notice, the description of a deleted row, and the names of queues. It must not know how rows
//! are stored.

use serde::Deserialize;
use serde_json::Value;

use taskbridge_core::tasks::notices::{Notice, NoticeContent};
use taskbridge_core::tasks::store::DeletedRow;
use taskbridge_core::tasks::task::{Job, Task};

/// Maximum number of bytes of files that count for one task. A job can report any number, and the sum for
/// its owner must not overflow.
const MAX_FILES_BYTES: u64 = 1 << 50;

/// The columns that follow from a task, computed by the caller, so that the writer only binds them. Version,
/// lease, identity and size are not among them: the store sets those.
pub(super) struct TaskRow {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) tool: String,
    pub(super) created_at: i64,
    pub(super) expires_at: i64,
    pub(super) due_at: Option<i64>,
    /// The backend, whether or not the job is open.
    pub(super) of_backend: String,
    pub(super) open: OpenJobColumns,
    pub(super) closed: bool,
    /// The channel, until the task has ended; the column `session`.
    pub(super) session: Option<String>,
    /// The queue, if the task waits in one ([`queue_name`]); the column `line`.
    pub(super) queue: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) waiting_until: Option<i64>,
    pub(super) slots: Slots,
    /// [`Task::files_bytes`].
    pub(super) files_bytes: i64,
    pub(super) body: String,
}

/// The columns for watching a job; all empty unless it is open.
#[derive(Default)]
pub(super) struct OpenJobColumns {
    pub(super) backend: Option<String>,
    pub(super) group: Option<String>,
    pub(super) opened_at: Option<i64>,
    pub(super) handle: Option<String>,
    /// When the clients' interest in details of the job ends; the column `log_until`, originally for its
    /// log only.
    pub(super) log_until: Option<i64>,
}

/// The relation of a row to its slots.
pub(super) enum Slots {
    /// It never takes any.
    Never,
    /// It has slots, and has taken none of them now.
    Free,
    /// It has taken these.
    Taken(Vec<String>),
}

/// The value of a parameter, and its name. A parameter for a column has the column's name, after a colon.
pub(super) type NamedValue<'r> = (&'static str, RowValue<'r>);

/// A value to be bound. Each store decides how it encodes the three kinds of text.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowValue<'r> {
    Number(Option<i64>),
    Flag(bool),
    /// Text that may contain any character.
    Text(Option<&'r str>),
    /// Text of any length that rows are looked up by.
    Key(Option<&'r str>),
    /// Text without zero bytes: JSON, ids of our own.
    Plain(Option<&'r str>),
}

use RowValue::{Flag, Key, Number, Plain, Text};

impl TaskRow {
    /// Returns the columns that every update writes.
    pub(super) fn changing_columns(&self) -> [NamedValue<'_>; 13] {
        [
            (":expires_at", Number(Some(self.expires_at))),
            (":due_at", Number(self.due_at)),
            (":backend", Text(self.open.backend.as_deref())),
            (":grp", Text(self.open.group.as_deref())),
            (":opened_at", Number(self.open.opened_at)),
            (":handle", Text(self.open.handle.as_deref())),
            (":closed", Flag(self.closed)),
            (":session", Key(self.session.as_deref())),
            (":line", Key(self.queue.as_deref())),
            (":digest", Key(self.digest.as_deref())),
            (":waiting_until", Number(self.waiting_until)),
            (":log_until", Number(self.open.log_until)),
            (":body", Plain(Some(&self.body))),
        ]
    }

    /// Returns all columns, as an insert writes them: also those that never change.
    pub(super) fn all_columns(&self) -> Vec<NamedValue<'_>> {
        let mut columns = vec![
            (":id", Text(Some(&self.id))),
            (":owner", Key(Some(&self.owner))),
            (":tool", Text(Some(&self.tool))),
            (":created_at", Number(Some(self.created_at))),
            (":of_backend", Text(Some(&self.of_backend))),
        ];
        columns.extend(self.changing_columns());
        columns
    }

    /// Converts a task into its row.
    pub(super) fn of(task: &Task) -> Result<Self, serde_json::Error> {
        let open = match &task.job {
            Job::Open { handle, group, started_at } => OpenJobColumns {
                backend: Some(task.backend.clone()),
                group: Some(group.as_str().to_owned()),
                opened_at: Some(started_at.as_millis()),
                handle: Some(handle.as_str().to_owned()),
                log_until: task.wanted_until().map(|until| until.as_millis()),
            },
            Job::Pending { .. } | Job::Starting { .. } | Job::Closed { .. } => OpenJobColumns::default(),
        };
        let slots = match (task.slots.is_empty(), task.holds_slots()) {
            (true, _) => Slots::Never,
            (false, false) => Slots::Free,
            (false, true) => Slots::Taken(task.slots.clone()),
        };
        Ok(Self {
            id: task.id.as_str().to_owned(),
            owner: task.owner.as_str().to_owned(),
            tool: task.tool.clone(),
            created_at: task.created_at.as_millis(),
            expires_at: task.kept_until().as_millis(),
            due_at: task.due_at.map(|due| due.as_millis()),
            of_backend: task.backend.clone(),
            open,
            closed: matches!(task.job, Job::Closed { .. }),
            session: if task.has_ended() { None } else { task.origin.channel.clone() },
            queue: task.is_queued().then(|| queue_name(&task.slots)),
            digest: task.undelivered.as_ref().map(|undelivered| undelivered.digest.clone()),
            waiting_until: task.undelivered.as_ref().map(|u| u.waiting_until.as_millis()),
            slots,
            files_bytes: task.files_bytes.min(MAX_FILES_BYTES) as i64,
            body: serde_json::to_string(task)?,
        })
    }
}

/// Describes a deleted row from its columns.
pub(super) fn describe_deleted(backend: Option<&str>, identity: Option<&str>, body: &[u8]) -> DeletedRow {
    #[derive(Deserialize)]
    struct Body {
        job: Job,
    }
    let handle = match taskbridge_sdk::from_json(body) {
        Ok(Body { job: Job::Closed { handle } }) => handle,
        _ => None,
    };
    let backend = backend.unwrap_or_default().to_owned();
    DeletedRow { backend, identity: identity.map(str::to_owned), handle }
}

/// All columns of a notice.
pub(crate) struct NoticeRow {
    pub(super) id: String,
    pub(super) receiver: String,
    pub(super) since: i64,
    pub(super) body: String,
}

impl NoticeRow {
    pub(super) fn of_all(notices: &[Notice]) -> Result<Vec<Self>, serde_json::Error> {
        notices.iter().map(Self::of).collect()
    }

    fn of(notice: &Notice) -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: notice.id.clone(),
            receiver: notice.receiver.clone(),
            since: notice.content.at.as_millis(),
            body: serde_json::to_string(&notice.content)?,
        })
    }
}

/// Parses a notice. The error text explains why it is unreadable.
pub(super) fn notice(id: String, receiver: &str, body: &str) -> Result<Notice, String> {
    match serde_json::from_str::<NoticeContent>(body) {
        Ok(content) => Ok(Notice { id, receiver: receiver.to_owned(), content }),
        Err(error) => Err(format!("the notice {id} cannot be understood ({error})")),
    }
}

/// Encodes a slot as it appears in the names of its queues: as a JSON string, with its quotes. Within the
/// name of another slot they would be escaped, so that a search for this text finds exactly the queues of the
/// slot.
pub(super) fn encode_slot(slot: &str) -> String {
    Value::from(slot).to_string()
}

/// Returns the name of the queue for these slots: the set, sorted, as JSON.
pub(super) fn queue_name(slots: &[String]) -> String {
    let mut slots: Vec<&str> = slots.iter().map(String::as_str).collect();
    slots.sort_unstable();
    slots.dedup();
    Value::from(slots).to_string()
}
