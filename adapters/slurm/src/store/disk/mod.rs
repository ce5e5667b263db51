//! Runs work on file systems that may hang. A thread that reads or writes on a file system with an
//! unreachable server blocks and cannot be interrupted. So each piece of work must make progress within a
//! time limit. Otherwise it is abandoned, though its thread stays blocked. The number of concurrent pieces is
//! limited. It must not know what the work is.

#[cfg(test)]
pub(crate) mod tests;

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use taskbridge_sdk::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum number of concurrent pieces of work per disk. The server gives a backend at most 512 threads, for
/// all of its disks and calls.
pub(crate) const MAX_CONCURRENT: usize = 16;

/// The disks of one cluster's jobs. A disk is a kind of location with its own limits, so that one that hangs
/// does not block the others.
#[derive(Clone)]
pub(crate) struct Disks {
    /// The jobs folder.
    pub(crate) jobs: Disk,
    /// What a start reads: scripts, and files of callers.
    pub(crate) sources: Disk,
    /// Folders outside of the jobs folder in which scripts run.
    pub(crate) roots: Disk,
}

impl Disks {
    pub(crate) fn new(stall_timeout: Duration) -> Self {
        Self {
            jobs: Disk::new(stall_timeout),
            sources: Disk::new(stall_timeout),
            roots: Disk::new(stall_timeout),
        }
    }
}

/// One kind of location. Its clones share their limits.
#[derive(Clone)]
pub(crate) struct Disk(Arc<DiskState>);

struct DiskState {
    /// The time within which a piece of work must make progress.
    stall_timeout: Duration,
    permits: Arc<Semaphore>,
    in_progress: Mutex<Vec<Arc<DiskWork>>>,
    /// The last time that work exceeded the limit.
    last_hang: Mutex<Option<Instant>>,
}

/// A piece of work on its thread.
struct DiskWork {
    progress: Mutex<WorkProgress>,
    abandoned: AtomicBool,
}

/// The path that the work currently uses, and the time of its last progress.
struct WorkProgress {
    path: PathBuf,
    since: Instant,
}

thread_local! {
    /// The piece of work that this thread runs.
    static CURRENT_WORK: RefCell<Option<Arc<DiskWork>>> = const { RefCell::new(None) };
}

/// Records the path that the work uses from now on. Work that moves from one path to the next does not count
/// as hanging, however long it takes.
pub(crate) fn enter_path(path: &Path) {
    CURRENT_WORK.with_borrow(|current| {
        if let Some(work) = current {
            *work.progress.lock() = WorkProgress { path: path.to_owned(), since: Instant::now() };
        }
    });
    #[cfg(test)]
    crate::store::disk::tests::hanging::wait(path);
}

/// Records progress on the same path.
pub(crate) fn report_progress() {
    CURRENT_WORK.with_borrow(|current| {
        if let Some(work) = current {
            work.progress.lock().since = Instant::now();
        }
    });
}

/// Returns true for work that hung and was abandoned. What it read may be outdated and must not be acted on.
pub(crate) fn is_abandoned() -> bool {
    CURRENT_WORK
        .with_borrow(|current| current.as_ref().is_some_and(|work| work.abandoned.load(Ordering::Acquire)))
}

/// Fails if the work was abandoned.
pub(crate) fn check_not_abandoned() -> io::Result<()> {
    match is_abandoned() {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, "the operation timed out and was abandoned")),
        false => Ok(()),
    }
}

/// A reader that records progress after each read, for files of any length.
pub(crate) struct ProgressReader<R>(pub(crate) R);

impl<R: Read> Read for ProgressReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        report_progress();
        #[cfg(test)]
        CURRENT_WORK
            .with_borrow(|current| current.as_ref().map(|work| work.progress.lock().path.clone()))
            .inspect(|path| crate::store::disk::tests::hanging::wait(path));
        Ok(count)
    }
}

impl Disk {
    fn new(stall_timeout: Duration) -> Self {
        Self(Arc::new(DiskState {
            stall_timeout,
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            in_progress: Mutex::default(),
            last_hang: Mutex::default(),
        }))
    }

    /// Returns the time within which a piece of work must make progress.
    pub(crate) fn stall_timeout(&self) -> Duration {
        self.0.stall_timeout
    }

