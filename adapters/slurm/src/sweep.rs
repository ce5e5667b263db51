//! Removes the folders of jobs that ended long ago. A job of which it is not written down how it ended is never touched.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::folder::OBSERVED;
use crate::handle::is_key;

/// Removes every folder whose job was seen to end longer ago than `keep`.
pub(crate) fn sweep(jobs: &Path, keep: Duration) -> io::Result<()> {
    // The time comes from the clock that stamped the folders, which need not be this machine's.
    let mut stamp = File::create(jobs.join(".swept"))?;
    stamp.write_all(b"\n")?;
    let now = stamp.metadata()?.modified()?;
    for entry in fs::read_dir(jobs)? {
        let entry = entry?;
        let path = entry.path();
        let ended = fs::metadata(path.join(OBSERVED)).and_then(|metadata| metadata.modified());
        if entry.file_name().to_str().is_some_and(is_key)
            && ended.is_ok_and(|ended| now.duration_since(ended).is_ok_and(|age| age >= keep))
        {
            // One that cannot be removed is tried again at the next sweep.
            drop(fs::remove_dir_all(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ended_long_ago_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tb-ended", "tb-runs", "theirs"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["tb-ended", "theirs"] {
            fs::write(dir.path().join(name).join(OBSERVED), "{}").unwrap();
        }
        sweep(dir.path(), Duration::from_secs(3600)).unwrap();
        assert!(dir.path().join("tb-ended").exists(), "it ended just now");
        sweep(dir.path(), Duration::ZERO).unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".swept", "tb-runs", "theirs"]);
    }
}
