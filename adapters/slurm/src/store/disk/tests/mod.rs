//! Tests of file systems that hang, and what makes paths hang.

pub(crate) mod hanging;
mod hangs;

use futures_util::future::join_all;
use taskbridge_sdk::ErrorKind;
use taskbridge_sdk::suite::polling::POLL_TIMEOUT;

use super::*;

/// A shorter limit would fail on a busy machine, where a thread may wait for the CPU.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// A FIFO without a writer. Opening it for reading hangs, as on a file system whose server is away.
struct Fifo {
    dir: tempfile::TempDir,
}

impl Fifo {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), 0o600.into()).unwrap();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("fifo")
    }

    async fn read(&self, disk: &Disk) -> Result<()> {
        let path = self.path();
        disk.run(move || {
            enter_path(&path);
            drop(std::fs::File::open(path));
        })
        .await
    }
}

impl Drop for Fifo {
    /// Simulates the return of the server.
    fn drop(&mut self) {
        drop(std::fs::OpenOptions::new().read(true).write(true).open(self.path()));
    }
}

/// Hung work is abandoned with its path in the error, and new work is refused beyond a limit.
#[tokio::test]
async fn hung_disk_work_is_limited() {
    let disks = Disks::new(STALL_TIMEOUT);
    let fifo = Fifo::new();
    let error = fifo.read(&disks.jobs).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let path = fifo.path().display().to_string();
    let message = error.to_string();
    assert!(
        message.contains(&format!("{path} has not answered for ")) && !message.contains("for 0 s"),
        "{message}"
    );
    // One piece of work that hangs does not block others.
    assert_eq!(disks.jobs.run(|| 7).await.unwrap(), 7);
    for result in join_all((1..MAX_CONCURRENT).map(|_| fifo.read(&disks.jobs))).await {
        result.unwrap_err();
    }
    let start = Instant::now();
    for _ in 0..100 {
        let error = fifo.read(&disks.jobs).await.unwrap_err();
        assert!(
            error.to_string().contains(&path) && error.to_string().contains("no further one is started"),
            "{error}"
        );
    }
    assert!(start.elapsed() < STALL_TIMEOUT * 20, "no caller waits for hung work");
    assert_eq!(disks.jobs.0.in_progress.lock().len(), MAX_CONCURRENT);
    assert!(disks.jobs.time_since_hang() < STALL_TIMEOUT);
    // Other disks are not affected.
    assert_eq!(disks.roots.run(|| 7).await.unwrap(), 7);
    assert_eq!(disks.roots.time_since_hang(), Duration::MAX);
    drop(fifo);
    let start = Instant::now();
    while !disks.jobs.0.in_progress.lock().is_empty() {
        assert!(start.elapsed() < POLL_TIMEOUT, "the readers did not end");
        tokio::task::yield_now().await;
    }
    assert_eq!(disks.jobs.run(|| 7).await.unwrap(), 7, "the server is back");
}

/// Work that advances to further paths may take longer than the limit.
#[tokio::test]
async fn progressing_disk_work_is_not_abandoned() {
    let disks = Disks::new(STALL_TIMEOUT);
    let duration = disks.jobs.run(|| {
        let start = std::time::Instant::now();
        while start.elapsed() < STALL_TIMEOUT * 3 {
            std::thread::sleep(STALL_TIMEOUT / 20);
            enter_path(Path::new("next"));
        }
        start.elapsed()
    });
    assert!(duration.await.unwrap() >= STALL_TIMEOUT * 3);
}

/// Errors of a file system that may recover are distinct from those about a file itself.
#[test]
fn transient_file_errors_are_recognized() {
    let is_transient_errno = |errno: Errno| is_transient(&errno.into());
    assert!(
        [Errno::IO, Errno::STALE, Errno::MFILE, Errno::NFILE, Errno::NOMEM]
            .into_iter()
            .all(is_transient_errno)
    );
    assert!(![Errno::NOENT, Errno::ACCESS, Errno::ISDIR, Errno::LOOP].into_iter().any(is_transient_errno));
}

#[tokio::test]
async fn abandoned_disk_work_detects_timeout() {
    let disks = Disks::new(STALL_TIMEOUT);
    let (sender, receiver) = std::sync::mpsc::channel();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let hang = crate::store::disk::tests::hanging::hang(&path);
    let work = disks.jobs.run(move || {
        let before = is_abandoned();
        enter_path(&path);
        sender.send((before, is_abandoned(), check_not_abandoned().is_err())).unwrap();
    });
    work.await.unwrap_err();
    drop(hang);
    assert_eq!(
        tokio::task::spawn_blocking(move || receiver.recv()).await.unwrap().unwrap(),
        (false, true, true)
    );
}
