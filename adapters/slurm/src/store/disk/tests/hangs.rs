//! Tests of a cluster whose jobs folder, or another folder that its jobs need, hangs for a while. The backend
//! reports it, waits no longer than the limit, draws no conclusions from files that it cannot read, and
//! recovers afterwards.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use taskbridge_sdk::suite::polling::POLL_TIMEOUT;
use taskbridge_sdk::{
    Artifacts as _, ErrorKind, JobHandle, JobState, LogRequest, Logs as _, Observation, Result, Subject,
    suite,
};

use crate::core::Slurm;
use crate::driver::state::State;
use crate::driver::tests::fake::{Fake, row};
use crate::store::disk::MAX_CONCURRENT;
use crate::store::disk::tests::hanging;
use crate::store::folder::{Folder, PLAN, RELEASED};
use crate::store::plan::Plan;

/// A cluster with one running job.
struct World {
    slurm: Slurm,
    folder: Folder,
    fake: Fake,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::default();
        fake.state().rows = vec![row(7, "tb-a", State::Running)];
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let folder = create_job(&slurm, "tb-a", |folder| folder.work());
        Self { slurm, folder, fake, dir }
    }

    async fn poll(&self) -> Result<Observation> {
        self.slurm.poll_jobs(&Subject::watched(&[handle()])).await.remove(0)
    }
}

fn handle() -> JobHandle {
    JobHandle::new("lab/7/tb-a")
}

fn create_job(slurm: &Slurm, key: &str, root: impl FnOnce(&Folder) -> std::path::PathBuf) -> Folder {
    let folder = slurm.folder(key);
    folder.create(None).unwrap();
    folder.write_json(PLAN, &Plan { root: root(&folder), ..Plan::default() }).unwrap();
    folder.write(RELEASED, b"", 0o600).unwrap();
    folder
}

/// Advances the paused clock until the work is done.
async fn advance_until<T>(work: impl Future<Output = T>) -> T {
    let advance = async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            // Work on another thread is not driven by a paused clock.
            std::thread::yield_now();
        }
    };
    tokio::select! { done = work => done, () = advance => unreachable!("the clock advances forever") }
}

