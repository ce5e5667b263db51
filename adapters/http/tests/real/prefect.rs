//! Prefect 3: the behaviour suite of the sdk, and what only this preset has. The flows are those of
//! `tests/http/prefect/flows.py`.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, QuestionJob, RefusedJob, RepeatedStart,
    fresh_key,
};
use taskbridge_sdk::{
    Backend, Content, ErrorKind, JobHandle, JobKey, JobSpec, JobState, LogRequest, Observation, Output,
    Progress, Subject, ToolTarget, async_trait,
};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("prefect");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "/create_flow_run HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "/create_flow_run HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "/api/flow_runs/", Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, "/api/deployments/filter", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "/api/deployments/count", Fault::Status(503)),
];
const NO_SUCH_ID: &str = "00000000-0000-4000-8000-000000000000";

pub(crate) struct Prefect {
    pub(crate) world: World,
    tools: AtomicUsize,
}

impl Prefect {
    pub(crate) async fn new() -> Self {
        let world =
            World::connect(&ENGINE, "prefect-3", json!({ "base": "http://127.0.0.1:{proxy}/api" })).await;
        Self { world, tools: AtomicUsize::new(0) }
    }

    pub(crate) async fn started(&self, flow: &str, arguments: Value) -> JobHandle {
        self.world.backend.start(&start(target(flow), arguments)).await.unwrap().handle
    }

    /// Runs a flow to its end, and returns its output.
    async fn run(&self, flow: &str, arguments: Value) -> Output {
        let handle = self.started(flow, arguments).await;
        self.output(&handle).await
    }

    pub(crate) async fn output(&self, handle: &JobHandle) -> Output {
        let ended = poll_until_ended(&*self.world.backend, handle).await;
        let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
        output
    }
}

/// Returns the target of a flow, whose deployment has an id of Prefect.
fn target(flow: &str) -> Value {
    let ids = fs::read_to_string(ENGINE.get().folder.join("deployments.json")).unwrap();
    let ids: Value = serde_json::from_str(&ids).unwrap();
    json!({ "deployment": ids[flow], "result": if flow == "write" { "report" } else { "result" } })
}

