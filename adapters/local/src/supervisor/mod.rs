//! The process beside each job: it takes the job, runs the command, keeps what it prints, stops it when asked, and
//! writes down how it ended. It outlives the server, so it uses nothing of it: no runtime, no threads, no config.

mod declared;
mod end;
mod payload;
mod prepare;
mod watch;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use taskbridge_sdk::{JobState, Observation, Output};
use tokio::signal::unix::{SignalKind, signal};

use crate::handle::Machine;
use crate::job_dir::{Claim, JobDir};
use crate::order::Order;
use crate::wakeups;

/// What the server reads when the job is taken, by this supervisor or by another.
pub(crate) const TAKEN: &str = "taken";

/// The helper role: `PROGRAM adapter-helper local FOLDER`, with the order on standard input. One line on standard
/// output says that the job is taken, or why nothing will run.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let [folder] = arguments else { return ExitCode::from(2) };
    let dir = JobDir::new(folder);
    match outlive_file_limits().and_then(|()| take(&dir)) {
        Ok(Some((order, _alive))) => {
            reply(TAKEN);
            let end = end::observation(&dir, &order, &watch::run(&dir, &order));
            tell(&dir, &end);
            ExitCode::SUCCESS
        }
        Ok(None) => {
            reply(TAKEN);
            ExitCode::SUCCESS
        }
        Err(e) => {
            reply(&format!("the job's folder cannot be used: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// Has a write beyond the limit on file sizes (`RLIMIT_FSIZE`) fail like one to a full disk; its signal would end this process.
/// The command gets the signal as ever.
fn outlive_file_limits() -> io::Result<()> {
    // The handler stays installed when this runtime is gone.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Takes the job, unless somebody has it. The job lives for as long as the returned file is open.
fn take(dir: &JobDir) -> io::Result<Option<(Order, File)>> {
    // A session of its own: no terminal's signals reach it. This fails only for one that leads a group already,
    // which has been put apart by whoever started it.
    let _ = rustix::process::setsid();
    let mut order = Vec::new();
    io::stdin().read_to_end(&mut order)?;
    // An order that was cut short, because the server died, is no JSON and takes nothing.
    let order: Order = serde_json::from_slice(&order)?;
    dir.create()?;
    let machine = Machine::here().map_err(io::Error::other)?;
    let claim = Claim { supervisor: std::process::id(), machine };
    Ok(dir.claim(&claim)?.map(|alive| (order, alive)))
}

/// Answers the server, which may be gone by now.
fn reply(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes the end down. Nobody else knows it, so a full disk is waited out; only a folder that was removed ends this. A result that
/// the limit on file sizes does not allow is lost.
fn tell(dir: &JobDir, end: &Observation) {
    let mut end = Cow::Borrowed(end);
    while let Err(error) = dir.write_end(&end)
        && dir.path().exists()
    {
        if error.kind() == io::ErrorKind::FileTooLarge {
            let why = "the job's result is larger than the limit on file sizes (RLIMIT_FSIZE) of the server";
            end = Cow::Owned(Observation::new(JobState::Failed(Output::default())).with_message(why));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    wakeups::hint(dir);
}
