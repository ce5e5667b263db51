//! Google Cloud Workflows: the behaviour suite of the sdk, and what only this preset has. The interpreter is
//! real, and Google's APIs are those of `tests/http/google_workflows`: each request and reply is held against
//! Google's discovery documents. The workflows are in that folder, too.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, QuestionJob, RefusedJob, RepeatedStart, job,
};
use taskbridge_sdk::{
    Answer, AnswerOutcome, Backend, ErrorKind, JobHandle, JobKey, JobSpec, JobState, Observation, Question,
    Subject, Timestamp, ToolTarget, Verdict, async_trait,
};

use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("google_workflows");
static ADDED: AtomicUsize = AtomicUsize::new(0);
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "/executions HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "/executions HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "/executions/", Fault::Status(503)),
    (InjectedFault::JobUnlisted, "/executions/", Fault::Status(404)),
    (InjectedFault::DiscoveryUnavailable, "/workflows?fields=workflows", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "/workflows?fields=nextPageToken", Fault::Status(503)),
];
/// The Workflows API, which has a host of its own.
const WORKFLOWS: &str = "http://localhost:{proxy}/v1";
const DAY: i64 = 24 * 3600 * 1000;

struct Google {
    world: World,
}

impl Google {
    async fn new() -> Self {
        Self::with(json!({})).await
    }

    async fn with(find: Value) -> Self {
        let key = ENGINE.get().folder.join("key.json");
        let credentials = fs::read_to_string(key).unwrap();
        Self::connect(&credentials, find).await
    }

    async fn connect(credentials: &str, find: Value) -> Self {
        let google = json!({ "credentials": credentials, "token_url": "http://127.0.0.1:{proxy}/token" });
        let config = json!({
            "base": "http://127.0.0.1:{proxy}/v1",
            "vars": { "project": "test-project" },
            "auth": { "google": google },
            "find": find,
            "discover": { "base": WORKFLOWS },
            "doctor": { "credentials": { "base": WORKFLOWS }, "tool": { "base": WORKFLOWS } },
        });
        Self { world: World::connect(&ENGINE, "google-workflows", config).await }
    }

    async fn started(&self, job: &JobSpec) -> JobHandle {
        self.world.backend.start(job).await.unwrap().handle
    }

    async fn ended(&self, job: &JobSpec) -> Observation {
        let handle = self.started(job).await;
        poll_until_ended(&*self.world.backend, &handle).await
    }

    async fn question(&self, handle: &JobHandle) -> Question {
        poll_until(&*self.world.backend, handle, "the question", |seen| seen.questions.first().cloned()).await
    }

    fn folder(&self) -> std::path::PathBuf {
        self.world.engine.folder.join("workflows")
    }
}

/// What Google's documents do not allow fails every test of this file.
impl Drop for Google {
    fn drop(&mut self) {
        let violations = fs::read_to_string(self.world.engine.folder.join("violations")).unwrap_or_default();
        assert!(std::thread::panicking() || violations.is_empty(), "{violations}");
    }
}

fn target(workflow: &str) -> Value {
    json!({ "workflow": workflow })
}

fn unknown(workflow: &str) -> JobHandle {
    let handle = json!({
        "answer": "{}", "execution": "none", "project": "123456789012", "question": "Who?", "workflow": workflow,
    });
    JobHandle::new(handle.to_string())
}

fn asking() -> Value {
    let answer =
        json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    json!({ "workflow": "ask", "question": "What is your name?", "answer": answer })
}

