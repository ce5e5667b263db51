//! `taskbridge audit`: verifies the chain of an audit log, and prints its lines. It changes nothing.

use std::fs::File as OpenFile;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use taskbridge_sdk::Registry;

use super::operate::open;
use super::store::runtime;
use super::{File, load, pluralize, print};
use crate::audit::chain::Key;
use crate::audit::rotated_files;
use crate::audit::verify::{Report, Verifier};
use crate::config::Config;
use crate::config::locate::Environment;

/// Number of lines that are read from the store at a time.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Check whether a line was changed, removed, moved or inserted. Exits with 1 if so.
    Verify {
        #[command(flatten)]
        log: Log,
        /// A hash that was saved elsewhere: one line must have it, which proves that the end was not cut off.
        #[arg(long, value_name = "HASH")]
        anchor: Vec<String>,
    },
    /// Print lines, oldest first.
    Show {
        #[command(flatten)]
        log: Log,
        /// Only lines of this event, such as `task.created`.
        #[arg(long, value_name = "EVENT")]
        event: Option<String>,
        /// Only lines of the task whose id starts with this.
        #[arg(long, value_name = "ID")]
        task: Option<String>,
    },
}

#[derive(Args)]
pub(super) struct Log {
    /// The files of the log, oldest first. Without any, those of the config.
    #[arg(value_name = "FILES", conflicts_with = "store")]
    files: Vec<PathBuf>,
    /// Read the log from the store instead of files.
    #[arg(long)]
    store: bool,
    #[command(flatten)]
    file: File,
}

/// Runs the subcommand.
pub(super) fn run(registry: &Registry, command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Verify { log, anchor } => verify(registry, &log, anchor),
        Command::Show { log, event, task } => {
            let filter = LineFilter { event, task };
            for_each_line(registry, &log, |_, line, _| {
                if filter.matches(line) {
                    print(&format!("{}\n", String::from_utf8_lossy(line)));
                }
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The filter of `show`.
struct LineFilter {
    event: Option<String>,
    task: Option<String>,
}

impl LineFilter {
    fn matches(&self, line: &[u8]) -> bool {
        let Ok(line) = serde_json::from_slice::<serde_json::Value>(line) else { return false };
        let is_task = |prefix: &String| {
            line["task"]["id"]
                .as_str()
                .is_some_and(|id| prefix.starts_with(id) || id.starts_with(prefix.as_str()))
        };
        self.event.as_ref().is_none_or(|event| line["event"] == event.as_str())
            && self.task.as_ref().is_none_or(is_task)
    }
}

/// Returns the files of the log, and the key of its chain.
fn files(registry: &Registry, log: &Log) -> Result<(Vec<PathBuf>, Key), String> {
    let config: Result<Config, String> =
        load(registry, &log.file, &Environment::of_process()).map(|(config, _)| config);
    if !log.files.is_empty() {
        // Named files need no config if their chain has no key. An error of a config that `--config` names is
        // reported.
        return match config {
            Ok(config) => Ok((log.files.clone(), config.audit.key)),
            Err(_) if log.file.config.is_none() => Ok((log.files.clone(), Key::default())),
            Err(error) => Err(error),
        };
    }
    let config = config?;
    let Some(log_file) = config.audit.file else {
        let file = config.file.display();
        return Err(format!("taskbridge: {file}: [audit] has no file: pass the files of a log"));
    };
    let read_error = |error| format!("taskbridge: {}: {error}", log_file.path.display());
    let mut files = rotated_files(&log_file.path).map_err(read_error)?;
    files.push(log_file.path.clone());
    Ok((files, config.audit.key))
}

/// Returns the key of the chain.
fn key(registry: &Registry, log: &Log) -> Result<Key, String> {
    match log.store {
        true => Ok(load(registry, &log.file, &Environment::of_process())?.0.audit.key),
        false => Ok(files(registry, log)?.1),
    }
}

/// Calls `visit` for every line that is not empty, with its location, its bytes without the newline, and
/// whether it has one.
fn for_each_line(
    registry: &Registry,
    log: &Log,
    mut visit: impl FnMut(String, &[u8], bool),
) -> Result<(), String> {
    if log.store {
        return runtime()?.block_on(async {
            let context = open(registry, &log.file).await?;
            let mut after = 0;
            loop {
                let lines = context.audit_lines.lines_after(after, PAGE).await;
                let lines = lines.map_err(|error| format!("taskbridge: {error}"))?;
                let Some((last, _)) = lines.last() else { return Ok(()) };
                after = *last;
                for (n, text) in &lines {
                    visit(format!("the store:{n}"), text.as_bytes(), true);
                }
            }
        });
    }
    for path in &files(registry, log)?.0 {
        let read_error = |error| format!("taskbridge: {}: {error}", path.display());
        let mut file = BufReader::new(OpenFile::open(path).map_err(read_error)?);
        let mut bytes = Vec::new();
        for n in 1_u64.. {
            bytes.clear();
            if file.read_until(b'\n', &mut bytes).map_err(read_error)? == 0 {
                break;
            }
            let has_newline = bytes.last() == Some(&b'\n');
            let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            if !text.is_empty() {
                visit(format!("{}:{n}", file_name(path)), text, has_newline);
            }
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn verify(registry: &Registry, log: &Log, anchors: Vec<String>) -> Result<ExitCode, String> {
    let key = key(registry, log)?;
    let is_keyed = key.is_secret();
    let mut verifier = Verifier::new(key, anchors);
    let mut is_cut_off = false;
    for_each_line(registry, log, |location, line, has_newline| {
        verifier.line(location, line);
        is_cut_off = !has_newline;
    })?;
    let report = verifier.finish(is_cut_off);
    print(&format_report(&report, is_keyed));
    Ok(if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn format_report(report: &Report, is_keyed: bool) -> String {
    let mut text = String::new();
    let mut line = |entry: String| {
        text.push_str(&entry);
        text.push('\n');
    };
    for finding in &report.broken {
        line(format!("BROKEN {}: {}", finding.location, finding.what));
    }
    for note in &report.notes {
        line(format!("note   {}: {}", note.location, note.what));
    }
    for head in report.heads.values() {
        line(format!("head   chain {} ends with line {}: {}", head.chain, head.seq, head.hash));
    }
    let lines = pluralize(usize::try_from(report.lines).unwrap_or(usize::MAX), "line");
    let by = if is_keyed { "with the key of the config" } else { "without a key" };
    line(match report.broken.len() {
        0 => format!(
            "{lines}, nothing changed, removed, moved or inserted ({by}). Store the head elsewhere: with --anchor it \
             shows whether the end was removed"
        ),
        n => format!("{lines}, {} ({by})", pluralize(n, "finding")),
    });
    text
}
