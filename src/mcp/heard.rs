//! What a stream tells of a task beside its state: the notes of its job, and beside them that its engine does not serve
//! us, or that it is broken. Each stream tells each of it once. It must not know how a generation writes a message.

use serde_json::Value;
use taskbridge_sdk::{Level, Timestamp};

use crate::tasks::task::{Outcome, Task};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The number of the newest note.
    note: Option<u64>,
    /// Since when the trouble has been that was told last.
    trouble: Option<Timestamp>,
    /// True once it was told that the task is broken.
    broken: bool,
}

impl Heard {
    /// What counts as told on a stream that goes back no further than this moment.
    pub fn until(task: &Task, moment: Timestamp) -> Self {
        let notes = task.notes.iter().rev();
        Self {
            note: notes.skip_while(|noted| noted.seen_at > moment).map(|noted| noted.note.n).next(),
            trouble: task.trouble.as_ref().map(|trouble| trouble.since).filter(|since| *since <= moment),
            broken: is_broken(task) && task.ended_at.is_some_and(|ended| ended <= moment),
        }
    }

    /// True if there is something that was not told.
    pub fn is_behind(&self, task: &Task) -> bool {
        task.last_note() > self.note
            || task.trouble.as_ref().is_some_and(|trouble| Some(trouble.since) != self.trouble)
            || (is_broken(task) && !self.broken)
    }

    /// What was not told; it counts as told from now on.
    pub fn catch_up(&mut self, task: &Task) -> Vec<Saying> {
        let mut new = Vec::new();
        for noted in task.notes.iter().filter(|noted| Some(noted.note.n) > self.note) {
            let note = &noted.note;
            new.push(Saying { level: note.level, logger: task.tool.clone(), data: note.data.clone() });
        }
        self.note = task.last_note().max(self.note);
        if let Some(trouble) = &task.trouble
            && Some(trouble.since) != self.trouble
        {
            self.trouble = Some(trouble.since);
            new.push(of_bridge(Level::Warning, trouble.reason.clone()));
        }
        if is_broken(task) && !self.broken {
            self.broken = true;
            new.push(of_bridge(Level::Error, task.message.clone().unwrap_or_default()));
        }
        new
    }
}

fn of_bridge(level: Level, text: String) -> Saying {
    Saying { level, logger: BRIDGE.to_owned(), data: Value::String(text) }
}

fn is_broken(task: &Task) -> bool {
    task.outcome() == Some(Outcome::Broken)
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::Note;

    use super::*;
    use crate::tasks::machine::tests::row_of;
    use crate::tasks::task::{Noted, TaskId, TaskState, Trouble};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn texts(sayings: Vec<Saying>) -> Vec<(Level, String)> {
        sayings.into_iter().map(|said| (said.level, said.data.as_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn everything_is_told_once() {
        let mut task = row_of(&TaskId::from_wire("t"), "s");
        let mut heard = Heard::default();
        assert!(!heard.is_behind(&task));
        for n in [0, 7] {
            let note = Note::text(n, Level::Debug, format!("note {n}"));
            task.notes.push(Noted { note, seen_at: at(10 + i64::try_from(n).unwrap()) });
        }
        task.trouble = Some(Trouble { since: at(20), reason: "no engine".to_owned() });
        assert!(heard.is_behind(&task));
        assert_eq!(Heard::until(&task, at(9)), heard);
        assert_eq!(Heard::until(&task, at(16)).note, Some(0));
        let late = Heard::until(&task, at(20));
        assert_eq!(
            texts(heard.catch_up(&task)),
            [
                (Level::Debug, "note 0".to_owned()),
                (Level::Debug, "note 7".to_owned()),
                (Level::Warning, "no engine".to_owned())
            ]
        );
        assert_eq!(late, heard);
        assert!(!heard.is_behind(&task) && heard.catch_up(&task).is_empty());
        task.trouble = None;
        task.notes.clear();
        assert!(!heard.is_behind(&task) && heard.catch_up(&task).is_empty());
        task.state = TaskState::Ended(Outcome::Broken);
        (task.ended_at, task.message) = (Some(at(30)), Some("gone".to_owned()));
        assert_eq!(texts(heard.catch_up(&task)), [(Level::Error, "gone".to_owned())]);
        assert!(!heard.is_behind(&task) && Heard::until(&task, at(30)).broken);
    }
}
