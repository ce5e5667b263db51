//! The behaviour suite: tests of the contract on [`crate::Backend`] and its abilities.
//!
//! An adapter implements [`Fixture`] for its real engine, or for the most faithful simulation available. The
//! macro then generates one named test for each test function of this module:
//!
//! ```text
//! taskbridge_sdk::behaviour_suite!(MyFixture::connect().await);
//! ```
//!
//! If a backend or its fixture lacks an ability, [`Fixture::CLAIMS`] must say so. The tests of that ability
//! then check that it is absent, so that no test passes by oversight. A test that needs a fault passes
//! without a check if `faults` does not list that fault. The suite must not know any engine.

mod abilities;
mod checkup;
mod contract;
mod discovery;
mod fixture;
mod hooks;
mod observe;
pub mod polling;
mod questions;
mod start;
mod stop;

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Backend, ErrorKind, JobHandle, JobSpec, JobState, Observation, Output, Started};

pub use abilities::*;
pub use checkup::*;
pub use contract::{CONTRACT, check};
pub use discovery::*;
pub use fixture::{
    ArtifactJob, Claims, DiscoverableTool, Fixture, HookRequest, InjectedFault, KeyHookRequest, LogJob,
    NotesJob, QuestionJob, RefusedJob, RepeatedStart, fresh_key, job,
};
pub use hooks::*;
pub use observe::*;
pub use questions::*;
pub use start::*;
pub use stop::*;

/// Generates one test for each test function of the suite, with its own fixture. The expression creates a
/// [`suite::Fixture`] and may await. It is evaluated once per test. If tests are listed after the expression,
/// only those are generated; use this if the engine of a fixture supports no more.
///
/// [`suite::Fixture`]: crate::suite::Fixture
#[macro_export]
macro_rules! behaviour_suite {
    ($fixture:expr) => {
        $crate::behaviour_suite! { $fixture;
            abilities_are_as_claimed
            start_does_not_wait_for_the_end
            start_again_returns_the_same_job
            start_again_after_the_end_returns_the_same_job
            starts_at_the_same_time_make_one_job
            start_that_may_exist_never_guesses
            start_that_was_dropped_makes_one_job_at_most
            start_whose_reply_was_lost_is_uncertain
            start_that_is_unavailable_starts_nothing
            start_that_is_limited_starts_nothing
            start_that_is_refused_says_the_engines_words
            find_sees_a_job_in_any_state
            find_of_an_unknown_key_starts_nothing
            success_hands_back_the_output
            failure_says_why_in_one_line
            ended_job_is_seen_the_same_every_time
            unknown_job_is_gone
            new_job_is_never_gone
            notes_keep_their_numbers_to_the_end
            fault_of_a_look_is_an_error
            looks_at_many_answer_in_order
            renamed_job_answers_to_both_names
            cancel_ends_a_running_job
            cancel_twice_is_harmless
            cancel_of_an_ended_job_changes_nothing
            cancel_of_an_unknown_job_is_success
            cancel_of_an_unstoppable_job_says_so
            question_is_the_same_until_it_is_answered
            answer_lets_the_job_go_on
            answer_given_again_says_the_same
            answer_that_came_first_stands
            answer_that_says_no_reaches_the_job
            answer_nobody_asked_for_is_too_late
            log_holds_what_was_printed
            log_is_bounded_and_says_so
            log_search_keeps_the_lines_that_match
            artifact_is_read_whole
            artifact_of_no_such_name_is_none
            artifact_that_is_too_large_is_rejected_with_its_size
            artifact_name_leads_nowhere_else
            wakeup_names_the_job_that_ended
            discovered_tool_is_called_as_it_says
            discovered_names_are_unique_and_stay
            discovered_tool_that_is_gone_is_left_out
            fault_of_a_discovery_is_an_error
            checkup_tells_what_is_right
            checkup_changes_nothing
            checkup_names_the_tool_whose_target_is_missing
            checkup_of_an_engine_that_is_away_is_a_fault
            hook_names_the_job
            hook_without_proof_is_not_believed
            hook_names_the_key
        }
    };
    ($fixture:expr; $($bullet:ident)*) => {$(
        #[test]
        fn $bullet() {
            $crate::suite::run(async {
                let fixture = $fixture;
                $crate::suite::$bullet(&fixture).await;
            });
        }
    )*};
}

/// Runs one test on its own runtime, so that a user of the suite needs none.
///
/// # Panics
/// Panics if the test panics, or if the runtime cannot be created.
pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be created")
        .block_on(test);
}

/// Starts a job that must be accepted. Retries a start that had no effect, until the fixture's timeout.
async fn start<F: Fixture>(fixture: &F, backend: &dyn Backend, job: &JobSpec) -> Started {
    retry_until_some(fixture, "the start is accepted", async || match backend.start(job).await {
        Ok(started) => Some(started),
        Err(e) if e.kind().is_transient() => None,
        Err(e) => panic!("the start failed: {e} ({})", e.kind()),
    })
    .await
}

