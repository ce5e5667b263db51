//! Detects dead lease holders. Each process locks a file of its own in the folder `<database>-holders`. The
//! kernel releases the lock when its process ends for any reason, so a lock that another process can take
//! proves the death of its holder. A missing file proves nothing: older versions create none. It must not
//! touch the database.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, OFlags, flock, fstatfs};
use rustix::io::Errno;

use taskbridge_core::tasks::store::Holder;

/// The local file systems, by the type that statfs(2) reports: ext2 to ext4, XFS, Btrfs, ZFS, F2FS,
/// bcachefs, tmpfs and overlayfs. On any other (NFS, SMB, FUSE, 9P) a lock can end before its process does.
const LOCAL_FILE_SYSTEMS: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0xF2F5_2010, 0xCA45_1A4E, 0x0102_1994, 0x794C_7630];

/// Maximum number of dead holders that one call of [`Holders::find_dead`] returns, with their locks.
const BATCH: usize = 64;

/// The number of attempts and the delay to lock this process's new file. Another process that found the
/// unlocked file may lock it briefly.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// The suffix of a lock file.
const SUFFIX: &str = ".lock";

/// The folder of lock files, and the lock of this process.
pub(in crate::sqlite) struct Holders {
    folder: PathBuf,
    own_lock: Mutex<Option<File>>,
}

/// A dead holder. Its lock is kept until this is dropped.
pub(super) struct DeadHolder {
    pub(super) holder: String,
    path: PathBuf,
    _lock: File,
}

impl DeadHolder {
    /// Deletes the lock file.
    pub(super) fn delete(self) {
        // If that fails, its leases are released again later, which has no effect.
        let _ = fs::remove_file(&self.path);
    }
}

impl Holders {
    /// Returns the holders of leases in this database file.
    pub(in crate::sqlite) fn of(database: &Path) -> Self {
        // Two paths of one file must lead to one folder.
        let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let mut folder = database.into_os_string();
        folder.push("-holders");
        Self { folder: folder.into(), own_lock: Mutex::new(None) }
    }

    /// Locks a file for this holder until the process ends or this value is dropped. Returns false if locks
    /// on this file system prove nothing.
    pub(in crate::sqlite) fn lock(&self, holder: &Holder) -> io::Result<bool> {
        if !is_safe(&holder.0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the holder's name is no file name"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let kind = fstatfs(File::open(&self.folder)?)?.f_type;
        if !LOCAL_FILE_SYSTEMS.contains(&(kind as u64)) {
            return Ok(false);
        }
        let path = self.path(&holder.0);
        for _ in 0..ATTEMPTS {
            let file = open(&path, true)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // A process that deletes a lock file has its lock, so a file that still exists now will
                // remain.
                Ok(()) if file.metadata()?.nlink() > 0 => {
                    *self.own_lock.lock() = Some(file);
                    return Ok(true);
                }
                Ok(()) | Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process keeps the lock file locked"))
    }

    /// Returns the dead holders, with their locks; empty until this process has locked its own file.
    pub(super) fn find_dead(&self) -> Vec<DeadHolder> {
        if self.own_lock.lock().is_none() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let dead = entries.flatten().filter_map(|entry| {
            let holder = entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned();
            let path = is_safe(&holder).then(|| entry.path())?;
            let lock = open(&path, false).ok()?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some(DeadHolder { holder, path, _lock: lock })
        });
        dead.take(BATCH).collect()
    }

    fn path(&self, holder: &str) -> PathBuf {
        self.folder.join(format!("{holder}{SUFFIX}"))
    }
}

/// Opens a lock file. Child processes do not inherit it (std sets O_CLOEXEC).
fn open(path: &Path, create: bool) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

/// Returns true if a holder's name is usable as a file name.
fn is_safe(holder: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    (1..=100).contains(&holder.len()) && !holder.starts_with('.') && holder.chars().all(is_plain)
}
