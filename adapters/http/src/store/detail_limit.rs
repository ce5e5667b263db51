//! [`DetailLimit`]: rate limit for the requests that only show details of a listed job, such as progress. It
//! may be lost. It must not sleep.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Jobs whose details may be requested at once.
const BURST: u32 = 30;
/// Then one job in this time.
const INTERVAL: Duration = Duration::from_secs(2);

/// When the whole burst is available again; `None` for now.
#[derive(Debug, Default)]
pub(crate) struct DetailLimit(Mutex<Option<Instant>>);

impl DetailLimit {
    /// Takes one of the jobs whose details may be requested. Returns false if there is none left now.
    pub(crate) fn take(&self) -> bool {
        let (now, mut full_at) = (Instant::now(), self.0.lock());
        let next = full_at.map_or(now, |full_at| full_at.max(now)) + INTERVAL;
        let is_allowed = next <= now + INTERVAL * BURST;
        if is_allowed {
            *full_at = Some(next);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_then_one_every_two_seconds() {
        let limit = DetailLimit::default();
        assert_eq!((0..100).filter(|_| limit.take()).count(), 30);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!((0..100).filter(|_| limit.take()).count(), 2);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..100).filter(|_| limit.take()).count(), 30);
    }
}
