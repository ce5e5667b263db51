//! Builds the observation of a pending or running job. Pure.

use jiff::tz::TimeZone;
use serde_json::json;
use taskbridge_sdk::{JobState, Observation, Progress, Question, Timestamp, short_line};

use crate::array_counts::ArrayCounts;
use crate::driver::Row;
use crate::job_request::OURS_COMMENT;
use crate::plan::Plan;
use crate::reason;
use crate::state::{Phase, State};

/// Id of the question of a job that waits for an approval, and the field of the target that asks for it.
pub(crate) const APPROVAL: &str = "approval";

/// Returns the observation of a job that is held until it is approved.
pub(crate) fn asking(words: &str) -> Observation {
    let form = json!({
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Whether the job may begin", "default": true}},
        "required": ["approve"],
    });
    let mut seen = Observation::new(JobState::Running).with_message("held until it is approved");
    seen.questions = vec![Question::form(APPROVAL, words, form)];
    seen
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
    tally: &mut ArrayCounts,
) -> Observation {
    match plan.tasks() {
        Some(tasks) => array(tasks.len(), rows, position, tally),
        None => match rows.iter().find(|row| !row.state.has_ended()) {
            Some(row) => single(row, position),
            None => Observation::new(JobState::Running),
        },
    }
}

/// Adds the number of scripts that Slurm has shown as running for a while but that have not begun. After a
/// crash, a controller can show such jobs until their time limits.
pub(crate) fn with_not_begun(mut seen: Observation, plan: &Plan, count: usize) -> Observation {
    let words = match (count, plan.array.is_some()) {
        (0, _) => return seen,
        (_, false) => "its script has not begun".to_owned(),
        (count, true) => format!("{count} shown as running without having begun"),
    };
    let message = seen.message.take().map_or_else(|| words.clone(), |said| format!("{said}; {words}"));
    seen.with_message(message)
}

/// Adds why a job was requeued, if that is known.
pub(crate) fn with_preempted(mut seen: Observation, preempted: bool) -> Observation {
    if preempted {
        seen.message =
            seen.message.map(|said| format!("{said}; a job of a higher priority had preempted it"));
    }
    seen
}

fn single(row: &Row, position: Option<usize>) -> Observation {
    let waits = row.state.phase() == Phase::Waiting;
    let state = if waits { JobState::Queued } else { JobState::Running };
    let words = if waits { waiting(row, position) } else { running(row) };
    let (progress, said) = row.comment.as_deref().map(comment).unwrap_or_default();
    let job = row.job;
    let mut seen = Observation::new(state).with_message(match said {
        Some(said) if !waits => format!("{said} (job {job} {words})"),
        _ => format!("job {job}: {words}"),
    });
    seen.progress = progress;
    seen.since = if waits { row.submitted } else { row.start };
    seen
}

fn waiting(row: &Row, position: Option<usize>) -> String {
    let mut words = match row.state {
        State::Pending => reason::in_words(&row.reason),
        state => state.in_words().to_owned(),
    };
    if reason::is_stuck(&row.reason) {
        words.push_str("; it will not begin by itself");
    }
    if row.restarts > 0 {
        words.push_str(&format!(", put back into the queue {}", times(row.restarts)));
    }
    if let Some(position) = position.filter(|_| has_position(row)) {
        words.push_str(&format!(", position {position}"));
    }
    if let Some(start) = row.start {
        words.push_str(&format!(", expected start {}", clock(start)));
    }
    words
}

fn running(row: &Row) -> String {
    let mut words = row.state.in_words().to_owned();
    if !row.nodes.is_empty() {
        words.push_str(&format!(" on {}", row.nodes));
    }
    if let Some(start) = row.start {
        words.push_str(&format!(" since {}", clock(start)));
    }
    if row.restarts > 0 {
        words.push_str(&format!(", after it was put back into the queue {}", times(row.restarts)));
    }
    words
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Counts the tasks of an array: "61 of 200 done, 2 of them failed, 10 running, 129 pending (waiting for
/// resources)".
fn array(total: usize, rows: &[Row], position: Option<usize>, tally: &mut ArrayCounts) -> Observation {
    let count =
        |wanted: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).map(Row::count).sum::<usize>();
    let waiting_tasks = match tally.left_of(total, rows) {
        Some(left) => left,
        None => count(&|row| row.state.phase() == Phase::Waiting),
    };
    let running = count(&|row| row.state.phase() == Phase::Running);
    // Tasks that have left the queue have ended.
    let done = total.saturating_sub(waiting_tasks + running);
    let failed = tally.failed();
    let job = rows.first().map_or_else(String::new, |row| format!("job {}: ", row.job));
    let mut words = format!("{job}{done} of {total} done");
    if failed > 0 {
        words.push_str(&format!(", {failed} of them failed"));
    }
    if running > 0 {
        words.push_str(&format!(", {running} running"));
    }
    let first_waiting = rows.iter().find(|row| row.state.phase() == Phase::Waiting);
    if let Some(row) = first_waiting {
        words.push_str(&format!(", {waiting_tasks} pending ({})", waiting(row, position)));
    }
    let state = if running == 0 && done == 0 { JobState::Queued } else { JobState::Running };
    #[expect(clippy::cast_precision_loss, reason = "no array has so many tasks")]
    let mut seen = Observation::new(state)
        .with_message(words)
        .with_progress(tally.done(done) as f64, Some(total as f64));
    let begun =
        rows.iter().filter(|row| row.state.phase() != Phase::Waiting).filter_map(|row| row.start).min();
    seen.since = begun.or_else(|| rows.iter().filter_map(|row| row.submitted).min());
    seen
}

