//! Ray Jobs: what the behaviour suite of the sdk has for an engine without a key, and what only this preset has.
//! The commands are those of `tests/http/ray-jobs/jobs.py`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{
    Claims, Fixture, InjectedFault, LogJob, RefusedJob, RepeatedStart, fresh_key, job,
};
use taskbridge_sdk::{
    Backend, Content, JobHandle, JobKey, JobSpec, JobState, LogRequest, Observation, async_trait,
};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("ray-jobs");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "POST /api/jobs/ HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "POST /api/jobs/ HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "GET /api/jobs/", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /api/version", Fault::Status(503)),
];

struct Ray {
    world: World,
}

impl Ray {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "ray-jobs", json!({})).await }
    }

    /// Runs a job to its end.
    async fn run(&self, job: &JobSpec) -> (JobHandle, Observation) {
        let handle = self.world.backend.start(job).await.unwrap().handle;
        let ended = poll_until_ended(&*self.world.backend, &handle).await;
        (handle, ended)
    }
}

fn command(words: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/http/ray-jobs/jobs.py");
    let words: Vec<&str> =
        ["python", script.to_str().unwrap()].into_iter().chain(words.iter().copied()).collect();
    json!({ "command": words })
}

#[async_trait]
impl Fixture for Ray {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
        questions: false,
        notes: false,
        logs: true,
        artifacts: false,
        wakeups: false,
        discovery: false,
        checkup: true,
        hooks: false,
        refuses: true,
        counts_starts: true,
        faults: &[
            InjectedFault::StartReplyLost,
            InjectedFault::StartLimited,
            InjectedFault::PollUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(AsServer(self.world.backend.clone()))
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (start(command(&["greet"]), json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start(command(&["fail"]), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start(command(&["wait"]), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(json!({ "job": fresh_key().as_str() }).to_string())
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line", "second line", "third line"].map(str::to_owned).to_vec();
        Some(LogJob { job: start(command(&["show"]), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let target = json!({ "command": ["true"], "cpus": "many" });
        let message = "TypeError: entrypoint_num_cpus must be a number, got <class 'str'>".to_owned();
        Some(RefusedJob { job: start(target, json!({})), message })
    }

    /// Counts the jobs that have started, or that Ray has: one that is stopped early never starts.
    async fn count_starts(&self, key: &JobKey) -> usize {
        let starts = self.world.engine.count_starts(key);
        let known = JobSpec { key: key.clone(), ..job(command(&[]), json!({})) };
        starts.max(usize::from(Self::new().await.world.backend.find(&known).await.unwrap().is_some()))
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

// Without the tests of discovery, and of a target that is missing: a command is known when it runs.
taskbridge_sdk::behaviour_suite! { Ray::new().await;
    abilities_are_as_claimed
    start_does_not_wait_for_the_end
    start_again_returns_the_same_job
    start_again_after_the_end_returns_the_same_job
    starts_at_the_same_time_make_one_job
    start_that_may_exist_never_guesses
    start_that_was_dropped_makes_one_job_at_most
    start_whose_reply_was_lost_is_uncertain
    start_that_is_limited_starts_nothing
    start_that_is_refused_says_the_engines_words
    find_sees_a_job_in_any_state
    find_of_an_unknown_key_starts_nothing
    success_hands_back_the_output
    failure_says_why_in_one_line
    ended_job_is_seen_the_same_every_time
    unknown_job_is_gone
    new_job_is_never_gone
    fault_of_a_look_is_an_error
    looks_at_many_answer_in_order
    cancel_ends_a_running_job
    cancel_twice_is_harmless
    cancel_of_an_ended_job_changes_nothing
    cancel_of_an_unknown_job_is_success
    log_holds_what_was_printed
    log_is_bounded_and_says_so
    log_search_keeps_the_lines_that_match
    checkup_changes_nothing
    checkup_of_an_engine_that_is_away_is_a_fault
}

/// A value of a caller is one word of the command, whatever it contains, and never a part of a shell's program.
#[tokio::test(flavor = "multi_thread")]
async fn words_reach_command_as_they_are() {
    let ray = Ray::new().await;
    let word = "it's \"one\" $(touch x) `id` ; exit 3 \\ \n & {{ 1 }} ü";
    let arguments = json!({ "word": word, "n": 5, "list": ["a", { "b": null }] });
    let (_, ended) =
        ray.run(&start(command(&["words", "{{ word }}", "n={{ n }}", ""]), arguments.clone())).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!({ "words": [word, "n=5", ""], "arguments": arguments })));
}

/// A command that is a text is no command: its letters are words.
#[tokio::test(flavor = "multi_thread")]
async fn text_is_no_command() {
    let ray = Ray::new().await;
    let target = json!({ "command": "touch {{ name }}" });
    let (_, ended) = ray.run(&start(target, json!({ "name": "x; true" }))).await;
    assert!(matches!(ended.state, JobState::Failed(_)), "{ended:?}");
}

/// The message of a failure is the exit code and the last line of the log.
#[tokio::test(flavor = "multi_thread")]
async fn last_line_is_reason() {
    let ray = Ray::new().await;
    let (_, ended) = ray.run(&ray.failing_job()).await;
    let message = "Job entrypoint command failed with exit code 1: out of luck";
    assert_eq!(ended.message.as_deref(), Some(message));
}

/// A last line that is no JSON is no result.
#[tokio::test(flavor = "multi_thread")]
async fn broken_result_is_none() {
    let ray = Ray::new().await;
    for name in ["broken", "show"] {
        let (_, ended) = ray.run(&start(command(&[name]), json!({}))).await;
        let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
        assert_eq!(
            (output.structured, output.content[0].clone()),
            (None, Content::text("The job succeeded."))
        );
    }
}

/// A job that waits for CPUs says so, and has an empty log. Ray stops it only once it has them.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_job_is_explained() {
    let ray = Ray::new().await;
    let backend = &*ray.world.backend;
    // No node has as many.
    let target = json!({ "command": ["true"], "cpus": 1000 });
    let handle = backend.start(&start(target, json!({}))).await.unwrap().handle;
    let waits = |seen: &Observation| {
        assert_eq!(seen.state, JobState::Queued, "{seen:?}");
        seen.message.clone().filter(|text| text.contains("waiting for resources"))
    };
    poll_until(backend, &handle, "the reason", waits).await;
    let request = LogRequest { max_bytes: 1000, search: None };
    let log = backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap();
    assert_eq!(log.text, "");
    backend.cancel(&handle).await.unwrap();
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Queued);
}
