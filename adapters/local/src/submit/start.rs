//! Starts a job: starts a supervisor, sends it a [`LaunchRequest`], and waits until the job is claimed. It
//! must not keep the supervisor: afterwards only the job's folder links it to the server.

use std::io;
use std::path::Path;
use std::process::Stdio;

use taskbridge_sdk::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::core::KIND;
use crate::store::job_dir::JobDir;
use crate::submit::request::{CLAIMED_REPLY, LaunchRequest};

/// Starts a supervisor and returns when the job is claimed, by it or by another. After an error this
/// supervisor has not claimed the job, unless it died in between. The folder shows which.
pub(crate) async fn launch(program: &Path, dir: &JobDir, request: &LaunchRequest) -> Result<()> {
    let spawned = Command::new(program)
        .arg("adapter-helper")
        .arg(KIND)
        .arg(dir.path())
        // The request contains the job's environment. The server's own environment stays private.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut supervisor = spawned.map_err(|e| spawn_error(program, e))?;
    let request =
        serde_json::to_vec(request).map_err(|e| Error::config(format!("a path is not UTF-8: {e}")))?;
    let reply = send_request(&mut supervisor, &request).await;
    let reply =
        reply.map_err(|e| Error::unavailable("the communication with the supervisor failed").caused_by(e))?;
    // The runtime reaps the supervisor when it ends, if the server still runs.
    match reply.trim() {
        CLAIMED_REPLY => Ok(()),
        "" => Err(Error::unavailable("the supervisor ended before it claimed the job")),
        reason => Err(Error::unavailable(reason)),
    }
}

async fn send_request(supervisor: &mut Child, request: &[u8]) -> io::Result<String> {
    if let Some(mut stdin) = supervisor.stdin.take() {
        match stdin.write_all(request).await {
            // It stopped reading. Its reply contains the reason.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            result => result?,
        }
    }
    let mut reply = Vec::new();
    if let Some(stdout) = &mut supervisor.stdout {
        while !reply.ends_with(b"\n") && stdout.read_buf(&mut reply).await? > 0 {}
    }
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

fn spawn_error(program: &Path, error: io::Error) -> Error {
    let message = format!("the supervisor {} cannot be started", program.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Error::config(message),
        _ => Error::unavailable(message),
    }
    .caused_by(error)
}
