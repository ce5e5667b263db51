//! Log cursor of one task: which of its log messages were sent. The log messages are the notes of its job,
//! outages of its engine, and the end of a task whose job could not be run or tracked (broken). A session has
//! one cursor for each task, and each request that waits has its own. A message is sent once per cursor. It
//! must not know how a generation writes a message.

use serde_json::Value;
use taskbridge_sdk::{Level, Note, Timestamp};

use crate::sessions::streams::{StreamHandover, TaskReport};
use crate::tasks::task::{EngineOutage, Outcome, StoredNote, Task, TaskId};

/// Logger name of this server. The logger name of a job is its tool's name.
const SERVER_LOGGER: &str = env!("CARGO_PKG_NAME");

/// Minimum level for a client that has set none.
pub const DEFAULT_LEVEL: Level = Level::Info;

/// One log message.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    /// Its level.
    pub level: Level,
    /// Its logger name.
    pub logger: String,
    /// Its content: text, or any other JSON.
    pub data: Value,
}

/// What was sent about one task so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCursor {
    /// Everything up to this time counts as sent.
    since: Timestamp,
    /// Number of the newest note that was sent.
    last_note: Option<u64>,
    /// Start of the engine outage that was sent last.
    last_outage: Option<Timestamp>,
    /// True once it was sent that the task is broken, or where the answer to a request reports it.
    broken_sent: bool,
}

impl LogCursor {
    /// Returns the cursor of a stream that sends nothing up to this time.
    pub fn since(at: Timestamp) -> Self {
        Self { since: at, last_note: None, last_outage: None, broken_sent: false }
    }

    /// Returns the cursor of a request that waits. Its answer reports how the task ended.
    pub fn for_request(at: Timestamp) -> Self {
        Self { broken_sent: true, ..Self::since(at) }
    }

    /// Returns the cursor for the stream that continues after such a request, before the task has ended.
    #[must_use]
    pub fn for_stream(self) -> Self {
        Self { broken_sent: false, ..self }
    }

    /// Returns what a request that ends here has sent, for a stream in another process; `None` if it sent
    /// nothing.
    pub fn request_report(&self, task: &Task) -> Option<TaskReport> {
        let broken = self.broken_sent && task.outcome() == Some(Outcome::Broken);
        let any_sent = self.last_note.is_some() || self.last_outage.is_some() || broken;
        any_sent.then(|| self.report(&task.id, broken, None))
    }

    /// Returns what a listening stream has sent. `handover` contains its last status and progress; its
    /// `since` is replaced by that of this cursor.
    pub fn stream_report(&self, task: &TaskId, handover: StreamHandover) -> TaskReport {
        self.report(task, self.broken_sent, Some(StreamHandover { since: self.since, ..handover }))
    }

    fn report(&self, task: &TaskId, broken: bool, handover: Option<StreamHandover>) -> TaskReport {
        TaskReport {
            task: task.clone(),
            note: self.last_note,
            trouble: self.last_outage,
            broken,
            handed: handover,
        }
    }

    /// Adds what another process has sent. For a handover, the earlier `since` of the two applies.
    #[must_use]
    pub fn merge(self, report: &TaskReport) -> Self {
        Self {
            since: report.handed.map_or(self.since, |handover| handover.since.min(self.since)),
            last_note: self.last_note.max(report.note),
            last_outage: self.last_outage.max(report.trouble),
            broken_sent: self.broken_sent || report.broken,
        }
    }

    /// Returns true if there is something that was not sent.
    pub fn is_behind(&self, task: &Task) -> bool {
        self.new_notes(task).next().is_some() || self.new_outage(task).is_some() || self.is_newly_broken(task)
    }

