//! Runs work on file systems that may hang. A thread that reads or writes on a file system with an
//! unreachable server blocks and cannot be interrupted. So each piece of work must make progress within a
//! time limit. Otherwise it is abandoned, though its thread stays blocked. The number of concurrent pieces is
//! limited. It must not know what the work is.

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
pub(crate) const AT_ONCE: usize = 16;

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
    pub(crate) fn new(limit: Duration) -> Self {
        Self { jobs: Disk::new(limit), sources: Disk::new(limit), roots: Disk::new(limit) }
    }
}

/// One kind of location. Its clones share their limits.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Shared>);

struct Shared {
    /// The time within which a piece of work must make progress.
    limit: Duration,
    room: Arc<Semaphore>,
    under_way: Mutex<Vec<Arc<DiskWork>>>,
    /// The last time that work exceeded the limit.
    hung: Mutex<Option<Instant>>,
}

/// A piece of work on its thread.
struct DiskWork {
    at: Mutex<WorkProgress>,
    given_up: AtomicBool,
}

/// The path that the work currently uses, and the time of its last progress.
struct WorkProgress {
    path: PathBuf,
    since: Instant,
}

thread_local! {
    /// The piece of work that this thread runs.
    static OURS: RefCell<Option<Arc<DiskWork>>> = const { RefCell::new(None) };
}

/// Records the path that the work uses from now on. Work that moves from one path to the next does not count
/// as hanging, however long it takes.
pub(crate) fn enter_path(path: &Path) {
    OURS.with_borrow(|ours| {
        if let Some(piece) = ours {
            *piece.at.lock() = WorkProgress { path: path.to_owned(), since: Instant::now() };
        }
    });
    #[cfg(test)]
    crate::hanging::wait(path);
}

/// Records progress on the same path.
pub(crate) fn report_progress() {
    OURS.with_borrow(|ours| {
        if let Some(piece) = ours {
            piece.at.lock().since = Instant::now();
        }
    });
}

/// Returns true for work that hung and was abandoned. What it read may be outdated and must not be acted on.
pub(crate) fn is_given_up() -> bool {
    OURS.with_borrow(|ours| ours.as_ref().is_some_and(|piece| piece.given_up.load(Ordering::Acquire)))
}

/// Fails if the work was abandoned.
pub(crate) fn check_not_abandoned() -> io::Result<()> {
    match is_given_up() {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long, and was given up")),
        false => Ok(()),
    }
}

/// A reader that records progress after each read, for files of any length.
pub(crate) struct Steps<R>(pub(crate) R);

impl<R: Read> Read for Steps<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(into)?;
        report_progress();
        #[cfg(test)]
        OURS.with_borrow(|ours| ours.as_ref().map(|piece| piece.at.lock().path.clone()))
            .inspect(|path| crate::hanging::wait(path));
        Ok(read)
    }
}

impl Disk {
    fn new(limit: Duration) -> Self {
        Self(Arc::new(Shared {
            limit,
            room: Arc::new(Semaphore::new(AT_ONCE)),
            under_way: Mutex::default(),
            hung: Mutex::default(),
        }))
    }

    /// Returns the time within which a piece of work must make progress.
    pub(crate) fn limit(&self) -> Duration {
        self.0.limit
    }

