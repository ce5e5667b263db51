//! `task_view`: what the view shows of a task, as one bounded object. An unchanged task is answered briefly.
//! The drawing is the console's, as HTML; everything else is data. It must not change a task.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::Timestamp;

use super::{outcome, questions};
use crate::mcp::features::companions::{self, CompanionResult, LookRequest};
use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::resources::{self, ReadError};
use crate::mcp::features::tools::handle;
use crate::mcp::wire::types::{millis, without_nulls};
use crate::recorder;
use crate::recorder::text::{clean, https_host, one_line, rough, state_words};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::{Actor as _, TaskOperation, View};
use crate::tasks::store::StoreError;

/// Bounds of the interval between two looks. A host may ask its user about each of them.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// How old a drawing of a task that has not ended may be: its bars grow.
const REDRAW: Duration = Duration::from_secs(15);
/// Maximum size of the drawing in bytes. A larger one is left out.
const MAX_DRAWING_BYTES: usize = 128 * 1024;
/// Maximum size of the end of the log in bytes.
const MAX_LOG_BYTES: usize = 8 * 1024;
/// Maximum length of the status message in characters.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Answers a look at a task, under the rules of any read.
///
/// # Errors
/// If the store fails.
pub async fn look(request: &dyn Dialect, asked: &LookRequest) -> Result<CompanionResult, StoreError> {
    let context = request.context();
    let Some(view) = context.service.get(&request.actor(), &asked.id).await? else {
        let gone = companions::no_task(context, request.owner(), &asked.id);
        return Ok(CompanionResult { structured: Some(json!({ "task": asked.id, "gone": true })), ..gone });
    };
    let now = context.clock.now();
    let since = asked.since.as_deref().and_then(Mark::parse);
    let mut shown = match since {
        Some(mark) if mark.still_shows(&view, now) => unchanged(&view, mark),
        _ => whole(request, &view, now).await?,
    };
    if asked.log && view.task.handle().is_some() {
        shown["log"] = log(request, &view).await?;
    }
    let text = format!("Task {}: {}", view.task.id, handle::status_word(view.task.state));
    Ok(CompanionResult { text, structured: Some(without_nulls(shown)), is_error: false, is_job_output: true })
}

/// What a view has: the version of a row, and when it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    version: u64,
    drawn: Timestamp,
}

impl Mark {
    fn parse(text: &str) -> Option<Self> {
        let (version, drawn) = text.split_once('.')?;
        Some(Self { version: version.parse().ok()?, drawn: Timestamp::from_millis(drawn.parse().ok()?) })
    }

    fn text(self) -> String {
        format!("{}.{}", self.version, self.drawn.as_millis())
    }

    fn still_shows(self, view: &View, now: Timestamp) -> bool {
        let is_recent = now >= self.drawn && now.since(self.drawn) < REDRAW;
        self.version == view.task.version && (view.task.has_ended() || is_recent)
    }
}

/// Returns the interval to the next look; none after the end.
fn poll_after(view: &View) -> Option<u64> {
    let (least, most) = POLL_BOUNDS;
    (!view.task.has_ended()).then(|| millis(view.poll_interval.clamp(least, most)))
}

fn unchanged(view: &View, mark: Mark) -> Value {
    json!({
        "task": view.task.id, "unchanged": true, "mark": mark.text(), "pollAfterMs": poll_after(view),
    })
}

/// Returns everything about the task except its log.
async fn whole(request: &dyn Dialect, view: &View, now: Timestamp) -> Result<Value, StoreError> {
    let (context, task) = (request.context(), &view.task);
    let history = context.service.history(task).await?;
    let drawing = recorder::render(view, &history, now).into_string();
    let (class, state) = state_words(task);
    let may_cancel = !task.has_ended() && task.cancel.is_none();
    let refusal = request.actor().may(TaskOperation::Cancel, task).err().filter(|_| may_cancel);
    let title = context.catalog().get(&task.tool).and_then(|tool| tool.title.clone());
    // The usual duration is data of its own.
    let message = if view.running_usual().is_some() { task.status_message() } else { view.status_message() };
    let message = message.map(|text| one_line(&text, MAX_MESSAGE_CHARS));
    Ok(without_nulls(json!({
        "task": task.id,
        "tool": one_line(&task.tool, 200),
        "title": title.map(|title| one_line(&title, 200)),
        "status": handle::status_word(task.state),
        "state": state,
        "class": class,
        "message": message,
        "progress": task.progress.filter(|_| !task.has_ended()),
        "ageMs": millis(view.age),
        "usual": usual(view),
        "ended": task.ended_at.map(|at| rough(at.since(task.created_at))),
        "mark": Mark { version: task.version, drawn: now }.text(),
        "pollAfterMs": poll_after(view),
        "link": task.link.as_deref().filter(|link| https_host(link).is_some()),
        "mayCancel": may_cancel && refusal.is_none(),
        "whyNoCancel": refusal,
        "questions": questions::open(request, task),
        "hasLog": has_log(request, view),
        "outcome": outcome::of(request, view).await?,
        "drawing": Some(drawing).filter(|drawing| drawing.len() <= MAX_DRAWING_BYTES),
    })))
}

/// Returns the usual duration of the tool's jobs, and what it says about this one while it runs.
fn usual(view: &View) -> Option<Value> {
    let usual = view.usual?;
    let estimate = view.running_usual().map(|usual| usual.estimate(view.age).text());
    Some(without_nulls(json!({
        "medianMs": millis(usual.median),
        "p90Ms": millis(usual.p90),
        "text": usual.text(),
        "estimate": estimate,
    })))
}

fn has_log(request: &dyn Dialect, view: &View) -> bool {
    let backend = request.reads().backend(&view.task.backend);
    view.task.handle().is_some() && backend.is_some_and(|backend| backend.abilities().logs.is_some())
}

/// Returns the end of the log, or why it cannot be read. It is recorded as a read.
async fn log(request: &dyn Dialect, view: &View) -> Result<Value, StoreError> {
    let (context, task) = (request.context(), &view.task);
    match resources::log(context, request.reads(), task, MAX_LOG_BYTES, None).await {
        Ok(log) => {
            context.audit.record(AuditEvent::Read { task, part: Part::Log });
            Ok(json!({ "text": clean(&log.text), "cut": log.cut }))
        }
        Err(ReadError::Store(error)) => Err(error),
        Err(ReadError::NotFound) => Ok(Value::Null),
        Err(problem) => Ok(json!({ "problem": format!("{problem}.") })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip() {
        let mark = Mark { version: 7, drawn: Timestamp::from_millis(1_234) };
        assert_eq!(Mark::parse(&mark.text()), Some(mark));
        for text in ["", "7", "7.", ".5", "x.5", "-1.5", "7.5.6", "99999999999999999999.1"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }
}
