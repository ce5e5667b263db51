//! Tests of how the poll schedule finds a job that makes the adapter crash or hang.

use taskbridge_sdk::{ErrorKind, JobHandle};

use super::suspects::CRASHES_ALONE;
use super::*;

const PACE: PollIntervals =
    PollIntervals { quickest: Duration::from_millis(100), slowest: Duration::from_secs(30) };

fn agenda(jobs: usize, now: Instant) -> PollSchedule {
    let mut agenda = PollSchedule::new(None, PACE, false, now);
    for n in 0..jobs {
        let name = format!("job {n:03}");
        let job = OpenJob {
            id: TaskId::from_wire(name.as_str()),
            tool: "tool".to_owned(),
            handle: JobHandle::new(name),
            started_at: Timestamp::from_millis(0),
            version: 1,
        };
        agenda.add(job, false, now, Duration::from_secs(60));
    }
    agenda
}

fn failed(fault: SweepFault) -> PollResult {
    PollResult::Failed { kind: ErrorKind::Unavailable, version: 1, fault: Some(fault) }
}

/// Makes all polls that are due now, with an adapter that fails for the jobs `over`. Returns the number of
/// calls, and the jobs for which it answered.
fn look(agenda: &mut PollSchedule, now: Instant, fault: SweepFault, over: &[&str]) -> (usize, Vec<TaskId>) {
    let (mut calls, mut answered) = (0, Vec::new());
    while let Some(due) = agenda.begin_sweep(now, 500) {
        calls += 1;
        let fails = due.jobs.iter().any(|job| over.contains(&job.id.as_str()));
        let is_one = due.jobs.len() == 1;
        let seen = due.jobs.into_iter().map(|job| {
            let seen = match fails {
                true if fault == SweepFault::Crashed && !is_one => PollResult::Undecided,
                true => failed(fault),
                false => {
                    answered.push(job.id.clone());
                    PollResult::Observed { digest: Some(1), log_followed: false, version: 1 }
                }
            };
            (job.id, seen)
        });
        agenda.end_sweep(seen.collect(), None, now);
    }
    (calls, answered)
}

/// Only the job that crashes the adapter is counted as crashed, and it is found with few calls.
#[tokio::test]
async fn crashing_job_is_found_by_halving() {
    let now = Instant::now();
    let mut agenda = agenda(500, now);
    let (calls, answered) = look(&mut agenda, now, SweepFault::Crashed, &["job 321"]);
    assert_eq!(answered.len(), 499, "each other job is looked at once");
    assert!(calls <= 32, "{calls} calls");
    let later = now + Duration::from_secs(300);
    let due = agenda.begin_sweep(later, 500).expect("it is due");
    assert_eq!(due.jobs.len(), 1, "it is looked at alone");
    assert!(due.jobs[0].alone && due.jobs[0].id.as_str() == "job 321");
    let beside = agenda.begin_sweep(later, 500).expect("the others are looked at meanwhile");
    assert!(beside.jobs.len() > 200, "{}", beside.jobs.len());
}

/// A job that makes the adapter hang is found in the same way, and each other job is polled in between.
#[tokio::test]
async fn hanging_job_is_found_by_halving() {
    let now = Instant::now();
    let mut agenda = agenda(500, now);
    let (calls, answered) = look(&mut agenda, now, SweepFault::Hung, &["job 007"]);
    assert_eq!(answered.len(), 499);
    assert!(calls <= 32, "{calls} calls");
    let due = agenda.begin_sweep(now + Duration::from_secs(300), 500).expect("it is due");
    assert!(due.jobs.len() == 1 && due.jobs[0].alone && due.jobs[0].last_crash.is_none());
}

/// Returns when a job crashes the adapter, and the number of crashes that ends it.
fn crashes(agenda: &mut PollSchedule, began: Instant, answers_for_others: bool) -> (Vec<Duration>, u32) {
    let mut moments = Vec::new();
    loop {
        let now = agenda.next_poll().expect("it is looked at again");
        let due = agenda.begin_sweep(now, 500).expect("it is due");
        agenda.poll_now(&due.jobs[0].id, now);
        moments.push(now - began);
        if answers_for_others {
            agenda.answered = Some(now);
        }
        if let Some(times) = due.jobs[0].last_crash {
            return (moments, times);
        }
        agenda.end_sweep(vec![(due.jobs[0].id.clone(), failed(SweepFault::Crashed))], None, now);
    }
}

/// Neither hints nor requests for a poll speed up the sequence of crashes.
#[tokio::test]
async fn fifth_crash_ends_the_job() {
    let began = Instant::now();
    let (moments, times) = crashes(&mut agenda(1, began), began, true);
    assert_eq!((moments.len(), times), (5, 5));
    // The hint came before the job was known to crash the adapter.
    assert!(moments[4] - moments[1] >= 3 * PACE.slowest, "{moments:?}");
}

/// Crashes for every job may be caused by a bug that an outage of the engine triggers.
#[tokio::test]
async fn adapter_that_always_crashes_gets_time() {
    let began = Instant::now();
    let (moments, times) = crashes(&mut agenda(1, began), began, false);
    assert!(moments[moments.len() - 1] >= CRASHES_ALONE, "{moments:?}");
    assert_eq!(times as usize, moments.len());
}

#[tokio::test]
async fn answer_clears_the_crashes() {
    let began = Instant::now();
    let mut agenda = agenda(2, began);
    look(&mut agenda, began, SweepFault::Crashed, &["job 001"]);
    let later = began + Duration::from_secs(600);
    look(&mut agenda, later, SweepFault::Crashed, &[]);
    let due = agenda.begin_sweep(later + Duration::from_secs(600), 500).unwrap();
    assert_eq!(due.jobs.len(), 2, "it is looked at with the other one");
    assert!(due.jobs.iter().all(|job| !job.alone && job.last_crash.is_none()));
}

/// A job that answers often does not let sweeps grow again before it is known which of the others hangs.
#[tokio::test]
async fn frequent_poll_delays_no_isolation() {
    let mut now = Instant::now();
    let mut agenda = agenda(3, now);
    let [often, hangs, waits] = ["job 000", "job 001", "job 002"].map(TaskId::from_wire);
    for _ in 0..20 {
        let Some(due) = agenda.begin_sweep(now, 500) else { break };
        agenda.poll_now(&often, now);
        now += Duration::from_secs(3);
        let fails = due.jobs.iter().any(|job| job.id == hangs);
        if !fails && due.jobs.iter().any(|job| job.id == waits) {
            return;
        }
        let seen = |id| match fails {
            true => (id, failed(SweepFault::Hung)),
            false => (id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 }),
        };
        agenda.end_sweep(due.jobs.into_iter().map(|job| seen(job.id)).collect(), None, now);
    }
    panic!("the job that waits is never polled without the one that hangs");
}
