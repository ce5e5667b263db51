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

use crate::config::Limits;
use parent::{EXEC, fail};

pub(crate) use parent::{HELPER_ROLE, WATCH};

/// Runs a role: `watch|exec PARENT LIMITS PROGRAM ARGUMENT..`.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let [role, parent, limits, command @ ..] = arguments else { return fail("too few arguments") };
    let parent = parent.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let limits = limits.to_str().and_then(|json| serde_json::from_str::<Limits>(json).ok());
    let (Some(parent), Some(limits), [program, arguments @ ..]) = (parent, limits, command) else {
        return fail("wrong arguments");
    };
    match role.to_str() {
        Some(WATCH) => watch::run(parent, limits, program, arguments),
        Some(EXEC) => exec::run(parent, limits, program, arguments),
        _ => fail("unknown role"),
    }
}
