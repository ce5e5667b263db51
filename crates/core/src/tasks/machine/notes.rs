//! The part of the state machine that stores the notes of a job. A row keeps only a few of the newest:
//! clients that follow the job receive notes as they appear, and the job's log has all of its output. Pure.

use taskbridge_sdk::{Note, Timestamp};

use crate::tasks::task::{StoredNote, Task};

/// Maximum number of notes in a row.
const MAX_NOTES: usize = 16;
/// Maximum size of all notes of a row together, in bytes of JSON.
const MAX_BYTES: usize = 8 * 1024;
/// Maximum size of one note, in bytes of JSON. A longer note becomes a text of at most half as many bytes.
const MAX_NOTE_BYTES: usize = 2 * 1024;

/// Adds the notes that the engine lists and that are newer than all of the row, and drops the oldest beyond
/// the limits. The newest note is always kept.
pub(super) fn add_notes(task: &mut Task, mut notes: Vec<Note>, now: Timestamp) {
    let newest = task.last_note();
    notes.retain(|note| newest.is_none_or(|newest| note.n > newest));
    notes.sort_by_key(|note| note.n);
    notes.dedup_by_key(|note| note.n);
    task.notes.extend(notes.into_iter().map(|note| StoredNote { note: truncate(note), seen_at: now }));
    let (mut count, mut bytes) = (0, 0);
    for stored in task.notes.iter().rev() {
        bytes += stored.note.data.to_string().len();
        if count == MAX_NOTES || bytes > MAX_BYTES {
            break;
        }
        count += 1;
    }
    task.notes.drain(..task.notes.len() - count);
}

fn truncate(mut note: Note) -> Note {
    if note.data.to_string().len() > MAX_NOTE_BYTES {
        // Truncated data is not valid JSON any more, so it becomes text. Its beginning still shows
        // what it was.
        let mut text = note.data.as_str().map_or_else(|| note.data.to_string(), str::to_owned);
        let end = (0..=MAX_NOTE_BYTES / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end.min(text.len()));
        text.push('…');
        note.data = text.into();
    }
    note
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::Level;

    use super::*;
    use crate::tasks::machine::tests::row_of;
    use crate::tasks::task::TaskId;

    fn numbers(task: &Task) -> Vec<u64> {
        task.notes.iter().map(|stored| stored.note.n).collect()
    }

    fn note(n: u64) -> Note {
        Note::text(n, Level::Info, format!("note {n}"))
    }

    /// A repeated note is ignored, and the oldest notes are dropped.
    #[test]
    fn notes_are_kept_once_newest_last() {
        let mut task = row_of(&TaskId::from_wire("t"), "s");
        let at = Timestamp::from_millis;
        add_notes(&mut task, vec![note(5), note(9)], at(1));
        add_notes(&mut task, vec![note(5), note(12), note(9), note(12)], at(2));
        assert_eq!(numbers(&task), [5, 9, 12]);
        assert_eq!(task.notes.iter().map(|stored| stored.seen_at).collect::<Vec<_>>(), [at(1), at(1), at(2)]);
        add_notes(&mut task, (0..100).map(note).collect(), at(3));
        assert_eq!(numbers(&task), (84..100).collect::<Vec<_>>());
        add_notes(&mut task, Vec::new(), at(4));
        add_notes(&mut task, vec![note(50)], at(4));
        assert_eq!(task.last_note(), Some(99));
    }

    /// The notes of a row stay below a number of bytes, and the newest one is always kept.
    #[test]
    fn notes_of_row_are_bounded() {
        let mut task = row_of(&TaskId::from_wire("t"), "s");
        let text = |n, length| Note::text(n, Level::Info, "ä".repeat(length));
        add_notes(&mut task, (0..20).map(|n| text(n, 500)).collect(), Timestamp::from_millis(0));
        assert_eq!(numbers(&task), (12..20).collect::<Vec<_>>());
        let data = json!({"long": "\u{1}".repeat(9000)});
        let long = vec![text(30, 100_000), Note { data, ..text(31, 0) }];
        add_notes(&mut task, long, Timestamp::from_millis(0));
        assert_eq!(task.last_note(), Some(31));
        assert!(serde_json::to_string(&task.notes).unwrap().len() < 10_000);
    }
}
