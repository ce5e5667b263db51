//! Contents of an artifact, which GitHub keeps as a zip file. Entries are found by their names in the archive
//! and are never written to disk.

use std::borrow::Cow;
use std::io::{Cursor, Read as _};

use taskbridge_sdk::{Error, Result};
use zip::ZipArchive;
use zip::result::ZipError;

/// Maximum number of entries per artifact in a result.
const MAX_LISTED_FILES: usize = 50;

pub(crate) struct Archive {
    zip: ZipArchive<Cursor<Vec<u8>>>,
}

impl Archive {
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Self> {
        let zip = ZipArchive::new(Cursor::new(bytes));
        zip.map(|zip| Self { zip })
            .map_err(|e| Error::rejected(format!("the artifact is not a zip file: {e}")))
    }

    /// Returns the names and sizes of its first `MAX_LISTED_FILES` files. Omits names that a resource address
    /// cannot contain.
    pub(crate) fn files(&mut self) -> Vec<(String, u64)> {
        let mut files = Vec::new();
        for at in 0..self.zip.len() {
            let Ok(entry) = self.zip.by_index(at) else { continue };
            let Ok(name) = entry.name().map(Cow::into_owned) else { continue };
            let is_addressable = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
            if entry.is_file() && is_addressable && files.len() < MAX_LISTED_FILES {
                files.push((name, entry.size()));
            }
        }
        files.sort();
        files
    }

    /// Reads a whole file. `None` if there is no file of that name. A file of more than `max_bytes` is an
    /// error.
    pub(crate) fn read(&mut self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let entry = match self.zip.by_name(name) {
            Ok(entry) if entry.is_file() => entry,
            Ok(_) | Err(ZipError::FileNotFound) => return Ok(None),
            Err(e) => return Err(Error::rejected(format!("the file cannot be read from the artifact: {e}"))),
        };
        let size = entry.size();
        let mut bytes = Vec::new();
        // The size in the archive may be false.
        let result = entry.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
        result.map_err(|e| Error::rejected(format!("the file in the artifact is damaged: {e}")))?;
        if size > max_bytes || bytes.len() as u64 > max_bytes {
            return Err(too_large(name, size.max(bytes.len() as u64), max_bytes));
        }
        Ok(Some(bytes))
    }
}

pub(crate) fn too_large(name: &str, size: u64, max_bytes: u64) -> Error {
    Error::rejected(format!("`{name}` has {size} bytes, the limit is {max_bytes}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn archive(files: &[(&str, &[u8])]) -> Archive {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        Archive::open(writer.finish().unwrap().into_inner()).unwrap()
    }

    #[test]
    fn files_are_named_and_read() {
        let mut archive =
            archive(&[("b/x.json", b"{}"), ("a.txt", b"all"), ("../out", b"no"), ("/root", b"no")]);
        assert_eq!(archive.files(), [("a.txt".to_owned(), 3), ("b/x.json".to_owned(), 2)]);
        assert_eq!(archive.read("a.txt", 3).unwrap(), Some(b"all".to_vec()));
        assert_eq!(archive.read("none", 3).unwrap(), None);
        let error = archive.read("a.txt", 2).unwrap_err();
        assert_eq!(error.to_string(), "`a.txt` has 3 bytes, the limit is 2");
        assert!(Archive::open(b"no zip".to_vec()).is_err());
    }

    /// A file that would unpack to more than the limit is rejected.
    #[test]
    fn oversized_archive_entry_is_not_unpacked() {
        let zeros = vec![0; 4 * 1024 * 1024];
        let error = archive(&[("bomb", &zeros)]).read("bomb", 1000).unwrap_err();
        assert!(error.to_string().contains("has 4194304 bytes"), "{error}");
    }
}
