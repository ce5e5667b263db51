//! Log cursor of one task: which of its log messages were sent. The log messages are the notes of its job,
//! outages of its engine, and the end of a task whose job could not be run or tracked (broken). A session has
//! one cursor for each task, and each request that waits has its own. A message is sent once per cursor. It
//! must not know how a generation writes a message.

use serde_json::Value;
use taskbridge_sdk::{Level, Note, Timestamp};

use crate::tasks::streams::{StreamHandover, TaskReport};
use crate::tasks::task::{EngineOutage, Outcome, StoredNote, Task, TaskId};

/// Logger name of this server. The logger name of a job is its tool's name.
const BRIDGE: &str = env!("CARGO_PKG_NAME");

/// Minimum level for a client that has set none.
pub const USUAL_LEVEL: Level = Level::Info;

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
    note: Option<u64>,
    /// Start of the engine outage that was sent last.
    trouble: Option<Timestamp>,
    /// True once it was sent that the task is broken, or where the answer to a request reports it.
    broken: bool,
}

impl LogCursor {
    /// Returns the cursor of a stream that sends nothing up to this time.
    pub fn since(moment: Timestamp) -> Self {
        Self { since: moment, note: None, trouble: None, broken: false }
    }

    /// Returns the cursor of a request that waits. Its answer reports how the task ended.
    pub fn by_request(moment: Timestamp) -> Self {
        Self { broken: true, ..Self::since(moment) }
    }

    /// Returns the cursor for the stream that continues after such a request, before the task has ended.
    #[must_use]
    pub fn handed_on(self) -> Self {
        Self { broken: false, ..self }
    }

    /// Returns what a request that ends here has sent, for a stream in another process; `None` if it sent
    /// nothing.
    pub fn sent_by_request(&self, task: &Task) -> Option<TaskReport> {
        let broken = self.broken && task.outcome() == Some(Outcome::Broken);
        let some = self.note.is_some() || self.trouble.is_some() || broken;
        some.then(|| self.shared(&task.id, broken, None))
    }

    /// Returns what a listening stream has sent. `beside` contains its last status and progress; its `since`
    /// is replaced by that of this cursor.
    pub fn handed(&self, task: &TaskId, beside: StreamHandover) -> TaskReport {
        self.shared(task, self.broken, Some(StreamHandover { since: self.since, ..beside }))
    }

    fn shared(&self, task: &TaskId, broken: bool, handed: Option<StreamHandover>) -> TaskReport {
        TaskReport { task: task.clone(), note: self.note, trouble: self.trouble, broken, handed }
    }

    /// Adds what another process has sent. For a handover, the earlier `since` of the two applies.
    #[must_use]
    pub fn with(self, told: &TaskReport) -> Self {
        Self {
            since: told.handed.map_or(self.since, |handed| handed.since.min(self.since)),
            note: self.note.max(told.note),
            trouble: self.trouble.max(told.trouble),
            broken: self.broken || told.broken,
        }
    }

    /// Returns true if there is something that was not sent.
    pub fn is_behind(&self, task: &Task) -> bool {
        self.new_notes(task).next().is_some()
            || self.new_trouble(task).is_some()
            || self.is_newly_broken(task)
    }

    /// Returns what was not sent. From now on it counts as sent.
    pub fn catch_up(&mut self, task: &Task) -> Vec<LogMessage> {
        let of_job = |note: &Note| LogMessage {
            level: note.level,
            logger: task.tool.clone(),
            data: note.data.clone(),
        };
        let mut new: Vec<LogMessage> = self.new_notes(task).map(of_job).collect();
        self.note = task.last_note().max(self.note);
        if let Some(trouble) = self.new_trouble(task) {
            self.trouble = Some(trouble.since);
            new.push(of_bridge(Level::Warning, &trouble.reason));
        }
        if self.is_newly_broken(task) {
            self.broken = true;
            new.push(of_bridge(Level::Error, task.message.as_deref().unwrap_or_default()));
        }
        new
    }

    fn new_notes<'t>(&self, task: &'t Task) -> impl Iterator<Item = &'t Note> {
        let (since, told) = (self.since, self.note);
        let new = move |noted: &&StoredNote| noted.seen_at > since && Some(noted.note.n) > told;
        task.notes.iter().filter(new).map(|noted| &noted.note)
    }

    fn new_trouble<'t>(&self, task: &'t Task) -> Option<&'t EngineOutage> {
        let new = |trouble: &&EngineOutage| trouble.since > self.since && Some(trouble.since) != self.trouble;
        task.trouble.as_ref().filter(new)
    }

    fn is_newly_broken(&self, task: &Task) -> bool {
        let broken = task.outcome() == Some(Outcome::Broken);
        broken && !self.broken && task.ended_at.is_some_and(|ended| ended > self.since)
    }
}

/// Returns the time of the newest note or outage in this row, or of its creation. A client that got all of
/// them continues from there.
pub fn all_of(task: &Task) -> Timestamp {
    let notes = task.notes.iter().map(|noted| noted.seen_at);
    let trouble = task.trouble.iter().map(|trouble| trouble.since);
    notes.chain(trouble).max().unwrap_or(task.created_at)
}

fn of_bridge(level: Level, text: &str) -> LogMessage {
    LogMessage { level, logger: BRIDGE.to_owned(), data: Value::String(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::machine::tests::row_of;
    use crate::tasks::task::TaskState;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn texts(sayings: Vec<LogMessage>) -> Vec<(Level, String)> {
        sayings.into_iter().map(|said| (said.level, said.data.as_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn task_notes_are_sent_once() {
        let mut task = row_of(&TaskId::from_wire("t"), "s");
        let (mut heard, mut late) = (LogCursor::since(at(0)), LogCursor::since(at(15)));
        assert!(!heard.is_behind(&task));
        for (n, seen_at) in [(0, 10), (7, 20)] {
            let note = Note::text(n, Level::Debug, format!("note {n}"));
            task.notes.push(StoredNote { note, seen_at: at(seen_at) });
        }
        task.trouble = Some(EngineOutage { since: at(30), reason: "no engine".to_owned() });
        assert!(heard.is_behind(&task) && !LogCursor::since(at(30)).is_behind(&task));
        let note = |n| (Level::Debug, format!("note {n}"));
        let warning = (Level::Warning, "no engine".to_owned());
        assert_eq!(texts(heard.catch_up(&task)), [note(0), note(7), warning.clone()]);
        assert_eq!(texts(late.catch_up(&task)), [note(7), warning]);
        assert!(!heard.is_behind(&task) && heard.catch_up(&task).is_empty());
        task.trouble = None;
        task.notes.clear();
        assert!(!heard.is_behind(&task) && heard.catch_up(&task).is_empty());
        task.state = TaskState::Ended(Outcome::Broken);
        (task.ended_at, task.message) = (Some(at(40)), Some("gone".to_owned()));
        assert_eq!(texts(heard.catch_up(&task)), [(Level::Error, "gone".to_owned())]);
        assert!(!heard.is_behind(&task) && !LogCursor::since(at(40)).is_behind(&task));
    }
}
