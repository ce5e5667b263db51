//! The command in its own process group: start, output and signals. It must not decide when to stop:
//! `watch` does.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::prepare;
use crate::result::log::{Stream, Writer};
use crate::store::job_dir::JobDir;
use crate::submit::request::LaunchRequest;

/// A command that was started.
pub(super) struct Payload {
    child: Child,
    /// Process group. Its id stays valid until `finish` reaps the group leader.
    group: Pid,
    /// Readable after the command's own process has ended.
    exit: OwnedFd,
    /// Readable after a request to check for changes, such as a cancel request.
    wake: File,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    out_log: Writer,
    err_log: Writer,
    buffer: Vec<u8>,
}

impl Payload {
    /// Starts the command. The error is a message with the reason.
    pub(super) fn start(dir: &JobDir, request: &LaunchRequest) -> Result<Self, String> {
        let wake = prepare::fifo(dir).map_err(|e| format!("the job's folder cannot be used: {e}"))?;
        let mut child = prepare::command(request)?.spawn().map_err(|e| prepare::start_error(request, &e))?;
        let group = Pid::from_child(&child);
        let exit = match pidfd_open(group, PidfdFlags::empty()) {
            Ok(exit) => exit,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the command cannot be supervised: pidfd_open (Linux 5.3) failed: {e}"));
            }
        };
        let log = |stream| Writer::new(&dir.log_dir(), stream, request.max_output_bytes);
        Ok(Self {
            group,
            exit,
            wake,
            out: child.stdout.take(),
            err: child.stderr.take(),
            out_log: log(Stream::Out),
            err_log: log(Stream::Err),
            buffer: vec![0; 64 * 1024],
            child,
        })
    }

    /// Signals every process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // The group has processes until it is reaped. A process that may not be signalled is no longer ours.
        let _ = kill_process_group(self.group, signal);
    }

    /// Waits for an event, at most this long, and saves the output. Returns true after the command's own
    /// process has ended.
    pub(super) fn wait(&mut self, max_wait: Option<Duration>) -> bool {
        let ready = self.poll(max_wait);
        if ready.wake {
            // Only the wake-up counts. The sender also leaves a file.
            let _ = self.wake.read(&mut self.buffer);
        }
        self.save_output(&ready);
        ready.exit
    }

    /// Kills the rest of the group, saves the remaining output, and reaps the command.
    pub(super) fn finish(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        // Bounded, because a process that left the group may continue to print.
        for _ in 0..64 {
            let ready = self.poll(Some(Duration::ZERO));
            if !ready.out && !ready.err {
                break;
            }
            self.save_output(&ready);
        }
        self.child.wait()
    }

    fn save_output(&mut self, ready: &Ready) {
        if ready.out {
            copy(&mut self.out, &mut self.out_log, &mut self.buffer);
        }
        if ready.err {
            copy(&mut self.err, &mut self.err_log, &mut self.buffer);
        }
    }

    fn poll(&self, max_wait: Option<Duration>) -> Ready {
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![readable(self.exit.as_fd()), readable(self.wake.as_fd())];
        fds.extend(self.out.as_ref().map(|out| readable(out.as_fd())));
        fds.extend(self.err.as_ref().map(|err| readable(err.as_fd())));
        let timeout = max_wait.map(|wait| Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        });
        if poll(&mut fds, timeout.as_ref()).is_err() {
            // Interrupted, or temporarily out of memory: the caller retries.
            return Ready::default();
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = |is_open: bool| is_open && ready.next().unwrap_or_default();
        Ready {
            exit: next(true),
            wake: next(true),
            out: next(self.out.is_some()),
            err: next(self.err.is_some()),
        }
    }
}

/// Sources that can be read without blocking.
#[derive(Default)]
struct Ready {
    exit: bool,
    wake: bool,
    out: bool,
    err: bool,
}

/// Copies the available bytes of a pipe to its log, and closes the pipe at end of file.
fn copy(pipe: &mut Option<impl Read>, log: &mut Writer, buffer: &mut [u8]) {
    let Some(reader) = pipe else { return };
    match reader.read(buffer) {
        Ok(0) => *pipe = None,
        Ok(n) => log.append(&buffer[..n]),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
        Err(_) => *pipe = None,
    }
}