/// Starts the same job again, as after a lost reply. A backend that only searches may need a while to find
/// it.
async fn start_again<F: Fixture>(fixture: &F, backend: &dyn Backend, job: &JobSpec) -> Started {
    let job = with_may_exist(job);
    retry_until_some(fixture, "the job is found again", async || match backend.start(&job).await {
        Ok(started) => Some(started),
        Err(e) if e.kind().is_transient() => None,
        Err(e)
            if e.kind() == ErrorKind::Uncertain
                && fixture.claims().repeated_start == RepeatedStart::SearchOnly =>
        {
            None
        }
        Err(e) => panic!("the repeated start failed: {e} ({})", e.kind()),
    })
    .await
}

fn with_may_exist(job: &JobSpec) -> JobSpec {
    JobSpec { may_exist: true, ..job.clone() }
}

/// Polls until the observation matches.
async fn poll_until<F: Fixture>(
    fixture: &F,
    backend: &dyn Backend,
    handle: &JobHandle,
    what: &str,
    condition: impl Fn(&Observation) -> bool,
) -> Observation {
    retry_until_some(fixture, what, async || match backend.observe(handle).await {
        Ok(observation) if condition(&observation) => Some(observation),
        Ok(observation) if observation.state.has_ended() => {
            panic!("the job ended as {:?} before this happened: {what}", observation.state)
        }
        Ok(_) => None,
        Err(e) if e.kind().is_transient() => None,
        Err(e) => panic!("the poll failed: {e} ({})", e.kind()),
    })
    .await
}

async fn poll_until_ended<F: Fixture>(fixture: &F, backend: &dyn Backend, handle: &JobHandle) -> Observation {
    poll_until(fixture, backend, handle, "the job has ended", |observation| observation.state.has_ended())
        .await
}

/// Starts a job and polls it until it has ended.
async fn run_to_end<F: Fixture>(
    fixture: &F,
    backend: &dyn Backend,
    job: &JobSpec,
) -> (JobHandle, Observation) {
    let handle = start(fixture, backend, job).await.handle;
    let observation = poll_until_ended(fixture, backend, &handle).await;
    (handle, observation)
}

async fn cancel_and_wait<F: Fixture>(fixture: &F, backend: &dyn Backend, handle: &JobHandle) -> Observation {
    backend.cancel(handle).await.expect("the engine accepts the request to cancel");
    poll_until_ended(fixture, backend, handle).await
}

/// Retries until there is a value, with the fixture's timeout.
async fn retry_until_some<F: Fixture, T>(
    fixture: &F,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + fixture.timeout();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(Instant::now() < deadline, "timeout after {:?}: {what}", fixture.timeout());
        sleep(Duration::from_millis(10)).await;
    }
}

/// Checks how many jobs were actually started under a key, if the fixture can count them. An engine may need
/// a moment to start a job that it has accepted.
async fn assert_starts<F: Fixture>(fixture: &F, job: &JobSpec, expected: std::ops::RangeInclusive<usize>) {
    if fixture.claims().counts_starts {
        let deadline = Instant::now() + fixture.timeout();
        let mut starts = fixture.count_starts(&job.key).await;
        while starts < *expected.start() && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
            starts = fixture.count_starts(&job.key).await;
        }
        assert!(expected.contains(&starts), "{starts} jobs were started under one key, not {expected:?}");
    }
}

fn output(state: &JobState) -> &Output {
    match state {
        JobState::Succeeded(output) => output,
        state => panic!("the job did not succeed: {state:?}"),
    }
}

/// Returns an ability, and checks that it is offered exactly if the fixture claims it.
fn claimed_ability<T>(claimed: bool, ability: Option<T>, name: &str) -> Option<T> {
    assert_eq!(ability.is_some(), claimed, "the fixture's claim about {name} does not match the backend");
    ability
}

/// Returns an item of the fixture, and checks that the fixture provides it exactly if it claims to.
fn claimed_item<T>(claimed: bool, item: Option<T>, name: &str) -> Option<T> {
    assert_eq!(item.is_some(), claimed, "the result of the fixture's {name}() does not match its claims");
    item
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_macro_names_every_bullet() {
        let bullets = [
            include_str!("abilities.rs"),
            include_str!("checkup.rs"),
            include_str!("discovery.rs"),
            include_str!("hooks.rs"),
            include_str!("observe.rs"),
            include_str!("questions.rs"),
            include_str!("start.rs"),
            include_str!("stop.rs"),
        ];
        let this = include_str!("mod.rs");
        let mut count = 0;
        for line in bullets.iter().flat_map(|file| file.lines()) {
            if let Some(rest) = line.strip_prefix("pub async fn ") {
                let name = rest.split('<').next().expect("split gives at least one part");
                assert!(this.contains(&format!("            {name}\n")), "{name} is not in the macro");
                count += 1;
            }
        }
        assert_eq!(count, 52);
    }
}
