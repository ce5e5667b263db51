//! Builds the final observation of a job: its state, the reason in one line, and its output. The observation
//! is built once and stored, so that every later poll returns the same.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use humantime_serde::re::humantime::format_duration;
use taskbridge_sdk::{Content, JobState, Observation, Output, one_line};

use super::declared;
use super::watch::Ending;
use crate::files;
use crate::observe::events;
use crate::result::artifacts;
use crate::result::log::{RetainedLog, Stream, printed as printed_bytes};
use crate::store::job_dir::JobDir;
use crate::submit::request::LaunchRequest;

/// Maximum bytes of standard error shown for a failed job: its last ones.
const MAX_STDERR_BYTES: usize = 4096;

/// Returns the final observation of a job.
pub(super) fn final_observation(dir: &JobDir, request: &LaunchRequest, ending: &Ending) -> Observation {
    let job_events = events::read(&dir.provided_path("events"));
    let (structured, content) = (
        declared::structured(&dir.provided_path("output")),
        declared::content(&dir.provided_path("content")),
    );
    let listing = artifacts::list(&dir.provided_path("artifacts"));
    let output_error = structured.as_ref().err().or(content.as_ref().err()).cloned();
    let (structured, files_bytes) = (structured.ok().flatten(), files::disk_usage(dir.path()));
    let mut output = Output { structured, artifacts: listing.artifacts, files_bytes, ..Output::default() };
    match content.ok().flatten() {
        Some(content) => output.content = content,
        None => stdout_text(dir, request).into_iter().for_each(|text| output.push_raw(text)),
    }
    output.content.extend(listing.omission_note.map(Content::text));
    let stderr_log = retained_log(dir, request, Stream::Err);
    let stderr =
        if stderr_log.is_text() { stderr_log.into_text() } else { stderr_log.describe("standard error") };
    // A carriage return also starts a line, because programs draw progress with it.
    let last_line = stderr.split(['\n', '\r']).rfind(|line| !line.trim().is_empty()).map(one_line);
    let with_last_line = |reason: String| match &last_line {
        Some(line) => format!("{reason}: {line}"),
        None => reason,
    };

    let failure = match ending {
        Ending::Exited(status) if succeeded(*status, request) => output_error,
        Ending::Exited(status) => Some(with_last_line(describe_status(*status))),
        Ending::NotRun(reason) => Some(one_line(reason)),
        Ending::TimedOut => {
            let timeout = request.timeout.map(|t| format_duration(t).to_string()).unwrap_or_default();
            Some(with_last_line(format!("stopped after its timeout of {timeout}")))
        }
        Ending::Cancelled => None,
    };
    // If standard error is one line and the message already ends with it, there is no block.
    let is_in_message = |reason: &String| {
        last_line.as_ref().is_none_or(|line| *line == stderr.trim() && reason.ends_with(line.as_str()))
    };
    if let Some(reason) = failure.as_ref().filter(|reason| !is_in_message(reason)) {
        // The block repeats the last line, so the headline omits it.
        let headline =
            last_line.as_ref().and_then(|line| reason.strip_suffix(line.as_str())?.strip_suffix(": "));
        output.push_raw(format!("{}, stderr:\n{}", headline.unwrap_or(reason), last_lines(&stderr)));
    }
    let (state, message) = match (ending, failure) {
        (Ending::Cancelled, _) => (JobState::Cancelled(output), Some("stopped on request".to_owned())),
        (_, Some(reason)) => (JobState::Failed(output), Some(reason)),
        (_, None) => (JobState::Succeeded(output), job_events.message),
    };
    // `None` if the log cannot be read.
    let log_bytes = printed_bytes(&dir.log_dir()).ok();
    Observation {
        progress: job_events.progress,
        message,
        notes: job_events.notes,
        log_bytes,
        ..Observation::new(state)
    }
}

fn succeeded(status: ExitStatus, request: &LaunchRequest) -> bool {
    status
        .code()
        .is_some_and(|code| request.success_exit_codes.iter().any(|success| i32::from(*success) == code))
}

