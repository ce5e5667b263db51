//! Builds the observation of a pending or running job. Pure.

use jiff::tz::TimeZone;
use serde_json::json;
use taskbridge_sdk::{JobState, Observation, Progress, Question, Timestamp, short_line};

use crate::driver::Row;
use crate::driver::state::{Phase, State};
use crate::observe::{Meaning, meaning, reason};
use crate::store::array_counts::ArrayCounts;
use crate::store::plan::Plan;
use crate::submit::request::INITIAL_COMMENT;

/// Id of the question of a job that waits for an approval, and the field of the target that asks for it.
pub(crate) const APPROVAL: &str = "approval";

/// Returns the observation of a job that is held until it is approved.
pub(crate) fn approval_observation(prompt: &str) -> Observation {
    let form = json!({
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Whether the job may begin", "default": true}},
        "required": ["approve"],
    });
    let mut observation = Observation::new(JobState::Running).with_message("held until it is approved");
    observation.questions = vec![Question::form(APPROVAL, prompt, form)];
    observation
}

/// Returns true if the job's position in the queue is meaningful.
pub(crate) fn has_position(row: &Row) -> bool {
    row.state == State::Pending && matches!(row.reason.as_str(), "Priority" | "Resources" | "None")
}

/// Returns the observation of a job from its queue rows. For an array, also uses the counts of earlier polls,
/// and updates them.
pub(crate) fn observe_rows(
    plan: &Plan,
    rows: &[Row],
    position: Option<usize>,
    counts: &mut ArrayCounts,
) -> Observation {
    match plan.tasks() {
        Some(tasks) => observe_array(tasks.len(), rows, position, counts),
        None => match rows.iter().find(|row| !row.state.has_ended()) {
            Some(row) => observe_single(row, position),
            None => Observation::new(JobState::Running),
        },
    }
}

/// Adds the number of scripts that Slurm has shown as running for a while but that have not begun. After a
/// crash, a controller can show such jobs until their time limits.
pub(crate) fn with_not_started(mut observation: Observation, plan: &Plan, count: usize) -> Observation {
    let note = match (count, plan.array.is_some()) {
        (0, _) => return observation,
        (_, false) => "its script has not begun".to_owned(),
        (count, true) => format!("shown as running but not begun: {count}"),
    };
    let message = observation.message.take().map_or_else(|| note.clone(), |text| format!("{text}; {note}"));
    observation.with_message(message)
}

/// Adds why a job was requeued, if that is known.
pub(crate) fn with_preempted(mut observation: Observation, preempted: bool) -> Observation {
    if preempted {
        observation.message = observation
            .message
            .map(|message| format!("{message}; a job of a higher priority had preempted it"));
    }
    observation
}

fn observe_single(row: &Row, position: Option<usize>) -> Observation {
    let is_waiting = meaning(row.state) == Meaning::Queued;
    let state = if is_waiting { JobState::Queued } else { JobState::Running };
    let status = if is_waiting { waiting_status(row, position) } else { running_status(row) };
    let (progress, note) = row.comment.as_deref().map(parse_comment).unwrap_or_default();
    let job = row.job;
    let mut observation = Observation::new(state).with_message(match note {
        Some(note) if !is_waiting => format!("{note} (job {job} {status})"),
        _ => format!("job {job}: {status}"),
    });
    observation.progress = progress;
    observation.since = if is_waiting { row.submitted } else { row.start };
    observation
}

fn waiting_status(row: &Row, position: Option<usize>) -> String {
    let mut text = match row.state {
        State::Pending => reason::describe(&row.reason),
        state => state.describe().to_owned(),
    };
    if reason::is_stuck(&row.reason) {
        text.push_str("; it will not begin by itself");
    }
    if row.restarts > 0 {
        text.push_str(&format!(", put back into the queue {}", format_times(row.restarts)));
    }
    if let Some(position) = position.filter(|_| has_position(row)) {
        text.push_str(&format!(", position {position}"));
    }
    if let Some(start) = row.start {
        text.push_str(&format!(", expected start {}", format_time(start)));
    }
    text
}

