//! Parses slurmrestd's JSON into queue rows and records. Pure. Formats differ between versions: a number can
//! be an object with a `set` flag, and a state can be a list. A missing or unexpected value counts as absent.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;

use crate::driver::state::{Phase, State};
use crate::driver::{CancelledBy, Exit, PendingJob, Record, Row, Tasks};
use crate::identity::handle::JobId;
use crate::notation::indices;

/// The number of minutes that means no limit.
const INFINITE: i64 = 0xffff_ffff;

/// The user whose jobs are ours.
pub(crate) enum User {
    Name(String),
    Id(u32),
}

impl User {
    pub(super) fn owns(&self, job: &Value) -> bool {
        match self {
            User::Name(name) => job["user_name"] == name.as_str(),
            User::Id(id) => number(&job["user_id"]) == Some(i64::from(*id)),
        }
    }
}

/// Parses a number, plain or as an object with a `set` flag.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Value::String(text) => text.parse().ok(),
        Value::Object(object) => {
            let flag = |name: &str| object.get(name).and_then(Value::as_bool);
            let is_unset = flag("set") == Some(false) || flag("infinite") == Some(true);
            object.get("number").filter(|_| !is_unset).and_then(number)
        }
        _ => None,
    }
}

/// Parses a state, plain or as a list of a state and flags.
pub(super) fn state(value: &Value) -> State {
    match value {
        Value::String(text) => State::parse(text),
        Value::Array(parts) => {
            let states: Vec<State> = parts.iter().filter_map(Value::as_str).map(State::parse).collect();
            // These flags override the state, as in squeue.
            let flag = [State::Completing, State::Configuring].into_iter().find(|flag| states.contains(flag));
            flag.or(states.first().copied()).unwrap_or(State::Unknown)
        }
        _ => State::Unknown,
    }
}

/// Returns the time of a job's newest past event, in seconds since 1970.
pub(super) fn newest_event(job: &Value) -> Option<i64> {
    let state = state(&job["job_state"]);
    // Before the job starts or ends, these times are estimates.
    let (began, ended) = (state.phase() != Phase::Waiting, state.has_ended());
    let events =
        [("submit_time", true), ("last_sched_evaluation", true), ("start_time", began), ("end_time", ended)];
    events.iter().filter(|(_, happened)| *happened).filter_map(|(name, _)| number(&job[*name])).max()
}

