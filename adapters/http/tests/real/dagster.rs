//! Dagster: what the behaviour suite of the sdk has for an engine without a key, and what only this preset has.
//! The jobs are those of `tests/http/dagster/jobs.py`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, RefusedJob, RepeatedStart,
};
use taskbridge_sdk::{
    Backend, Content, ErrorKind, JobHandle, JobKey, JobSpec, JobState, LogRequest, Observation, Output,
    Progress, Subject, ToolTarget, async_trait,
};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("dagster");
/// All requests have the same first line: a fault meets the next one.
const NEXT: &str = "POST /graphql";
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, NEXT, Fault::ReplyLost),
    (InjectedFault::StartLimited, NEXT, Fault::Status(429)),
    (InjectedFault::PollUnavailable, NEXT, Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, NEXT, Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, NEXT, Fault::Status(503)),
];

struct Dagster {
    world: World,
    tools: AtomicUsize,
}

impl Dagster {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "dagster", json!({})).await, tools: AtomicUsize::new(0) }
    }

    async fn run(&self, job: &JobSpec) -> Output {
        let handle = self.world.backend.start(job).await.unwrap().handle;
        let ended = poll_until_ended(&*self.world.backend, &handle).await;
        let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
        output
    }
}

/// Returns the target of a job: the arguments are the run config.
fn target(job: &str) -> Value {
    json!({ "job": job, "location": "jobs" })
}

/// Creates a job whose arguments are the config of an op.
fn greet(arguments: Value) -> JobSpec {
    start(json!({ "job": "greet", "location": "jobs", "op": "hello" }), arguments)
}

