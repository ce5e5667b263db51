//! Reads the files that a config refers to, up to a maximum size, and records them so that changes are
//! detected.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use taskbridge_sdk::Timestamp;

use super::reader::Reader;

/// Maximum size of a referenced file, in bytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The content of a file.
pub(in crate::config) struct LoadedFile {
    /// The bytes.
    pub(in crate::config) bytes: Vec<u8>,
    /// Time of the last modification, if the system provides it.
    pub(in crate::config) modified: Option<Timestamp>,
}

/// Reads a file that this field names.
pub(in crate::config) fn read(reader: &mut Reader<'_>, field: &str, path: PathBuf) -> Option<LoadedFile> {
    reader.track_file(&path);
    match load_file(&path) {
        Ok(file) => {
            reader.record_content(field, &file.bytes);
            Some(file)
        }
        Err(message) => {
            reader.problem(field, message);
            None
        }
    }
}

/// Reads a UTF-8 text file that this field names.
pub(in crate::config) fn read_text(reader: &mut Reader<'_>, field: &str, path: PathBuf) -> Option<String> {
    let display_path = path.display().to_string();
    match String::from_utf8(read(reader, field, path)?.bytes) {
        Ok(text) => Some(text),
        Err(_) => {
            reader.problem(field, format!("{display_path} is not text in UTF-8"));
            None
        }
    }
}

/// Reads a regular file, up to the maximum size.
pub(super) fn load_file(path: &Path) -> Result<LoadedFile, String> {
    let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    // Only regular files are opened: opening a pipe would block until its other end is open.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let mib = MAX_FILE_BYTES / (1024 * 1024);
        return Err(format!(
            "{} is too large: {} bytes, the limit is {mib} MiB",
            path.display(),
            metadata.len().max(bytes.len() as u64)
        ));
    }
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let modified = modified.and_then(|since| i64::try_from(since.as_millis()).ok());
    Ok(LoadedFile { bytes, modified: modified.map(Timestamp::from_millis) })
}
