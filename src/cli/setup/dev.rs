//! `taskbridge dev`: a server with demo tools, for a first try. It needs no config, and everything that it
//! writes is in a temporary folder that ends with it. It must not use the config or the state of the user.

use std::fs::{self, File as OsFile};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use clap::Args;
use taskbridge_sdk::Registry;
use tempfile::TempDir;

use crate::cli::{File, Greeting, Serve, serve};

/// The config of the demo.
pub(super) const CONFIG: &str = include_str!("init/demo.toml");

/// The prefix of the folders. A killed process leaves its folder, and the next one removes it.
const PREFIX: &str = "taskbridge-dev-";

/// The file in the folder that is locked while the process runs.
const LOCK: &str = "lock";

/// Maximum number of old folders that are removed at a start.
const MAX_REMOVED: usize = 100;

#[derive(Args)]
pub(in crate::cli) struct Options {
    /// The address and port to listen on [default: 127.0.0.1:8808].
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "stdio")]
    listen: Option<SocketAddr>,
    /// Serve the demo over standard input and output, to a client that starts it.
    #[arg(long)]
    stdio: bool,
}

/// Serves the demo until the process is stopped.
pub(in crate::cli) fn run(registry: &Registry, options: &Options) -> Result<(), String> {
    let error_text = |error: std::io::Error| format!("taskbridge: the demo's folder: {error}");
    remove_old_folders(&std::env::temp_dir());
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(error_text)?;
    // Held until the folder is removed.
    let _lock = lock(&folder).map_err(error_text)?;
    let file = folder.path().join("taskbridge.toml");
    fs::write(&file, CONFIG).map_err(error_text)?;
    let result = serve(
        registry,
        Serve {
            file: File { config: Some(file) },
            listen: options.listen,
            stdio: options.stdio,
            strict: false,
        },
        Greeting::Demo,
    );
    let removed = folder.close().map_err(error_text);
    result.and(removed)
}

fn lock(folder: &TempDir) -> std::io::Result<OsFile> {
    let mut file = OsFile::create(folder.path().join(LOCK))?;
    file.lock()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Removes the folders of processes that were killed: those whose lock is free. The folder of another user
/// cannot be opened or removed, and stays.
fn remove_old_folders(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    for entry in ours.take(MAX_REMOVED) {
        // A folder without a lock file is just being created.
        let Ok(lock) = OsFile::options().write(true).open(entry.path().join(LOCK)) else { continue };
        let is_written = lock.metadata().is_ok_and(|metadata| metadata.len() > 0);
        if is_written && lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns what the demo prints at its start.
pub(in crate::cli) fn welcome(url: &str) -> String {
    let program = program();
    let address = match url {
        "http://127.0.0.1:8808/mcp" => String::new(),
        other => format!("--url {other} "),
    };
    format!(
        "taskbridge {version}: a demo of 4 tools at {url}\n\
         Its jobs are simulated. Ctrl-C ends it, and nothing is kept.\n\
         \n\
         Try it in another terminal:\n\
         \n  {program} call {address}count_stars            # shows progress\
         \n  {program} call {address}book_table             # asks a question\
         \n  {program} call {address}break_down             # fails, with the reason and the log\
         \n  {program} call {address}write_report --save out  # leaves two files\n\
         \n\
         Connect an agent, and ask it to count the stars:\n\
         \n  {program} connect claude-code --url {url} --write\n\
         \n\
         Your own engine:\n\
         \n  {program} init\n\
         \n",
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// The program as the user typed it.
fn program() -> String {
    let typed = std::env::args().next().filter(|typed| !typed.is_empty());
    typed.unwrap_or_else(|| "taskbridge".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_killed_process_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            path
        };
        let (killed, running, new) = (folder("killed"), folder("running"), folder("new"));
        let other = parent.path().join("other");
        fs::create_dir(&other).unwrap();
        for path in [&killed, &running, &other] {
            fs::write(path.join(LOCK), "1").unwrap();
        }
        let lock = OsFile::options().write(true).open(running.join(LOCK)).unwrap();
        lock.lock().unwrap();
        remove_old_folders(parent.path());
        assert!(!killed.exists() && running.exists() && new.exists() && other.exists());
    }
}
