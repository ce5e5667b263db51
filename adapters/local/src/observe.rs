//! Polls the folder of a job. A recorded end is final. Without one, only the lock of the supervisor decides
//! whether the job runs. It must not trust process ids: a reused id or a reboot cannot be mistaken for a job.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use taskbridge_sdk::{Error, JobState, LogRequest, LogText, Observation, Result, Timestamp};

use crate::handle::Machine;
use crate::job_dir::{JobDir, SupervisorState};
use crate::log::{RetainedLog, Stream, printed};
use crate::{events, orphans, questions};

/// Polls a job that was started on `machine`, from the machine `here`.
pub(crate) fn observe(dir: &JobDir, machine: &Machine, here: &Machine) -> Result<Observation> {
    // The lock is checked first: once it is free, no process writes a final record.
    let life = dir.supervisor_state().map_err(|e| unreadable(dir, e))?;
    let false_end = match dir.read_end() {
        Ok(Some((end, written))) => return Ok(Observation { since: Some(timestamp(written)), ..end }),
        Ok(None) => None,
        // The job wrote it, not its supervisor. The supervisor replaces it at the end.
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            Some(format!("the job's end.json is not its supervisor's: {e}"))
        }
        Err(e) => return Err(unreadable(dir, e)),
    };
    match life {
        SupervisorState::Supervised { since } => {
            let seen = running(dir, since).map_err(|e| unreadable(dir, e))?;
            Ok(Observation { message: false_end.or(seen.message), ..seen })
        }
        SupervisorState::Left | SupervisorState::Unclaimed => {
            let seen = gone(dir, machine, here, &life)?;
            let message = false_end.into_iter().chain(seen.message).collect::<Vec<_>>().join("; ");
            Ok(Observation { message: Some(message), ..seen })
        }
    }
}

fn running(dir: &JobDir, since: SystemTime) -> io::Result<Observation> {
    let said = events::read(&dir.provided_path("events"));
    let open = questions::open(dir)?;
    Ok(Observation {
        progress: said.progress,
        message: open.complaint.or(said.message),
        since: Some(timestamp(since)),
        questions: open.questions,
        notes: said.notes,
        log_bytes: Some(printed(&dir.log())?),
        ..Observation::new(JobState::Running)
    })
}

/// Returns the observation of a job without a supervisor and without a final record, and kills what is left
/// of it. Fails for a job of another machine, which may still run there.
fn gone(dir: &JobDir, machine: &Machine, here: &Machine, life: &SupervisorState) -> Result<Observation> {
    if machine.host != here.host && machine.boot != here.boot {
        return Err(Error::config(format!(
            "the job runs on the machine `{}`, and only a server there can look at it; this is `{}`",
            machine.host, here.host
        )));
    }
    // Unsupervised processes must not continue after the task is reported as ended.
    orphans::kill(dir.key());
    let why = match life {
        _ if machine.boot != here.boot => "the machine was restarted while the job ran",
        SupervisorState::Left => {
            "the job's supervisor was killed, so nobody knows how it ended; what was left of it was killed"
        }
        _ => "the job's files are gone",
    };
    Ok(Observation::new(JobState::Gone).with_message(why))
}

/// Returns the end of what the job printed, both streams one after the other. `kept` is the number of bytes
/// that are kept per stream.
pub(crate) fn tail(dir: &JobDir, request: &LogRequest, kept: u64) -> io::Result<LogText> {
    if !dir.path().exists() {
        return Ok(LogText::default());
    }
    let streams = [
        RetainedLog::read(&dir.log(), Stream::Out, kept)?,
        RetainedLog::read(&dir.log(), Stream::Err, kept)?,
    ];
    let mut cut = streams.iter().any(|kept| kept.dropped > 0);
    let [out, err] = streams.map(|kept| select(kept.into_text(), request.search.as_deref()));
    let text = match (out.is_empty(), err.is_empty()) {
        (_, true) => out,
        (true, false) => err,
        (false, false) => format!("==> stdout <==\n{}\n==> stderr <==\n{err}", out.trim_end_matches('\n')),
    };
    let (text, shortened) = last_lines(text, request.max_bytes);
    cut |= shortened;
    Ok(LogText { text, cut })
}

/// Returns the lines that contain the search text.
fn select(text: String, search: Option<&str>) -> String {
    let Some(search) = search.map(str::to_lowercase) else { return text };
    text.split_inclusive('\n').filter(|line| line.to_lowercase().contains(&search)).collect()
}

/// Returns the last whole lines that fit. If the last line alone does not fit, returns its end.
fn last_lines(text: String, max: usize) -> (String, bool) {
    if text.len() <= max {
        return (text, false);
    }
    let from = (text.len() - max..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
    let line_start = from == 0 || text.as_bytes()[from - 1] == b'\n';
    let end = &text[from..];
    match end.split_once('\n') {
        Some((_, lines)) if !line_start && !lines.is_empty() => (lines.to_owned(), true),
        _ => (end.to_owned(), true),
    }
}

/// Returns the error for a folder that cannot be read or written now. It is a fault of the engine, never of
/// the job.
pub(crate) fn unreadable(dir: &JobDir, error: io::Error) -> Error {
    Error::unavailable(format!("the folder of the job {} cannot be read: {error}", dir.key()))
        .caused_by(error)
}

fn timestamp(moment: SystemTime) -> Timestamp {
    let since_epoch = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
