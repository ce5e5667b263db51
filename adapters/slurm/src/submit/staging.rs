//! Copies the files on the server that a call names into the job's folder. A large file can take longer than
//! the call's timeout. Copying continues after that, and the repeated call finds the file complete or still
//! being copied. It must not submit anything.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;
use taskbridge_sdk::{Error, Result, SourceFile};
use tokio::time::timeout;

use crate::core::Slurm;
use crate::store::disk;
use crate::store::folder::{Folder, write_error};
use crate::submit::request::SubmitRequest;

/// The files that this process is copying.
static IN_PROGRESS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A guard for the only copy of a file in progress.
struct CopyGuard(PathBuf);

impl CopyGuard {
    fn begin(target: PathBuf) -> Option<Self> {
        let is_first = IN_PROGRESS.lock().insert(target.clone());
        // Only the first copy removes the entry again.
        is_first.then(|| Self(target))
    }
}

impl Drop for CopyGuard {
    fn drop(&mut self) {
        IN_PROGRESS.lock().remove(&self.0);
    }
}

impl Slurm {
    /// Copies the request's files from their sources. `Unavailable` while the copy is in progress.
    pub(crate) async fn stage(&self, folder: &Folder, request: &SubmitRequest) -> Result<()> {
        if request.copies.is_empty() {
            return Ok(());
        }
        let (copies, user, job_folder) = (request.copies.clone(), request.plan.user.clone(), folder.clone());
        let work = self.disks.sources.run(move || {
            job_folder.create(user.as_ref()).map_err(|e| write_error(&job_folder, e))?;
            // Another user's job reads them through the group.
            let mode = if user.is_some() { 0o640 } else { 0o600 };
            for (from, name) in &copies {
                if !copy_once(&job_folder, from, name, mode)? {
                    return Err(still_copying(&job_folder));
                }
            }
            Ok(())
        });
        timeout(self.disks.sources.stall_timeout(), work)
            .await
            .unwrap_or_else(|_| Err(still_copying(folder)))?
    }
}

/// Copies a file unless it exists with the same size. Returns false if it is already being copied.
fn copy_once(folder: &Folder, from: &SourceFile, name: &str, mode: u32) -> Result<bool> {
    let target = folder.file(name);
    let Some(_guard) = CopyGuard::begin(target.clone()) else { return Ok(false) };
    disk::enter_path(from.path());
    let source = from.open()?;
    disk::enter_path(&target);
    // An earlier attempt of this start has moved it there atomically.
    if fs::symlink_metadata(&target)
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() == source.size())
    {
        return Ok(true);
    }
    folder.copy(source, name, mode).map(|()| true).map_err(|e| match e.kind() {
        // The file grew while it was copied.
        io::ErrorKind::InvalidData => from.convert_io_error(e),
        _ => write_error(folder, e),
    })
}

fn still_copying(folder: &Folder) -> Error {
    Error::unavailable(format!(
        "nothing was submitted yet: the files of the call are still being copied into {}",
        folder.file("files").display()
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use taskbridge_sdk::{ErrorKind, FileContent, InputFile, suite};

    use super::*;
    use crate::driver::tests::fake::Fake;
    use crate::store::disk::tests::hanging;
    use crate::store::folder::PLAN;

    #[tokio::test]
    async fn grown_or_linked_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("job.sh"), "#!/bin/sh\ntrue\n").unwrap();
        let from = dir.path().canonicalize().unwrap().join("data");
        let fake = Fake::default();
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let mut job = suite::job(json!({"script": "job.sh"}), json!({"data": "data"}));
        let content = FileContent::Source(SourceFile::new(&from, 1000));
        job.files = vec![InputFile { parameter: "data".to_owned(), name: "data".to_owned(), content }];
        let rejection = async || {
            let error = slurm.begin(&job).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            error.to_string()
        };
        fs::write(&from, "x".repeat(5000)).unwrap();
        assert_eq!(
            rejection().await,
            "the file `data` cannot be used: data has 5000 bytes, the limit is 1000"
        );
        fs::remove_file(&from).unwrap();
        std::os::unix::fs::symlink(dir.path().join("job.sh"), &from).unwrap();
        assert_eq!(rejection().await, "the file `data` no longer exists");
        assert!(fake.state().released.is_empty());
    }

    /// The copy takes longer than a call may. Starts are refused until it is complete, and it is made once.
    #[tokio::test]
    async fn slow_file_copy_continues_over_starts() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("job.sh"), "#!/bin/sh\ntrue\n").unwrap();
        let from = dir.path().join("large");
        fs::write(&from, vec![7; 4 * 1024 * 1024]).unwrap();
        let fake = Fake::default();
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let mut job = suite::job(json!({"script": "job.sh"}), json!({"data": "large"}));
        let content = FileContent::Source(SourceFile::new(from.canonicalize().unwrap(), u64::MAX));
        job.files = vec![InputFile { parameter: "data".to_owned(), name: "large".to_owned(), content }];
        let folder = slurm.folder(job.key.as_str());
        let slow = hanging::slow_down(&folder.file("files"), Duration::from_millis(5));
        let mut refusals = 0;
        loop {
            let Err(error) = slurm.begin(&job).await else { break };
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("nothing was submitted yet"), "{error}");
            assert!(!folder.has(PLAN).unwrap() && fake.state().released.is_empty());
            assert_eq!(fs::read_dir(folder.file("files")).unwrap().count(), 1, "one copy at a time");
            refusals += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(refusals > 1, "no start waits for the whole copy");
        drop(slow);
        let staged = fs::read_dir(folder.file("files")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read(staged).unwrap(), fs::read(from).unwrap());
        assert_eq!(fake.state().released, [7]);
    }
}
