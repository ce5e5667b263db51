//! Tests for [`crate::Backend::start`] and [`crate::Backend::find`].

use futures_util::poll;
use tokio::task::yield_now;

use super::{
    Fixture, InjectedFault, RefusedJob, RepeatedStart, assert_starts, cancel_and_wait, claimed_item,
    retry_until_some, run_to_end, start, start_again, with_may_exist,
};
use crate::{Backend, Error, ErrorKind, JobSpec, Result, Started};

/// Checks that a start returns when the engine has accepted the job, without waiting for its end.
pub async fn start_does_not_wait_for_the_end<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let started = start(fixture, &*backend, &job).await;
    let observation = backend.observe(&started.handle).await.expect("the job can be polled");
    assert!(!observation.state.has_ended(), "the start returned when the job was {:?}", observation.state);
    cancel_and_wait(fixture, &*backend, &started.handle).await;
}

/// Checks that a repeated start with the same key returns the running job and never starts a second one.
pub async fn start_again_returns_the_same_job<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let started = start(fixture, &*backend, &job).await;
    for _ in 0..3 {
        assert_eq!(start_again(fixture, &*backend, &job).await.handle, started.handle);
    }
    assert_starts(fixture, &job, 1..=1).await;
    cancel_and_wait(fixture, &*backend, &started.handle).await;
}

/// Checks that a repeated start returns a job that has ended.
pub async fn start_again_after_the_end_returns_the_same_job<F: Fixture>(fixture: &F) {
    let (backend, (job, _)) = (fixture.backend(), fixture.succeeding_job());
    let (handle, observation) = run_to_end(fixture, &*backend, &job).await;
    let repeated = start_again(fixture, &*backend, &job).await;
    assert_eq!(repeated.handle, handle);
    if let Some(first) = repeated.first.filter(|first| first.state.has_ended()) {
        assert_eq!(first, observation);
    }
    assert_starts(fixture, &job, 1..=1).await;
}

/// Checks that a second job never starts, even when several calls run at the same time.
pub async fn starts_at_the_same_time_make_one_job<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let repeat = with_may_exist(&job);
    let (first, second, third) =
        tokio::join!(backend.start(&job), backend.start(&repeat), backend.start(&repeat));
    let handle = match first {
        Ok(started) => started.handle,
        Err(e) => panic!("the first start failed: {e} ({})", e.kind()),
    };
    for other in [second, third] {
        match other {
            Ok(started) => assert_eq!(started.handle, handle),
            Err(e) => {
                assert!(
                    is_search_without_result(fixture, &e),
                    "a concurrent start failed: {e} ({})",
                    e.kind()
                )
            }
        }
    }
    assert_starts(fixture, &job, 1..=1).await;
    cancel_and_wait(fixture, &*backend, &handle).await;
}

/// Checks a start with `may_exist` whose job is not found. It starts the first job if the engine has a key;
/// otherwise it returns `Uncertain` and starts nothing.
pub async fn start_that_may_exist_never_guesses<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), with_may_exist(&fixture.long_job()));
    match backend.start(&job).await {
        Ok(started) => {
            assert_eq!(
                fixture.claims().repeated_start,
                RepeatedStart::SameJob,
                "a backend that only searches has started a job"
            );
            assert_starts(fixture, &job, 1..=1).await;
            cancel_and_wait(fixture, &*backend, &started.handle).await;
        }
        Err(e) => {
            assert!(is_search_without_result(fixture, &e), "the start failed: {e} ({})", e.kind());
            assert_starts(fixture, &job, 0..=0).await;
        }
    }
}

/// Checks that a start's future may be dropped at any await point. The repeated start completes the work,
/// with at most one job.
pub async fn start_that_was_dropped_makes_one_job_at_most<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    for polls in 1..=4 {
        let job = fixture.long_job();
        {
            let mut future = backend.start(&job);
            for _ in 0..polls {
                if poll!(&mut future).is_ready() {
                    break;
                }
                yield_now().await;
            }
        }
        match backend.start(&with_may_exist(&job)).await {
            Ok(started) => {
                assert_starts(fixture, &job, 1..=1).await;
                cancel_and_wait(fixture, &*backend, &started.handle).await;
            }
            Err(e) => {
                assert!(
                    is_search_without_result(fixture, &e),
                    "the repeated start failed: {e} ({})",
                    e.kind()
                );
                assert_starts(fixture, &job, 0..=1).await;
                // The request may have been in flight. A job that it started must not outlive the test.
                if let Ok(Some(late_start)) = backend.find(&job).await {
                    cancel_and_wait(fixture, &*backend, &late_start.handle).await;
                }
            }
        }
    }
}

