//! [`Attempts`]: the starts of this process, by key. One start of a key is in progress at a time. It must not
//! grow without bound.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskbridge_sdk::JobKey;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::Instant;

/// Number of keys that are remembered. Older ones that are not in use are forgotten.
const MAX_KEYS: usize = 4096;

#[derive(Default)]
pub(crate) struct Attempts {
    by_key: Mutex<HashMap<JobKey, Attempt>>,
}

struct Attempt {
    lock: Arc<AsyncMutex<()>>,
    used: Instant,
}

/// The right to start a job under a key. It is released when the program has answered.
pub(crate) type KeyGuard = OwnedMutexGuard<()>;

impl Attempts {
    /// Waits until no other start of this key is in progress.
    pub(crate) async fn acquire(&self, key: &JobKey) -> KeyGuard {
        let lock = {
            let (now, mut by_key) = (Instant::now(), self.by_key.lock());
            if by_key.len() >= MAX_KEYS && !by_key.contains_key(key) {
                forget_oldest(&mut by_key);
            }
            let new = || Attempt { lock: Arc::default(), used: now };
            let attempt = by_key.entry(key.clone()).or_insert_with(new);
            attempt.used = now;
            Arc::clone(&attempt.lock)
        };
        lock.lock_owned().await
    }
}

/// Forgets the half that was not used for the longest time, except starts in progress.
fn forget_oldest(by_key: &mut HashMap<JobKey, Attempt>) {
    let mut times: Vec<Instant> = by_key.values().map(|attempt| attempt.used).collect();
    times.sort_unstable();
    let middle = times[times.len() / 2];
    by_key.retain(|_, attempt| attempt.used > middle || Arc::strong_count(&attempt.lock) > 1);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskbridge_sdk::suite::fresh_key;

    use super::*;

    #[tokio::test]
    async fn second_start_of_key_waits() {
        let (attempts, key) = (Attempts::default(), fresh_key());
        let guard = attempts.acquire(&key).await;
        let mut second = Box::pin(attempts.acquire(&key));
        assert!(futures_poll(&mut second).await.is_none());
        drop(attempts.acquire(&fresh_key()).await);
        drop(guard);
        second.await;
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }

    /// The number of remembered keys is bounded, and starts in progress are never forgotten.
    #[tokio::test(start_paused = true)]
    async fn old_keys_are_forgotten() {
        let (attempts, held) = (Attempts::default(), fresh_key());
        let _guard = attempts.acquire(&held).await;
        for _ in 0..2 * MAX_KEYS {
            tokio::time::advance(Duration::from_millis(1)).await;
            drop(attempts.acquire(&fresh_key()).await);
        }
        let by_key = attempts.by_key.lock();
        assert!(by_key.len() <= MAX_KEYS && by_key.contains_key(&held), "{}", by_key.len());
    }
}
