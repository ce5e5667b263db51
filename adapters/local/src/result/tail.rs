//! The log of a job, as a client reads it: the ends of both streams. It must not change what is kept.

use std::io;

use taskbridge_sdk::{LogRequest, LogText};

use crate::result::log::{RetainedLog, Stream};
use crate::store::job_dir::JobDir;

/// Returns the end of what the job printed, both streams one after the other. `max_stream_bytes` is the
/// number of bytes that are kept per stream.
pub(crate) fn tail(dir: &JobDir, request: &LogRequest, max_stream_bytes: u64) -> io::Result<LogText> {
    if !dir.path().exists() {
        return Ok(LogText::default());
    }
    let streams = [
        RetainedLog::read(&dir.log_dir(), Stream::Out, max_stream_bytes)?,
        RetainedLog::read(&dir.log_dir(), Stream::Err, max_stream_bytes)?,
    ];
    let is_incomplete = streams.iter().any(|log| log.dropped > 0);
    let [out, err] = streams.map(|log| filter_lines(log.into_text(), request.search.as_deref()));
    let text = match (out.is_empty(), err.is_empty()) {
        (_, true) => out,
        (true, false) => err,
        (false, false) => format!("==> stdout <==\n{}\n==> stderr <==\n{err}", out.trim_end_matches('\n')),
    };
    let mut tail = LogText::last_lines(text, request.max_bytes);
    tail.cut |= is_incomplete;
    Ok(tail)
}

/// Returns the lines that contain the search text.
fn filter_lines(text: String, search: Option<&str>) -> String {
    let Some(search) = search.map(str::to_lowercase) else { return text };
    text.split_inclusive('\n').filter(|line| line.to_lowercase().contains(&search)).collect()
}
