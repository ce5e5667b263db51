//! The history of calls: one JSON line per task that was started from this machine, so that a task can be
//! found again without its id. The file is readable by its user only, because a task id may act as a
//! password. It contains no arguments and no results.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Number of calls that are kept.
const MAX_ENTRIES: usize = 200;

/// Size at which the file is shortened, in bytes. A line has about 200.
const MAX_BYTES: u64 = 128 * 1024;

/// Largest file that is read, in bytes. Two processes may append at the same time.
const MAX_READ_BYTES: u64 = 2 * MAX_BYTES;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When the task was created, in RFC 3339.
    pub at: String,
    /// The server's endpoint.
    pub url: String,
    /// The tool.
    pub tool: String,
    /// The id of the task.
    pub task: String,
}

/// Appends a call. A history that cannot be written must not fail the call, so the result may be ignored.
pub(super) fn record(file: &Path, url: &str, tool: &str, task: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let entry = HistoryEntry {
        at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        url: url.to_owned(),
        tool: tool.to_owned(),
        task: task.to_owned(),
    };
    let line = format!("{}\n", serde_json::to_string(&entry)?);
    // One write, so that lines of processes that run at the same time do not mix.
    let mut open = File::options();
    open.create(true).append(true).mode(0o600).open(file)?.write_all(line.as_bytes())?;
    if fs::metadata(file)?.len() > MAX_BYTES { shorten(file) } else { Ok(()) }
}

fn shorten(file: &Path) -> io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(Path::new(".")))?;
    for entry in read(file)? {
        writeln!(new, "{}", serde_json::to_string(&entry)?)?;
    }
    new.persist(file).map(drop).map_err(|error| error.error)
}

/// Returns the last calls, oldest first. A line that cannot be parsed is skipped. An absent file is empty.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &Path) -> io::Result<Vec<HistoryEntry>> {
    let mut bytes = Vec::new();
    match File::open(file) {
        Ok(file) => file.take(MAX_READ_BYTES).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut entries: Vec<HistoryEntry> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn history_is_private_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/calls.jsonl");
        assert_eq!(read(&file).unwrap(), []);
        let tool = "t".repeat(400);
        for n in 0..600 {
            record(&file, "http://127.0.0.1:1/mcp", &tool, &format!("task{n}")).unwrap();
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::metadata(&file).unwrap().len() <= MAX_BYTES);
        let entries = read(&file).unwrap();
        assert_eq!(entries.len(), MAX_ENTRIES);
        assert_eq!(entries.last().unwrap().task, "task599");
        fs::write(&file, "broken\n").unwrap();
        record(&file, "u", "t", "next").unwrap();
        assert_eq!(read(&file).unwrap().len(), 1);
    }
}
