//! `taskbridge tasks watch`: shows tasks until Ctrl-C. On a terminal it redraws a table; elsewhere it prints
//! a line for each change. It reads rows and must not write any.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use rustix::termios::tcgetwinsize;
use taskbridge_sdk::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use super::filter::Filter;
use super::live::{Known, Row, changes, frame};
use super::{PAGE, store_error_text};
use crate::cli::operate::OperatorContext;
use crate::cli::print_error;
use crate::tasks::pace::usual::duration_keys;
use crate::tasks::store::StoreError;
use crate::tasks::task::Task;

/// Number of lines of a terminal that reports none.
const DEFAULT_HEIGHT: usize = 24;
/// Maximum number of tasks that are shown: the unended ones first, then the newest.
const MAX_TASKS: usize = 1_000;
/// Shortest refresh interval.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Switches to the terminal's second screen, hides the cursor, and turns off line wrapping; and back.
const ENTER_SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const LEAVE_SCREEN: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// Moves to the top left.
const HOME: &str = "\u{1b}[H";
/// Clears the rest of a line.
const CLEAR_LINE: &str = "\u{1b}[K";
/// Clears the rest of the screen.
const CLEAR_REST: &str = "\u{1b}[J";

/// Shows the tasks that match the filter until SIGINT or SIGTERM, or until the output is closed.
///
/// # Errors
/// If the store cannot be read at the start. Later errors are shown, and the read is retried.
pub(super) async fn watch(
    context: &OperatorContext,
    filter: &Filter,
    refresh: Duration,
) -> Result<ExitCode, String> {
    let handler_error = |error: io::Error| format!("taskbridge: cannot register signal handlers: {error}");
    // A handler also replaces an ignored SIGINT, which a shell gives to a command in the background.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(handler_error)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(handler_error)?;
    let mut ticks = interval(refresh.max(MIN_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut snapshot: Result<Snapshot, String> = Ok(read(context, filter).await.map_err(store_error_text)?);
    let mut output = Output::open(&context.location);
    loop {
        let shown = match &snapshot {
            Ok(snapshot) => output.show(snapshot),
            Err(problem) => output.show_problem(problem),
        };
        if shown.is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        let next = async {
            ticks.tick().await;
            read(context, filter).await
        };
        snapshot = tokio::select! {
            biased;
            _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
            _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
            result = next => result.map_err(|error| error.to_string()),
        };
    }
}

/// The rows at one time.
struct Snapshot {
    now: Timestamp,
    rows: Vec<Row>,
}

/// Reads the rows that match: unended ones first, each part newest first.
async fn read(context: &OperatorContext, filter: &Filter) -> Result<Snapshot, StoreError> {
    let now = context.store.now().await?;
    let (mut tasks, mut after): (Vec<Task>, _) = (Vec::new(), String::new());
    loop {
        let page = context.store.rows(&after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.id);
        let readable = page.into_iter().filter_map(|row| row.task.ok());
        tasks.extend(readable.filter(|task| filter.matches(task, now)));
        sort_and_limit(&mut tasks);
    }
    let mut usual_durations = HashMap::new();
    let mut rows = Vec::with_capacity(tasks.len());
    for task in &tasks {
        let mut usual = None;
        for key in duration_keys(task) {
            let known = match usual_durations.get(&key) {
                Some(known) => *known,
                None => context.store.usual_duration(&key).await?,
            };
            usual_durations.insert(key, known);
            usual = usual.or(known);
        }
        rows.push(Row::of(task, usual, now));
    }
    Ok(Snapshot { now, rows })
}

fn sort_and_limit(tasks: &mut Vec<Task>) {
    tasks.sort_by_cached_key(|task| (task.has_ended(), Reverse((task.created_at, task.id.clone()))));
    tasks.truncate(MAX_TASKS);
}

/// Where the tasks are shown.
enum Output {
    Screen { title: String, colors: bool },
    Lines(Known),
}

impl Output {
    fn open(title: &str) -> Self {
        if !io::stdout().is_terminal() {
            return Self::Lines(Known::default());
        }
        let colors = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        // The first frame reports an error of the terminal.
        let _ = write(ENTER_SCREEN);
        Self::Screen { title: title.to_owned(), colors }
    }

    fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let Snapshot { now, rows } = snapshot;
        match self {
            Self::Screen { title, colors } => {
                let title = format!("{title}; {now}; Ctrl-C ends");
                draw(&frame(rows, &title, terminal_height(), *colors))
            }
            Self::Lines(known) => {
                let lines: String = changes(known, rows).into_iter().map(|row| row.line(*now)).collect();
                write(&lines)
            }
        }
    }

    /// Shows why the tasks cannot be read now. The last lines stay below it.
    fn show_problem(&mut self, problem: &str) -> io::Result<()> {
        match self {
            Self::Screen { .. } => {
                let line = super::print::strip_control(&format!("cannot be read: {problem}"));
                write(&format!("{HOME}{line}{CLEAR_LINE}"))
            }
            Self::Lines(_) => {
                print_error(&format!("taskbridge: {problem}; retrying"));
                Ok(())
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if matches!(self, Self::Screen { .. }) {
            let _ = write(LEAVE_SCREEN);
        }
    }
}

fn terminal_height() -> usize {
    let height = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_row));
    height.filter(|height| *height > 0).unwrap_or(DEFAULT_HEIGHT)
}

fn draw(lines: &[String]) -> io::Result<()> {
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}{CLEAR_LINE}")).collect();
    write(&format!("{HOME}{}{CLEAR_REST}", lines.join("\r\n")))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