/// Polls of a hung folder are unavailable with its path, and those of other clusters continue.
#[tokio::test]
async fn hung_folder_affects_one_cluster() {
    let (world, other) = (World::new(), World::new());
    assert_eq!(world.poll().await.unwrap().state, JobState::Running);
    let hang = hanging::hang(world.dir.path());
    let path = world.dir.path().display().to_string();
    // Each of them reads something, and there are more than may run at once.
    let polls = join_all((0..MAX_CONCURRENT * 2).map(|_| world.poll())).await;
    for error in polls.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        // A caller that waited for a permit may have started before the last caller that has one.
        let reasons = ["its file system hangs", "very slow, or hangs"];
        let message = error.to_string();
        assert!(
            message.contains(&path) && reasons.iter().any(|reason| message.contains(reason)),
            "{message}"
        );
    }
    let request = LogRequest { max_bytes: 100, search: None };
    let error = world.slurm.tail(&handle(), &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = world.slurm.read(&handle(), "a.csv", 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let result = world.slurm.stop(&world.slurm.parse(&handle()).unwrap().unwrap()).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(world.fake.state().cancelled.is_empty(), "no cancellation without its stored mark");
    assert_eq!(other.poll().await.unwrap().state, JobState::Running);
    drop(hang);
    let start = std::time::Instant::now();
    while let Err(error) = world.poll().await {
        assert!(start.elapsed() < POLL_TIMEOUT, "the folder is still unresponsive: {error}");
        tokio::task::yield_now().await;
    }
    assert_eq!(world.poll().await.unwrap().state, JobState::Running);
    assert!(
        !world.folder.has(crate::store::folder::CANCELLED).unwrap(),
        "abandoned work has no effect later"
    );
}

/// The time for which a folder hung does not count towards the deadline for its jobs' end markers.
#[tokio::test(start_paused = true)]
async fn hung_folder_time_is_not_counted() {
    let world = World::new();
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    world.fake.state().rows.clear();
    let observation = world.poll().await.unwrap();
    assert_eq!(observation.state, JobState::Running, "the end marker is missing");
    let hang = hanging::hang(world.dir.path());
    tokio::time::advance(Duration::from_secs(3600)).await;
    advance_until(world.poll()).await.unwrap_err();
    drop(hang);
    let start = std::time::Instant::now();
    let observation = loop {
        match world.poll().await {
            Ok(observation) => break observation,
            Err(error) => {
                assert!(start.elapsed() < POLL_TIMEOUT, "the folder is still unresponsive: {error}")
            }
        }
    };
    assert_eq!(observation.state, JobState::Running, "the node may regain the folder later than this server");
    std::fs::write(world.folder.file("ends/job.0"), "code=0\n").unwrap();
    assert!(matches!(world.poll().await.unwrap().state, JobState::Succeeded(_)));
}

/// Jobs in other folders end while more jobs than may be read at once hang.
#[tokio::test]
async fn hung_user_folder_delays_no_others() {
    let world = World::new();
    let scratch = tempfile::tempdir().unwrap();
    let mut handles = vec![handle()];
    world.fake.state().rows = vec![row(7, "tb-a", State::Completed)];
    // More than may run at once.
    for job in 10..50 {
        let key = format!("tb-{job}");
        create_job(&world.slurm, &key, |_| scratch.path().to_owned());
        world.fake.state().rows.push(row(job, &key, State::Completed));
        handles.insert(0, JobHandle::new(format!("lab/{job}/{key}")));
    }
    // Only one of them lists artifacts, and each of them has a result.
    for handle in &handles {
        let key = handle.as_str().rsplit('/').next().unwrap();
        let folder = world.slurm.folder(key);
        let plan: Plan = folder.read_json(PLAN).unwrap().unwrap();
        folder.write_json(PLAN, &Plan { result: Some("out.json".to_owned()), ..plan }).unwrap();
        std::fs::create_dir(folder.file("ran/job.0")).unwrap();
        std::fs::write(folder.file("ends/job.0"), "code=0\n").unwrap();
    }
    let hang = hanging::hang(scratch.path());
    for _ in 0..3 {
        let mut results = world.slurm.poll_jobs(&Subject::watched(&handles)).await;
        let observation = results.pop().unwrap().unwrap();
        assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
        for result in results {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(&scratch.path().display().to_string()), "{error}");
        }
    }
    drop(hang);
    let start = std::time::Instant::now();
    loop {
        assert!(start.elapsed() < POLL_TIMEOUT, "the folder is still unresponsive");
        let results = world.slurm.poll_jobs(&Subject::watched(&handles)).await;
        if results.iter().all(Result::is_ok) {
            assert!(
                results.into_iter().all(|result| matches!(result.unwrap().state, JobState::Succeeded(_)))
            );
            break;
        }
    }
}

/// Uses a real FIFO in place of the script. Opening it hangs.
#[tokio::test]
async fn unreadable_script_starts_nothing() {
    let world = World::new();
    let script = world.dir.path().join("job.sh");
    rustix::fs::mkfifoat(rustix::fs::CWD, &script, 0o600.into()).unwrap();
    let error = world.slurm.begin(&suite::job(json!({"script": "job.sh"}), json!({}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&script.display().to_string()), "{error}");
    assert_eq!(world.poll().await.unwrap().state, JobState::Running);
    // The script is readable again.
    std::fs::OpenOptions::new().read(true).write(true).open(&script).unwrap();
}

/// A server that starts while the folder hangs creates it later.
#[tokio::test(start_paused = true)]
async fn jobs_folder_is_created_after_hang() {
    let world = World::new();
    let hang = hanging::hang(world.dir.path());
    let error = advance_until(world.slurm.ensure_jobs_folder()).await.unwrap_err();
    assert!(error.kind().is_transient(), "{error}");
    drop(hang);
    world.slurm.ensure_jobs_folder().await.unwrap();
}
