//! What both roles share: their names, the confinement of the program, the end of the parent, and errors. It
//! must not start a process.

use std::io::Write as _;
use std::process::ExitCode;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::config::Limits;

/// First argument of the server's program in a helper role.
pub(crate) const HELPER_ROLE: &str = "adapter-helper";
/// Role of the process that stays.
pub(crate) const WATCH: &str = "watch";
/// Role of the process that becomes the program.
pub(crate) const EXEC: &str = "exec";
/// Exit code of a program that cannot be started, as in shells.
const NOT_STARTED: u8 = 127;

/// What a program may use.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) limits: Limits,
    /// Ids of the user and the group that it runs as, if not the server's.
    pub(crate) user: Option<(u32, u32)>,
}

/// Lets the system send this signal when the parent ends. Returns false if it has ended already.
pub(super) fn follow(parent: Pid, signal: Signal) -> bool {
    set_parent_process_death_signal(Some(signal)).is_ok() && getppid() == Some(parent)
}

/// Reports why the program cannot run. Standard error is the log of the program.
pub(super) fn fail(reason: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "the program cannot be started: {reason}");
    ExitCode::from(NOT_STARTED)
}