fn running_status(row: &Row) -> String {
    let mut text = row.state.describe().to_owned();
    if !row.nodes.is_empty() {
        text.push_str(&format!(" on {}", row.nodes));
    }
    if let Some(start) = row.start {
        text.push_str(&format!(" since {}", format_time(start)));
    }
    if row.restarts > 0 {
        text.push_str(&format!(", after it was put back into the queue {}", format_times(row.restarts)));
    }
    text
}

fn format_times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Counts the tasks of an array: "61 of 200 done, 2 of them failed, 10 running, 129 pending (waiting for
/// resources)".
fn observe_array(
    total: usize,
    rows: &[Row],
    position: Option<usize>,
    counts: &mut ArrayCounts,
) -> Observation {
    let count = |predicate: &dyn Fn(&Row) -> bool| {
        rows.iter().filter(|row| predicate(row)).map(Row::count).sum::<usize>()
    };
    let waiting_tasks = match counts.pending_count(total, rows) {
        Some(pending) => pending,
        None => count(&|row| row.state.phase() == Phase::Waiting),
    };
    let running = count(&|row| row.state.phase() == Phase::Running);
    // Tasks that have left the queue have ended.
    let done = total.saturating_sub(waiting_tasks + running);
    let failed = counts.failed();
    let job = rows.first().map_or_else(String::new, |row| format!("job {}: ", row.job));
    let mut message = format!("{job}{done} of {total} done");
    if failed > 0 {
        message.push_str(&format!(", {failed} of them failed"));
    }
    if running > 0 {
        message.push_str(&format!(", {running} running"));
    }
    let first_waiting = rows.iter().find(|row| row.state.phase() == Phase::Waiting);
    if let Some(row) = first_waiting {
        message.push_str(&format!(", {waiting_tasks} pending ({})", waiting_status(row, position)));
    }
    let state = if running == 0 && done == 0 { JobState::Queued } else { JobState::Running };
    #[expect(clippy::cast_precision_loss, reason = "no array has so many tasks")]
    let mut observation = Observation::new(state)
        .with_message(message)
        .with_progress(counts.done(done) as f64, Some(total as f64));
    let first_start =
        rows.iter().filter(|row| row.state.phase() != Phase::Waiting).filter_map(|row| row.start).min();
    observation.since = first_start.or_else(|| rows.iter().filter_map(|row| row.submitted).min());
    observation
}

/// Parses a job's comment: `progress=2/3`, `progress=40%` or `progress=0.4`, and the text after it.
pub(crate) fn parse_comment(text: &str) -> (Option<Progress>, Option<String>) {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let progress = first.strip_prefix("progress=").and_then(parse_progress);
    let message = match progress {
        Some(_) => rest.trim(),
        None if text == INITIAL_COMMENT => "",
        None => text,
    };
    (progress, (!message.is_empty()).then(|| short_line(message, 200)))
}

fn parse_progress(text: &str) -> Option<Progress> {
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    if let Some((done, total)) = text.split_once('/') {
        return Some(Progress { done: number(done)?, total: Some(number(total)?) });
    }
    match text.strip_suffix('%') {
        Some(percent) => Some(Progress { done: number(percent)?, total: Some(100.0) }),
        None => number(text).map(|done| match done <= 1.0 {
            true => Progress { done, total: Some(1.0) },
            false => Progress { done, total: None },
        }),
    }
}

