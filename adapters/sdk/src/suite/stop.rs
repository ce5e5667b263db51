//! Tests for [`crate::Backend::cancel`].

use super::{Fixture, cancel_and_wait, poll_until, poll_until_ended, run_to_end, start};
use crate::{ErrorKind, JobState, Observation};

/// Checks that an accepted request to cancel ends the job, possibly after a while.
pub async fn cancel_ends_a_running_job<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let handle = start(fixture, &*backend, &job).await.handle;
    let observation = cancel_and_wait(fixture, &*backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{:?}", observation.state);
}

/// Checks that repeated requests to cancel are harmless.
pub async fn cancel_twice_is_harmless<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let handle = start(fixture, &*backend, &job).await.handle;
    for _ in 0..2 {
        backend.cancel(&handle).await.expect("the engine accepts the request to cancel");
    }
    let observation = cancel_and_wait(fixture, &*backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{:?}", observation.state);
}

/// Checks that cancelling a job that has ended succeeds and leaves it unchanged.
pub async fn cancel_of_an_ended_job_changes_nothing<F: Fixture>(fixture: &F) {
    let (backend, (job, _)) = (fixture.backend(), fixture.succeeding_job());
    let (handle, observation) = run_to_end(fixture, &*backend, &job).await;
    backend.cancel(&handle).await.expect("the cancel of an ended job succeeds");
    assert_eq!(poll_until_ended(fixture, &*backend, &handle).await, observation);
}

/// Checks that cancelling a job that the engine does not know succeeds.
pub async fn cancel_of_an_unknown_job_is_success<F: Fixture>(fixture: &F) {
    fixture.backend().cancel(&fixture.unknown_handle()).await.expect("the cancel of an unknown job succeeds");
}

/// Checks that a request to stop a job that cannot be stopped says so, each time, and that the job continues.
pub async fn cancel_of_an_unstoppable_job_says_so<F: Fixture>(fixture: &F) {
    let (backend, Some(job)) = (fixture.backend(), fixture.unstoppable_job()) else { return };
    let handle = start(fixture, &*backend, &job).await.handle;
    for _ in 0..2 {
        let error = backend.cancel(&handle).await.expect_err("the engine cannot stop this job");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let continues = |observation: &Observation| !observation.state.has_ended();
    poll_until(fixture, &*backend, &handle, "the job continues", continues).await;
}