#[async_trait]
impl Fixture for Dagster {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
        questions: false,
        notes: false,
        logs: true,
        artifacts: false,
        wakeups: false,
        discovery: true,
        checkup: true,
        hooks: false,
        refuses: true,
        counts_starts: true,
        faults: &[
            InjectedFault::StartReplyLost,
            InjectedFault::StartLimited,
            InjectedFault::PollUnavailable,
            InjectedFault::DiscoveryUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(AsServer(self.world.backend.clone()))
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (greet(json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start(target("fail"), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start(target("sleep"), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        let run = "00000000-0000-4000-8000-000000000000";
        JobHandle::new(json!({ "result": "result", "run": run }).to_string())
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line", "second line", "third line"].map(str::to_owned).to_vec();
        Some(LogJob { job: start(target("show"), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "Invalid scalar at path root:ops:hello:config:times".to_owned();
        Some(RefusedJob { job: greet(json!({ "who": "ann", "times": "many" })), message })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("no-such-job"))
    }

    /// One job after another that is always there: Dagster reads its code when it starts.
    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let (tool, arguments) = match self.tools.fetch_add(1, Ordering::Relaxed) {
            0 => ("greet", json!({ "who": "friend" })),
            _ => ("greet_all", json!({ "ops": { "hello": { "config": { "who": "friend" } } } })),
        };
        Some(DiscoverableTool { tool: tool.to_owned(), arguments, text: "hello friend".to_owned() })
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        let starts = self.world.engine.count_starts(key);
        if starts > 0 {
            return starts;
        }
        // A run that is stopped early has not begun. It is counted without the proxy's faults.
        let direct = Self::new().await;
        let job = JobSpec { key: key.clone(), ..direct.long_job() };
        usize::from(direct.world.backend.find(&job).await.unwrap().is_some())
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

// Without the tests of what is not claimed, and of a tool that is removed.
taskbridge_sdk::behaviour_suite! { Dagster::new().await;
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
    discovered_tool_is_called_as_it_says
    discovered_names_are_unique_and_stay
    fault_of_a_discovery_is_an_error
    checkup_tells_what_is_right
    checkup_changes_nothing
    checkup_names_the_tool_whose_target_is_missing
    checkup_of_an_engine_that_is_away_is_a_fault
}

/// A metadata entry of Markdown is text. The link leads to the run.
#[tokio::test(flavor = "multi_thread")]
async fn markdown_entry_is_text() {
    let output = Dagster::new().await.run(&start(target("write"), json!({}))).await;
    assert_eq!(output.content[0], Content::text("# Report\n\nAll is well."));
    assert_eq!(output.structured, None);
    let Content::ResourceLink { uri, .. } = &output.content[1] else { panic!("{output:?}") };
    assert!(uri.starts_with("http://127.0.0.1:") && uri.contains("/runs/"), "{uri}");
}

/// The result is an entry in JSON, though the run has more events than a page.
#[tokio::test(flavor = "multi_thread")]
async fn result_behind_many_events_is_found() {
    let dagster = Dagster::new().await;
    let handle = dagster.world.backend.start(&start(target("chat"), json!({}))).await.unwrap().handle;
    let ended = poll_until_ended(&*dagster.world.backend, &handle).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!({ "lines": 1050 })));
    let logs = dagster.world.backend.abilities().logs.unwrap();
    let log = logs.tail(&handle, &LogRequest { max_bytes: 1 << 20, search: None }).await.unwrap();
    let lines: Vec<&str> = log.text.lines().filter(|line| line.starts_with("line ")).collect();
    let expected: Vec<String> = (0..1050).map(|line| format!("line {line}")).collect();
    assert_eq!(lines, expected);
}

/// Progress is the count of steps that have succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_progress() {
    let dagster = Dagster::new().await;
    let backend = AsServer(dagster.world.backend.clone());
    let handle = backend.start(&dagster.long_job()).await.unwrap().handle;
    let expected = Progress { done: 1.0, total: Some(2.0) };
    loop {
        let subject = Subject { handle: handle.clone(), watched: true, age: Duration::ZERO };
        let seen = backend.observe_all(&backend.group(&handle), &[subject]).await.remove(0).unwrap();
        assert!(!seen.state.has_ended(), "{seen:?}");
        if seen.progress == Some(expected) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(&backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}

/// The same start twice is two runs: the preset must not claim a key.
#[tokio::test(flavor = "multi_thread")]
async fn engine_has_no_key() {
    let dagster = Dagster::new().await;
    let job = greet(json!({ "who": "ann" }));
    // Without `may_exist`, the start is sent.
    let one = dagster.world.backend.start(&job).await.unwrap().handle;
    let other = dagster.world.backend.start(&job).await.unwrap().handle;
    assert_ne!(one, other);
}

/// Jobs with the tag are tools. Without an op, their arguments are the run config.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_config_is_typed() {
    let dagster = Dagster::new().await;
    let tools = dagster.world.backend.abilities().discovery.unwrap().discover().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["greet", "greet_all"]);
    let [greet, all] = &tools[..] else { panic!() };
    assert_eq!(greet.input_schema["required"], json!(["who"]));
    let properties = &greet.input_schema["properties"];
    assert_eq!(properties["who"], json!({ "type": "string", "description": "Whom to greet." }));
    assert_eq!(properties["times"], json!({ "type": "integer", "default": 1 }));
    assert_eq!(all.input_schema["required"], json!(["ops"]));
    assert_eq!(all.input_schema["properties"]["ops"]["type"], "object");
}

/// The doctor has the engine's words about a job that is missing.
#[tokio::test(flavor = "multi_thread")]
async fn missing_job_is_reported() {
    let dagster = Dagster::new().await;
    let tools = [ToolTarget::new("nope", target("nope")), ToolTarget::new("greet", target("greet"))];
    let findings = dagster.world.backend.abilities().checkup.unwrap().check_up(&tools).await;
    let text = serde_json::to_value(&findings).unwrap().to_string();
    assert_eq!(text.matches("Could not find Pipeline").count(), 1, "{text}");
}

/// Many jobs are polled with one list.
#[tokio::test(flavor = "multi_thread")]
async fn list_shows_running_jobs() {
    let dagster = Dagster::new().await;
    let backend = &dagster.world.backend;
    let mut subjects = Vec::new();
    for job in [dagster.long_job(), dagster.long_job()] {
        let handle = backend.start(&job).await.unwrap().handle;
        let is_running = |seen: &Observation| (seen.state == JobState::Running).then_some(());
        poll_until(&**backend, &handle, "it runs", is_running).await;
        subjects.push(Subject { handle, watched: false, age: Duration::ZERO });
    }
    // The list is one request, and a poll of a job would be the next one.
    dagster.world.proxy.inject(NEXT, Fault::Status(503));
    let seen = backend.observe_all(&backend.group(&subjects[0].handle), &subjects).await;
    assert!(seen.iter().all(|seen| seen.as_ref().unwrap_err().kind() == ErrorKind::Unavailable), "{seen:?}");
    let seen = backend.observe_all(&backend.group(&subjects[0].handle), &subjects).await;
    assert!(seen.iter().all(|seen| seen.as_ref().unwrap().state == JobState::Running), "{seen:?}");
    for subject in &subjects {
        AsServer(backend.clone()).cancel(&subject.handle).await.unwrap();
    }
}
