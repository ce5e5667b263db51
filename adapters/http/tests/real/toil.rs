//! Toil, a server of the GA4GH Workflow Execution Service: what the behaviour suite of the sdk has for an engine
//! without a key, and what only this preset has. The workflows are `tests/http/toil/workflow.py` and
//! `tests/http/toil/workflow.cwl`, which takes ten seconds of a processor.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::poll_until_ended;
use taskbridge_sdk::suite::{Claims, Fixture, InjectedFault, LogJob, RefusedJob, RepeatedStart};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, JobState, LogRequest, Progress, async_trait};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::keyless::{check_limited_start, check_lost_reply};
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("toil");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "POST /ga4gh/wes/v1/runs HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "POST /ga4gh/wes/v1/runs HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "GET /ga4gh/wes/v1/runs/", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /ga4gh/wes/v1/service-info", Fault::Status(503)),
];

struct Toil {
    world: World,
}

impl Toil {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "ga4gh-wes", json!({})).await }
    }
}

fn target(workflow: &str, language: &str, version: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/http/toil").canonicalize().unwrap();
    let workflow_url = format!("file://{}", folder.join(workflow).display());
    json!({ "workflow_url": workflow_url, "workflow_type": language, "workflow_type_version": version })
}

fn cwl(arguments: Value) -> JobSpec {
    start(target("workflow.cwl", "CWL", "v1.2"), arguments)
}

/// Creates a job of the Python workflow.
fn python(what: &str) -> JobSpec {
    let mut job = start(target("workflow.py", "py", "3.11"), json!({ "do": what }));
    job.arguments["key"] = job.key.as_str().into();
    job
}

#[async_trait]
impl Fixture for Toil {
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
        faults: &[InjectedFault::PollUnavailable, InjectedFault::CheckupUnavailable],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(AsServer(self.world.backend.clone()))
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (cwl(json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        python("fail")
    }

    fn long_job(&self) -> JobSpec {
        python("sleep")
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(json!({ "run": "run-0" }).to_string())
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line", "second line", "third line"].map(str::to_owned).to_vec();
        Some(LogJob { job: python("print"), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = start(target("workflow.py", "perl", "5"), json!({}));
        Some(RefusedJob { job, message: "workflow_type 'perl' is not supported.".to_owned() })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("workflow.py", "py", "2.7"))
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.world.engine.count_starts(key)
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

// Without a key and a search.
taskbridge_sdk::behaviour_suite! { Toil::new().await;
    abilities_are_as_claimed
    start_does_not_wait_for_the_end
    starts_at_the_same_time_make_one_job
    start_that_may_exist_never_guesses
    start_that_was_dropped_makes_one_job_at_most
    start_that_is_refused_says_the_engines_words
    success_hands_back_the_output
    failure_says_why_in_one_line
    ended_job_is_seen_the_same_every_time
    unknown_job_is_gone
    fault_of_a_look_is_an_error
    looks_at_many_answer_in_order
    cancel_ends_a_running_job
    cancel_twice_is_harmless
    cancel_of_an_ended_job_changes_nothing
    cancel_of_an_unknown_job_is_success
    log_holds_what_was_printed
    log_is_bounded_and_says_so
    log_search_keeps_the_lines_that_match
    checkup_tells_what_is_right
    checkup_changes_nothing
    checkup_names_the_tool_whose_target_is_missing
    checkup_of_an_engine_that_is_away_is_a_fault
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_reply_is_final() {
    let toil = Toil::new().await;
    check_lost_reply(&toil.world, FAULTS, &toil.long_job()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_start_starts_nothing() {
    let toil = Toil::new().await;
    check_limited_start(&toil.world, FAULTS, &python("print")).await;
}

/// The outputs of a CWL workflow are the result, and its steps are the progress.
#[tokio::test(flavor = "multi_thread")]
async fn cwl_outputs_are_structured() {
    let toil = Toil::new().await;
    let backend = &*toil.world.backend;
    let handle = backend.start(&cwl(json!({ "who": "bob" }))).await.unwrap().handle;
    let ended = poll_until_ended(backend, &handle).await;
    assert_eq!(ended.progress, Some(Progress { done: 1.0, total: Some(1.0) }));
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!({ "said": "hello bob" })));
}

/// Toil accepts any input, and the run fails. Its log has the engine's words.
#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_in_log() {
    let toil = Toil::new().await;
    let backend = &*toil.world.backend;
    let handle = backend.start(&cwl(json!({ "who": 5 }))).await.unwrap().handle;
    let ended = poll_until_ended(backend, &handle).await;
    assert!(matches!(ended.state, JobState::Failed(_)), "{ended:?}");
    assert_eq!(ended.message.unwrap(), "executor error, exit code 1");
    let request = LogRequest { max_bytes: 64 * 1024, search: None };
    let log = backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap();
    assert!(log.text.contains("the 'who' field is not valid"), "{}", log.text);
}

/// Toil forbids the cancellation of a failed run. That is no error: the run has ended.
#[tokio::test(flavor = "multi_thread")]
async fn failed_run_can_be_cancelled() {
    let toil = Toil::new().await;
    let backend = &*toil.world.backend;
    let handle = backend.start(&toil.failing_job()).await.unwrap().handle;
    let ended = poll_until_ended(backend, &handle).await;
    backend.cancel(&handle).await.unwrap();
    assert_eq!(backend.observe(&handle).await.unwrap(), ended);
}
