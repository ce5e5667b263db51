//! Functions that poll a job until a condition is true, for an adapter's own tests next to the suite. They
//! must not wait forever: they panic after [`POLL_TIMEOUT`], or when the job has ended without the condition.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Backend, ErrorKind, JobHandle, Observation};

/// Timeout that is long enough for a busy machine.
pub const POLL_TIMEOUT: Duration = Duration::from_secs(180);

/// Polls a job until `check` returns a value, and returns it. Polls again after a rate limit.
///
/// # Panics
/// Panics if a poll fails for a reason other than a rate limit, if the job ends before `check` returns a
/// value, or after [`POLL_TIMEOUT`].
pub async fn poll_until<T>(
    backend: &dyn Backend,
    handle: &JobHandle,
    what: &str,
    mut check: impl FnMut(&Observation) -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        let observation = match backend.observe(handle).await {
            Ok(observation) => observation,
            // The engine asked for a later retry.
            Err(error) if matches!(error.kind(), ErrorKind::Limited { .. }) => {
                assert!(start.elapsed() < POLL_TIMEOUT, "timeout while waiting for {what}; last: {error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err(error) => panic!("the job cannot be polled: {error} ({})", error.kind()),
        };
        if let Some(found) = check(&observation) {
            return found;
        }
        assert!(start.elapsed() < POLL_TIMEOUT, "timeout while waiting for {what}; last: {observation:?}");
        assert!(!observation.state.has_ended(), "ended without {what}: {observation:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for the end of a job.
///
/// # Panics
/// Panics if a poll fails for a reason other than a rate limit, or after [`POLL_TIMEOUT`].
pub async fn poll_until_ended(backend: &dyn Backend, handle: &JobHandle) -> Observation {
    poll_until(backend, handle, "the end", |observation| {
        observation.state.has_ended().then(|| observation.clone())
    })
    .await
}
