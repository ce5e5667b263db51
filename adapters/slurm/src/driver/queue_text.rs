//! Parser for the output of squeue. Pure: it must not run anything.

use taskbridge_sdk::Timestamp;

use super::{Exit, PendingJob, Row, Tasks};
use crate::driver::state::State;
use crate::notation::{amount, indices};

/// The field separator: a control character that occurs in no field before the comment.
const SEPARATOR: char = '\u{1f}';

/// The requested fields, in this order. The comment is last, since users can write any text into it.
const FIELDS: [&str; 15] = [
    "ArrayJobID",
    "ArrayTaskID",
    "State",
    "Reason",
    "exit_code",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "RestartCnt",
    "Partition",
    "NodeList",
    "JobID",
    "Name",
    "Comment",
];

/// The requested fields of pending jobs.
const PENDING_FIELDS: [&str; 3] = ["ArrayJobID", "Partition", "PriorityLong"];

/// Returns the value of `--Format` for queue rows.
pub(crate) fn row_format() -> String {
    format(&FIELDS)
}

/// Returns the value of `--Format` for pending jobs.
pub(crate) fn pending_format() -> String {
    format(&PENDING_FIELDS)
}

fn format(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("{field}:{SEPARATOR}")).collect::<Vec<_>>().join(",")
}

/// Parses the output into queue rows. Skips invalid lines, such as the second line of a comment.
pub(crate) fn rows(text: &str) -> Vec<Row> {
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(SEPARATOR).collect();
    let [
        array,
        tasks,
        state,
        reason,
        exit,
        submitted,
        start,
        end,
        time_limit,
        restarts,
        partition,
        nodes,
        id,
        name,
        comment,
        ..,
    ] = fields[..]
    else {
        return None;
    };
    let id = id.trim().parse().ok()?;
    let state = State::parse(state);
    let exit = exit.trim().parse().ok().map(Exit::from_status);
    Some(Row {
        // Only the row of an array task names an array. For other jobs Slurm prints 0 or the job's own
        // number.
        job: array.trim().parse().ok().filter(|array| *array != 0).unwrap_or(id),
        tasks: parse_tasks(tasks.trim()),
        name: name.to_owned(),
        state,
        reason: reason.to_owned(),
        exit: exit.filter(|_| state.has_ended()),
        submitted: parse_timestamp(submitted),
        start: parse_timestamp(start),
        end: parse_timestamp(end).filter(|_| state.has_ended()),
        time_limit: amount::time(time_limit.trim()),
        restarts: restarts.trim().parse().unwrap_or(0),
        partition: partition.to_owned(),
        nodes: nodes.to_owned(),
        comment: Some(comment).filter(|text| !text.is_empty() && *text != "(null)").map(str::to_owned),
    })
}

fn parse_tasks(text: &str) -> Tasks {
    match (text.parse(), indices::parse(text)) {
        (Ok(task), _) => Tasks::One(task),
        (Err(_), Some(tasks)) => Tasks::Many(tasks),
        (Err(_), None) => Tasks::Single,
    }
}

/// Parses the output into pending jobs.
pub(crate) fn pending_jobs(text: &str) -> Vec<PendingJob> {
    let job = |line: &str| {
        let mut fields = line.split(SEPARATOR);
        let (job, partition, priority) = (fields.next()?, fields.next()?, fields.next()?);
        Some(PendingJob {
            job: job.trim().parse().ok()?,
            partition: partition.to_owned(),
            priority: priority.trim().parse().unwrap_or(0.0),
        })
    };
    text.lines().filter_map(job).collect()
}

/// Parses a time in seconds since 1970, the format of `SLURM_TIME_FORMAT=%s`.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let seconds: i64 = text.trim().parse().ok()?;
    (seconds > 0).then(|| Timestamp::from_millis(seconds.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn line(fields: &[&str; 15]) -> String {
        fields.iter().map(|field| format!("{field}{SEPARATOR}")).collect()
    }

    /// Rows of jobs and array tasks are read from the output of Slurm 22.05.
    #[test]
    fn queue_text_of_22_05_parses() {
        let text = [
            line(&[
                "2",
                "1-5%1",
                "PENDING",
                "JobArrayTaskLimit",
                "0",
                "1795339653",
                "N/A",
                "N/A",
                "UNLIMITED",
                "0",
                "debug",
                "",
                "2",
                "tb-arr",
                "(null)",
            ]),
            line(&[
                "2",
                "3",
                "FAILED",
                "NonZeroExitCode",
                "256",
                "1795339653",
                "1795339714",
                "1795339734",
                "10:00",
                "0",
                "debug",
                "vm",
                "17",
                "tb-arr",
                "a|b",
            ]),
            "the second line of a comment".to_owned(),
            line(&[
                "1",
                "N/A",
                "RUNNING",
                "None",
                "0",
                "1795339653",
                "1795339654",
                "1826875653",
                "365-00:00:00",
                "2",
                "debug",
                "vm",
                "1",
                "tb-x",
                "progress=2/3",
            ]),
        ];
        let rows = rows(&text.join("\n"));
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[0].job, &rows[0].tasks, rows[0].count()), (2, &Tasks::Many(vec![1, 2, 3, 4, 5]), 5));
        assert_eq!((rows[0].start, rows[0].time_limit, rows[0].comment.as_deref()), (None, None, None));
        assert_eq!((rows[1].job, &rows[1].tasks), (2, &Tasks::One(3)));
        assert_eq!(rows[1].exit, Some(Exit { code: 1, signal: 0 }));
        assert_eq!(rows[1].time_limit, Some(Duration::from_secs(600)));
        assert_eq!((rows[2].exit, rows[2].end, rows[2].restarts), (None, None, 2), "the job has not ended");
        assert_eq!((&rows[2].tasks, rows[2].comment.as_deref()), (&Tasks::Single, Some("progress=2/3")));
    }

    #[test]
    fn exit_status_is_code_or_signal() {
        assert_eq!(Exit::from_status(1024), Exit { code: 4, signal: 0 });
        assert_eq!(Exit::from_status(9), Exit { code: 0, signal: 9 });
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "[\\PC\u{1f}\n]{0,200}") {
            let _ = (rows(&text), pending_jobs(&text));
        }
    }
}