    /// Runs a piece of work on a blocking thread. `Unavailable` if it hangs, or if no permit is free because
    /// other work hangs or is slow.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let room = self.room().await?;
        let (piece, mut done) = self.begin(room, work);
        let limit = self.0.limit;
        loop {
            let until = piece.at.lock().since + limit;
            if let Ok(done) = timeout_at(until, &mut done).await {
                return done.map_err(|e| {
                    Error::unavailable("the look at the jobs' folder was cut short").caused_by(e)
                });
            }
            let at = piece.at.lock();
            if at.since + limit <= Instant::now() {
                piece.given_up.store(true, Ordering::Release);
                self.hangs();
                return Err(at.hangs());
            }
        }
    }

    /// Starts a piece of work without waiting for it. Does nothing if no permit is free.
    pub(crate) fn aside(&self, work: impl FnOnce() + Send + 'static) {
        if let Ok(room) = Arc::clone(&self.0.room).try_acquire_owned() {
            drop(self.begin(room, work));
        }
    }

    /// Returns how long nothing has been seen to hang here. What happened on a file system while it hung is
    /// unknown.
    pub(crate) fn answers_for(&self) -> Duration {
        self.0.hung.lock().map_or(Duration::MAX, |hung| hung.elapsed())
    }

    async fn room(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(room) = Arc::clone(&self.0.room).try_acquire_owned() {
            return Ok(room);
        }
        if let Some(error) = self.all_hang() {
            return Err(error);
        }
        match timeout(self.0.limit, Arc::clone(&self.0.room).acquire_owned()).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(self.all_hang().unwrap_or_else(|| self.is_slow())),
        }
    }

    /// Returns an error if all pieces of work that may run at once hang.
    fn all_hang(&self) -> Option<Error> {
        let under_way = self.0.under_way.lock();
        let hanging = |piece: &&Arc<DiskWork>| piece.at.lock().since.elapsed() >= self.0.limit;
        if under_way.iter().filter(hanging).count() < AT_ONCE {
            return None;
        }
        let oldest = under_way.iter().min_by_key(|piece| piece.at.lock().since)?;
        let error = oldest.at.lock().all_hang();
        self.hangs();
        Some(error)
    }

    /// Returns the error if the disk is busy but some of the work made progress recently.
    fn is_slow(&self) -> Error {
        let under_way = self.0.under_way.lock();
        let oldest = under_way.iter().min_by_key(|piece| piece.at.lock().since);
        let path = oldest.map(|piece| piece.at.lock().path.clone()).unwrap_or_default();
        Error::unavailable(format!(
            "{AT_ONCE} reads and writes in the folders of the cluster's jobs were under way for {} s, one of them at {}, and no more \
             are begun: their file system is very slow, or hangs. It is tried again",
            self.0.limit.as_secs_f32(),
            path.display()
        ))
    }

    fn hangs(&self) {
        *self.0.hung.lock() = Some(Instant::now());
    }

    fn begin<T: Send + 'static>(
        &self,
        room: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Arc<DiskWork>, JoinHandle<T>) {
        let at = WorkProgress { path: PathBuf::new(), since: Instant::now() };
        let piece = Arc::new(DiskWork { at: Mutex::new(at), given_up: AtomicBool::new(false) });
        self.0.under_way.lock().push(Arc::clone(&piece));
        let place = WorkGuard { disk: self.clone(), piece: Arc::clone(&piece), _room: room };
        let done = tokio::task::spawn_blocking(move || {
            OURS.set(Some(Arc::clone(&place.piece)));
            let done = work();
            drop(place);
            done
        });
        (piece, done)
    }
}

/// The registration of a piece of work. It lasts until the thread is free again, however the work ends.
struct WorkGuard {
    disk: Disk,
    piece: Arc<DiskWork>,
    _room: OwnedSemaphorePermit,
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        OURS.set(None);
        self.disk.0.under_way.lock().retain(|piece| !Arc::ptr_eq(piece, &self.piece));
        if self.piece.given_up.load(Ordering::Acquire) {
            // The disk hung until now.
            self.disk.hangs();
        }
    }
}

impl WorkProgress {
    fn hangs(&self) -> Error {
        let waited = self.since.elapsed().as_secs();
        let path = self.path.display();
        if self.path.as_os_str().is_empty() {
            return Error::unavailable(format!(
                "no thread was free for {waited} s to read or write in the folders of the cluster's jobs: it is tried again"
            ));
        }
        Error::unavailable(format!("{path} has not answered for {waited} s{}", what_to_do(&self.path)))
    }

    fn all_hang(&self) -> Error {
        let (path, waited) = (self.path.display(), self.since.elapsed().as_secs());
        Error::unavailable(format!(
            "{path} has not answered for {waited} s, nor has what else was read and written there, and no more is begun{}",
            what_to_do(&self.path)
        ))
    }
}

