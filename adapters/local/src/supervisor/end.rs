//! Builds the final observation of a job: its state, the reason in one line, and its output. The observation
//! is built once and stored, so that every later poll returns the same.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use humantime_serde::re::humantime::format_duration;
use taskbridge_sdk::{Content, JobState, Observation, Output, one_line};

use super::declared;
use super::watch::Ending;
use crate::artifacts;
use crate::events;
use crate::files;
use crate::job_dir::JobDir;
use crate::job_request::LaunchRequest;
use crate::log::{RetainedLog, Stream, printed as printed_bytes};

/// Maximum bytes of standard error shown for a failed job: its last ones.
const ERRORS_SHOWN: usize = 4096;

/// Returns the final observation of a job.
pub(super) fn observation(dir: &JobDir, order: &LaunchRequest, ending: &Ending) -> Observation {
    let said = events::read(&dir.provided_path("events"));
    let (structured, content) = (
        declared::structured(&dir.provided_path("output")),
        declared::content(&dir.provided_path("content")),
    );
    let found = artifacts::list(&dir.provided_path("artifacts"));
    let wrong = structured.as_ref().err().or(content.as_ref().err()).cloned();
    let (structured, files_bytes) = (structured.ok().flatten(), files::disk_use(dir.path()));
    let mut output = Output { structured, artifacts: found.listed, files_bytes, ..Output::default() };
    match content.ok().flatten() {
        Some(content) => output.content = content,
        None => printed(dir, order).into_iter().for_each(|text| output.push_raw(text)),
    }
    output.content.extend(found.left_out.map(Content::text));
    let errors = kept(dir, order, Stream::Err);
    let errors = if errors.is_text() { errors.into_text() } else { errors.in_words("standard error") };
    // A carriage return also starts a line, because programs draw progress with it.
    let last_line = errors.split(['\n', '\r']).rfind(|line| !line.trim().is_empty()).map(one_line);
    let because = |what: String| match &last_line {
        Some(line) => format!("{what}: {line}"),
        None => what,
    };

    let failure = match ending {
        Ending::Exited(status) if succeeded(*status, order) => wrong,
        Ending::Exited(status) => Some(because(in_words(*status))),
        Ending::NotRun(why) => Some(one_line(why)),
        Ending::TimedOut => {
            let timeout = order.timeout.map(|t| format_duration(t).to_string()).unwrap_or_default();
            Some(because(format!("stopped after its timeout of {timeout}")))
        }
        Ending::Cancelled => None,
    };
    // If standard error is one line and the message already ends with it, there is no block.
    let is_in = |why: &String| {
        last_line.as_ref().is_none_or(|line| *line == errors.trim() && why.ends_with(line.as_str()))
    };
    if let Some(why) = failure.as_ref().filter(|why| !is_in(why)) {
        // The block repeats the last line, so the headline omits it.
        let headline =
            last_line.as_ref().and_then(|line| why.strip_suffix(line.as_str())?.strip_suffix(": "));
        output.push_raw(format!("{}, stderr:\n{}", headline.unwrap_or(why), end_of(&errors)));
    }
    let (state, message) = match (ending, failure) {
        (Ending::Cancelled, _) => (JobState::Cancelled(output), Some("stopped on request".to_owned())),
        (_, Some(why)) => (JobState::Failed(output), Some(why)),
        (_, None) => (JobState::Succeeded(output), said.message),
    };
    // `None` if the log cannot be read.
    let log_bytes = printed_bytes(&dir.log()).ok();
    Observation { progress: said.progress, message, notes: said.notes, log_bytes, ..Observation::new(state) }
}

fn succeeded(status: ExitStatus, order: &LaunchRequest) -> bool {
    status.code().is_some_and(|code| order.success_exit_codes.iter().any(|good| i32::from(*good) == code))
}

/// Returns what the job printed, as the output of a job that declared no content. Bytes that are not text are
/// described, not shown.
fn printed(dir: &JobDir, order: &LaunchRequest) -> Option<String> {
    let kept = kept(dir, order, Stream::Out);
    let text = if kept.is_text() { kept.into_text() } else { kept.in_words("standard output") };
    (!text.is_empty()).then_some(text)
}

fn kept(dir: &JobDir, order: &LaunchRequest, stream: Stream) -> RetainedLog {
    RetainedLog::read(&dir.log(), stream, order.max_output_bytes).unwrap_or_default()
}

/// Returns the last lines. Omits an incomplete first line if other lines remain.
fn end_of(text: &str) -> &str {
    let cut = text.len().saturating_sub(ERRORS_SHOWN);
    let cut = (cut..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or_default();
    let end = &text[cut..];
    match end.split_once('\n') {
        Some((_, lines)) if cut > 0 && !lines.trim().is_empty() => lines,
        _ => end,
    }
}

fn in_words(status: ExitStatus) -> String {
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
