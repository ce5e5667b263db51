//! Tests of the poll schedule: how it finds a job that makes the adapter crash or hang, and what an engine asks
//! for a single job.

use taskbridge_sdk::{ErrorKind, JobHandle};

use super::suspects::CRASHES_ALONE;
use super::*;

const INTERVALS: PollIntervals =
    PollIntervals { shortest: Duration::from_millis(100), longest: Duration::from_secs(30) };

fn schedule_of(jobs: usize, now: Instant) -> PollSchedule {
    let mut schedule = PollSchedule::new(None, INTERVALS, false, now);
    for n in 0..jobs {
        let name = format!("job {n:03}");
        let job = OpenJob {
            id: TaskId::from_wire(name.as_str()),
            tool: "tool".to_owned(),
            handle: JobHandle::new(name),
            started_at: Timestamp::from_millis(0),
            version: 1,
        };
        schedule.add(job, false, now, Duration::from_secs(60));
    }
    schedule
}

fn failed(fault: SweepFault) -> PollResult {
    PollResult::Failed { kind: ErrorKind::Unavailable, version: 1, fault: Some(fault) }
}

/// Makes all polls that are due now, with an adapter that fails for `faulty_jobs`. Returns the number of
/// calls, and the jobs for which it answered.
fn poll_all(
    schedule: &mut PollSchedule,
    now: Instant,
    fault: SweepFault,
    faulty_jobs: &[&str],
) -> (usize, Vec<TaskId>) {
    let (mut calls, mut answered) = (0, Vec::new());
    while let Some(due) = schedule.begin_sweep(now, 500) {
        calls += 1;
        let fails = due.jobs.iter().any(|job| faulty_jobs.contains(&job.id.as_str()));
        let is_one = due.jobs.len() == 1;
        let results = due.jobs.into_iter().map(|job| {
            let result = match fails {
                true if fault == SweepFault::Crashed && !is_one => PollResult::Undecided,
                true => failed(fault),
                false => {
                    answered.push(job.id.clone());
                    PollResult::Observed { digest: Some(1), log_followed: false, version: 1 }
                }
            };
            (job.id, result)
        });
        schedule.end_sweep(results.collect(), None, now);
    }
    (calls, answered)
}

/// Only the job that crashes the adapter is counted as crashed, and it is found with few calls.
#[tokio::test]
async fn crashing_job_is_found_by_halving() {
    let now = Instant::now();
    let mut schedule = schedule_of(500, now);
    let (calls, answered) = poll_all(&mut schedule, now, SweepFault::Crashed, &["job 321"]);
    assert_eq!(answered.len(), 499, "each other job is polled once");
    assert!(calls <= 32, "{calls} calls");
    let later = now + Duration::from_secs(300);
    let due = schedule.begin_sweep(later, 500).expect("it is due");
    assert_eq!(due.jobs.len(), 1, "it is polled alone");
    assert!(due.jobs[0].alone && due.jobs[0].id.as_str() == "job 321");
    let others = schedule.begin_sweep(later, 500).expect("the others are polled meanwhile");
    assert!(others.jobs.len() > 200, "{}", others.jobs.len());
}

/// A job that makes the adapter hang is found in the same way, and each other job is polled in between.
#[tokio::test]
async fn hanging_job_is_found_by_halving() {
    let now = Instant::now();
    let mut schedule = schedule_of(500, now);
    let (calls, answered) = poll_all(&mut schedule, now, SweepFault::Hung, &["job 007"]);
    assert_eq!(answered.len(), 499);
    assert!(calls <= 32, "{calls} calls");
    let due = schedule.begin_sweep(now + Duration::from_secs(300), 500).expect("it is due");
    assert!(due.jobs.len() == 1 && due.jobs[0].alone && due.jobs[0].last_crash.is_none());
}

/// Returns when a job crashes the adapter, and the number of crashes that ends it.
fn crashes(schedule: &mut PollSchedule, started: Instant, answers_for_others: bool) -> (Vec<Duration>, u32) {
    let mut crashed_at = Vec::new();
    loop {
        let now = schedule.next_poll().expect("it is polled again");
        let due = schedule.begin_sweep(now, 500).expect("it is due");
        schedule.poll_now(&due.jobs[0].id, now);
        crashed_at.push(now - started);
        if answers_for_others {
            schedule.last_answer = Some(now);
        }
        if let Some(times) = due.jobs[0].last_crash {
            return (crashed_at, times);
        }
        schedule.end_sweep(vec![(due.jobs[0].id.clone(), failed(SweepFault::Crashed))], None, now);
    }
}

/// Neither hints nor requests for a poll speed up the sequence of crashes.
#[tokio::test]
async fn fifth_crash_ends_the_job() {
    let started = Instant::now();
    let (crashed_at, times) = crashes(&mut schedule_of(1, started), started, true);
    assert_eq!((crashed_at.len(), times), (5, 5));
    // The hint came before the job was known to crash the adapter.
    assert!(crashed_at[4] - crashed_at[1] >= 3 * INTERVALS.longest, "{crashed_at:?}");
}