/// Returns what the job printed, as the output of a job that declared no content. Bytes that are not text are
/// described, not shown.
fn stdout_text(dir: &JobDir, request: &LaunchRequest) -> Option<String> {
    let log = retained_log(dir, request, Stream::Out);
    let text = if log.is_text() { log.into_text() } else { log.describe("standard output") };
    (!text.is_empty()).then_some(text)
}

fn retained_log(dir: &JobDir, request: &LaunchRequest, stream: Stream) -> RetainedLog {
    RetainedLog::read(&dir.log_dir(), stream, request.max_output_bytes).unwrap_or_default()
}

/// Returns the last lines. Omits an incomplete first line if other lines remain.
fn last_lines(text: &str) -> &str {
    let start = text.len().saturating_sub(MAX_STDERR_BYTES);
    let start = (start..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or_default();
    let end = &text[start..];
    match end.split_once('\n') {
        Some((_, lines)) if start > 0 && !lines.trim().is_empty() => lines,
        _ => end,
    }
}

fn describe_status(status: ExitStatus) -> String {
    let name = |signal| match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU: over the limit of CPU time)",
        25 => " (SIGXFSZ: over the limit of the file size)",
        _ => "",
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}{}", name(signal)),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::identity::handle::Machine;
    use crate::observe::poll;
    use crate::store::job_dir::Claim;

    /// Returns what a poll reports after this row of the table has happened in a folder.
    fn reported(recorded: &str, supervisor: &str) -> JobState {
        let folder = tempfile::tempdir().unwrap();
        let (dir, machine) = (JobDir::new(folder.path().join("tb-table")), Machine::current().unwrap());
        dir.create().unwrap();
        let claim = Claim { supervisor: 1, machine: machine.clone() };
        let lock = (supervisor != "no claim").then(|| dir.claim(&claim).unwrap());
        let ending = match recorded {
            "none" => None,
            "exit code in `success_exit_codes`" => Some(Ending::Exited(ExitStatus::from_raw(0))),
            "another exit code" => Some(Ending::Exited(ExitStatus::from_raw(3 << 8))),
            "killed by a signal" => Some(Ending::Exited(ExitStatus::from_raw(9))),
            "its timeout expired" => Some(Ending::TimedOut),
            "the command could not be run" => Some(Ending::NotRun("not found".to_owned())),
            "stopped on request" => Some(Ending::Cancelled),
            other => panic!("{other}"),
        };
        let request = json!({"command": [], "working_dir": "/", "env": {}, "stdin": null, "files": [], "timeout": null,
            "kill_grace": {"secs": 1, "nanos": 0}, "max_output_bytes": 1024, "success_exit_codes": [0]});
        let request: LaunchRequest = serde_json::from_value(request).unwrap();
        if let Some(ending) = ending {
            dir.write_end(&final_observation(&dir, &request, &ending)).unwrap();
        }
        let lock = lock.filter(|_| supervisor == "holds the lock");
        let state = poll::observe(&dir, &machine, &machine).unwrap().state;
        drop(lock);
        state
    }

    /// The table at the top of `observe/mod.rs` is what the code does.
    #[test]
    fn state_table_matches_code() {
        let source = include_str!("../observe/mod.rs").lines();
        let rows: Vec<&str> = source.filter_map(|line| line.strip_prefix("//! | ")).skip(1).collect();
        assert_eq!(rows.len(), 9);
        for row in rows {
            let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
            let [recorded, supervisor, job, task] = cells[..] else { panic!("{row}") };
            let actual = match reported(recorded, supervisor) {
                JobState::Queued => ("queued", "working"),
                JobState::Running => ("running", "working"),
                JobState::Succeeded(_) => ("succeeded", "completed"),
                JobState::Failed(_) => ("failed", "failed"),
                JobState::Cancelled(_) => ("cancelled", "cancelled"),
                JobState::Gone => ("gone", "failed"),
            };
            assert_eq!((job, task), actual, "{row}");
        }
    }
}
