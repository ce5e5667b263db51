//! Selects the part of a job's lines that a reader gets. Pure functions.

use crate::{LogRequest, LogText};

/// Returns the end of `lines` that matches the request.
pub(super) fn end(lines: &[String], request: &LogRequest) -> LogText {
    let needle = request.search.as_deref().unwrap_or_default().to_lowercase();
    let matching = lines.iter().filter(|line| line.to_lowercase().contains(&needle));
    LogText::last_lines(matching.flat_map(|line| [line, "\n"]).collect(), request.max_bytes)
}
