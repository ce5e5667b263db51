//! The process that stays: it starts the program, and ends all that is left of it. It must not read or write
//! the program's pipes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::parent::{Confinement, EXEC, HELPER_ROLE, fail, follow};
use crate::config::KIND;

/// How often killed processes are looked for. Each one may have started others in between.
const MAX_ROUNDS: usize = 200;

pub(super) fn run(
    parent: Pid,
    confinement: Confinement,
    program: &OsStr,
    arguments: &[OsString],
) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(watch(parent, confinement, program, arguments)) {
        Ok(code) => code,
        Err(error) => fail(&error.to_string()),
    }
}

async fn watch(
    parent: Pid,
    confinement: Confinement,
    program: &OsStr,
    arguments: &[OsString],
) -> io::Result<ExitCode> {
    // In this order: a signal before the program exists must not be lost.
    let mut stop = signal(SignalKind::terminate())?;
    let mut ended = signal(SignalKind::child())?;
    if !follow(parent, Signal::TERM) {
        return Err(io::Error::other("the server has ended"));
    }
    // Whatever the program started and left is a child of this process then.
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_no_new_privs(true)?;
    let mut child = start(confinement, program, arguments)?;
    release_pipes()?;
    let status = wait(&mut child, &mut stop, &mut ended).await?;
    end_all().await;
    Ok(match status.and_then(|status| status.code()) {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => ExitCode::from(1),
    })
}

fn start(confinement: Confinement, program: &OsStr, arguments: &[OsString]) -> io::Result<Child> {
    let (this, confinement) = (std::process::id().to_string(), serde_json::to_string(&confinement)?);
    Command::new("/proc/self/exe")
        .args([HELPER_ROLE, KIND, EXEC, &this, &confinement])
        .arg(program)
        .args(arguments)
        .process_group(0)
        .spawn()
}

/// Closes this process's ends of the program's pipes, so that the server sees when the program closes its
/// own.
fn release_pipes() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Waits until the program has ended, or until it must. Returns its status in the first case.
async fn wait(
    child: &mut Child,
    stop: &mut SignalStream,
    ended: &mut SignalStream,
) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        tokio::select! {
            _ = ended.recv() => {}
            _ = stop.recv() => return Ok(None),
        }
    }
}

/// Ends and reaps all children of this process, and the children that they leave to it.
async fn end_all() {
    for _ in 0..MAX_ROUNDS {
        for pid in children() {
            let _ = kill_process(pid, Signal::KILL);
        }
        // An error means that there are no children left.
        loop {
            match waitpid(None, WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the children of this process, which has a single thread.
fn children() -> Vec<Pid> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}
