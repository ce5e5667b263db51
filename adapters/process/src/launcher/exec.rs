//! The process that becomes the program: it limits itself first. It must not start another process.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid, setrlimit};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

use super::parent::{Confinement, fail, follow};
use crate::config::Limits;

pub(super) fn run(
    parent: Pid,
    confinement: Confinement,
    program: &OsStr,
    arguments: &[OsString],
) -> ExitCode {
    let Confinement { limits, user } = confinement;
    // Before the change of the user, who may not raise a limit.
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
    if let Some((uid, gid)) = user
        && let Err(error) = become_user(uid, gid)
    {
        return fail(&format!("it cannot run as the user {uid}:{gid}: {error}"));
    }
    // After the change of the user, which clears this signal.
    if !follow(parent, Signal::KILL) {
        return fail("the server has ended");
    }
    let error = Command::new(program).args(arguments).exec();
    fail(&format!("{}: {error}", program.to_string_lossy()))
}

/// Drops all groups and all rights of the current user. This process has one thread.
fn become_user(uid: u32, gid: u32) -> rustix::io::Result<()> {
    set_thread_groups(&[])?;
    set_thread_gid(Gid::from_raw(gid))?;
    set_thread_uid(Uid::from_raw(uid))
}
