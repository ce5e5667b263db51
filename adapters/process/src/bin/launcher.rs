//! The launcher as a separate program, for tests and for use of the adapter without the server, whose program
//! has this role otherwise. It must do nothing else:
//! `taskbridge-process-launcher adapter-helper process ..`.

use std::process::ExitCode;

use taskbridge_process::Process;
use taskbridge_sdk::Adapter;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match (arguments.as_slice(), Process::HELPER) {
        ([role, kind, rest @ ..], Some(helper)) if role == "adapter-helper" && kind == Process::KIND => {
            helper(rest)
        }
        _ => ExitCode::from(2),
    }
}
