//! The files that a config refers to: read whole, up to a size, and remembered, so that a change of one can be seen.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use taskbridge_sdk::Timestamp;

use super::reader::Reader;

/// The largest file that a config can refer to, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;

/// A file, read.
pub(super) struct Read {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// When it was changed last, where the system says so.
    pub(super) modified: Option<Timestamp>,
}

/// Reads a file that this field names.
pub(super) fn read(reader: &mut Reader<'_>, field: &str, path: PathBuf) -> Option<Read> {
    reader.refers_to(&path);
    match whole(&path) {
        Ok(read) => {
            reader.has_read(field, &read.bytes);
            Some(read)
        }
        Err(message) => {
            reader.problem(field, message);
            None
        }
    }
}

/// Reads a file of text that this field names.
pub(super) fn read_text(reader: &mut Reader<'_>, field: &str, path: PathBuf) -> Option<String> {
    let shown = path.display().to_string();
    match String::from_utf8(read(reader, field, path)?.bytes) {
        Ok(text) => Some(text),
        Err(_) => {
            reader.problem(field, format!("{shown} is not text in UTF-8"));
            None
        }
    }
}

fn whole(path: &Path) -> Result<Read, String> {
    let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    // What is no file is not opened: to open a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        let mib = LARGEST / (1024 * 1024);
        return Err(format!(
            "{} is too large: it has {} bytes, and up to {mib} MiB are kept in memory",
            path.display(),
            metadata.len().max(bytes.len() as u64)
        ));
    }
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let modified = modified.and_then(|since| i64::try_from(since.as_millis()).ok());
    Ok(Read { bytes, modified: modified.map(Timestamp::from_millis) })
}
