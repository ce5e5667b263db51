//! Logs of a run's jobs. GitHub provides the log of a job after the job has ended. Logs can have any length:
//! only the end is kept, up to the requested size.

use std::collections::VecDeque;

use taskbridge_sdk::{Error, JobHandle, LogRequest, LogText, Logs, Result, async_trait};

use crate::core::Actions;
use crate::driver::wire::Job;
use crate::identity::handle::RunHandle;

/// Maximum bytes of a failed job's last lines in a result.
const MAX_FAILURE_BYTES: usize = 1200;
/// How many more bytes of a log are requested than wanted, because a line may begin before them. Also how
/// much of a longer line is kept at least.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Maximum number of a failed job's last lines in a result.
const MAX_FAILURE_LINES: usize = 20;

#[async_trait]
impl Logs for Actions {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let Some(run_handle) = RunHandle::parse(handle) else { return Ok(LogText::default()) };
        let jobs = match self.jobs(&run_handle).await {
            Ok(jobs) => jobs,
            Err(error) if error.kind() == taskbridge_sdk::ErrorKind::Config => return Ok(LogText::default()),
            Err(error) => return Err(error),
        };
        let ended_jobs: Vec<&Job> =
            jobs.iter().filter(|job| job.status.as_deref() == Some("completed")).collect();
        let mut text = String::new();
        let mut cut = false;
        // From the last job backwards, until there is enough.
        for job in ended_jobs.iter().rev() {
            let remaining = request.max_bytes.saturating_sub(text.len());
            let mut tail = Tail::new(remaining, request.search.as_deref());
            if ended_jobs.len() > 1 && request.search.is_none() {
                tail.push_line(&format!("== {}: {}", job.name, job.conclusion.as_deref().unwrap_or("ended")));
            }
            // A skipped job has no log, and old logs are deleted.
            let _ = self.read_job_log(&run_handle, job, &mut tail).await?;
            let (tail_text, was_cut) = tail.finish();
            text.insert_str(0, &tail_text);
            cut |= was_cut;
            if cut {
                break;
            }
        }
        Ok(LogText { text, cut })
    }
}

impl Actions {
    /// Reads the end of a job's log, or all of it for a search. Returns false if GitHub has no log, or none
    /// yet; true with no lines if the log was deleted.
    async fn read_job_log(&self, run_handle: &RunHandle, job: &Job, tail: &mut Tail) -> Result<bool> {
        let path = format!("/repos/{}/actions/jobs/{}/logs", run_handle.repository, job.id);
        // A search must read the whole log. Otherwise, a line may begin before the wanted bytes.
        let max_bytes =
            if tail.search.is_some() { u64::MAX } else { (tail.max_bytes + MAX_LINE_BYTES) as u64 };
        let mut body = match self
            .links
            .open_tail(&self.api, &format!("the log of the job {}", job.name), &path, max_bytes)
            .await
        {
            Ok(body) => body,
            Err(failure) if failure.has_status(404) => return Ok(false),
            // It was deleted.
            Err(failure) if failure.has_status(410) => return Ok(true),
            Err(failure) => return Err(failure.into()),
        };
        if body.is_partial {
            tail.start_mid_line();
        }
        while let Some(chunk) = body.next().await? {
            tail.push(&chunk);
        }
        Ok(true)
    }

    /// Returns the lines of a job's log up to the last error of GitHub's runner, at most
    /// `MAX_FAILURE_LINES` and `MAX_FAILURE_BYTES`.
    ///
    /// # Errors
    /// `Unavailable` if the job ran and GitHub has no log of it: directly after its end, there may be none
    /// yet.
    pub(crate) async fn failure_excerpt(&self, run_handle: &RunHandle, job: &Job) -> Result<String> {
        let mut tail = Tail::new(256 * 1024, None);
        if !self.read_job_log(run_handle, job, &mut tail).await? && !job.steps().is_empty() {
            let name = &job.name;
            return Err(Error::unavailable(format!(
                "the log of the job {name}: GitHub has none (status 404)"
            )));
        }
        Ok(failure_lines(&tail.finish().0))
    }
}

/// Returns the lines up to the last error of GitHub's runner, without their times.
fn failure_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(without_time).collect();
    let end = lines.iter().rposition(|line| line.starts_with("##[error]")).map_or(lines.len(), |at| at + 1);
    let mut start = end.saturating_sub(MAX_FAILURE_LINES);
    while start < end
        && lines[start..end].iter().map(|line| line.len() + 1).sum::<usize>() > MAX_FAILURE_BYTES
    {
        start += 1;
    }
    let excerpt: Vec<&str> =
        lines[start..end].iter().map(|line| line.strip_prefix("##[error]").unwrap_or(line)).collect();
    excerpt.join("\n")
}

