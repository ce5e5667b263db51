//! Parser for the output of sacct. Pure: it must not run anything.

use super::queue_text::parse_timestamp;
use super::{CancelledBy, Exit, Record, Tasks};
use crate::driver::state::State;
use crate::identity::handle::JobId;
use crate::notation::{amount, indices};

/// The requested fields, in this order. The name is last, since it may contain the separator.
pub(crate) const FIELDS: &str = "JobID,State,ExitCode,Submit,Start,End,ElapsedRaw,TimelimitRaw,MaxRSS,TotalCPU,AllocCPUS,ReqMem,NodeList,JobName";

/// Parses the output into one record for each job or array task, with the memory that its steps used.
pub(crate) fn records(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(14, '|').collect();
        let [
            id,
            state,
            exit,
            submitted,
            start,
            end,
            elapsed,
            time_limit,
            memory,
            cpu,
            cpus,
            requested_memory,
            nodes,
            name,
        ] = fields[..]
        else {
            continue;
        };
        let (job_id, step) = id.split_once('.').map_or((id, None), |(job_id, step)| (job_id, Some(step)));
        let Some((job, tasks)) = parse_job_id(job_id) else { continue };
        if step.is_some() {
            // A step belongs to the record above it.
            let parent = records.last_mut().filter(|record| record.job == job && record.tasks == tasks);
            if let Some(record) = parent {
                record.max_memory =
                    record.max_memory.max(amount::size(memory).filter(|_| !memory.is_empty()));
            }
            continue;
        }
        records.push(Record {
            job,
            tasks,
            name: name.to_owned(),
            state: Some(State::parse(state)),
            cancelled_by: cancelled_by(state),
            exit: exit_code(exit),
            submitted: parse_timestamp(submitted),
            start: parse_timestamp(start),
            end: parse_timestamp(end),
            elapsed: elapsed.parse().ok().map(std::time::Duration::from_secs),
            time_limit: time_limit
                .parse::<u64>()
                .ok()
                .map(|minutes| std::time::Duration::from_secs(minutes * 60)),
            max_memory: None,
            requested_memory: Some(requested_memory).filter(|text| !text.is_empty()).map(str::to_owned),
            cpu_time: amount::used_time(cpu),
            cpus: cpus.parse().ok(),
            nodes: nodes.to_owned(),
        });
    }
    records
}

/// Parses `CANCELLED by 1000`, or `CANCELLED` if the controller itself cancelled the job.
fn cancelled_by(state: &str) -> CancelledBy {
    match state.strip_prefix("CANCELLED by ") {
        Some(user) => user.trim().parse().map_or(CancelledBy::Unknown, CancelledBy::User),
        None if state == "CANCELLED" => CancelledBy::Controller,
        None => CancelledBy::Unknown,
    }
}

/// Parses a job id: `4`, `4_2`, or `4_[5-9%2]` for tasks that never began, which have no records of their
/// own.
fn parse_job_id(id: &str) -> Option<(JobId, Tasks)> {
    match id.split_once('_') {
        Some((job, tasks)) if tasks.starts_with('[') => {
            Some((job.parse().ok()?, Tasks::Many(indices::parse(tasks)?)))
        }
        Some((job, task)) => Some((job.parse().ok()?, Tasks::One(task.parse().ok()?))),
        None => Some((id.split('+').next()?.parse().ok()?, Tasks::Single)),
    }
}

/// Parses an exit code and a signal: `3:0`.
pub(crate) fn exit_code(text: &str) -> Option<Exit> {
    let (code, signal) = text.split_once(':')?;
    Some(Exit { code: code.parse().ok()?, signal: signal.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Records of jobs, steps and array tasks are read from the output of Slurm 22.05.
    #[test]
    fn accounting_text_of_22_05_parses() {
        let text = "\
1|CANCELLED by 0|0:0|1795339653|Unknown|1795339656|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-x
3|TIMEOUT|0:0|1795339653|1795339755|1795339775|20|10||00:19.003|2|4Gn|vm|tb-be|gin
3.batch|CANCELLED|0:15|1795339755|1795339755|1795339775|20||4304K|00:00.003|1||vm|batch
3.0|COMPLETED|0:0|1795339755|1795339755|1795339775|20||9304K|00:00.003|1||vm|hostname
2_[7-9]|PENDING|0:0|1795339653|Unknown|Unknown|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-arr
2_1|FAILED|1:0|1795339653|1795339673|1795339693|20|UNLIMITED||00:00.004|1|10M|vm|tb-arr
";
        let records = records(text);
        assert_eq!(records.len(), 4);
        assert_eq!((records[0].state, records[0].start), (Some(State::Cancelled), None));
        assert_eq!(
            (records[0].cancelled_by, records[1].cancelled_by),
            (CancelledBy::User(0), CancelledBy::Unknown)
        );
        let timed_out = &records[1];
        assert_eq!((timed_out.state, timed_out.name.as_str()), (Some(State::Timeout), "tb-be|gin"));
        assert_eq!(timed_out.max_memory, Some(9304 << 10), "the maximum of its steps");
        assert_eq!(timed_out.cpu_time, Some(Duration::from_millis(19_003)));
        assert_eq!(timed_out.time_limit, Some(Duration::from_secs(600)));
        assert_eq!(records[2].tasks, Tasks::Many(vec![7, 8, 9]));
        assert_eq!(
            (records[3].job, &records[3].tasks, records[3].exit),
            (2, &Tasks::One(1), Some(Exit { code: 1, signal: 0 }))
        );
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "[\\PC|\n]{0,200}") {
            let _ = records(&text);
        }
    }
}
