//! Looks at a job until something is seen: for the tests that an adapter has beside the suite. It must not wait for what no look
//! tells.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Backend, ErrorKind, JobHandle, Observation};

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Looks until something is seen.
///
/// # Panics
/// When a look fails but for asking too often, when the job ends without it, and when it takes too long.
pub async fn until<T>(
    backend: &dyn Backend,
    handle: &JobHandle,
    what: &str,
    mut seen: impl FnMut(&Observation) -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        let observation = match backend.observe(handle).await {
            Ok(observation) => observation,
            // It is to be asked later, and is.
            Err(error) if matches!(error.kind(), ErrorKind::Limited { .. }) => {
                assert!(start.elapsed() < PATIENCE, "never saw {what}; last: {error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err(error) => panic!("the job cannot be looked at: {error} ({})", error.kind()),
        };
        if let Some(found) = seen(&observation) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "never saw {what}; last: {observation:?}");
        assert!(!observation.state.has_ended(), "ended without {what}: {observation:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for the end.
///
/// # Panics
/// When a look fails but for asking too often, and when it takes too long.
pub async fn ended(backend: &dyn Backend, handle: &JobHandle) -> Observation {
    until(backend, handle, "an end", |seen| seen.state.has_ended().then(|| seen.clone())).await
}
