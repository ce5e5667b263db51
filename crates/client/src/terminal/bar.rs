//! [`Bar`]: an animated line on standard error: a progress bar if the total is known, else a spinner. It
//! must not be drawn while a person types.

use std::io::{self, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::screen::{JobProgress, write_line};
use super::{columns, sanitize_for_terminal};

/// Number of steps of the bar.
const STEPS: u64 = 1000;
/// Columns of the bar: the minimum, and the maximum, which a terminal of a hundred columns has.
const WIDTH_RANGE: (usize, usize) = (8, 28);
/// Free columns at the right: a terminal prints `^C` there, and it would break a full line.
const MARGIN: u16 = 3;

/// The animated line.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Creates a line for a job with this label.
    pub(super) fn new(label: String) -> Self {
        let target = ProgressDrawTarget::term_like(Box::new(Stderr));
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style(false));
        bar.set_prefix(label);
        bar.set_draw_target(target);
        Self(bar)
    }

    /// Prints a permanent line above the bar.
    pub(super) fn print_line(&self, line: &str) {
        // The bar's own method assumes the reported width of the terminal, and the real one is a little
        // wider.
        self.0.suspend(|| write_line(line));
    }

    /// Draws the state of the job, with the estimated rest of its time before its message.
    pub(super) fn draw(&self, state: &JobProgress, estimate: Option<&str>, elapsed: &str) {
        let message = state.message.as_deref().unwrap_or_default();
        // A message of the server ends with it.
        let estimate = estimate.filter(|estimate| !message.ends_with(estimate));
        let parts = estimate.into_iter().chain([message]).filter(|part| !part.is_empty());
        let message = parts.map(|text| sanitize_for_terminal(text).replace('\n', " "));
        let message = message.collect::<Vec<_>>().join("  ");
        let fraction = state.fraction();
        self.0.set_style(style(fraction.is_some()));
        self.0.set_message(match (fraction, state.progress) {
            (Some(fraction), _) => format!("{:>3.0}%  {elapsed}  {message}", (fraction * 100.0).floor()),
            (None, Some((done, None))) => format!("{done}  {elapsed}  {message}"),
            _ => format!("{elapsed}  {message}"),
        });
        if let Some(fraction) = fraction {
            self.0.set_length(STEPS);
            self.0.set_position((fraction * STEPS as f64) as u64);
        }
        self.0.tick();
    }

    /// Removes the line.
    pub(super) fn clear(self) {
        self.0.finish_and_clear();
    }
}

fn style(has_bar: bool) -> ProgressStyle {
    let template = match has_bar {
        true => {
            let (shortest, longest) = WIDTH_RANGE;
            let length = (columns(io::stderr()) * longest / 100).clamp(shortest, longest);
            format!("{{spinner:.cyan}} {{prefix:.bold}} [{{bar:{length}.cyan/dim}}] {{wide_msg}}")
        }
        false => "{spinner:.cyan} {prefix:.bold} {wide_msg}".to_owned(),
    };
    let style = ProgressStyle::with_template(&template).expect("both templates are valid");
    style.progress_chars("=> ")
}

/// Standard error as a terminal with slightly fewer columns than the real one.
#[derive(Debug)]
struct Stderr;

impl Stderr {
    fn write(self: &Stderr, text: &str) -> io::Result<()> {
        io::stderr().lock().write_all(text.as_bytes())
    }

    /// Sends the control sequence with this number and this letter (ECMA-48, 8.3).
    fn control(self: &Stderr, number: usize, letter: char) -> io::Result<()> {
        if number == 0 { Ok(()) } else { self.write(&format!("\u{1b}[{number}{letter}")) }
    }
}

impl TermLike for Stderr {
    fn width(&self) -> u16 {
        let columns = u16::try_from(columns(io::stderr())).unwrap_or(u16::MAX);
        columns.saturating_sub(MARGIN).max(1)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.control(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.control(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.control(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.control(n, 'D')
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write(&format!("{line}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.write(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write("\r")?;
        self.control(2, 'K')
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
