//! The process that becomes the program: it limits itself first. It must not start another process.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit};

use super::parent::{fail, follow};
use crate::config::Limits;

pub(super) fn run(parent: Pid, limits: Limits, program: &OsStr, arguments: &[OsString]) -> ExitCode {
    if !follow(parent, Signal::KILL) {
        return fail("the server has ended");
    }
    let Limits { memory_bytes, open_files, processes, file_bytes } = limits;
    // A core file could contain secrets.
    for (resource, limit) in [
        (Resource::Core, Some(0)),
        (Resource::As, memory_bytes),
        (Resource::Nofile, open_files),
        (Resource::Nproc, processes),
        (Resource::Fsize, file_bytes),
    ] {
        if limit.is_some()
            && let Err(error) = setrlimit(resource, Rlimit { current: limit, maximum: limit })
        {
            return fail(&format!("the limit {resource:?} = {limit:?} cannot be set: {error}"));
        }
    }
    let error = Command::new(program).args(arguments).exec();
    fail(&format!("{}: {error}", program.to_string_lossy()))
}