#[async_trait]
impl Fixture for Prefect {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
        questions: true,
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
        (start(target("greet"), json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start(target("fail"), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start(target("sleep"), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(json!({ "result": "result", "run": NO_SUCH_ID }).to_string())
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = json!({ "name": "Ada" }).as_object().unwrap().clone();
        Some(QuestionJob { job: start(target("ask"), json!({})), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        // The last line is Prefect's own.
        let lines = ["first line", "second line", "third line", "Finished in state Completed()"];
        let lines = lines.map(str::to_owned).to_vec();
        Some(LogJob { job: start(target("show"), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = start(target("greet"), json!({ "who": "ann", "times": "many" }));
        Some(RefusedJob { job, message: "'many' is not of type 'integer'".to_owned() })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({ "deployment": NO_SUCH_ID }))
    }

    /// One deployment after another that is always there: its process serves no new ones.
    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let (tool, arguments) = match self.tools.fetch_add(1, Ordering::Relaxed) {
            0 => ("greet_friendly", json!({ "tone": "loud" })),
            _ => ("greet", json!({ "who": "friend", "tone": "loud" })),
        };
        Some(DiscoverableTool { tool: tool.to_owned(), arguments, text: "HELLO FRIEND".to_owned() })
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
taskbridge_sdk::behaviour_suite! { Prefect::new().await;
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
    question_is_the_same_until_it_is_answered
    answer_lets_the_job_go_on
    answer_given_again_says_the_same
    answer_that_came_first_stands
    answer_that_says_no_reaches_the_job
    answer_nobody_asked_for_is_too_late
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

/// Prefect returns the run of the first of eight starts, with its arguments, to all others.
#[tokio::test(flavor = "multi_thread")]
async fn eight_starts_are_one_run() {
    let prefect = Prefect::new().await;
    let key = fresh_key();
    let mut starts = tokio::task::JoinSet::new();
    for number in 1..=8 {
        let job = start(target("greet"), json!({ "who": "ann", "times": number }));
        let (backend, job) = (prefect.world.backend.clone(), JobSpec { key: key.clone(), ..job });
        starts.spawn(async move { backend.start(&job).await.unwrap().handle });
    }
    let mut handles = starts.join_all().await;
    handles.dedup();
    assert_eq!(handles.len(), 1);
    prefect.output(&handles[0]).await;
    assert_eq!(prefect.world.engine.count_starts(&key), 1);
}

/// Prefect would fill in an object with `__prefect_kind`. What a caller writes is text.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_no_templates() {
    let prefect = Prefect::new().await;
    let extra =
        json!({ "__prefect_kind": "jinja", "template": "{{ 1 + 1 }}", "more": [{ "__prefect_kind": "x" }] });
    let output = prefect.run("greet", json!({ "who": "a\"}, b", "extra": extra })).await;
    assert_eq!(output.structured, Some(json!([{ "said": "hello a\"}, b", "extra": extra }])));
}

/// A result is the artifact with the key of the target: text, or data.
#[tokio::test(flavor = "multi_thread")]
async fn markdown_artifact_is_text() {
    let output = Prefect::new().await.run("write", json!({})).await;
    assert_eq!(output.content[0], Content::text("# Report\n\nAll is well."));
    assert_eq!(output.structured, None);
}

/// Without an artifact, the message of the last state is the result.
#[tokio::test(flavor = "multi_thread")]
async fn state_message_is_result() {
    let output = Prefect::new().await.run("plain", json!({})).await;
    assert_eq!(output.content[0], Content::text("in a few words"));
    let Content::ResourceLink { uri, .. } = &output.content[1] else { panic!("{output:?}") };
    assert!(uri.starts_with("http://127.0.0.1:") && uri.contains("/runs/flow-run/"), "{uri}");
}

/// Progress is that of the newest progress artifact.
#[tokio::test(flavor = "multi_thread")]
async fn progress_artifact_is_progress() {
    let prefect = Prefect::new().await;
    let backend = &prefect.world.backend;
    let handle = prefect.started("sleep", json!({})).await;
    let seen = loop {
        let subject = Subject { handle: handle.clone(), watched: true, age: Duration::ZERO };
        let seen = backend.observe_all(&backend.group(&handle), &[subject]).await.remove(0).unwrap();
        assert!(!seen.state.has_ended(), "{seen:?}");
        if seen.progress.is_some() {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(seen.progress, Some(Progress { done: 25.0, total: Some(100.0) }));
    assert_eq!(seen.message.as_deref(), Some("sleeping"));
    backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(&**backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}

/// A log is read page by page: Prefect gives at most 200 records.
#[tokio::test(flavor = "multi_thread")]
async fn long_log_is_complete() {
    let prefect = Prefect::new().await;
    let handle = prefect.started("count", json!({ "lines": 450 })).await;
    prefect.output(&handle).await;
    let logs = prefect.world.backend.abilities().logs.unwrap();
    let log = loop {
        let request = LogRequest { max_bytes: 1 << 20, search: None };
        let log = logs.tail(&handle, &request).await.unwrap();
        // A flow sends its last records after its end.
        if log.text.contains("Finished in state") {
            break log;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let lines: Vec<&str> = log.text.lines().filter(|line| line.starts_with("line ")).collect();
    let expected: Vec<String> = (0..450).map(|line| format!("line {line}")).collect();
    assert_eq!(lines, expected);
}

/// Deployments with the tag are tools. A default of the deployment is no required argument.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_parameters_are_typed() {
    let prefect = Prefect::new().await;
    let tools = prefect.world.backend.abilities().discovery.unwrap().discover().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["ask", "greet", "greet_friendly"]);
    let [_, greet, friendly] = &tools[..] else { panic!() };
    assert_eq!(greet.input_schema["required"], json!(["who"]));
    assert_eq!(greet.input_schema["properties"]["who"]["description"], "Whom to greet.");
    assert_eq!(friendly.input_schema["required"], json!([]));
    assert!(greet.description.as_deref().unwrap().starts_with("Says hello."), "{greet:?}");
}

/// A deployment that nobody serves is reported, and the message of its run says why it waits.
#[tokio::test(flavor = "multi_thread")]
async fn unserved_deployment_is_reported() {
    let prefect = Prefect::new().await;
    let backend = &prefect.world.backend;
    let tools = [ToolTarget::new("halt", target("orphan")), ToolTarget::new("greet", target("greet"))];
    let findings = backend.abilities().checkup.unwrap().check_up(&tools).await;
    let text = serde_json::to_value(&findings).unwrap().to_string();
    assert_eq!(text.matches("asks for runs of the deployment orphan").count(), 1, "{text}");
    assert_eq!(text.matches("asks for runs of the deployment").count(), 1, "{text}");
    let handle = prefect.started("orphan", json!({})).await;
    let says_why = |seen: &Observation| {
        assert_eq!(seen.state, JobState::Queued);
        (seen.message.as_deref() == Some("no worker has picked up the run")).then_some(())
    };
    poll_until(&**backend, &handle, "that the run is late", says_why).await;
    backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(&**backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}

/// Many jobs are polled with one list.
#[tokio::test(flavor = "multi_thread")]
async fn list_shows_running_jobs() {
    let prefect = Prefect::new().await;
    let backend = &prefect.world.backend;
    let mut subjects = Vec::new();
    for flow in ["orphan", "orphan", "plain"] {
        let handle = prefect.started(flow, json!({})).await;
        subjects.push(Subject { handle, watched: false, age: Duration::ZERO });
    }
    poll_until_ended(&**backend, &subjects[2].handle).await;
    // Polls of single jobs fail: the list must be enough for those that run.
    prefect.world.proxy.inject("GET /api/flow_runs/", Fault::Status(503));
    let seen = backend.observe_all(&backend.group(&subjects[0].handle), &subjects).await;
    for seen in &seen[..2] {
        assert_eq!(seen.as_ref().unwrap().state, JobState::Queued);
    }
    assert_eq!(seen[2].as_ref().unwrap_err().kind(), ErrorKind::Unavailable);
    for subject in &subjects[..2] {
        backend.cancel(&subject.handle).await.unwrap();
    }
}
