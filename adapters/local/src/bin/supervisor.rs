//! The supervisor as a separate program, for tests and for use of the adapter without the server, whose
//! program has this role otherwise. It must do nothing else:
//! `taskbridge-local-supervisor adapter-helper local FOLDER`.

use std::process::ExitCode;

use taskbridge_local::Local;
use taskbridge_sdk::Adapter;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match (arguments.as_slice(), Local::HELPER) {
        ([role, kind, rest @ ..], Some(helper)) if role == "adapter-helper" && kind == Local::KIND => {
            helper(rest)
        }
        _ => ExitCode::from(2),
    }
}
