//! Polls the folder of a job. A recorded end is final. Without one, only the lock of the supervisor decides
//! whether the job runs. It must not trust process ids: a reused id or a reboot cannot be mistaken for a job.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use taskbridge_sdk::{Error, JobState, Observation, Result, Timestamp};

use crate::identity::handle::Machine;
use crate::observe::{events, orphans};
use crate::questions;
use crate::result::log::printed;
use crate::store::job_dir::{JobDir, SupervisorState};

/// Polls a job that was started on `machine`, from `this_machine`.
pub(crate) fn observe(dir: &JobDir, machine: &Machine, this_machine: &Machine) -> Result<Observation> {
    // The lock is checked first: once it is free, no process writes a final record.
    let supervisor = dir.supervisor_state().map_err(|e| dir.read_error(e))?;
    let invalid_end = match dir.read_end() {
        Ok(Some((end, written_at))) => return Ok(Observation { since: Some(timestamp(written_at)), ..end }),
        Ok(None) => None,
        // The job wrote it, not its supervisor. The supervisor replaces it at the end.
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            Some(format!("the job's end.json was not written by its supervisor: {e}"))
        }
        Err(e) => return Err(dir.read_error(e)),
    };
    match supervisor {
        SupervisorState::Supervised { since } => {
            let observation = observe_running(dir, since).map_err(|e| dir.read_error(e))?;
            Ok(Observation { message: invalid_end.or(observation.message), ..observation })
        }
        SupervisorState::Ended | SupervisorState::Unclaimed => {
            let observation = observe_gone(dir, machine, this_machine, &supervisor)?;
            let message = invalid_end.into_iter().chain(observation.message).collect::<Vec<_>>().join("; ");
            Ok(Observation { message: Some(message), ..observation })
        }
    }
}

fn observe_running(dir: &JobDir, since: SystemTime) -> io::Result<Observation> {
    let job_events = events::read(&dir.provided_path("events"));
    let open_questions = questions::list_open(dir)?;
    Ok(Observation {
        progress: job_events.progress,
        message: open_questions.problem.or(job_events.message),
        since: Some(timestamp(since)),
        questions: open_questions.questions,
        notes: job_events.notes,
        log_bytes: Some(printed(&dir.log_dir())?),
        ..Observation::new(JobState::Running)
    })
}

/// Returns the observation of a job without a supervisor and without a final record, and kills what is left
/// of it. Fails for a job of another machine, which may still run there.
fn observe_gone(
    dir: &JobDir,
    machine: &Machine,
    this_machine: &Machine,
    supervisor: &SupervisorState,
) -> Result<Observation> {
    if machine.host != this_machine.host && machine.boot != this_machine.boot {
        return Err(Error::config(format!(
            "the job runs on the machine `{}`, and only a server there can poll it; this machine is `{}`",
            machine.host, this_machine.host
        )));
    }
    // Unsupervised processes must not continue after the task is reported as ended.
    orphans::kill(dir.key());
    let reason = match supervisor {
        _ if machine.boot != this_machine.boot => "the machine was restarted while the job ran",
        SupervisorState::Ended => {
            "the job's supervisor was killed, so the job's result is unknown; its remaining processes were killed"
        }
        _ => "the job's files are gone",
    };
    Ok(Observation::new(JobState::Gone).with_message(reason))
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