fn what_to_do(path: &Path) -> String {
    format!(
        ": its file system hangs, as a shared one does whose server is away. It is tried again until that is back. If `ls -l {}` \
         hangs as well, see to that server, or to the mount",
        path.display()
    )
}

/// Returns true for the errors that a file system returns instead of hanging while its server is away: a
/// network file system mounted `soft`, or one in user space whose process died. Also true for a shortage of
/// descriptors or memory on this machine, which does not concern the file.
pub(crate) fn may_pass(error: &io::Error) -> bool {
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

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use taskbridge_sdk::ErrorKind;
    use taskbridge_sdk::suite::looks::PATIENCE;

    use super::*;

    /// A shorter limit would fail on a busy machine, where a thread may wait for the CPU.
    const LIMIT: Duration = Duration::from_secs(1);

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
        let disks = Disks::new(LIMIT);
        let fifo = Fifo::new();
        let error = fifo.read(&disks.jobs).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let shown = fifo.path().display().to_string();
        let says = error.to_string();
        assert!(
            says.contains(&format!("{shown} has not answered for ")) && !says.contains("for 0 s"),
            "{says}"
        );
        // One piece of work that hangs does not block others.
        assert_eq!(disks.jobs.run(|| 7).await.unwrap(), 7);
        for read in join_all((1..AT_ONCE).map(|_| fifo.read(&disks.jobs))).await {
            read.unwrap_err();
        }
        let began = Instant::now();
        for _ in 0..100 {
            let error = fifo.read(&disks.jobs).await.unwrap_err();
            assert!(
                error.to_string().contains(&shown) && error.to_string().contains("no more is begun"),
                "{error}"
            );
        }
        assert!(began.elapsed() < LIMIT * 20, "nobody waits for what hangs anyway");
        assert_eq!(disks.jobs.0.under_way.lock().len(), AT_ONCE);
        assert!(disks.jobs.answers_for() < LIMIT);
        // Other disks are not affected.
        assert_eq!(disks.roots.run(|| 7).await.unwrap(), 7);
        assert_eq!(disks.roots.answers_for(), Duration::MAX);
        drop(fifo);
        let began = Instant::now();
        while !disks.jobs.0.under_way.lock().is_empty() {
            assert!(began.elapsed() < PATIENCE, "its readers never ended");
            tokio::task::yield_now().await;
        }
        assert_eq!(disks.jobs.run(|| 7).await.unwrap(), 7, "its server is back");
    }

    /// Work that advances to further paths may take longer than the limit.
    #[tokio::test]
    async fn progressing_disk_work_is_not_abandoned() {
        let disks = Disks::new(LIMIT);
        let took = disks.jobs.run(|| {
            let began = std::time::Instant::now();
            while began.elapsed() < LIMIT * 3 {
                std::thread::sleep(LIMIT / 20);
                enter_path(Path::new("next"));
            }
            began.elapsed()
        });
        assert!(took.await.unwrap() >= LIMIT * 3);
    }

    /// Errors of a file system that may recover are distinct from those about a file itself.
    #[test]
    fn transient_file_errors_are_recognized() {
        let passes = |errno: Errno| may_pass(&errno.into());
        assert!([Errno::IO, Errno::STALE, Errno::MFILE, Errno::NFILE, Errno::NOMEM].into_iter().all(passes));
        assert!(![Errno::NOENT, Errno::ACCESS, Errno::ISDIR, Errno::LOOP].into_iter().any(passes));
    }

    #[tokio::test]
    async fn abandoned_disk_work_detects_timeout() {
        let disks = Disks::new(LIMIT);
        let (told, hears) = std::sync::mpsc::channel();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let hangs = crate::hanging::below(&path);
        let given_up = disks.jobs.run(move || {
            let before = is_given_up();
            enter_path(&path);
            told.send((before, is_given_up(), check_not_abandoned().is_err())).unwrap();
        });
        given_up.await.unwrap_err();
        drop(hangs);
        assert_eq!(
            tokio::task::spawn_blocking(move || hears.recv()).await.unwrap().unwrap(),
            (false, true, true)
        );
    }
}
