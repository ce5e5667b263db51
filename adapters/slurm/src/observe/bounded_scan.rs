//! Reads the folders of many jobs within one poll: a few concurrently, and only as many as there is time for.
//! The caller gets the rest back, to read it in the next poll. It must not know what is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use taskbridge_sdk::Error;
use tokio::time::Instant;

use crate::store::disk::{Disk, is_abandoned};

/// Number of concurrent readers, so that one slow folder does not block the others.
const CONCURRENCY: usize = 4;

/// The outcome for one item.
pub(crate) enum ScanOutcome<T, R> {
    Done(R),
    /// There was no time for it.
    Deferred(T),
    /// It was not read, or not to its end, because a file system hangs: its own, or that of an item that was
    /// read at the same time.
    Hung(Error),
}

/// Processes as many items as there is time for, at least one per reader. The second argument of `work` is
/// the item's own deadline, for work that can be interrupted: one large item does not use up all the time.
pub(crate) async fn scan<T: Send + 'static, R: Send + 'static>(
    disk: &Disk,
    items: Vec<T>,
    time_budget: Duration,
    work: impl Fn(T, Instant) -> R + Send + Sync + 'static,
) -> Vec<ScanOutcome<T, R>> {
    if items.is_empty() {
        return Vec::new();
    }
    let (count, deadline) = (items.len(), Instant::now() + time_budget);
    let pending: Arc<Mutex<VecDeque<(usize, T)>>> =
        Arc::new(Mutex::new(items.into_iter().enumerate().collect()));
    let done: Arc<Mutex<Vec<(usize, R)>>> = Arc::default();
    let work = Arc::new(work);
    let workers = (0..CONCURRENCY.min(count)).map(|_| {
        let (pending, done, work) = (Arc::clone(&pending), Arc::clone(&done), Arc::clone(&work));
        disk.run(move || {
            let mut is_first = true;
            while (is_first || Instant::now() < deadline) && !is_abandoned() {
                let next = pending.lock().pop_front();
                let Some((at, item)) = next else { break };
                let result = work(item, deadline.min(Instant::now() + time_budget / 2));
                done.lock().push((at, result));
                is_first = false;
            }
        })
    });
    let hang_error = join_all(workers).await.into_iter().find_map(Result::err);
    let mut outcomes: Vec<Option<ScanOutcome<T, R>>> = (0..count).map(|_| None).collect();
    for (at, result) in done.lock().drain(..) {
        outcomes[at] = Some(ScanOutcome::Done(result));
    }
    let error =
        || hang_error.clone().unwrap_or_else(|| Error::unavailable("the file operation was interrupted"));
    for (at, item) in pending.lock().drain(..) {
        outcomes[at] =
            Some(if hang_error.is_some() { ScanOutcome::Hung(error()) } else { ScanOutcome::Deferred(item) });
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| ScanOutcome::Hung(error()))).collect()
}
