//! Tests of polls of jobs that an in-memory controller shows, forgets, or reports wrongly.

use taskbridge_sdk::{JobHandle, Timestamp};

use super::*;
use crate::driver::Record;
use crate::driver::state::State;
use crate::driver::tests::fake::{Fake, held_row, row};
use crate::observe::folder_reader::ENDED_GRACE_PERIOD;
use crate::observe::release::{RELEASE_LOSS_WINDOW, START_TIME_TTL};
use crate::store::folder::{CANCELLED, ID, MAY_RELEASE, PLAN, RELEASED};
use crate::store::plan::Attached;
use crate::store::queue_cache::QueueCache;

struct World {
    slurm: Slurm,
    folder: Folder,
    fake: Fake,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::default();
        fake.state().rows = vec![row(7, "tb-a", State::Running)];
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let folder = slurm.folder("tb-a");
        folder.create(None).unwrap();
        folder.write_json(PLAN, &Plan { root: folder.work(), ..Plan::default() }).unwrap();
        folder.write(RELEASED, b"", 0o600).unwrap();
        Self { slurm, folder, fake, _dir: dir }
    }

    async fn poll(&self) -> Observation {
        let handle = JobHandle::new("lab/7/tb-a");
        let observations = self.slurm.poll_jobs(&Subject::watched(&[handle])).await;
        observations.into_iter().next().unwrap().unwrap()
    }
}

/// Slurm still shows the job as running `ENDED_GRACE_PERIOD` after its scripts ended.
#[tokio::test(start_paused = true)]
async fn ended_script_ends_job() {
    let world = World::new();
    assert_eq!(world.poll().await.state, JobState::Running);
    tokio::time::advance(ENDED_GRACE_PERIOD * 2).await;
    assert_eq!(world.poll().await.state, JobState::Running, "no end marker, however long the job runs");
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    std::fs::write(world.folder.file("ends/job.0"), "code=3\n").unwrap();
    assert_eq!(world.poll().await.state, JobState::Running, "Slurm may report the end later");
    tokio::time::advance(ENDED_GRACE_PERIOD - Duration::from_secs(1)).await;
    assert_eq!(world.poll().await.state, JobState::Running);
    tokio::time::advance(Duration::from_secs(1)).await;
    let observation = world.poll().await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_eq!(observation.message.as_deref(), Some("exit code 3"));
}

/// A job that takes long to complete is judged by its final state in Slurm.
#[tokio::test(start_paused = true)]
async fn completing_job_waits_for_slurm() {
    let world = World::new();
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    // Its script finished successfully between the signal and the kill.
    std::fs::write(world.folder.file("ends/job.0"), "told=TERM\ncode=0\n").unwrap();
    world.fake.state().rows = vec![row(7, "tb-a", State::Completing)];
    for _ in 0..3 {
        assert_eq!(world.poll().await.state, JobState::Running);
        tokio::time::advance(ENDED_GRACE_PERIOD).await;
    }
    world.fake.state().rows = vec![row(7, "tb-a", State::Timeout)];
    let observation = world.poll().await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert!(
        observation.message.as_ref().is_some_and(|message| message.contains("time limit")),
        "{observation:?}"
    );
}

/// A cancelled job that is held again is cancelled once more after `RETRY_INTERVAL`.
#[tokio::test(start_paused = true)]
async fn held_again_job_is_cancelled_again() {
    let world = World::new();
    world.folder.write(CANCELLED, b"", 0o600).unwrap();
    world.fake.state().rows = vec![held_row(7, "tb-a")];
    for _ in 0..3 {
        assert_eq!(world.poll().await.state, JobState::Queued);
    }
    assert_eq!(world.fake.state().cancelled, [7]);
    tokio::time::advance(RETRY_INTERVAL).await;
    world.poll().await;
    assert_eq!(world.fake.state().cancelled, [7, 7], "the job is still held");
    assert!(world.fake.state().released.is_empty());
}

/// The message states that the script has not begun, until it begins.
#[tokio::test(start_paused = true)]
async fn long_running_job_reports_missing_script() {
    let world = World::new();
    let since = Some(Timestamp::from_millis(1_600_000_000_000));
    world.fake.state().rows = vec![Row { start: since, ..row(7, "tb-a", State::Running) }];
    let message = world.poll().await.message.unwrap();
    assert!(message.ends_with("; its script has not begun"), "{message}");
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    let message = world.poll().await.message.unwrap();
    assert!(!message.contains("begun"), "{message}");
}

