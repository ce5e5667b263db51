//! Identity of the folder that jobs run in: a random id in a file next to it. It stays the same under another
//! host name, in another pod on the same volume, and under another mount path.

use std::io;
use std::path::Path;

use crate::files::{self, Draft};

/// Name of the file in the backend's folder.
const FILE_NAME: &str = "identity";

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 256;

/// Returns the id of this folder. Creates one if there is none.
pub(crate) fn get_or_create(folder: &Path) -> io::Result<String> {
    let path = folder.join(FILE_NAME);
    if let Some(id) = read(&path)? {
        return Ok(id);
    }
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    // Another process may create it first.
    Draft::new(&path, random.as_bytes())?.publish_first()?;
    read(&path)?.ok_or_else(|| io::Error::other(format!("{} disappeared", path.display())))
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let Some(content) = files::read(path, MAX_BYTES)? else { return Ok(None) };
    let id = String::from_utf8_lossy(&content.bytes).trim().to_owned();
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match is_plain {
        true => Ok(Some(id)),
        false => Err(io::Error::other(format!(
            "{} has no valid id: restore the file from a backup; without its id, the tasks of this folder are not managed",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_stays_with_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other, moved) =
            (dir.path().join("one"), dir.path().join("other"), dir.path().join("moved"));
        for folder in [&one, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        let id = get_or_create(&one).unwrap();
        assert_eq!(get_or_create(&one).unwrap(), id);
        assert_ne!(get_or_create(&other).unwrap(), id);
        std::fs::rename(&one, &moved).unwrap();
        assert_eq!(get_or_create(&moved).unwrap(), id);
        std::fs::write(moved.join(FILE_NAME), "").unwrap();
        assert!(get_or_create(&moved).unwrap_err().to_string().contains("restore the file"));
    }
}
