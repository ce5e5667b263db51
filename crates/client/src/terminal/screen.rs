//! [`Screen`]: the output on standard error while a job runs: a bar on a terminal, plain lines elsewhere,
//! nothing in quiet mode. It must not decide anything.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use super::bar::Bar;
use super::sanitize_for_terminal;

/// Minimum interval of plain lines that report progress only.
const MIN_LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The state of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobProgress {
    /// Its message, one line.
    pub(crate) message: Option<String>,
    /// The work done so far, and the total.
    pub(crate) progress: Option<(f64, Option<f64>)>,
}

impl JobProgress {
    /// Returns the fraction done, from 0 to 1, if known.
    pub(crate) fn fraction(&self) -> Option<f64> {
        match self.progress {
            Some((done, Some(total))) if total > 0.0 => Some((done / total).clamp(0.0, 1.0)),
            _ => None,
        }
    }
}

/// The screen of one call.
pub(crate) struct Screen {
    mode: OutputMode,
    label: String,
    /// The age of the job when this screen was created.
    age: Duration,
    started_at: Instant,
    progress: JobProgress,
    /// How much longer the job is expected to run. Only the bar shows it, because it changes all the time.
    estimate: Option<String>,
    /// Lines to print later, set while a question is asked: nothing may be printed in between.
    pending_lines: Option<Vec<String>>,
}

enum OutputMode {
    Bar(Option<Bar>),
    Lines { last: Option<(JobProgress, Instant)> },
    Quiet,
}

impl Screen {
    /// Creates a screen for a job with this label.
    pub(crate) fn new(label: String, quiet: bool) -> Self {
        let mode = match (quiet, io::stderr().is_terminal()) {
            (true, _) => OutputMode::Quiet,
            (false, true) => OutputMode::Bar(None),
            (false, false) => OutputMode::Lines { last: None },
        };
        Self {
            mode,
            label,
            age: Duration::ZERO,
            started_at: Instant::now(),
            progress: JobProgress::default(),
            estimate: None,
            pending_lines: None,
        }
    }

    /// Sets the age of a job that is older than the screen.
    pub(crate) fn set_age(&mut self, age: Duration) {
        self.age = age;
        self.started_at = Instant::now();
    }

    /// Returns the label of the job.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Returns the age of the job.
    pub(crate) fn elapsed(&self) -> String {
        let seconds = (self.age + self.started_at.elapsed()).as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            format!("{hours}:{minutes:02}:{seconds:02}")
        } else {
            format!("{minutes}:{seconds:02}")
        }
    }

    /// Prints a permanent line.
    pub(crate) fn print_line(&mut self, text: &str) {
        let line = sanitize_for_terminal(text);
        if let Some(pending_lines) = &mut self.pending_lines {
            pending_lines.push(line);
            return;
        }
        match &self.mode {
            OutputMode::Bar(Some(bar)) => bar.print_line(&line),
            OutputMode::Bar(None) | OutputMode::Lines { .. } => write_line(&line),
            OutputMode::Quiet => {}
        }
    }

    /// Shows the state of the job.
    pub(crate) fn show(&mut self, progress: JobProgress) {
        self.progress = progress;
        self.draw();
    }

    /// Sets how much longer the job is expected to run; it is drawn with the next frame.
    pub(crate) fn set_estimate(&mut self, estimate: Option<String>) {
        self.estimate = estimate;
    }

    /// Draws the animated part. The caller calls it several times per second.
    pub(crate) fn draw(&mut self) {
        if self.pending_lines.is_some() {
            return;
        }
        let elapsed = self.elapsed();
        match &mut self.mode {
            OutputMode::Bar(bar) => {
                let bar = bar.get_or_insert_with(|| Bar::new(self.label.clone()));
                bar.draw(&self.progress, self.estimate.as_deref(), &elapsed);
            }
            OutputMode::Lines { last } => {
                let is_due = last.as_ref().is_none_or(|(last_state, at)| {
                    let is_progress_update =
                        last_state.progress.is_some() && last_state.progress != self.progress.progress;
                    *last_state != self.progress && (!is_progress_update || at.elapsed() >= MIN_LINE_INTERVAL)
                });
                let line = format_line(&self.progress);
                if is_due && !line.is_empty() {
                    write_line(&format!("{}: {}", self.label, sanitize_for_terminal(&line)));
                    *last = Some((self.progress.clone(), Instant::now()));
                }
            }
            OutputMode::Quiet => {}
        }
    }

    /// Suspends output while a question is asked.
    pub(crate) fn pause(&mut self) {
        self.clear();
        self.pending_lines.get_or_insert_with(Vec::new);
    }

    /// Resumes output after [`Self::pause`].
    pub(crate) fn resume(&mut self) {
        for line in self.pending_lines.take().unwrap_or_default() {
            self.print_line(&line);
        }
        self.draw();
    }

    /// Removes the animated line.
    pub(crate) fn clear(&mut self) {
        if let OutputMode::Bar(bar) = &mut self.mode
            && let Some(bar) = bar.take()
        {
            bar.clear();
        }
    }
}

/// Formats the state of a job as one plain line.
fn format_line(state: &JobProgress) -> String {
    let message = state.message.as_deref().unwrap_or_default().replace('\n', " ");
    let progress = match (state.fraction(), state.progress) {
        (Some(fraction), _) => format!("{:.0}%", (fraction * 100.0).floor()),
        (None, Some((done, None))) => done.to_string(),
        _ => String::new(),
    };
    let gap = if progress.is_empty() || message.is_empty() { "" } else { " " };
    format!("{progress}{gap}{message}")
}

/// Writes a line to standard error. Write errors are ignored.
pub(crate) fn write_line(line: &str) {
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Progress without a total is shown as a number.
    #[test]
    fn progress_line_shows_percentage() {
        let line = |message: Option<&str>, progress| {
            format_line(&JobProgress { message: message.map(str::to_owned), progress })
        };
        assert_eq!(line(Some("packing"), Some((1.0, Some(3.0)))), "33% packing");
        assert_eq!(line(None, Some((3.0, Some(3.0)))), "100%");
        assert_eq!(line(Some("packing"), Some((7.5, None))), "7.5 packing");
        assert_eq!(line(Some("two\nlines"), None), "two lines");
        assert_eq!(line(None, Some((1.0, Some(0.0)))), "");
    }
}