/// Checks that a start whose reply was lost is `Uncertain`, and that a repeated start finds its job.
pub async fn start_whose_reply_was_lost_is_uncertain<F: Fixture>(fixture: &F) {
    if !fixture.claims().faults.contains(&InjectedFault::StartReplyLost) {
        return;
    }
    let (backend, job) = (fixture.backend(), fixture.long_job());
    fixture.inject(InjectedFault::StartReplyLost).await;
    assert_eq!(expect_error(backend.start(&job).await).kind(), ErrorKind::Uncertain);
    let started = start_again(fixture, &*backend, &job).await;
    assert_starts(fixture, &job, 1..=1).await;
    cancel_and_wait(fixture, &*backend, &started.handle).await;
}

/// Checks that `Unavailable` means that nothing started.
pub async fn start_that_is_unavailable_starts_nothing<F: Fixture>(fixture: &F) {
    let kind = start_with_fault(fixture, InjectedFault::StartUnavailable).await;
    assert!(matches!(kind, None | Some(ErrorKind::Unavailable)), "{kind:?}");
}

/// Checks that `Limited` means that nothing started.
pub async fn start_that_is_limited_starts_nothing<F: Fixture>(fixture: &F) {
    let kind = start_with_fault(fixture, InjectedFault::StartLimited).await;
    assert!(matches!(kind, None | Some(ErrorKind::Limited { .. })), "{kind:?}");
}

async fn start_with_fault<F: Fixture>(fixture: &F, fault: InjectedFault) -> Option<ErrorKind> {
    if !fixture.claims().faults.contains(&fault) {
        return None;
    }
    let (backend, job) = (fixture.backend(), fixture.long_job());
    fixture.inject(fault).await;
    let error = expect_error(backend.start(&job).await);
    assert_eq!(find(fixture, &*backend, &job).await, None);
    assert_starts(fixture, &job, 0..=0).await;
    Some(error.kind())
}

/// Checks that a refused job is `Rejected`, with the engine's message.
pub async fn start_that_is_refused_says_the_engines_words<F: Fixture>(fixture: &F) {
    let Some(RefusedJob { job, message }) =
        claimed_item(fixture.claims().refuses, fixture.refused_job(), "refused_job")
    else {
        return;
    };
    let backend = fixture.backend();
    let error = expect_error(backend.start(&job).await);
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains(&message), "{error:?} does not contain {message:?}");
    assert_starts(fixture, &job, 0..=0).await;
}

/// Checks that a search by key finds its job, running or ended, and starts nothing.
pub async fn find_sees_a_job_in_any_state<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let started = start(fixture, &*backend, &job).await;
    for state in ["running", "ended"] {
        let found = retry_until_some(fixture, state, async || find(fixture, &*backend, &job).await).await;
        assert_eq!(found.handle, started.handle, "the {state} job");
        cancel_and_wait(fixture, &*backend, &started.handle).await;
    }
    assert_starts(fixture, &job, 1..=1).await;
}

/// Checks that a search for a key without a job returns `None` and starts nothing.
pub async fn find_of_an_unknown_key_starts_nothing<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.long_job());
    for _ in 0..2 {
        assert_eq!(find(fixture, &*backend, &job).await, None);
    }
    assert_starts(fixture, &job, 0..=0).await;
}

/// Searches for a key, and retries while the engine cannot serve the request.
async fn find<F: Fixture>(fixture: &F, backend: &dyn Backend, job: &JobSpec) -> Option<Started> {
    retry_until_some(fixture, "the engine can search for a key", async || match backend.find(job).await {
        Ok(found) => Some(found),
        Err(e) if e.kind().is_transient() => None,
        Err(e) => panic!("the search for a key failed: {e} ({})", e.kind()),
    })
    .await
}

/// Returns true if this is the error of a backend that only searches and found no job.
fn is_search_without_result<F: Fixture>(fixture: &F, error: &Error) -> bool {
    fixture.claims().repeated_start == RepeatedStart::SearchOnly && error.kind() == ErrorKind::Uncertain
}

fn expect_error(result: Result<Started>) -> Error {
    match result {
        Ok(started) => panic!("the start must fail, but returned {}", started.handle),
        Err(error) => error,
    }
}
