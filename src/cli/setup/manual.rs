//! `taskbridge completions` and `taskbridge man`: what shells and `man` read, generated from the command
//! line itself. It must not describe any command by itself.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::print;

#[derive(Args)]
pub(in crate::cli) struct Shells {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub(in crate::cli) struct Folder {
    /// The folder, such as `~/.local/share/man/man1`. It is created if it does not exist.
    folder: PathBuf,
}

/// Prints the completions.
pub(in crate::cli) fn completions(shells: &Shells, mut command: Command) {
    let mut text = Vec::new();
    clap_complete::generate(shells.shell, &mut command, "taskbridge", &mut text);
    print(&String::from_utf8_lossy(&text));
}

/// Writes one page for each command.
pub(in crate::cli) fn pages(folder: &Folder, command: Command) -> Result<(), String> {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(&folder.folder)?;
        clap_mangen::generate_to(command, &folder.folder)
    };
    write().map_err(|error| format!("taskbridge: {}: {error}", folder.folder.display()))
}
