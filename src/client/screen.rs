//! [`Screen`]: the output on standard error while a job runs: a bar on a terminal, plain lines elsewhere,
//! nothing in quiet mode. It must not decide anything.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use super::bar::Bar;
use super::terminal::harmless;

/// Minimum interval of plain lines that report progress only.
const SPACING: Duration = Duration::from_secs(5);

/// The state of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobProgress {
    /// Its message, one line.
    pub(super) message: Option<String>,
    /// The work done so far, and the total.
    pub(super) progress: Option<(f64, Option<f64>)>,
}

impl JobProgress {
    /// Returns the fraction done, from 0 to 1, if known.
    pub(super) fn part(&self) -> Option<f64> {
        match self.progress {
            Some((done, Some(total))) if total > 0.0 => Some((done / total).clamp(0.0, 1.0)),
            _ => None,
        }
    }
}

/// The screen of one call.
pub(super) struct Screen {
    look: OutputMode,
    label: String,
    /// The age of the job when this screen was created.
    age: Duration,
    began: Instant,
    standing: JobProgress,
    /// Lines to print later, set while a question is asked: nothing may be printed in between.
    held: Option<Vec<String>>,
}

enum OutputMode {
    Bar(Option<Bar>),
    Lines { last: Option<(JobProgress, Instant)> },
    Quiet,
}

impl Screen {
    /// Creates a screen for a job with this label.
    pub(super) fn new(label: String, quiet: bool) -> Self {
        let look = match (quiet, io::stderr().is_terminal()) {
            (true, _) => OutputMode::Quiet,
            (false, true) => OutputMode::Bar(None),
            (false, false) => OutputMode::Lines { last: None },
        };
        Self {
            look,
            label,
            age: Duration::ZERO,
            began: Instant::now(),
            standing: JobProgress::default(),
            held: None,
        }
    }

    /// Sets the age of a job that is older than the screen.
    pub(super) fn set_age(&mut self, age: Duration) {
        self.age = age;
        self.began = Instant::now();
    }

    /// Returns the label of the job.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Returns the age of the job.
    pub(super) fn elapsed(&self) -> String {
        let seconds = (self.age + self.began.elapsed()).as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            format!("{hours}:{minutes:02}:{seconds:02}")
        } else {
            format!("{minutes}:{seconds:02}")
        }
    }

    /// Prints a permanent line.
    pub(super) fn note(&mut self, words: &str) {
        let line = harmless(words);
        if let Some(held) = &mut self.held {
            held.push(line);
            return;
        }
        match &self.look {
            OutputMode::Bar(Some(bar)) => bar.say(&line),
            OutputMode::Bar(None) | OutputMode::Lines { .. } => write_line(&line),
            OutputMode::Quiet => {}
        }
    }

    /// Shows the state of the job.
    pub(super) fn show(&mut self, standing: JobProgress) {
        self.standing = standing;
        self.draw();
    }

    /// Draws the animated part. The caller calls it several times per second.
    pub(super) fn draw(&mut self) {
        if self.held.is_some() {
            return;
        }
        let elapsed = self.elapsed();
        match &mut self.look {
            OutputMode::Bar(bar) => {
                let bar = bar.get_or_insert_with(|| Bar::new(self.label.clone()));
                bar.draw(&self.standing, &elapsed);
            }
            OutputMode::Lines { last } => {
                let is_due = last.as_ref().is_none_or(|(said, at)| {
                    let goes_on = said.progress.is_some() && said.progress != self.standing.progress;
                    *said != self.standing && (!goes_on || at.elapsed() >= SPACING)
                });
                let line = in_line(&self.standing);
                if is_due && !line.is_empty() {
                    write_line(&format!("{}: {}", self.label, harmless(&line)));
                    *last = Some((self.standing.clone(), Instant::now()));
                }
            }
            OutputMode::Quiet => {}
        }
    }

    /// Suspends output while a question is asked.
    pub(super) fn hold(&mut self) {
        self.clear();
        self.held.get_or_insert_with(Vec::new);
    }

    /// Resumes output after [`Self::hold`].
    pub(super) fn go_on(&mut self) {
        for line in self.held.take().unwrap_or_default() {
            self.note(&line);
        }
        self.draw();
    }

    /// Removes the animated line.
    pub(super) fn clear(&mut self) {
        if let OutputMode::Bar(bar) = &mut self.look
            && let Some(bar) = bar.take()
        {
            bar.clear();
        }
    }
}

/// Formats the state of a job as one plain line.
fn in_line(standing: &JobProgress) -> String {
    let message = standing.message.as_deref().unwrap_or_default().replace('\n', " ");
    let progress = match (standing.part(), standing.progress) {
        (Some(part), _) => format!("{:.0}%", (part * 100.0).floor()),
        (None, Some((done, None))) => done.to_string(),
        _ => String::new(),
    };
    let gap = if progress.is_empty() || message.is_empty() { "" } else { " " };
    format!("{progress}{gap}{message}")
}

/// Writes a line to standard error. Write errors are ignored.
pub(super) fn write_line(line: &str) {
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
            in_line(&JobProgress { message: message.map(str::to_owned), progress })
        };
        assert_eq!(line(Some("packing"), Some((1.0, Some(3.0)))), "33% packing");
        assert_eq!(line(None, Some((3.0, Some(3.0)))), "100%");
        assert_eq!(line(Some("packing"), Some((7.5, None))), "7.5 packing");
        assert_eq!(line(Some("two\nlines"), None), "two lines");
        assert_eq!(line(None, Some((1.0, Some(0.0)))), "");
    }
}
