//! The process between the server and a program. It ends the program and everything that the program started,
//! when the program ends, when it is asked to, and when the server has gone. It must not touch the program's
//! messages.
//!
//! It has two roles, because the parent-death signal belongs to a single process: `watch` stays and starts
//! `exec`, which prepares itself and becomes the program.

mod exec;
mod parent;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use rustix::process::Pid;

use parent::{EXEC, fail};

pub(crate) use parent::{Confinement, HELPER_ROLE, WATCH};

/// Runs a role: `watch|exec PARENT CONFINEMENT PROGRAM ARGUMENT..`.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let [role, parent, confinement, command @ ..] = arguments else { return fail("too few arguments") };
    let parent = parent.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let confinement = confinement.to_str().and_then(|json| serde_json::from_str(json).ok());
    let (Some(parent), Some(confinement), [program, arguments @ ..]) = (parent, confinement, command) else {
        return fail("wrong arguments");
    };
    match role.to_str() {
        Some(WATCH) => watch::run(parent, confinement, program, arguments),
        Some(EXEC) => exec::run(parent, confinement, program, arguments),
        _ => fail("unknown role"),
    }
}