#[async_trait]
impl Fixture for Google {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
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
            InjectedFault::JobUnlisted,
            InjectedFault::DiscoveryUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (start(target("greet"), json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start(target("fail"), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start(target("wait"), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        unknown("wait")
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = json!({ "name": "Ada" }).as_object().unwrap().clone();
        Some(QuestionJob { job: start(asking(), json!({})), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["sweep", "polish", "leave"].map(str::to_owned).to_vec();
        Some(LogJob { job: start(target("steps"), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "Requested entity was not found: nothing.".to_owned();
        Some(RefusedJob { job: start(target("nothing"), json!({})), message })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("nothing"))
    }

    /// Deploys a workflow: the server lists what is in the folder.
    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let (folder, tool) = (self.folder(), format!("greet-{}", ADDED.fetch_add(1, Ordering::Relaxed)));
        for kind in ["json", "yaml"] {
            fs::copy(folder.join(format!("greet.{kind}")), folder.join(format!("{tool}.{kind}"))).unwrap();
        }
        Some(DiscoverableTool { tool, arguments: json!({ "who": "bob" }), text: "hello bob".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        fs::remove_file(self.folder().join(format!("{tool}.yaml"))).unwrap();
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

taskbridge_sdk::behaviour_suite!(Google::new().await);

/// The argument and the result are JSON in a text, and every kind of value survives both.
#[tokio::test(flavor = "multi_thread")]
async fn argument_and_result_keep_types() {
    let google = Google::new().await;
    let given = json!({ "who": "o'hara: \"{{ who }}\"", "many": [1, -2.5, true], "inner": { "é": "ü\nö" } });
    let ended = google.ended(&start(target("greet"), given.clone())).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    let mut expected = given;
    expected["said"] = "hello o'hara: \"{{ who }}\"".into();
    assert_eq!(output.structured, Some(expected));
}

/// A text that a workflow raises, and a map.
#[tokio::test(flavor = "multi_thread")]
async fn failure_names_error_and_step() {
    let google = Google::new().await;
    let text = google.ended(&google.failing_job()).await;
    let map = google.ended(&start(target("crash"), json!({}))).await;
    for (ended, words) in [(text, ["out of luck", "open_drawer"]), (map, ["no such customer", "look_up"])] {
        assert!(matches!(ended.state, JobState::Failed(_)), "{ended:?}");
        let message = ended.message.unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

/// Progress is the number of steps that began, and the message the step that runs.
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_progress_and_message() {
    let google = Google::new().await;
    let handle = google.started(&google.long_job()).await;
    let seen = poll_until(&*google.world.backend, &handle, "the last step", |seen| {
        (seen.message.as_deref() == Some("rest")).then(|| seen.clone())
    })
    .await;
    let progress = seen.progress.unwrap();
    assert_eq!((progress.done, progress.total), (2.0, None));
    let link = seen.link.unwrap();
    let place = "https://console.cloud.google.com/workflows/workflow/us-central1/wait/execution/";
    assert!(link.starts_with(place) && link.ends_with("/summary?project=test-project"), "{link}");
    google.world.backend.cancel(&handle).await.unwrap();
}

/// Without `target.question`, a callback is for a machine.
#[tokio::test(flavor = "multi_thread")]
async fn callback_without_text_is_no_question() {
    let google = Google::new().await;
    let backend = &*google.world.backend;
    let handle = google.started(&start(target("ask"), json!({}))).await;
    let seen = poll_until(backend, &handle, "the last step", |seen| {
        (seen.message.as_deref() == Some("wait_for_name")).then(|| seen.clone())
    })
    .await;
    assert!(seen.questions.is_empty(), "{seen:?}");
    backend.cancel(&handle).await.unwrap();
}

/// A workflow that does not look at the answer would take a refusal for a consent.
#[tokio::test(flavor = "multi_thread")]
async fn declined_question_cancels_execution() {
    let google = Google::new().await;
    let backend = &*google.world.backend;
    let handle = google.started(&start(asking(), json!({}))).await;
    let question = google.question(&handle).await;
    let answers = backend.abilities().questions.unwrap();
    let outcome = answers.answer(&handle, &question.id, &Answer::Decline).await.unwrap();
    assert_eq!(outcome, AnswerOutcome::Accepted);
    assert!(matches!(poll_until_ended(backend, &handle).await.state, JobState::Cancelled(_)));
}

/// The clock of this machine is a little ahead, and on the next day.
#[tokio::test(flavor = "multi_thread")]
async fn find_at_midnight_reads_both_days() {
    let google = Google::new().await;
    let job = google.long_job();
    let started = google.started(&job).await;
    let midnight = (jiff::Timestamp::now().as_millisecond() / DAY + 1) * DAY;
    let later = JobSpec { first_attempt_at: Timestamp::from_millis(midnight + 5000), ..job };
    let found = google.world.backend.find(&later).await.unwrap();
    assert_eq!(found.map(|found| found.handle), Some(started.clone()));
    google.world.backend.cancel(&started).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn find_reads_further_pages() {
    let google = Google::with(json!({ "query": { "pageSize": "1" } })).await;
    let jobs = [google.long_job(), google.long_job(), google.long_job()];
    let mut handles = Vec::new();
    for job in &jobs {
        handles.push(google.started(job).await);
    }
    for (job, handle) in jobs.iter().zip(&handles) {
        let found = google.world.backend.find(job).await.unwrap();
        assert_eq!(found.map(|found| found.handle).as_ref(), Some(handle));
        google.world.backend.cancel(handle).await.unwrap();
    }
}

/// Jobs of one workflow that nobody watches cost one request: the first poll of one of them would fail.
#[tokio::test(flavor = "multi_thread")]
async fn running_jobs_are_one_list() {
    let google = Google::new().await;
    let backend = &*google.world.backend;
    let mut subjects = Vec::new();
    for _ in 0..3 {
        let handle = google.started(&google.long_job()).await;
        subjects.push(Subject { handle, watched: false, age: Duration::MAX });
    }
    google.world.proxy.inject("/workflows/wait/executions/", Fault::Status(503));
    let group = backend.group(&subjects[0].handle);
    for seen in backend.observe_all(&group, &subjects).await {
        assert!(!seen.unwrap().state.has_ended());
    }
    // The fault is still there.
    let error = backend.observe(&subjects[0].handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for subject in subjects {
        backend.cancel(&subject.handle).await.unwrap();
    }
}

/// Google has no list of the executions of a workflow that was deleted.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_deleted_workflow_are_gone() {
    let google = Google::new().await;
    let (backend, handle) = (&*google.world.backend, unknown("deleted"));
    let subjects = Subject::watched(&[handle.clone(), handle.clone()]);
    for seen in backend.observe_all(&backend.group(&handle), &subjects).await {
        assert_eq!(seen.unwrap().state, JobState::Gone);
    }
}

/// The fields of a workflow say what its tool takes and asks, as text: a template in them is not evaluated.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_tools_have_schema_and_question() {
    let google = Google::new().await;
    let backend = &*google.world.backend;
    let tools = backend.abilities().discovery.unwrap().discover().await.unwrap();
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name);
    assert!(tool("wait").is_none(), "it has no label `mcp`");
    let greet = tool("greet").unwrap();
    assert_eq!(greet.description.as_deref(), Some("Greets somebody."));
    assert_eq!(greet.input_schema["required"], json!(["who"]));
    let ask = tool("ask").unwrap();
    assert_eq!(ask.input_schema["additionalProperties"], true);
    let handle = google.started(&job(ask.target.clone(), json!({}))).await;
    let question = google.question(&handle).await;
    assert_eq!(question.message, "What is your {{ name }}?");
    assert_eq!(question.ask.form().unwrap()["required"], json!(["name"]));
    backend.cancel(&handle).await.unwrap();
}

/// Google cannot decrypt the workflow: its executions would not run.
#[tokio::test(flavor = "multi_thread")]
async fn unavailable_workflow_is_reported() {
    let google = Google::new().await;
    let fields = json!({
        "state": "UNAVAILABLE", "stateError": { "type": "KMS_ERROR", "details": "the key is revoked" },
        "labels": { "mcp": "true" },
    });
    fs::write(google.folder().join("sealed.json"), fields.to_string()).unwrap();
    fs::copy(google.folder().join("greet.yaml"), google.folder().join("sealed.yaml")).unwrap();
    let abilities = google.world.backend.abilities();
    let findings = abilities.checkup.unwrap().check_up(&[ToolTarget::new("seal", target("sealed"))]).await;
    let fault = findings.iter().find(|found| found.verdict == Verdict::Fault).unwrap();
    assert!(fault.what.contains("seal") && fault.says.contains("the key is revoked"), "{fault:?}");
    let tools = abilities.discovery.unwrap().discover().await.unwrap();
    assert!(!tools.iter().any(|tool| tool.name == "sealed"));
}

/// Google ends a token early, such as after a change of its account.
#[tokio::test(flavor = "multi_thread")]
async fn refused_token_is_renewed() {
    let google = Google::new().await;
    let handle = google.started(&google.succeeding_job().0).await;
    google.world.proxy.inject("/executions/", Fault::Status(401));
    let error = google.world.backend.observe(&handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    google.world.backend.observe(&handle).await.unwrap();
}

/// The key of another account.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_key_is_reported() {
    let right = fs::read_to_string(ENGINE.get().folder.join("key.json")).unwrap();
    let google = Google::connect(&right.replace("bridge@", "other@"), json!({})).await;
    let error = google.world.backend.start(&google.succeeding_job().0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let findings = google.world.backend.abilities().checkup.unwrap().check_up(&[]).await;
    assert!(
        findings.iter().any(|found| found.verdict == Verdict::Fault && found.fix.is_some()),
        "{findings:?}"
    );
}
