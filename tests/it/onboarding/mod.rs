//! Tests of a user's first minutes: `dev`, `init`, `connect`, and configs of several files.

mod colour;
mod connect;
mod connect_shapes;
mod dev;
mod include;
mod init;
mod manual;

use std::process::Command;

use crate::support::{PROGRAM, ProgramOutput, TestDir};

/// Returns the command with these arguments, in the folder and with its environment.
fn program(dir: &TestDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(arguments));
    command
}

async fn run(dir: &TestDir, arguments: &[&str]) -> ProgramOutput {
    dir.run(program(dir, arguments)).await
}
