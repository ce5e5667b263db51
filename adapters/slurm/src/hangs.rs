//! Tests of a cluster whose jobs folder, or another folder that its jobs need, hangs for a while. The backend
//! reports it, waits no longer than the limit, draws no conclusions from files that it cannot read, and
//! recovers afterwards.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use taskbridge_sdk::suite::looks::PATIENCE;
use taskbridge_sdk::{
    Artifacts as _, ErrorKind, JobHandle, JobState, LogRequest, Logs as _, Observation, Result, Subject,
    suite,
};

use crate::backend::Slurm;
use crate::disk::AT_ONCE;
use crate::fake::{Fake, row};
use crate::folder::{Folder, PLAN, RELEASED};
use crate::hanging;
use crate::plan::Plan;
use crate::state::State;

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
        fake.knows().rows = vec![row(7, "tb-a", State::Running)];
        let slurm = Slurm::with(Box::new(fake.clone()), dir.path());
        let folder = made(&slurm, "tb-a", |folder| folder.work());
        Self { slurm, folder, fake, dir }
    }

    async fn look(&self) -> Result<Observation> {
        self.slurm.poll_jobs(&Subject::watched(&[handle()])).await.remove(0)
    }
}

fn handle() -> JobHandle {
    JobHandle::new("lab/7/tb-a")
}

fn made(slurm: &Slurm, key: &str, root: impl FnOnce(&Folder) -> std::path::PathBuf) -> Folder {
    let folder = slurm.folder(key);
    folder.make(None).unwrap();
    folder.write_json(PLAN, &Plan { root: root(&folder), ..Plan::default() }).unwrap();
    folder.write(RELEASED, b"", 0o600).unwrap();
    folder
}

/// Advances the paused clock until the work is done.
async fn as_time_passes<T>(work: impl Future<Output = T>) -> T {
    let pass = async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            // Work on another thread is not driven by a paused clock.
            std::thread::yield_now();
        }
    };
    tokio::select! { done = work => done, () = pass => unreachable!("time does not end") }
}

/// Polls of a hung folder are unavailable with its path, and those of other clusters continue.
#[tokio::test]
async fn hung_folder_affects_one_cluster() {
    let (world, other) = (World::new(), World::new());
    assert_eq!(world.look().await.unwrap().state, JobState::Running);
    let hangs = hanging::below(world.dir.path());
    let shown = world.dir.path().display().to_string();
    // Each of them reads something, and there are more than may run at once.
    let looks = join_all((0..AT_ONCE * 2).map(|_| world.look())).await;
    for error in looks.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        // A caller that waited for a permit may have started before the last caller that has one.
        let why = ["its file system hangs", "very slow, or hangs"];
        let says = error.to_string();
        assert!(says.contains(&shown) && why.iter().any(|why| says.contains(why)), "{says}");
    }
    let request = LogRequest { max_bytes: 100, search: None };
    let error = world.slurm.tail(&handle(), &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = world.slurm.read(&handle(), "a.csv", 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let stopped = world.slurm.stop(&world.slurm.parse(&handle()).unwrap().unwrap()).await;
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(world.fake.knows().cancelled.is_empty(), "what is not written down is not done");
    assert_eq!(other.look().await.unwrap().state, JobState::Running);
    drop(hangs);
    let began = std::time::Instant::now();
    while let Err(error) = world.look().await {
        assert!(began.elapsed() < PATIENCE, "the folder never answered again: {error}");
        tokio::task::yield_now().await;
    }
    assert_eq!(world.look().await.unwrap().state, JobState::Running);
    assert!(!world.folder.has(crate::folder::CANCELLED).unwrap(), "what was given up is not done later");
}

/// The time for which a folder hung does not count towards the deadline for its jobs' end markers.
#[tokio::test(start_paused = true)]
async fn hung_folder_time_is_not_counted() {
    let world = World::new();
    std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
    world.fake.knows().rows.clear();
    let seen = world.look().await.unwrap();
    assert_eq!(seen.state, JobState::Running, "its end marker is waited for");
    let hangs = hanging::below(world.dir.path());
    tokio::time::advance(Duration::from_secs(3600)).await;
    as_time_passes(world.look()).await.unwrap_err();
    drop(hangs);
    let began = std::time::Instant::now();
    let seen = loop {
        match world.look().await {
            Ok(seen) => break seen,
            Err(error) => assert!(began.elapsed() < PATIENCE, "the folder never answered again: {error}"),
        }
    };
    assert_eq!(seen.state, JobState::Running, "its node has the folder back no sooner than this server");
    std::fs::write(world.folder.file("ends/job.0"), "code=0\n").unwrap();
    assert!(matches!(world.look().await.unwrap().state, JobState::Succeeded(_)));
}

/// Jobs in other folders end while more jobs than may be read at once hang.
#[tokio::test]
async fn hung_user_folder_delays_no_others() {
    let world = World::new();
    let scratch = tempfile::tempdir().unwrap();
    let mut handles = vec![handle()];
    world.fake.knows().rows = vec![row(7, "tb-a", State::Completed)];
    // More than may run at once.
    for job in 10..50 {
        let key = format!("tb-{job}");
        made(&world.slurm, &key, |_| scratch.path().to_owned());
        world.fake.knows().rows.push(row(job, &key, State::Completed));
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
    let hangs = hanging::below(scratch.path());
    for _ in 0..3 {
        let mut seen = world.slurm.poll_jobs(&Subject::watched(&handles)).await;
        let ours = seen.pop().unwrap().unwrap();
        assert!(matches!(ours.state, JobState::Succeeded(_)), "{ours:?}");
        for seen in seen {
            let error = seen.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(&scratch.path().display().to_string()), "{error}");
        }
    }
    drop(hangs);
    let began = std::time::Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "the folder never answered again");
        let seen = world.slurm.poll_jobs(&Subject::watched(&handles)).await;
        if seen.iter().all(Result::is_ok) {
            assert!(seen.into_iter().all(|seen| matches!(seen.unwrap().state, JobState::Succeeded(_))));
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
    assert_eq!(world.look().await.unwrap().state, JobState::Running);
    // The script is readable again.
    std::fs::OpenOptions::new().read(true).write(true).open(&script).unwrap();
}

/// A server that starts while the folder hangs creates it later.
#[tokio::test(start_paused = true)]
async fn jobs_folder_is_created_after_hang() {
    let world = World::new();
    let hangs = hanging::below(world.dir.path());
    let error = as_time_passes(world.slurm.folder_is_made()).await.unwrap_err();
    assert!(crate::backend::may_pass(&error), "{error}");
    drop(hangs);
    world.slurm.folder_is_made().await.unwrap();
}
