//! The supervisor process of a job. It claims the job, runs the command, saves its output, stops it on
//! request, and records how it ended. It outlives the server, so it must not use the server's runtime,
//! threads or config.

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

use crate::identity::handle::Machine;
use crate::store::job_dir::{Claim, JobDir};
use crate::submit::request::{CLAIMED_REPLY, LaunchRequest};
use crate::wakeups;

/// Runs the helper role: `PROGRAM adapter-helper local FOLDER`, with a [`LaunchRequest`] on standard input.
/// One line on standard output reports that the job is claimed, or why nothing will run.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let [folder] = arguments else { return ExitCode::from(2) };
    let dir = JobDir::new(folder);
    match handle_file_size_signal().and_then(|()| claim_job(&dir)) {
        Ok(Some((request, _claim_file))) => {
            reply(CLAIMED_REPLY);
            let end = end::final_observation(&dir, &request, &watch::run(&dir, &request));
            store_end(&dir, &end);
            ExitCode::SUCCESS
        }
        Ok(None) => {
            reply(CLAIMED_REPLY);
            ExitCode::SUCCESS
        }
        Err(e) => {
            reply(&format!("the job's folder cannot be used: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// Installs a handler for SIGXFSZ, which would end this process. A write beyond the limit on file sizes
/// (`RLIMIT_FSIZE`) then fails like a write to a full disk. The command still gets the signal.
fn handle_file_size_signal() -> io::Result<()> {
    // The handler stays installed after this runtime is dropped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Claims the job. Returns `None` if it is already claimed. The job counts as supervised while the returned
/// file is open.
fn claim_job(dir: &JobDir) -> io::Result<Option<(LaunchRequest, File)>> {
    // A new session, so that no terminal signal reaches this process. This fails only for a process that
    // already leads a group, which the process that started it has separated.
    let _ = rustix::process::setsid();
    let mut request_json = Vec::new();
    io::stdin().read_to_end(&mut request_json)?;
    // A request that was cut short by a crash of the server is not valid JSON, so nothing is claimed.
    let request: LaunchRequest = serde_json::from_slice(&request_json)?;
    dir.create()?;
    let machine = Machine::current().map_err(io::Error::other)?;
    let claim = Claim { supervisor: std::process::id(), machine };
    Ok(dir.claim(&claim)?.map(|claim_file| (request, claim_file)))
}

/// Replies to the server, which may no longer exist.
fn reply(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Stores the final observation. Only this process knows it, so after any error, such as a full disk, it
/// retries every second until the folder is removed. A result larger than the limit on file sizes becomes a
/// failure.
fn store_end(dir: &JobDir, end: &Observation) {
    let mut end = Cow::Borrowed(end);
    while let Err(error) = dir.write_end(&end)
        && dir.path().exists()
    {
        if error.kind() == io::ErrorKind::FileTooLarge {
            let message =
                "the job's result is larger than the limit on file sizes (RLIMIT_FSIZE) of the server";
            end = Cow::Owned(Observation::new(JobState::Failed(Output::default())).with_message(message));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    wakeups::hint(dir);
}
