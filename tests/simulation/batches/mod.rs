//! Tests of writer batches that fail as a whole or in part: the real service and reconciler over the real
//! store, in real time. Another connection locks the file, the disk is full, or one write of a batch fails.
//!
//! The checks: exactly the writes that were acknowledged are in the file, each call has one job, every task
//! ends with its result, and the file is intact and writable afterwards.

mod faults;
mod full;
mod scene;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use self::faults::WriteLock;
use self::scene::{Figures, Kinds, Scene};
use super::knob;

/// Number of seeds per test in `tests/run`. A long run tries a thousandth of the seeds of the worlds.
const SEEDS: u64 = 4;

/// Scenes mostly wait, so several run concurrently.
const CONCURRENT_SCENES: usize = 4;

fn seeds() -> Vec<u64> {
    let (first, count) = (knob("TASKBRIDGE_SIM_SEED"), knob("TASKBRIDGE_SIM_SEEDS"));
    let count =
        count.map_or(if first.is_some() { 1 } else { SEEDS }, |count| count.div_ceil(1000).max(SEEDS));
    let first = first.unwrap_or(0);
    (first..first + count).collect()
}

/// Plays a scene under each seed. A failing scene prints its seed.
#[allow(clippy::print_stdout, reason = "a failing seed is printed, and the figures of long runs")]
async fn run_scenes(name: &str, concurrency: usize, scene: impl AsyncFn(u64) -> Figures) {
    for seeds in seeds().chunks(concurrency) {
        println!("{name}: seeds {seeds:?}");
        join_all(seeds.iter().map(async |&seed| {
            let started_at = Instant::now();
            let figures = scene(seed).await;
            println!("{name}: seed {seed}: {figures:?} in {} s", started_at.elapsed().as_secs());
        }))
        .await;
    }
}

/// Another connection has the write lock while calls, ends and cancels are written: briefly, or for longer
/// than the writer waits, once or twice.
#[tokio::test]
async fn locked_file_fails_whole_batches() {
    run_scenes("a locked file", CONCURRENT_SCENES, async |seed| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tasks.db");
        let scene = Scene::open(seed, &file).await;
        let min_refused = [0, 1, 1, 30][seed as usize % 4];
        let lock = async {
            tokio::time::sleep(Duration::from_millis(scene.rng.below(60))).await;
            let lock = WriteLock::take(&file).await;
            let hold_lock = async {
                match min_refused {
                    0 => tokio::time::sleep(Duration::from_millis(scene.rng.below(1_000))).await,
                    calls => scene.until_refused(calls).await,
                }
                drop(lock);
            };
            tokio::join!(hold_lock, scene.wave(100));
        };
        tokio::join!(lock, scene.wave(60));
        assert!(if min_refused == 0 {
            scene.refused_count() == 0
        } else {
            scene.refused_count() >= min_refused
        });
        scene.assert_reason(&["locked for more than"]);
        scene.finish(&file).await
    })
    .await;
}

/// Duplicate ids make some inserts of a batch fail. Only these fail.
#[tokio::test]
async fn failing_write_spares_its_batch() {
    run_scenes("writes that fail alone", CONCURRENT_SCENES, async |seed| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tasks.db");
        let scene = Scene::open(seed, &file).await;
        let earlier = scene.wave(40);
        let later = async {
            tokio::time::sleep(Duration::from_millis(scene.rng.below(300))).await;
            let lock = WriteLock::take_blocking(&file);
            let mut wave = Box::pin(scene.wave_of(100, Kinds { bytes: 0, keys: false }));
            let repeated_ids: BTreeSet<u64> = (0..5).map(|_| 2 + scene.rng.below(90)).collect();
            let repeated_ids = Vec::from_iter(repeated_ids);
            scene.ids.repeat_in(&repeated_ids);
            // All calls are queued at the writer, which waits for the lock.
            assert!(futures_util::poll!(&mut wave).is_pending());
            drop(lock);
            wave.await;
            assert_eq!(scene.refused_count(), repeated_ids.len(), "others than those that had to fail");
        };
        tokio::join!(earlier, later);
        scene.assert_reason(&["UNIQUE"]);
        scene.finish(&file).await
    })
    .await;
}

/// The transaction of a batch panics, and then those of some single writes.
#[tokio::test]
async fn panicking_write_spares_its_batch() {
    run_scenes("writes that panic", CONCURRENT_SCENES, async |seed| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tasks.db");
        let scene = Scene::open(seed, &file).await;
        let earlier = scene.wave(40);
        let later = async {
            tokio::time::sleep(Duration::from_millis(scene.rng.below(300))).await;
            let lock = WriteLock::take_blocking(&file);
            let mut wave = Box::pin(scene.wave(100));
            assert!(futures_util::poll!(&mut wave).is_pending());
            // The writer's first batch has one of them or many. So two or three panics hit a write that is
            // alone.
            scene.clock.panic_in(&[1, 2, 3 + scene.rng.below(12)]);
            drop(lock);
            wave.await;
            assert!(scene.refused_count() <= 2, "{} calls are refused", scene.refused_count());
        };
        tokio::join!(earlier, later);
        // The last panic may hit a write of the reconciler.
        while scene.clock.panicked() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.assert_reason(&["panicked"]);
        scene.finish(&file).await
    })
    .await;
}
