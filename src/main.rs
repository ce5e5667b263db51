//! The program: the compiled-in adapters and the library's main, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    taskbridge::main_with(taskbridge::adapters::all())
}
