//! Hints that a job ended, through a FIFO next to the jobs' folders. Hints only reduce latency: each is read
//! by at most one of the servers that share the folder. A server that gets no hint still polls the job later.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::io::Errno;
use taskbridge_sdk::{JobHandle, Wakeups, async_trait};
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use crate::identity::handle::{Machine, is_key};
use crate::store::job_dir::JobDir;

/// Longest line that can be a hint, in bytes. Any process of this user can write to the FIFO.
const MAX_LINE_BYTES: usize = 256;

/// Returns the path of the FIFO, next to the jobs' folders.
fn fifo_path(jobs: &Path) -> PathBuf {
    jobs.join(".wakeups")
}

/// Notifies a server that a job has changed, if one listens.
pub(crate) fn hint(dir: &JobDir) {
    let Some(jobs) = dir.path().parent() else { return };
    if let Ok(mut fifo) = OpenOptions::new().write(true).custom_flags(open_flags()).open(fifo_path(jobs)) {
        // A line this short is written completely or, if the FIFO is full, not at all.
        let _ = fifo.write_all(format!("{}\n", dir.key()).as_bytes());
    }
}

/// Returns flags for an open that never blocks and never follows a link.
fn open_flags() -> i32 {
    (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed()
}

/// Opens the FIFO. It is also opened for writing, so that it never reaches end of file. A job may have
/// replaced it with something else, which is removed.
fn open_fifo(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).custom_flags(open_flags()).open(path);
    match open() {
        Ok(file) if file.metadata()?.file_type().is_fifo() => return Ok(file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(_) | Err(_) => fs::remove_file(path)?,
    }
    match mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR) {
        // Another server may create it first.
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(e) => Err(e.into()),
    }
}

/// The server's end of the FIFO.
pub(crate) struct Listener {
    machine: Machine,
    /// The pipe, and bytes of keys that were read but not yet returned.
    state: Mutex<(pipe::Receiver, Vec<u8>)>,
}

impl Listener {
    pub(crate) fn open(jobs: &Path, machine: Machine) -> io::Result<Self> {
        let receiver = pipe::Receiver::from_file(open_fifo(&fifo_path(jobs))?)?;
        Ok(Self { machine, state: Mutex::new((receiver, Vec::new())) })
    }
}

#[async_trait]
impl Wakeups for Listener {
    async fn next(&self) -> JobHandle {
        let mut state = self.state.lock().await;
        let (receiver, unread) = &mut *state;
        loop {
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = unread.drain(..=end).collect();
                match std::str::from_utf8(&line[..end]) {
                    Ok(key) if key.len() <= MAX_LINE_BYTES && is_key(key) => return self.machine.handle(key),
                    _ => continue,
                }
            }
            // Keeps enough of a line that is too long, so that it is still too long when its end arrives.
            unread.truncate(MAX_LINE_BYTES + 1);
            // A broken pipe sends no hints: this waits forever, and only regular polls remain.
            if receiver.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
            let mut buffer = [0; 4096];
            if let Ok(n) = receiver.try_read(&mut buffer) {
                unread.extend_from_slice(&buffer[..n]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_line_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine { host: "h".to_owned(), boot: "b".to_owned() };
        let listener = Listener::open(dir.path(), machine.clone()).unwrap();
        let fifo = fifo_path(dir.path());
        let flood = tokio::task::spawn_blocking(move || {
            let mut fifo = OpenOptions::new().write(true).open(fifo).unwrap();
            fifo.write_all(&vec![b'x'; 1024 * 1024]).unwrap();
            fifo.write_all(b"x\n../x\n\xff\n\ntb-abc\n").unwrap();
        });
        assert_eq!(listener.next().await, machine.handle("tb-abc"));
        flood.await.unwrap();
        assert!(listener.state.lock().await.1.capacity() <= 4 * 4096);
    }

    /// A file or a link at the path of the FIFO is replaced, and the target of the link is unchanged.
    #[tokio::test]
    async fn wakeup_fifo_replaces_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine { host: "h".to_owned(), boot: "b".to_owned() };
        std::fs::write(dir.path().join("victim"), "kept").unwrap();
        let obstacles: [fn(&Path); 2] =
            [|at| std::fs::write(at, "x").unwrap(), |at| std::os::unix::fs::symlink("victim", at).unwrap()];
        for create_obstacle in obstacles {
            drop(std::fs::remove_file(fifo_path(dir.path())));
            create_obstacle(&fifo_path(dir.path()));
            let listener = Listener::open(dir.path(), machine.clone()).unwrap();
            hint(&JobDir::new(dir.path().join("tb-abc")));
            assert_eq!(listener.next().await, machine.handle("tb-abc"));
        }
        assert_eq!(std::fs::read(dir.path().join("victim")).unwrap(), b"kept");
    }
}