/// Crashes for every job may be caused by a bug that an outage of the engine triggers.
#[tokio::test]
async fn adapter_that_always_crashes_gets_time() {
    let started = Instant::now();
    let (crashed_at, times) = crashes(&mut schedule_of(1, started), started, false);
    assert!(crashed_at[crashed_at.len() - 1] >= CRASHES_ALONE, "{crashed_at:?}");
    assert_eq!(times as usize, crashed_at.len());
}

#[tokio::test]
async fn answer_clears_the_crashes() {
    let started = Instant::now();
    let mut schedule = schedule_of(2, started);
    poll_all(&mut schedule, started, SweepFault::Crashed, &["job 001"]);
    let later = started + Duration::from_secs(600);
    poll_all(&mut schedule, later, SweepFault::Crashed, &[]);
    let due = schedule.begin_sweep(later + Duration::from_secs(600), 500).unwrap();
    assert_eq!(due.jobs.len(), 2, "it is polled with the other one");
    assert!(due.jobs.iter().all(|job| !job.alone && job.last_crash.is_none()));
}

/// A job that answers often does not let sweeps grow again before it is known which of the others hangs.
#[tokio::test]
async fn frequent_poll_delays_no_isolation() {
    let mut now = Instant::now();
    let mut schedule = schedule_of(3, now);
    let [often, hangs, waits] = ["job 000", "job 001", "job 002"].map(TaskId::from_wire);
    for _ in 0..20 {
        let Some(due) = schedule.begin_sweep(now, 500) else { break };
        schedule.poll_now(&often, now);
        now += Duration::from_secs(3);
        let fails = due.jobs.iter().any(|job| job.id == hangs);
        if !fails && due.jobs.iter().any(|job| job.id == waits) {
            return;
        }
        let result = |id| match fails {
            true => (id, failed(SweepFault::Hung)),
            false => (id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 }),
        };
        schedule.end_sweep(due.jobs.into_iter().map(|job| result(job.id)).collect(), None, now);
    }
    panic!("the job that waits is never polled without the one that hangs");
}

/// Polls what is due now, and reports each job as running. Returns the names of the polled jobs.
fn poll_running(schedule: &mut PollSchedule, now: Instant) -> Vec<String> {
    let Some(due) = schedule.begin_sweep(now, 500) else { return Vec::new() };
    let running = |job: &DueJob| {
        (job.id.clone(), PollResult::Observed { digest: Some(1), log_followed: false, version: 1 })
    };
    schedule.end_sweep(due.jobs.iter().map(running).collect(), None, now);
    due.jobs.iter().map(|job| job.handle.to_string()).collect()
}

/// A job that the engine asks not to poll is left alone by requests and watchers, until a hint names it.
#[tokio::test]
async fn held_back_job_waits_for_hint() {
    let start = Instant::now();
    let mut schedule = schedule_of(1, start);
    let (id, handle) = (TaskId::from_wire("job 000"), JobHandle::new("job 000"));
    let until = start + Duration::from_secs(300);
    schedule.hold_back(&id, until);
    assert_eq!(poll_running(&mut schedule, start), ["job 000"], "it was due before the engine asked");
    assert_eq!(schedule.next_poll(), Some(until));
    let now = start + Duration::from_secs(60);
    schedule.poll_now(&id, now);
    schedule.set_watched([id].into(), now);
    assert_eq!(schedule.next_poll(), Some(until));
    assert!(poll_running(&mut schedule, until - Duration::from_millis(1)).is_empty());
    assert!(schedule.apply_hint(&handle, now));
    assert_eq!(poll_running(&mut schedule, now), ["job 000"]);
}

/// A renamed job is polled by its new name, and hints may name either.
#[tokio::test]
async fn renamed_job_is_polled_by_new_name() {
    let now = Instant::now();
    let mut schedule = schedule_of(1, now);
    let renamed = OpenJob {
        id: TaskId::from_wire("job 000"),
        tool: "tool".to_owned(),
        handle: JobHandle::new("build 7"),
        started_at: Timestamp::from_millis(0),
        version: 2,
    };
    schedule.add(renamed.clone(), false, now, Duration::ZERO);
    schedule.add(
        OpenJob { handle: JobHandle::new("job 000"), version: 1, ..renamed },
        false,
        now,
        Duration::ZERO,
    );
    assert_eq!(poll_running(&mut schedule, now), ["build 7"], "an older read does not undo the new name");
    assert!(schedule.apply_hint(&JobHandle::new("build 7"), now));
    assert!(schedule.apply_hint(&JobHandle::new("job 000"), now));
    schedule.close(&TaskId::from_wire("job 000"));
    assert!(schedule.by_handle.is_empty());
}
