//! Which holders of leases are dead. Each process keeps a kernel lock on a file of its own in the folder
//! `<database>-holders`. The lock ends with its process, however that ends, so a lock that another process can take
//! proves the death of its holder. A missing file proves nothing: older versions have none. It must not touch the
//! database.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, OFlags, flock, fstatfs};
use rustix::io::Errno;

use crate::tasks::store::Holder;

/// The file systems of this machine, by the type that statfs(2) reports: ext2 to ext4, XFS, Btrfs, ZFS, F2FS, bcachefs, tmpfs
/// and overlayfs. On any other (NFS, SMB, FUSE, 9P) a lock can end before its process does.
const LOCAL: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0xF2F5_2010, 0xCA45_1A4E, 0x0102_1994, 0x794C_7630];

/// The most locks that are taken at a time.
const BATCH: usize = 64;

/// How often, and with which pauses, a process tries to lock its own new file. Another process may hold the lock for a
/// moment, because it found the file before it was locked.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// The suffix of a lock file.
const SUFFIX: &str = ".lock";

/// The folder of lock files, and the lock of this process.
pub(super) struct Holders {
    folder: PathBuf,
    own: Mutex<Option<File>>,
}

/// A dead holder. Its lock is held until this is dropped.
pub(super) struct Dead {
    pub(super) holder: String,
    path: PathBuf,
    _lock: File,
}

impl Dead {
    /// Deletes the lock file.
    pub(super) fn delete(self) {
        // If it stays, its leases are ended once more, which changes nothing.
        let _ = fs::remove_file(&self.path);
    }
}

impl Holders {
    /// The holders of leases in this database file.
    pub(super) fn of(database: &Path) -> Self {
        // Two paths of one file have to lead to one folder.
        let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let mut folder = database.into_os_string();
        folder.push("-holders");
        Self { folder: folder.into(), own: Mutex::new(None) }
    }

    /// Locks a file for this holder until the process ends. False if the file system's locks prove nothing.
    pub(super) fn lock(&self, holder: &Holder) -> io::Result<bool> {
        if !is_safe(&holder.0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the holder's name is no file name"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let kind = fstatfs(File::open(&self.folder)?)?.f_type;
        if !LOCAL.contains(&(kind as u64)) {
            return Ok(false);
        }
        let path = self.path(&holder.0);
        for _ in 0..ATTEMPTS {
            let file = open(&path, true)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Whoever deletes a lock file holds its lock, so this one stays if it is still there.
                Ok(()) if file.metadata()?.nlink() > 0 => {
                    *self.own.lock() = Some(file);
                    return Ok(true);
                }
                Ok(()) | Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process keeps the lock file locked"))
    }

    /// The holders that are dead, with their locks; none before this process has locked its own file.
    pub(super) fn dead(&self) -> Vec<Dead> {
        if self.own.lock().is_none() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let dead = entries.flatten().filter_map(|entry| {
            let holder = entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned();
            let path = is_safe(&holder).then(|| entry.path())?;
            let lock = open(&path, false).ok()?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some(Dead { holder, path, _lock: lock })
        });
        dead.take(BATCH).collect()
    }

    fn path(&self, holder: &str) -> PathBuf {
        self.folder.join(format!("{holder}{SUFFIX}"))
    }
}

/// Opens a lock file. Programs that this process starts do not inherit it (std sets O_CLOEXEC).
fn open(path: &Path, create: bool) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

/// True if a holder's name can be a file name as it is.
fn is_safe(holder: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    (1..=100).contains(&holder.len()) && !holder.starts_with('.') && holder.chars().all(is_plain)
}
