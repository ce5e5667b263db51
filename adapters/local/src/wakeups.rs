//! Hints that a job ended, through a FIFO beside the jobs' folders. They are worth nothing but speed: each is read by
//! one of the servers that share the folder, if by any, and whoever hears none looks again later anyway.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::io::Errno;
use taskbridge_sdk::{JobHandle, Wakeups, async_trait};
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use crate::handle::Machine;
use crate::job_dir::JobDir;

/// The FIFO, beside the jobs' folders.
fn path(jobs: &Path) -> PathBuf {
    jobs.join(".wakeups")
}

/// Tells a server that a job has something new, if one listens.
pub(crate) fn hint(dir: &JobDir) {
    let Some(jobs) = dir.path().parent() else { return };
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    if let Ok(mut fifo) = OpenOptions::new().write(true).custom_flags(flags).open(path(jobs)) {
        // A line this short is written whole or, when nobody has read for long, not at all.
        let _ = fifo.write_all(format!("{}\n", dir.key()).as_bytes());
    }
}

/// The server's end of the FIFO.
pub(crate) struct Listener {
    machine: Machine,
    /// The pipe, and the keys that were read from it in part.
    state: Mutex<(pipe::Receiver, Vec<u8>)>,
}

impl Listener {
    pub(crate) fn open(jobs: &Path, machine: Machine) -> io::Result<Self> {
        match mkfifoat(CWD, path(jobs), Mode::RUSR | Mode::WUSR) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        // Opened for writing too, so that it is never at its end.
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(path(jobs))?;
        Ok(Self { machine, state: Mutex::new((receiver, Vec::new())) })
    }
}

#[async_trait]
impl Wakeups for Listener {
    async fn next(&self) -> JobHandle {
        let mut state = self.state.lock().await;
        let (receiver, read) = &mut *state;
        loop {
            if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = read.drain(..=end).collect();
                return self.machine.handle(String::from_utf8_lossy(&line[..end]).as_ref());
            }
            // A broken pipe has no hints: this waits for ever, and the watchers' own pace remains.
            if receiver.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
            let mut buffer = [0; 4096];
            if let Ok(n) = receiver.try_read(&mut buffer) {
                read.extend_from_slice(&buffer[..n]);
            }
        }
    }
}