/// Returns a line without the time that GitHub writes before it.
fn without_time(line: &str) -> &str {
    match line.split_once(' ') {
        Some((time, rest)) if time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok() => rest,
        _ => line,
    }
}

/// End of a text that arrives in pieces.
struct Tail {
    max_bytes: usize,
    search: Option<String>,
    lines: VecDeque<String>,
    bytes: usize,
    /// Incomplete last line.
    partial_line: Vec<u8>,
    cut: bool,
    /// True until the end of a line whose beginning is missing.
    skip_to_line_end: bool,
}

impl Tail {
    fn new(max_bytes: usize, search: Option<&str>) -> Self {
        Self {
            max_bytes,
            search: search.map(str::to_lowercase),
            lines: VecDeque::new(),
            bytes: 0,
            partial_line: Vec::new(),
            cut: false,
            skip_to_line_end: false,
        }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.partial_line.extend_from_slice(&chunk[..end]);
            chunk = &chunk[end + 1..];
            self.end_line();
        }
        self.partial_line.extend_from_slice(chunk);
        // A line may be as long as the log. Then only its end is kept.
        let max_line_bytes = self.max_bytes.max(MAX_LINE_BYTES);
        if self.partial_line.len() > 2 * max_line_bytes {
            self.partial_line.drain(..self.partial_line.len() - max_line_bytes);
            self.cut = true;
        }
    }

    /// Marks that the text begins in the middle of a line.
    fn start_mid_line(&mut self) {
        self.cut = true;
        self.skip_to_line_end = true;
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.skip_to_line_end) {
            self.partial_line.clear();
            return;
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.partial_line)).into_owned();
        self.push_line(line.trim_end_matches('\r'));
    }

    fn push_line(&mut self, line: &str) {
        // GitHub's logs start with a byte order mark.
        let line = line.trim_start_matches('\u{feff}');
        if self.search.as_ref().is_some_and(|search| !line.to_lowercase().contains(search)) {
            return;
        }
        self.bytes += line.len() + 1;
        self.lines.push_back(line.to_owned());
        while self.bytes > self.max_bytes && self.lines.len() > 1 {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.len() + 1);
            self.cut = true;
        }
    }

    /// Returns the text, and true if something was cut.
    fn finish(mut self) -> (String, bool) {
        if !self.partial_line.is_empty() {
            self.end_line();
        }
        let text: String = self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        // A single line may be too long.
        let tail = LogText::last_lines(text, self.max_bytes);
        (tail.text, tail.cut || self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(max_bytes: usize, search: Option<&str>, pieces: &[&str]) -> (String, bool) {
        let mut tail = Tail::new(max_bytes, search);
        for piece in pieces {
            tail.push(piece.as_bytes());
        }
        tail.finish()
    }

    /// The last lines that fit into the size limit are kept, and the rest is reported as cut off.
    #[test]
    fn log_stream_keeps_last_fitting_lines() {
        let pieces = ["\u{feff}on", "e\ntwo\r\ndrei", " ä"];
        assert_eq!(tail(100, None, &pieces), ("one\ntwo\ndrei ä\n".to_owned(), false));
        assert_eq!(tail(12, None, &pieces), ("two\ndrei ä\n".to_owned(), true));
        assert_eq!(tail(3, None, &pieces), ("ä\n".to_owned(), true));
        assert_eq!(tail(0, None, &pieces), (String::new(), true));
        assert_eq!(tail(5, None, &[]), (String::new(), false));
        assert_eq!(tail(100, Some("TWO"), &pieces), ("two\n".to_owned(), false));
    }

    /// A line that never ends is kept only up to a limit.
    #[test]
    fn endless_line_uses_bounded_memory() {
        let mut tail = Tail::new(10, None);
        for _ in 0..1000 {
            tail.push(&[b'x'; 1000]);
            assert!(tail.partial_line.len() < 200_000);
        }
        assert_eq!(tail.finish(), ("xxxxxxxxx\n".to_owned(), true));
    }

    /// The excerpt of a failed log contains the lines up to the last error, without timestamps.
    #[test]
    fn failure_excerpt_ends_at_last_error() {
        let log = "2026-11-22T02:48:22.1234567Z compiling\n2026-11-22T02:48:22.0000000Z test failed: 1 != 2\n\
            2026-11-22T02:48:22.0000000Z ##[error]Process completed with exit code 3.\n2026-11-22T02:48:23.0000000Z Cleaning up\n";
        assert_eq!(failure_lines(log), "compiling\ntest failed: 1 != 2\nProcess completed with exit code 3.");
        let long = "line\n".repeat(100);
        assert_eq!(failure_lines(&long).lines().count(), MAX_FAILURE_LINES);
        assert!(failure_lines(&"x".repeat(5000)).is_empty() && failure_lines("").is_empty());
    }
}