    /// Returns what was not sent. From now on it counts as sent.
    pub fn catch_up(&mut self, task: &Task) -> Vec<LogMessage> {
        let job_message = |note: &Note| LogMessage {
            level: note.level,
            logger: task.tool.clone(),
            data: note.data.clone(),
        };
        let mut messages: Vec<LogMessage> = self.new_notes(task).map(job_message).collect();
        self.last_note = task.last_note().max(self.last_note);
        if let Some(outage) = self.new_outage(task) {
            self.last_outage = Some(outage.since);
            messages.push(server_message(Level::Warning, &outage.reason));
        }
        if self.is_newly_broken(task) {
            self.broken_sent = true;
            messages.push(server_message(Level::Error, task.message.as_deref().unwrap_or_default()));
        }
        messages
    }

    fn new_notes<'t>(&self, task: &'t Task) -> impl Iterator<Item = &'t Note> {
        let (since, last_note) = (self.since, self.last_note);
        let is_new = move |stored_note: &&StoredNote| {
            stored_note.seen_at > since && Some(stored_note.note.n) > last_note
        };
        task.notes.iter().filter(is_new).map(|stored_note| &stored_note.note)
    }

    fn new_outage<'t>(&self, task: &'t Task) -> Option<&'t EngineOutage> {
        let is_new =
            |outage: &&EngineOutage| outage.since > self.since && Some(outage.since) != self.last_outage;
        task.trouble.as_ref().filter(is_new)
    }

    fn is_newly_broken(&self, task: &Task) -> bool {
        let is_broken = task.outcome() == Some(Outcome::Broken);
        is_broken && !self.broken_sent && task.ended_at.is_some_and(|ended_at| ended_at > self.since)
    }
}

/// Returns the time of the newest note or outage in this row, or of its creation. A client that got all of
/// them continues from there.
pub fn newest_entry_time(task: &Task) -> Timestamp {
    let notes = task.notes.iter().map(|stored_note| stored_note.seen_at);
    let outage = task.trouble.iter().map(|outage| outage.since);
    notes.chain(outage).max().unwrap_or(task.created_at)
}

fn server_message(level: Level, text: &str) -> LogMessage {
    LogMessage { level, logger: SERVER_LOGGER.to_owned(), data: Value::String(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::task;
    use crate::tasks::task::TaskState;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn texts(messages: Vec<LogMessage>) -> Vec<(Level, String)> {
        messages
            .into_iter()
            .map(|message| (message.level, message.data.as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn task_notes_are_sent_once() {
        let mut task = task(0, at(0));
        let (mut cursor, mut late_cursor) = (LogCursor::since(at(0)), LogCursor::since(at(15)));
        assert!(!cursor.is_behind(&task));
        for (n, seen_at) in [(0, 10), (7, 20)] {
            let note = Note::text(n, Level::Debug, format!("note {n}"));
            task.notes.push(StoredNote { note, seen_at: at(seen_at) });
        }
        task.trouble = Some(EngineOutage { since: at(30), reason: "no engine".to_owned() });
        assert!(cursor.is_behind(&task) && !LogCursor::since(at(30)).is_behind(&task));
        let note = |n| (Level::Debug, format!("note {n}"));
        let warning = (Level::Warning, "no engine".to_owned());
        assert_eq!(texts(cursor.catch_up(&task)), [note(0), note(7), warning.clone()]);
        assert_eq!(texts(late_cursor.catch_up(&task)), [note(7), warning]);
        assert!(!cursor.is_behind(&task) && cursor.catch_up(&task).is_empty());
        task.trouble = None;
        task.notes.clear();
        assert!(!cursor.is_behind(&task) && cursor.catch_up(&task).is_empty());
        task.state = TaskState::Ended(Outcome::Broken);
        (task.ended_at, task.message) = (Some(at(40)), Some("gone".to_owned()));
        assert_eq!(texts(cursor.catch_up(&task)), [(Level::Error, "gone".to_owned())]);
        assert!(!cursor.is_behind(&task) && !LogCursor::since(at(40)).is_behind(&task));
    }
}
