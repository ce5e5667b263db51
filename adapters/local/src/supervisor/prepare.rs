//! Prepares what a command needs before it starts: its files, its standard input, its working directory. Each
//! error is a message that becomes the job's failure.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, mkfifoat};

use crate::store::job_dir::{JobDir, create_private_dir};
use crate::submit::request::{LaunchRequest, StagedContent, StagedFile};

/// Returns the command of a request, ready to start in its own process group.
pub(super) fn command(request: &LaunchRequest) -> Result<Command, String> {
    request.files.iter().try_for_each(stage)?;
    let stdin = stdin(request).map_err(|e| format!("the command's input cannot be prepared: {e}"))?;
    if !request.working_dir.is_dir() {
        let path = request.working_dir.display();
        return Err(format!(
            "the working directory {path} does not exist: create it, or correct the arguments or the tool's `working_dir`"
        ));
    }
    let (program, arguments) = request.command.split_first().ok_or("there is no program to run")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&request.env).current_dir(&request.working_dir);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    Ok(command)
}

/// Returns the reason why the command could not be started.
pub(super) fn start_error(request: &LaunchRequest, error: &io::Error) -> String {
    let program = request.command.first().map_or("", String::as_str);
    match (error.kind(), request.env.get("PATH")) {
        (io::ErrorKind::NotFound, Some(path)) if !program.contains('/') => {
            format!(
                "the program `{program}` was not found on PATH ({path}): install it, or correct the tool's `command`"
            )
        }
        _ => format!("the program `{program}` cannot be run: {error}"),
    }
}

/// Creates and opens the FIFO that wakes the supervisor. It is also opened for writing, so that it never
/// reaches end of file.
pub(super) fn fifo(dir: &JobDir) -> io::Result<File> {
    mkfifoat(CWD, dir.wake_fifo(), Mode::RUSR | Mode::WUSR)?;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(dir.wake_fifo())
}

/// Writes one file that came with the call.
fn stage(file: &StagedFile) -> Result<(), String> {
    let write_error = |e| format!("a file that came with the call cannot be written: {e}");
    let create = || {
        file.path.parent().map_or(Ok(()), create_private_dir)?;
        File::create_new(&file.path)
    };
    match &file.content {
        StagedContent::Base64(text) => {
            let bytes = BASE64.decode(text).map_err(|e| write_error(io::Error::other(e)))?;
            create().and_then(|mut to| to.write_all(&bytes)).map_err(write_error)
        }
        StagedContent::Source(source) => {
            let mut from = source.open().map_err(|e| e.to_string())?;
            let mut to = create().map_err(write_error)?;
            io::copy(&mut from, &mut to).map(drop).map_err(|e| source.convert_io_error(e).to_string())
        }
    }
}

/// Returns the command's standard input. It exists only in memory, because it may be a secret.
fn stdin(request: &LaunchRequest) -> io::Result<Stdio> {
    let Some(text) = &request.stdin else { return Ok(Stdio::null()) };
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}
