//! Reads the folders of many jobs within one poll: a few concurrently, and only as many as there is time for.
//! The caller gets the rest back, to read it in the next poll. It must not know what is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use taskbridge_sdk::Error;
use tokio::time::Instant;

use crate::disk::{Disk, is_given_up};

/// Number of concurrent readers, so that one slow folder does not block the others.
const SIDE_BY_SIDE: usize = 4;

/// The outcome for one item.
pub(crate) enum ScanOutcome<T, R> {
    Done(R),
    /// There was no time for it.
    Later(T),
    /// It was not read, or not to its end, because a file system hangs: its own, or that of an item that was
    /// read at the same time.
    Hangs(Error),
}

/// Processes as many items as there is time for, at least one per reader. The second argument of `work` is
/// the item's own deadline, for work that can be interrupted: one large item does not use up all the time.
pub(crate) async fn each<T: Send + 'static, R: Send + 'static>(
    disk: &Disk,
    all: Vec<T>,
    within: Duration,
    work: impl Fn(T, Instant) -> R + Send + Sync + 'static,
) -> Vec<ScanOutcome<T, R>> {
    if all.is_empty() {
        return Vec::new();
    }
    let (count, until) = (all.len(), Instant::now() + within);
    let left: Arc<Mutex<VecDeque<(usize, T)>>> = Arc::new(Mutex::new(all.into_iter().enumerate().collect()));
    let done: Arc<Mutex<Vec<(usize, R)>>> = Arc::default();
    let work = Arc::new(work);
    let workers = (0..SIDE_BY_SIDE.min(count)).map(|_| {
        let (left, done, work) = (Arc::clone(&left), Arc::clone(&done), Arc::clone(&work));
        disk.run(move || {
            let mut is_first = true;
            while (is_first || Instant::now() < until) && !is_given_up() {
                let next = left.lock().pop_front();
                let Some((at, one)) = next else { break };
                let read = work(one, until.min(Instant::now() + within / 2));
                done.lock().push((at, read));
                is_first = false;
            }
        })
    });
    let hangs = join_all(workers).await.into_iter().find_map(Result::err);
    let mut turns: Vec<Option<ScanOutcome<T, R>>> = (0..count).map(|_| None).collect();
    for (at, read) in done.lock().drain(..) {
        turns[at] = Some(ScanOutcome::Done(read));
    }
    let error = || match &hangs {
        Some(error) => Error::new(error.kind(), error.to_string()),
        None => Error::unavailable("the look at the jobs' folder was cut short"),
    };
    for (at, one) in left.lock().drain(..) {
        turns[at] = Some(if hangs.is_some() { ScanOutcome::Hangs(error()) } else { ScanOutcome::Later(one) });
    }
    turns.into_iter().map(|turn| turn.unwrap_or_else(|| ScanOutcome::Hangs(error()))).collect()
}