/// Formats a time for people, to the minute, in UTC.
fn format_time(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(time) => time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Tasks;

    fn row(tasks: Tasks, state: State, reason: &str) -> Row {
        Row {
            job: 7,
            tasks,
            name: "tb-a".to_owned(),
            state,
            reason: reason.to_owned(),
            exit: None,
            submitted: None,
            start: None,
            end: None,
            time_limit: None,
            restarts: 0,
            partition: "debug".to_owned(),
            nodes: String::new(),
            comment: None,
        }
    }

    /// The message has the reason, the position and the expected start, or that the job cannot start.
    #[test]
    fn pending_job_shows_reason_and_start() {
        let start = Some(Timestamp::from_millis(1_795_339_753_000));
        let row = Row { start, ..row(Tasks::Single, State::Pending, "Resources") };
        let observation =
            observe_rows(&Plan::default(), std::slice::from_ref(&row), Some(14), &mut ArrayCounts::default());
        assert_eq!(observation.state, JobState::Queued);
        assert_eq!(
            observation.message.as_deref(),
            Some("job 7: waiting for resources, position 14, expected start 2026-11-22 09:29 UTC")
        );
        let stuck = Row { reason: "BadConstraints".to_owned(), start: None, ..row };
        let message =
            observe_rows(&Plan::default(), &[stuck], Some(14), &mut ArrayCounts::default()).message.unwrap();
        assert_eq!(message, "job 7: no nodes meet its constraints; it will not begin by itself");
    }

    /// Progress and message come from the comment that the script sets.
    #[test]
    fn running_job_shows_its_comment() {
        let running = |comment: &str| Row {
            comment: Some(comment.to_owned()),
            nodes: "n1".to_owned(),
            ..row(Tasks::Single, State::Running, "None")
        };
        let observation = observe_rows(
            &Plan::default(),
            &[running("progress=2/3 docking")],
            None,
            &mut ArrayCounts::default(),
        );
        assert_eq!(observation.progress, Some(Progress { done: 2.0, total: Some(3.0) }));
        assert_eq!(observation.message.as_deref(), Some("docking (job 7 running on n1)"));
        let observation =
            observe_rows(&Plan::default(), &[running(INITIAL_COMMENT)], None, &mut ArrayCounts::default());
        assert_eq!(
            (observation.progress, observation.message.as_deref()),
            (None, Some("job 7: running on n1"))
        );
        assert_eq!(parse_comment("progress=40%").0, Some(Progress { done: 40.0, total: Some(100.0) }));
        assert_eq!(parse_comment("progress=NaN"), (None, Some("progress=NaN".to_owned())));
    }

    #[test]
    fn an_array_is_counted() {
        let plan = Plan { array: Some("0-199".to_owned()), ..Plan::default() };
        let rows = [
            row(Tasks::Many((61..200).collect()), State::Pending, "Resources"),
            row(Tasks::One(60), State::Running, "None"),
            row(Tasks::One(59), State::Failed, "NonZeroExitCode"),
        ];
        let mut counts = ArrayCounts::default();
        counts.add_rows(&rows);
        let observation = observe_rows(&plan, &rows, None, &mut counts);
        assert_eq!(
            observation.message.as_deref(),
            Some("job 7: 60 of 200 done, 1 of them failed, 1 running, 139 pending (waiting for resources)")
        );
        assert_eq!(observation.progress, Some(Progress { done: 60.0, total: Some(200.0) }));
    }

    /// A pending row without indices stands for all tasks that no other row names.
    #[test]
    fn unnamed_pending_row_means_all() {
        let plan = Plan { array: Some("0-199".to_owned()), ..Plan::default() };
        let pending = row(Tasks::Single, State::Pending, "Resources");
        let mut counts = ArrayCounts::default();
        let all = plan.tasks().unwrap();
        let mut observe = |rows: &[Row]| {
            counts.add_rows(rows);
            assert!(!counts.needs_accounting(&all, rows), "the ended tasks are unknown");
            let observation = observe_rows(&plan, rows, None, &mut counts);
            (observation.message.unwrap(), observation.progress.unwrap().done)
        };
        let (message, done) = observe(std::slice::from_ref(&pending));
        assert_eq!(
            (message.as_str(), done),
            ("job 7: 0 of 200 done, 200 pending (waiting for resources)", 0.0)
        );
        let (run, failed) =
            (row(Tasks::One(1), State::Running, "None"), row(Tasks::One(0), State::Failed, ""));
        observe(&[pending.clone(), run.clone(), failed]);
        // The controller has forgotten the failed task.
        let (message, done) = observe(&[pending, run]);
        let expected =
            "job 7: 1 of 200 done, 1 of them failed, 1 running, 198 pending (waiting for resources)";
        assert_eq!((message.as_str(), done), (expected, 1.0));
    }
}