/// Parses a job's comment: `progress=2/3`, `progress=40%` or `progress=0.4`, and the text after it.
pub(crate) fn comment(text: &str) -> (Option<Progress>, Option<String>) {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let progress = first.strip_prefix("progress=").and_then(progress);
    let said = match progress {
        Some(_) => rest.trim(),
        None if text == OURS_COMMENT => "",
        None => text,
    };
    (progress, (!said.is_empty()).then(|| short_line(said, 200)))
}

fn progress(text: &str) -> Option<Progress> {
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
fn clock(moment: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(moment.as_millis()) {
        Ok(moment) => moment.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => moment.to_string(),
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
            limit: None,
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
        let seen =
            observe_rows(&Plan::default(), std::slice::from_ref(&row), Some(14), &mut ArrayCounts::default());
        assert_eq!(seen.state, JobState::Queued);
        assert_eq!(
            seen.message.as_deref(),
            Some("job 7: waiting for resources, position 14, expected start 2026-11-22 09:29 UTC")
        );
        let stuck = Row { reason: "BadConstraints".to_owned(), start: None, ..row };
        let seen =
            observe_rows(&Plan::default(), &[stuck], Some(14), &mut ArrayCounts::default()).message.unwrap();
        assert_eq!(seen, "job 7: no nodes have what it asks for; it will not begin by itself");
    }

    /// Progress and message come from the comment that the script sets.
    #[test]
    fn running_job_shows_its_comment() {
        let running = |comment: &str| Row {
            comment: Some(comment.to_owned()),
            nodes: "n1".to_owned(),
            ..row(Tasks::Single, State::Running, "None")
        };
        let seen = observe_rows(
            &Plan::default(),
            &[running("progress=2/3 docking")],
            None,
            &mut ArrayCounts::default(),
        );
        assert_eq!(seen.progress, Some(Progress { done: 2.0, total: Some(3.0) }));
        assert_eq!(seen.message.as_deref(), Some("docking (job 7 running on n1)"));
        let seen =
            observe_rows(&Plan::default(), &[running(OURS_COMMENT)], None, &mut ArrayCounts::default());
        assert_eq!((seen.progress, seen.message.as_deref()), (None, Some("job 7: running on n1")));
        assert_eq!(comment("progress=40%").0, Some(Progress { done: 40.0, total: Some(100.0) }));
        assert_eq!(comment("progress=NaN"), (None, Some("progress=NaN".to_owned())));
    }

    #[test]
    fn an_array_is_counted() {
        let plan = Plan { array: Some("0-199".to_owned()), ..Plan::default() };
        let rows = [
            row(Tasks::Many((61..200).collect()), State::Pending, "Resources"),
            row(Tasks::One(60), State::Running, "None"),
            row(Tasks::One(59), State::Failed, "NonZeroExitCode"),
        ];
        let mut tally = ArrayCounts::default();
        tally.add_rows(&rows);
        let seen = observe_rows(&plan, &rows, None, &mut tally);
        assert_eq!(
            seen.message.as_deref(),
            Some("job 7: 60 of 200 done, 1 of them failed, 1 running, 139 pending (waiting for resources)")
        );
        assert_eq!(seen.progress, Some(Progress { done: 60.0, total: Some(200.0) }));
    }

    /// A pending row without indices stands for all tasks that no other row names.
    #[test]
    fn unnamed_pending_row_means_all() {
        let plan = Plan { array: Some("0-199".to_owned()), ..Plan::default() };
        let waits = row(Tasks::Single, State::Pending, "Resources");
        let mut tally = ArrayCounts::default();
        let all = plan.tasks().unwrap();
        let mut seen = |rows: &[Row]| {
            tally.add_rows(rows);
            assert!(!tally.needs_accounting(&all, rows), "which of them ended is not known");
            let seen = observe_rows(&plan, rows, None, &mut tally);
            (seen.message.unwrap(), seen.progress.unwrap().done)
        };
        let (message, done) = seen(std::slice::from_ref(&waits));
        assert_eq!(
            (message.as_str(), done),
            ("job 7: 0 of 200 done, 200 pending (waiting for resources)", 0.0)
        );
        let (run, failed) =
            (row(Tasks::One(1), State::Running, "None"), row(Tasks::One(0), State::Failed, ""));
        seen(&[waits.clone(), run.clone(), failed]);
        // The controller has forgotten the failed task.
        let (message, done) = seen(&[waits, run]);
        let words = "job 7: 1 of 200 done, 1 of them failed, 1 running, 198 pending (waiting for resources)";
        assert_eq!((message.as_str(), done), (words, 1.0));
    }
}
