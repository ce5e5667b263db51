//! Progress, messages and notes of a running job: the lines that it appends to `$TASKBRIDGE_EVENTS`. It must
//! not read anything of the job but this file.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use taskbridge_sdk::{Level, Note, Progress, one_line, open_regular, short_line};

/// Number of bytes that are read from the end of the file, so that the cost of a poll does not depend on the
/// file size.
const WINDOW: u64 = 32 * 1024;

/// Maximum length of a note: in characters for a text, in bytes for JSON. A longer text is cut to this many
/// characters, and an ellipsis is added. Longer JSON is treated as a text.
const MAX_NOTE_LENGTH: usize = 2000;

/// Maximum number of notes per observation.
const MAX_NOTES: usize = 32;

/// The last progress, the last message, and the newest notes of a job.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct JobEvents {
    pub(crate) progress: Option<Progress>,
    pub(crate) message: Option<String>,
    /// Oldest first. The number of a note is the byte offset of its line in the file.
    pub(crate) notes: Vec<Note>,
}

/// Reads the last [`WINDOW`] bytes of the file. A missing or unreadable file gives the same result as an
/// empty one.
pub(crate) fn read(path: &Path) -> JobEvents {
    read_window(path).map(|(offset, bytes)| parse(offset, &bytes)).unwrap_or_default()
}

/// Returns the byte offset at which the tail of the file starts, and the tail: at most [`WINDOW`] bytes.
fn read_window(path: &Path) -> io::Result<(u64, Vec<u8>)> {
    let mut file = open_regular(path)?;
    let offset = file.metadata()?.len().saturating_sub(WINDOW);
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(WINDOW).read_to_end(&mut bytes)?;
    Ok((offset, bytes))
}

/// Parses complete lines only, newest first. The last line may still be incomplete, and the first line of a
/// window may be cut. `offset` is the byte offset of the window in the file.
fn parse(offset: u64, bytes: &[u8]) -> JobEvents {
    let mut events = JobEvents::default();
    let mut line_ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).rev();
    let mut previous_end = line_ends.next();
    while let Some(line_end) = previous_end {
        previous_end = line_ends.next();
        let line_start = match (previous_end, offset) {
            (Some(end), _) => end + 1,
            (None, 0) => 0,
            (None, _) => break,
        };
        let line = String::from_utf8_lossy(&bytes[line_start..line_end]);
        let (keyword, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let message = match keyword {
            "message" => rest,
            "log" => {
                if events.notes.len() < MAX_NOTES {
                    events.notes.extend(note(offset + line_start as u64, rest));
                }
                continue;
            }
            "progress" => {
                let (numbers, message) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
                let Some(progress) = progress(numbers) else { continue };
                events.progress.get_or_insert(progress);
                message
            }
            _ => continue,
        };
        if events.message.is_none() && !message.trim().is_empty() {
            events.message = Some(one_line(message));
        }
    }
    events.notes.reverse();
    events
}

/// Parses `LEVEL MESSAGE`. A message that is a JSON object or array becomes that value. `n` is the byte
/// offset of the line in the file.
fn note(n: u64, text: &str) -> Option<Note> {
    let (level, message) = text.trim_start().split_once(' ')?;
    let (level, message) = (Level::parse(level)?, message.trim());
    if message.is_empty() {
        return None;
    }
    let data = match message.starts_with(['{', '[']) && message.len() <= MAX_NOTE_LENGTH {
        true => serde_json::from_str(message).ok(),
        false => None,
    };
    Some(match data {
        Some(data) => Note { n, level, data, at: None },
        None => Note::text(n, level, short_line(message, MAX_NOTE_LENGTH)),
    })
}

/// Parses `3/9`, or `3` if the total is unknown.
fn progress(text: &str) -> Option<Progress> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    match text.split_once('/') {
        Some((done, total)) => Some(Progress { done: number(done)?, total: Some(number(total)?) }),
        None => Some(Progress { done: number(text)?, total: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_with(done: f64, total: Option<f64>, message: &str) -> JobEvents {
        let message = (!message.is_empty()).then(|| message.to_owned());
        JobEvents { progress: Some(Progress { done, total }), message, notes: Vec::new() }
    }

    fn parse(text: &str) -> JobEvents {
        super::parse(0, text.as_bytes())
    }

    #[test]
    fn last_event_of_kind_wins() {
        assert_eq!(parse(""), JobEvents::default());
        assert_eq!(parse("progress 1/9 one\nprogress 2/9\n"), events_with(2.0, Some(9.0), "one"));
        assert_eq!(parse("progress 0.5 half\nmessage now this\n"), events_with(0.5, None, "now this"));
        assert_eq!(
            parse("progress 3/9 x\nprogress 4/"),
            events_with(3.0, Some(9.0), "x"),
            "an incomplete line is ignored"
        );
        assert_eq!(
            parse("progress 3/9 x\nprogress nan\nprogress -1\nhello\n\n"),
            events_with(3.0, Some(9.0), "x")
        );
    }

    #[test]
    fn notes_are_numbered_by_byte_offset() {
        let text = "log info Begun\nlog warning {\"left\": 3}\nprogress 1/2 half\nlog error [unfinished\nlog info on its";
        let events = parse(text);
        let expected = [
            Note::text(0, Level::Info, "Begun"),
            Note { n: 15, level: Level::Warning, data: serde_json::json!({"left": 3}), at: None },
            Note::text(57, Level::Error, "[unfinished"),
        ];
        assert_eq!((&events.notes[..], events.message.as_deref()), (&expected[..], Some("half")));
        assert_eq!(
            parse("log\nlog info\nlog info \nlog loud x\n log  info  x \n").notes,
            [Note::text(34, Level::Info, "x")]
        );
        // A text that is cut has one more character: the ellipsis.
        let long = format!("log info {}\n", "ä".repeat(5000));
        assert_eq!(parse(&long).notes[0].data.as_str().unwrap().chars().count(), MAX_NOTE_LENGTH + 1);
    }

    /// The number of a note is the byte offset of its line, so it stays the same when lines are appended.
    #[test]
    fn note_keeps_number_as_window_moves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let lines: String = (0..9999).map(|n| format!("log info note {n}\n")).collect();
        std::fs::write(&path, &lines).unwrap();
        let notes = read(&path).notes;
        assert_eq!(notes.len(), MAX_NOTES);
        for note in &notes {
            let at = usize::try_from(note.n).unwrap();
            let line = lines[at..].lines().next().unwrap();
            assert_eq!(line, format!("log info {}", note.data.as_str().unwrap()));
        }
        std::fs::write(&path, format!("{lines}log info one more\n")).unwrap();
        assert_eq!(read(&path).notes[..MAX_NOTES - 1], notes[1..]);
    }

    /// The last progress of a long file is found.
    #[test]
    fn long_event_file_read_from_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        assert_eq!(read(&path), JobEvents::default());
        let lines: String = (0..9999).map(|n| format!("progress {n}/9999 step {n}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        assert_eq!(read(&path), events_with(9998.0, Some(9999.0), "step 9998"));
    }
}