fn id(value: &Value) -> Option<JobId> {
    number(value).and_then(|id| JobId::try_from(id).ok()).filter(|id| *id > 0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn some_text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Parses a wait status, or the object that newer versions use instead.
fn exit(value: &Value) -> Option<Exit> {
    if let Some(status) = number(value) {
        return u32::try_from(status).ok().map(Exit::from_status);
    }
    let code = number(&value["return_code"]);
    let signal = number(&value["signal"]["id"]).or_else(|| number(&value["signal"]["signal_id"]));
    match (code, signal) {
        (None, None) => None,
        (code, signal) => {
            let part = |part: Option<i64>| part.and_then(|part| u32::try_from(part).ok()).unwrap_or(0);
            Some(Exit { code: part(code), signal: part(signal) })
        }
    }
}

fn minutes(value: &Value) -> Option<Duration> {
    let minutes = number(value).filter(|minutes| (1..INFINITE).contains(minutes))?;
    Some(Duration::from_secs(u64::try_from(minutes).ok()? * 60))
}

/// Parses a job, or some tasks of one, as the controller reports it.
pub(super) fn row(job: &Value) -> Option<Row> {
    let job_id = id(&job["job_id"])?;
    let state = state(&job["job_state"]);
    let pending_tasks = some_text(&job["array_task_string"]).and_then(|tasks| indices::parse(&tasks));
    let tasks = match (number(&job["array_task_id"]), pending_tasks) {
        (Some(task), _) => Tasks::One(u32::try_from(task).ok()?),
        (None, Some(tasks)) => Tasks::Many(tasks),
        (None, None) => Tasks::Single,
    };
    Some(Row {
        job: id(&job["array_job_id"]).unwrap_or(job_id),
        tasks,
        name: text(&job["name"]),
        state,
        reason: some_text(&job["state_reason"]).unwrap_or_else(|| "None".to_owned()),
        exit: exit(&job["exit_code"]).filter(|_| state.has_ended()),
        submitted: parse_timestamp(&job["submit_time"]),
        start: parse_timestamp(&job["start_time"]),
        end: parse_timestamp(&job["end_time"]).filter(|_| state.has_ended()),
        time_limit: minutes(&job["time_limit"]),
        restarts: number(&job["restart_cnt"]).and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        partition: text(&job["partition"]),
        nodes: text(&job["nodes"]),
        comment: some_text(&job["comment"]),
    })
}

/// Parses a pending job.
pub(super) fn pending_job(job: &Value) -> Option<PendingJob> {
    Some(PendingJob {
        job: id(&job["array_job_id"]).or_else(|| id(&job["job_id"]))?,
        partition: text(&job["partition"]),
        priority: number(&job["priority"]).unwrap_or(0) as f64,
    })
}

/// Parses a job or an array task from the accounting database. Ignores its exit codes: Slurm 22.05 returns 0
/// for a job that ended with 4.
pub(super) fn record(job: &Value) -> Option<Record> {
    let (array, time) = (&job["array"], &job["time"]);
    let job_id = id(&job["job_id"])?;
    let array_id = id(&array["job_id"]);
    // Tasks that never began share one record.
    let task = number(&array["task_id"]).or_else(|| number(&array["task"]));
    let task_list = some_text(&array["task"])
        .and_then(|tasks| indices::parse(&tasks).or_else(|| parse_task_mask(&tasks)));
    let tasks = match (array_id, task.and_then(|task| u32::try_from(task).ok()), task_list) {
        (Some(_), Some(task), _) => Tasks::One(task),
        (Some(_), None, Some(tasks)) => Tasks::Many(tasks),
        _ => Tasks::Single,
    };
    let seconds = |value: &Value| number(value).and_then(|seconds| u64::try_from(seconds).ok());
    let total = &time["total"];
    let micros = seconds(&total["microseconds"]).unwrap_or(0);
    let required = &job["required"];
    let memory = [("memory", "M"), ("memory_per_node", "M"), ("memory_per_cpu", "M per CPU")];
    Some(Record {
        job: array_id.unwrap_or(job_id),
        tasks,
        name: text(&job["name"]),
        state: Some(state(&job["state"]["current"])),
        // The record contains a user name instead of a uid.
        cancelled_by: CancelledBy::Unknown,
        exit: None,
        submitted: parse_timestamp(&time["submission"]),
        start: parse_timestamp(&time["start"]),
        end: parse_timestamp(&time["end"]),
        elapsed: seconds(&time["elapsed"]).map(Duration::from_secs),
        time_limit: minutes(&time["limit"]),
        max_memory: job["steps"].as_array().into_iter().flatten().filter_map(max_step_memory).max(),
        requested_memory: memory.iter().find_map(|(name, unit)| {
            number(&required[*name]).filter(|size| *size > 0).map(|size| format!("{size}{unit}"))
        }),
        cpu_time: seconds(&total["seconds"])
            .map(|full_seconds| Duration::from_secs(full_seconds) + Duration::from_micros(micros)),
        cpus: number(&required["CPUs"]).and_then(|cpus| u32::try_from(cpus).ok()),
        nodes: text(&job["nodes"]),
    })
}

/// Parses slurmdbd's bit mask of tasks: `0x3FC` for the tasks 2 to 9.
fn parse_task_mask(text: &str) -> Option<Vec<u32>> {
    let mut tasks = Vec::new();
    for (at, digit) in text.strip_prefix("0x")?.chars().rev().enumerate() {
        let (bits, first) = (digit.to_digit(16)?, u32::try_from(at).ok()?.checked_mul(4)?);
        tasks.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
    }
    Some(tasks)
}

/// Returns the maximum memory that a task of this step used, in bytes.
fn max_step_memory(step: &Value) -> Option<u64> {
    let usages = step["tres"]["requested"]["max"].as_array()?;
    let memory = usages.iter().find(|usage| usage["type"] == "mem")?;
    number(&memory["count"]).and_then(|bytes| u64::try_from(bytes).ok())
}

/// Parses a time of slurmrestd: seconds since 1970, where zero is none.
fn parse_timestamp(value: &Value) -> Option<Timestamp> {
    let seconds = number(value).filter(|seconds| *seconds > 0)?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A job in the shape of Slurm 22.05 and of later versions is read as the same row.
    #[test]
    fn old_and_new_rest_shapes_agree() {
        let old = json!({
            "job_id": 7, "array_job_id": 5, "array_task_id": 2, "array_task_string": "", "job_state": "FAILED",
            "state_reason": "NonZeroExitCode", "exit_code": 768, "submit_time": 100, "start_time": 110, "end_time": 120,
            "time_limit": 60, "restart_cnt": 1, "name": "tb-a", "partition": "main", "nodes": "vm", "comment": "",
        });
        let set = |number: i64| json!({"set": true, "infinite": false, "number": number});
        let new = json!({
            "job_id": 7, "array_job_id": set(5), "array_task_id": set(2), "array_task_string": "", "job_state": ["FAILED"],
            "state_reason": "NonZeroExitCode", "submit_time": set(100), "start_time": set(110), "end_time": set(120),
            "exit_code": {"status": ["ERROR"], "return_code": set(3), "signal": {"id": {"set": false, "number": 0}, "name": ""}},
            "time_limit": set(60), "restart_cnt": 1, "name": "tb-a", "partition": "main", "nodes": "vm", "comment": "",
        });
        let old_row = row(&old).unwrap();
        assert_eq!(
            (old_row.job, &old_row.tasks, old_row.exit),
            (5, &Tasks::One(2), Some(Exit { code: 3, signal: 0 }))
        );
        assert_eq!(
            (old_row.time_limit, old_row.restarts, &old_row.comment),
            (Some(Duration::from_secs(3600)), 1, &None)
        );
        assert_eq!(row(&new), Some(old_row));
    }

    /// Flags such as COMPLETING override a state, and unexpected values are unknown.
    #[test]
    fn unknown_rest_states_prove_nothing() {
        assert_eq!(state(&json!(["CANCELLED", "COMPLETING"])), State::Completing);
        assert_eq!(state(&json!(["RUNNING"])), State::Running);
        assert_eq!(state(&json!([])), State::Unknown);
        assert_eq!(state(&json!(17)), State::Unknown);
        assert_eq!(row(&json!({"name": "tb-a"})), None);
        let pending = row(
            &json!({"job_id": 5, "array_task_id": null, "array_task_string": "0-2%1", "job_state": "PENDING"}),
        );
        assert_eq!(pending.map(|row| row.tasks), Some(Tasks::Many(vec![0, 1, 2])));
        let unlimited =
            row(&json!({"job_id": 5, "job_state": "PENDING", "time_limit": {"infinite": true, "number": 0}}));
        assert_eq!(unlimited.and_then(|row| row.time_limit), None);
    }

    /// The REST accounting reports SUCCESS for a failed job, so its exit codes are not used.
    #[test]
    fn accounting_exit_codes_are_ignored() {
        let record_json = json!({
            "job_id": 3, "name": "tb-a", "state": {"current": "FAILED", "reason": "None"}, "array": {"job_id": 1, "task_id": 1},
            "exit_code": {"status": "SUCCESS", "return_code": 0}, "required": {"CPUs": 1, "memory": 10},
            "time": {"elapsed": 4, "end": 20, "start": 16, "submission": 10, "limit": 60, "total": {"seconds": 1, "microseconds": 500_000}},
            "steps": [{"tres": {"requested": {"max": [{"type": "mem", "count": 4096}]}}}], "nodes": "vm",
        });
        let accounting_record = record(&record_json).unwrap();
        assert_eq!(
            (accounting_record.job, accounting_record.tasks, accounting_record.exit, accounting_record.state),
            (1, Tasks::One(1), None, Some(State::Failed))
        );
        assert_eq!(
            (accounting_record.max_memory, accounting_record.cpu_time),
            (Some(4096), Some(Duration::from_millis(1500)))
        );
        assert_eq!(accounting_record.requested_memory.as_deref(), Some("10M"));
    }

    /// Tasks that never began are read from a bit mask or a range.
    #[test]
    fn pending_array_mask_is_parsed() {
        // Recorded from Slurm 22.05 for a cancelled array `2-9%2`.
        let record_json = |task: &str| {
            json!({
                "job_id": 1, "name": "tb-a", "state": {"current": "CANCELLED", "reason": "JobHeldUser"},
                "array": {"job_id": 1, "limits": {"max": {"running": {"tasks": 2}}}, "task": task, "task_id": null},
            })
        };
        for task in ["0x3FC", "2-9%2"] {
            assert_eq!(record(&record_json(task)).unwrap().tasks, Tasks::Many((2..10).collect()), "{task}");
        }
        assert_eq!(
            record(&record_json("0x3FC...")).unwrap().tasks,
            Tasks::Single,
            "a truncated mask names no tasks"
        );
    }
}