/// A job is not lost while the accounting does not answer.
#[tokio::test(start_paused = true)]
async fn job_survives_silent_accounting() {
    let mut world = World::new();
    world.slurm.assume_accounting();
    world.fake.state().rows.clear();
    assert_eq!(world.poll().await.state, JobState::Running);
    tokio::time::advance(Duration::from_secs(86_400)).await;
    let observation = world.poll().await;
    assert_eq!(observation.state, JobState::Running, "{observation:?}");
    assert!(
        observation.message.as_ref().is_some_and(|message| message.contains("does not answer")),
        "{observation:?}"
    );
}

/// Polls are more frequent than accounting queries.
#[tokio::test(start_paused = true)]
async fn forgotten_job_has_steady_message() {
    let mut world = World::new();
    world.slurm.assume_accounting();
    world.slurm.queue_cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
    world.fake.state().rows.clear();
    world.fake.state().records = Some(Vec::new());
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    let mut messages = Vec::new();
    for _ in 0..55 {
        let observation = world.poll().await;
        assert_eq!(observation.state, JobState::Running, "{observation:?}");
        messages.extend(observation.message);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    messages.dedup();
    assert_eq!(messages, ["Slurm no longer knows the job; waiting for its end marker"]);
}

#[tokio::test(start_paused = true)]
async fn preempted_job_is_reported() {
    let world = World::new();
    std::fs::create_dir_all(world.folder.file("logs")).unwrap();
    let log = world.folder.log(crate::store::folder::Stream::Err, None);
    std::fs::write(
        &log,
        "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-25T07:34:53 DUE TO PREEMPTION ***\n",
    )
    .unwrap();
    let pending_row = Row { restarts: 1, reason: "BeginTime".to_owned(), ..row(7, "tb-a", State::Pending) };
    world.fake.state().rows = vec![pending_row];
    let message = world.poll().await.message.unwrap();
    assert!(
        message.ends_with("put back into the queue once; a job of a higher priority had preempted it"),
        "{message}"
    );
    // Its second run prints more than is read, and an administrator requeues it.
    std::fs::write(&log, "x\n".repeat(100_000)).unwrap();
    world.fake.state().rows = vec![Row { restarts: 1, ..row(7, "tb-a", State::Running) }];
    let message = world.poll().await.message.unwrap();
    assert!(message.contains("preempted"), "the preemption is cached: {message}");
    world.fake.state().rows = vec![Row { restarts: 2, ..row(7, "tb-a", State::Running) }];
    let message = world.poll().await.message.unwrap();
    assert!(!message.contains("preempted"), "{message}");
}

/// An end is not reported before the accounting was queried about it.
#[tokio::test(start_paused = true)]
async fn end_waits_for_accounting() {
    let mut world = World::new();
    world.slurm.assume_accounting();
    world.slurm.queue_cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
    world.slurm.accounting_wait = Duration::from_secs(10);
    world.fake.state().rows.clear();
    world.fake.state().records = Some(Vec::new());
    let timeout = |job: JobId| Record {
        job,
        name: format!("tb-{job}"),
        state: Some(State::Timeout),
        ..Record::default()
    };
    let handles: Vec<JobHandle> =
        (1..=202).map(|job| JobHandle::new(format!("lab/{job}/tb-{job}"))).collect();
    for job in 1..=202 {
        let folder = world.slurm.folder(&format!("tb-{job}"));
        folder.create(None).unwrap();
        let plan = serde_json::to_vec(&Plan::default()).unwrap();
        std::fs::write(folder.file(PLAN), plan).unwrap();
        std::fs::create_dir(folder.file("ran/job.0")).unwrap();
        std::fs::write(folder.file("ends/job.0"), "told=TERM\ncode=143\n").unwrap();
    }
    let poll = async |handles: &[JobHandle]| {
        let observations = world.slurm.poll_jobs(&Subject::watched(handles)).await;
        observations.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let assert_message = |observation: &Observation, expected: &str| {
        assert!(
            observation.message.as_ref().is_some_and(|message| message.contains(expected)),
            "{observation:?}"
        );
    };
    // The accounting database is queried for one job, and another has to wait. Its end is not reported,
    // however long that takes.
    let (one, other) = (&handles[200..201], &handles[201..]);
    poll(one).await;
    assert_eq!(poll(other).await[0].state, JobState::Running);
    tokio::time::advance(Duration::from_secs(60)).await;
    poll(one).await;
    assert_eq!(poll(other).await[0].state, JobState::Running, "the job was not queried");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(poll(other).await[0].state, JobState::Running, "this was the first query");
    tokio::time::advance(Duration::from_secs(10)).await;
    let observations = poll(other).await;
    assert!(
        matches!(observations[0].state, JobState::Failed(_)),
        "accounting has no record: {observations:?}"
    );
    // Many ended jobs share one query.
    world.fake.state().records = Some((1..=200).map(timeout).collect());
    for batch in handles[..200].chunks(100) {
        for observation in poll(batch).await {
            assert_message(&observation, "time limit");
        }
    }
}

/// Polls of many jobs within a moment share one query of the queue and one of the accounting.
#[tokio::test(start_paused = true)]
async fn concurrent_polls_share_queries() {
    let mut world = World::new();
    world.slurm.assume_accounting();
    world.slurm.queue_cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
    world.fake.state().records = Some(Vec::new());
    let mut handles = Vec::new();
    // Half of them have left the queue.
    for job in 1..=20 {
        let key = format!("tb-{job}");
        let folder = world.slurm.folder(&key);
        folder.create(None).unwrap();
        std::fs::write(folder.file(PLAN), serde_json::to_vec(&Plan::default()).unwrap()).unwrap();
        if job % 2 == 0 {
            world.fake.state().rows.push(row(job, &key, State::Running));
        }
        handles.push(JobHandle::new(format!("lab/{job}/{key}")));
    }
    let subjects = Subject::watched(&handles);
    let polls = futures_util::future::join_all((0..5).map(|_| world.slurm.poll_jobs(&subjects))).await;
    assert!(polls.iter().flatten().all(Result::is_ok), "{polls:?}");
    let fake_state = world.fake.state();
    assert_eq!(
        (fake_state.queue_requests, fake_state.accounting_queries, fake_state.accounting_jobs.len()),
        (1, 1, 10)
    );
}

/// A lost job that had not begun gets a fence, so that its script cannot start later.
#[tokio::test(start_paused = true)]
async fn lost_pending_job_never_starts() {
    let world = World::new();
    world.fake.state().rows.clear();
    assert_eq!(world.poll().await.state, JobState::Running, "the accounting may be late");
    tokio::time::advance(Duration::from_secs(21)).await;
    let observation = world.poll().await;
    assert_eq!(observation.state, JobState::Gone);
    assert!(
        observation.message.as_ref().is_some_and(|message| message.contains("may be called again")),
        "{observation:?}"
    );
    // If it started now, its wrapper would find the fence.
    assert!(world.folder.file("ran/job.0").is_dir());
    assert_eq!(world.poll().await, observation);
}

/// Polls of jobs in other folders succeed, and the error names the key of the unreadable one.
#[tokio::test]
async fn unreadable_folder_hides_no_jobs() {
    let world = World::new();
    for (job, key) in [(8, "tb-plan"), (9, "tb-end")] {
        let folder = world.slurm.folder(key);
        folder.create(None).unwrap();
        folder.write_json(PLAN, &Plan { root: folder.work(), ..Plan::default() }).unwrap();
        world.fake.state().rows.push(row(job, key, State::Completed));
    }
    // A half-written plan, and a folder that a script created in place of the file with the stored end.
    std::fs::write(world.slurm.folder("tb-plan").file(PLAN), "{").unwrap();
    std::fs::create_dir(world.slurm.folder("tb-end").file("ran/job.0")).unwrap();
    std::fs::create_dir(world.slurm.folder("tb-end").file(FINAL_OBSERVATION)).unwrap();
    let handles = ["lab/7/tb-a", "lab/8/tb-plan", "lab/9/tb-end"].map(JobHandle::new);
    let observations = world.slurm.poll_jobs(&Subject::watched(&handles)).await;
    assert_eq!(observations[0].as_ref().unwrap().state, JobState::Running);
    for (observation, key) in observations[1..].iter().zip(["tb-plan", "tb-end"]) {
        let error = observation.as_ref().unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

/// A folder in place of the end marker counts as no marker.
#[tokio::test(start_paused = true)]
async fn false_end_marker_is_ignored() {
    let world = World::new();
    world.fake.state().rows = vec![row(7, "tb-a", State::Completed)];
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    std::fs::create_dir(world.folder.file("ends/job.0")).unwrap();
    assert_eq!(world.poll().await.state, JobState::Running, "the end marker may be delayed");
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(matches!(world.poll().await.state, JobState::Succeeded(_)), "Slurm's state counts");
}

/// A late submission left a second held job under a key. Jobs of other servers are left alone.
#[tokio::test(start_paused = true)]
async fn duplicate_held_job_is_cancelled() {
    let world = World::new();
    world.folder.write_first(ID, b"7").unwrap();
    let beginning_folder = world.slurm.folder("tb-begins");
    beginning_folder.create(None).unwrap();
    let ended_folder = world.slurm.folder("tb-ended");
    ended_folder.create(None).unwrap();
    ended_folder.write_first(ID, b"3").unwrap();
    let rows = [(9, "tb-a"), (10, "tb-begins"), (11, "tb-ended"), (12, "tb-elsewhere"), (13, "simulation")];
    world.fake.state().rows.extend(rows.map(|(job, name)| held_row(job, name)));
    let take_cancelled = || {
        let mut take_cancelled = std::mem::take(&mut world.fake.state().cancelled);
        take_cancelled.sort_unstable();
        take_cancelled
    };
    assert_eq!(world.poll().await.state, JobState::Running);
    assert_eq!(take_cancelled(), [9, 11], "the recorded jobs have other numbers");
    assert_eq!(world.poll().await.state, JobState::Running);
    assert!(take_cancelled().is_empty(), "the retry interval has not passed");
    tokio::time::advance(RETRY_INTERVAL).await;
    world.poll().await;
    assert_eq!(take_cancelled(), [9, 11], "the jobs are still held");
}

/// A job that its user holds is not released by a poll after a restart of the controller.
#[tokio::test(start_paused = true)]
async fn user_hold_survives_controller_restart() {
    let world = World::new();
    let handles = ["lab/7/tb-a", "lab/8/tb-b"].map(JobHandle::new);
    let other = world.slurm.folder("tb-b");
    other.create(None).unwrap();
    other.write_json(PLAN, &Plan::default()).unwrap();
    other.write(RELEASED, b"", 0o600).unwrap();
    for folder in [&world.folder, &other] {
        folder.write(MAY_RELEASE, b"", 0o600).unwrap();
    }
    world.fake.state().rows = vec![held_row(7, "tb-a"), held_row(8, "tb-b")];
    world.poll().await;
    let at = other.modified_at(RELEASED).unwrap();
    let before = Timestamp::from_millis(at.as_millis() - 3_600_000);
    for (booted, released) in [
        (before, &[][..]),
        (at + RELEASE_LOSS_WINDOW * 2, &[]),
        // It lost the releases in a crash, and was down for a short time.
        (at + RELEASE_LOSS_WINDOW / 2, &[7, 8]),
    ] {
        tokio::time::advance(START_TIME_TTL).await;
        (world.fake.state().boot_time, world.fake.state().cluster_requests) = (Some(booted), 0);
        for observation in world.slurm.poll_jobs(&Subject::watched(&handles)).await {
            assert_eq!(observation.unwrap().state, JobState::Queued);
        }
        assert_eq!(world.fake.state().released, released);
        assert_eq!(world.fake.state().cluster_requests, 1, "one request for all held jobs");
        if released.is_empty() {
            tokio::time::advance(RETRY_INTERVAL).await;
            world.poll().await;
            assert_eq!(world.fake.state().cluster_requests, 1, "one request per minute");
        }
    }
}

/// A requeued job is still the same, and another job with its number and name is not.
#[tokio::test(start_paused = true)]
async fn followed_job_survives_requeue() {
    let world = World::new();
    let at = |seconds: i64| Some(Timestamp::from_millis(seconds * 1000));
    let attached = Attached { job: 8, name: "relax".to_owned(), submitted: at(100) };
    let folder = world.slurm.folder("tb-follows");
    folder.create(None).unwrap();
    folder.write_json(PLAN, &Plan { attached: Some(attached), ..Plan::default() }).unwrap();
    let handle = [JobHandle::new("lab/8/tb-follows")];
    // In the third row, the number was given to another job of that name, which was never requeued.
    for (submitted, restarts, is_same) in [(100, 0, true), (160, 1, true), (160, 0, false), (40, 1, false)] {
        let submitted = at(submitted);
        world.fake.state().rows = vec![Row { submitted, restarts, ..row(8, "relax", State::Running) }];
        let observation = world.slurm.poll_jobs(&Subject::watched(&handle)).await.remove(0).unwrap();
        let message = observation.message.unwrap_or_default();
        assert_eq!(message.contains("job 8"), is_same, "{submitted:?} {restarts}: {message}");
    }
}
