//! What a stream tells of a task beside its state: the notes of its job, and beside them that its engine does not serve
//! us, or that it is broken. Each stream tells each of it once. It must not know how a generation writes a message.

use serde_json::Value;
use taskbridge_sdk::{Level, Note, Timestamp};

use crate::tasks::streams::{Handed, Told};
use crate::tasks::task::{Noted, Outcome, Task, TaskId, Trouble};

/// The name under which the bridge itself speaks; a job speaks under the name of its tool.
const BRIDGE: &str = env!("CARGO_PKG_NAME");

/// The least level that a client is told of which has set none.
pub const USUAL_LEVEL: Level = Level::Info;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Saying {
    /// How much it matters.
    pub level: Level,
    /// Who says it.
    pub logger: String,
    /// What is said: text, or any other JSON.
    pub data: Value,
}

/// What was told of one task so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What was there by this moment counts as told.
    since: Timestamp,
    /// The number of the newest note that was told.
    note: Option<u64>,
    /// Since when the trouble has been that was told last.
    trouble: Option<Timestamp>,
    /// True once it was told that the task is broken, or where the answer to a request tells it.
    broken: bool,
}

impl Heard {
    /// Nothing was told yet, on a stream that goes back to this moment and no further.
    pub fn since(moment: Timestamp) -> Self {
        Self { since: moment, note: None, trouble: None, broken: false }
    }

    /// The same for a request that waits: its answer tells how the task ended.
    pub fn by_request(moment: Timestamp) -> Self {
        Self { broken: true, ..Self::since(moment) }
    }

    /// The same for whoever goes on where such a request stopped, before the end.
    #[must_use]
    pub fn handed_on(self) -> Self {
        Self { broken: false, ..self }
    }

    /// What was told by a request that ends here, for whoever goes on in another process; `None` if that is nothing.
    pub fn told(&self, task: &Task) -> Option<Told> {
        let broken = self.broken && task.outcome() == Some(Outcome::Broken);
        let some = self.note.is_some() || self.trouble.is_some() || broken;
        some.then(|| self.shared(&task.id, broken, None))
    }

    /// The same of a listening stream, with what it told beside; what was there when this session's first stream opened
    /// counts as told.
    pub fn handed(&self, task: &TaskId, beside: Handed) -> Told {
        self.shared(task, self.broken, Some(Handed { since: self.since, ..beside }))
    }

    fn shared(&self, task: &TaskId, broken: bool, handed: Option<Handed>) -> Told {
        Told { task: task.clone(), note: self.note, trouble: self.trouble, broken, handed }
    }

    /// The same where another process has told this.
    #[must_use]
    pub fn with(self, told: &Told) -> Self {
        Self {
            since: told.handed.map_or(self.since, |handed| handed.since.min(self.since)),
            note: self.note.max(told.note),
            trouble: self.trouble.max(told.trouble),
            broken: self.broken || told.broken,
        }
    }

    /// True if there is something that was not told.
    pub fn is_behind(&self, task: &Task) -> bool {
        self.new_notes(task).next().is_some()
            || self.new_trouble(task).is_some()
            || self.is_newly_broken(task)
    }

    /// What was not told; it counts as told from now on.
    pub fn catch_up(&mut self, task: &Task) -> Vec<Saying> {
        let of_job =
            |note: &Note| Saying { level: note.level, logger: task.tool.clone(), data: note.data.clone() };
        let mut new: Vec<Saying> = self.new_notes(task).map(of_job).collect();
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
        let new = move |noted: &&Noted| noted.seen_at > since && Some(noted.note.n) > told;
        task.notes.iter().filter(new).map(|noted| &noted.note)
    }

    fn new_trouble<'t>(&self, task: &'t Task) -> Option<&'t Trouble> {
        let new = |trouble: &&Trouble| trouble.since > self.since && Some(trouble.since) != self.trouble;
        task.trouble.as_ref().filter(new)
    }

    fn is_newly_broken(&self, task: &Task) -> bool {
        let broken = task.outcome() == Some(Outcome::Broken);
        broken && !self.broken && task.ended_at.is_some_and(|ended| ended > self.since)
    }
}

/// The moment by which everything was said that this row has: whoever was told all of it goes on from there.
pub fn all_of(task: &Task) -> Timestamp {
    let notes = task.notes.iter().map(|noted| noted.seen_at);
    let trouble = task.trouble.iter().map(|trouble| trouble.since);
    notes.chain(trouble).max().unwrap_or(task.created_at)
}

fn of_bridge(level: Level, text: &str) -> Saying {
    Saying { level, logger: BRIDGE.to_owned(), data: Value::String(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::machine::tests::row_of;
    use crate::tasks::task::TaskState;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn texts(sayings: Vec<Saying>) -> Vec<(Level, String)> {
        sayings.into_iter().map(|said| (said.level, said.data.as_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn everything_is_told_once() {
        let mut task = row_of(&TaskId::from_wire("t"), "s");
        let (mut heard, mut late) = (Heard::since(at(0)), Heard::since(at(15)));
        assert!(!heard.is_behind(&task));
        for (n, seen_at) in [(0, 10), (7, 20)] {
            let note = Note::text(n, Level::Debug, format!("note {n}"));
            task.notes.push(Noted { note, seen_at: at(seen_at) });
        }
        task.trouble = Some(Trouble { since: at(30), reason: "no engine".to_owned() });
        assert!(heard.is_behind(&task) && !Heard::since(at(30)).is_behind(&task));
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
        assert!(!heard.is_behind(&task) && !Heard::since(at(40)).is_behind(&task));
    }
}