    /// Runs a piece of work on a blocking thread. `Unavailable` if it hangs, or if no permit is free because
    /// other work hangs or is slow.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = self.acquire_permit().await?;
        let (disk_work, mut handle) = self.start_work(permit, work);
        let stall_timeout = self.0.stall_timeout;
        loop {
            let deadline = disk_work.progress.lock().since + stall_timeout;
            if let Ok(result) = timeout_at(deadline, &mut handle).await {
                return result
                    .map_err(|e| Error::unavailable("the file operation was interrupted").caused_by(e));
            }
            let progress = disk_work.progress.lock();
            if progress.since + stall_timeout <= Instant::now() {
                disk_work.abandoned.store(true, Ordering::Release);
                self.record_hang();
                return Err(progress.hang_error());
            }
        }
    }

    /// Starts a piece of work without waiting for it. Does nothing if no permit is free.
    pub(crate) fn try_start(&self, work: impl FnOnce() + Send + 'static) {
        if let Ok(permit) = Arc::clone(&self.0.permits).try_acquire_owned() {
            drop(self.start_work(permit, work));
        }
    }

    /// Returns how long nothing has been seen to hang here. What happened on a file system while it hung is
    /// unknown.
    pub(crate) fn time_since_hang(&self) -> Duration {
        self.0.last_hang.lock().map_or(Duration::MAX, |last_hang| last_hang.elapsed())
    }

    async fn acquire_permit(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.0.permits).try_acquire_owned() {
            return Ok(permit);
        }
        if let Some(error) = self.all_hung_error() {
            return Err(error);
        }
        match timeout(self.0.stall_timeout, Arc::clone(&self.0.permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.all_hung_error().unwrap_or_else(|| self.slow_error())),
        }
    }

    /// Returns an error if all pieces of work that may run at once hang.
    fn all_hung_error(&self) -> Option<Error> {
        let in_progress = self.0.in_progress.lock();
        let is_hung = |work: &&Arc<DiskWork>| work.progress.lock().since.elapsed() >= self.0.stall_timeout;
        if in_progress.iter().filter(is_hung).count() < MAX_CONCURRENT {
            return None;
        }
        let oldest = in_progress.iter().min_by_key(|work| work.progress.lock().since)?;
        let error = oldest.progress.lock().all_hung_error();
        self.record_hang();
        Some(error)
    }

    /// Returns the error if the disk is busy but some of the work made progress recently.
    fn slow_error(&self) -> Error {
        let in_progress = self.0.in_progress.lock();
        let oldest = in_progress.iter().min_by_key(|work| work.progress.lock().since);
        let path = oldest.map(|work| work.progress.lock().path.clone()).unwrap_or_default();
        Error::unavailable(format!(
            "{MAX_CONCURRENT} operations in the folders of the cluster's jobs have been in progress for {} s, one of them at {}, and no \
             further one is started: their file system is very slow, or hangs. The operation is retried",
            self.0.stall_timeout.as_secs_f32(),
            path.display()
        ))
    }

    fn record_hang(&self) {
        *self.0.last_hang.lock() = Some(Instant::now());
    }

    fn start_work<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Arc<DiskWork>, JoinHandle<T>) {
        let progress = WorkProgress { path: PathBuf::new(), since: Instant::now() };
        let disk_work =
            Arc::new(DiskWork { progress: Mutex::new(progress), abandoned: AtomicBool::new(false) });
        self.0.in_progress.lock().push(Arc::clone(&disk_work));
        let guard = WorkGuard { disk: self.clone(), work: Arc::clone(&disk_work), _permit: permit };
        let handle = tokio::task::spawn_blocking(move || {
            CURRENT_WORK.set(Some(Arc::clone(&guard.work)));
            let result = work();
            drop(guard);
            result
        });
        (disk_work, handle)
    }
}

/// The registration of a piece of work. It lasts until the thread is free again, however the work ends.
struct WorkGuard {
    disk: Disk,
    work: Arc<DiskWork>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        CURRENT_WORK.set(None);
        self.disk.0.in_progress.lock().retain(|work| !Arc::ptr_eq(work, &self.work));
        if self.work.abandoned.load(Ordering::Acquire) {
            // The disk hung until now.
            self.disk.record_hang();
        }
    }
}

impl WorkProgress {
    fn hang_error(&self) -> Error {
        let waited = self.since.elapsed().as_secs();
        let path = self.path.display();
        if self.path.as_os_str().is_empty() {
            return Error::unavailable(format!(
                "no thread was available for {waited} s to access the folders of the cluster's jobs; the operation is retried"
            ));
        }
        Error::unavailable(format!(
            "{path} has not answered for {waited} s{}",
            troubleshooting_hint(&self.path)
        ))
    }

    fn all_hung_error(&self) -> Error {
        let (path, waited) = (self.path.display(), self.since.elapsed().as_secs());
        Error::unavailable(format!(
            "{path} has not answered for {waited} s, all other operations there hang as well, and no further one is started{}",
            troubleshooting_hint(&self.path)
        ))
    }
}

fn troubleshooting_hint(path: &Path) -> String {
    format!(
        ": its file system hangs, possibly because its server is unreachable. The operation is retried. If `ls -l {}` \
         hangs as well, check that server and the mount",
        path.display()
    )
}

/// Returns true for the errors that a file system returns instead of hanging while its server is away: a
/// network file system mounted `soft`, or one in user space whose process died. Also true for a shortage of
/// descriptors or memory on this machine, which does not concern the file.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::IO
                | Errno::STALE
                | Errno::TIMEDOUT
                | Errno::NOTCONN
                | Errno::CONNABORTED
                | Errno::CONNREFUSED
                | Errno::CONNRESET
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::SHUTDOWN
                | Errno::REMOTEIO
                | Errno::MFILE
                | Errno::NFILE
                | Errno::NOMEM
                | Errno::NOBUFS
                | Errno::AGAIN
                | Errno::INTR
        )
    )
}
