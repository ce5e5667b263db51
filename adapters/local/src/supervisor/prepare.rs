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

use crate::job_dir::{JobDir, make_private};
use crate::job_request::{LaunchRequest, StagedContent, StagedFile};

/// Returns the command of an order, ready to start in its own process group.
pub(super) fn command(order: &LaunchRequest) -> Result<Command, String> {
    order.files.iter().try_for_each(stage)?;
    let stdin = stdin(order).map_err(|e| format!("the command's input cannot be prepared: {e}"))?;
    if !order.working_dir.is_dir() {
        let shown = order.working_dir.display();
        return Err(format!(
            "the working directory {shown} does not exist: create it, or correct the arguments or the tool's `working_dir`"
        ));
    }
    let (program, arguments) = order.command.split_first().ok_or("there is no program to run")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&order.env).current_dir(&order.working_dir);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    Ok(command)
}

/// Returns the reason why the command could not be started.
pub(super) fn not_run(order: &LaunchRequest, error: &io::Error) -> String {
    let program = order.command.first().map_or("", String::as_str);
    match (error.kind(), order.env.get("PATH")) {
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
    mkfifoat(CWD, dir.wake(), Mode::RUSR | Mode::WUSR)?;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(dir.wake())
}

/// Writes one file that came with the call.
fn stage(file: &StagedFile) -> Result<(), String> {
    let unwritten = |e| format!("a file that came with the call cannot be written: {e}");
    let create = || {
        file.path.parent().map_or(Ok(()), make_private)?;
        File::create_new(&file.path)
    };
    match &file.content {
        StagedContent::Base64(text) => {
            let bytes = BASE64.decode(text).map_err(|e| unwritten(io::Error::other(e)))?;
            create().and_then(|mut to| to.write_all(&bytes)).map_err(unwritten)
        }
        StagedContent::Source(source) => {
            let mut from = source.open().map_err(|e| e.to_string())?;
            let mut to = create().map_err(unwritten)?;
            io::copy(&mut from, &mut to).map(drop).map_err(|e| source.unreadable(e).to_string())
        }
    }
}

/// Returns the command's standard input. It exists only in memory, because it may be a secret.
fn stdin(order: &LaunchRequest) -> io::Result<Stdio> {
    let Some(text) = &order.stdin else { return Ok(Stdio::null()) };
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}
