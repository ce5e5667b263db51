//! Airflow 3: the behaviour suite of the sdk, and what only this preset has. The DAGs are those of
//! `tests/http/airflow/dags.py`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::poll_until_ended;
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, QuestionJob, RefusedJob, RepeatedStart,
    fresh_key,
};
use taskbridge_sdk::{
    Answer, AnswerOutcome, Backend, ErrorKind, JobHandle, JobKey, JobSpec, JobState, Question, Subject,
    ToolTarget, async_trait,
};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("airflow");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "/dagRuns HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "/dagRuns HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "/dagRuns/tb-", Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, "GET /api/v2/dags?", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /api/v2/dags?", Fault::Status(503)),
];

struct Airflow {
    world: World,
}

impl Airflow {
    async fn new() -> Self {
        // The exchange of a password has a test of its own: its requests have the adapter's short timeout.
        let token = fs::read_to_string(ENGINE.get().folder.join("token")).unwrap();
        Self::with(json!({ "bearer": token })).await
    }

    async fn with(auth: Value) -> Self {
        // Instead of the preset's `auth.exchange`.
        Self { world: World::connect(&ENGINE, "airflow-3", json!({ "auth": auth })).await }
    }
}

fn target(dag: &str) -> Value {
    json!({ "dag": dag, "result": "result" })
}

#[async_trait]
impl Fixture for Airflow {
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
        let run = fresh_key();
        JobHandle::new(json!({ "dag": "sleep", "result": "result", "run": run.as_str() }).to_string())
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = json!({ "_options": "yes" }).as_object().unwrap().clone();
        Some(QuestionJob { job: start(target("ask"), json!({})), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line", "second line", "third line"].map(str::to_owned).to_vec();
        Some(LogJob { job: start(target("show"), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "Invalid input for param times: 'many' is not of type 'integer'".to_owned();
        Some(RefusedJob { job: start(target("greet"), json!({ "times": "many" })), message })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("no-such-dag"))
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let name = format!("offer_{}", &fresh_key().as_str()[3..15]);
        let text = format!(
            r#"
from airflow.sdk import Param, dag, task

@dag(schedule=None, dag_id="{name}", tags=["mcp"], params={{"text": Param("nothing", type="string")}})
def offer():
    """Says it again."""
    @task
    def result(params: dict) -> str:
        return params["text"]

    result()

offer()
"#
        );
        fs::write(self.world.engine.folder.join("dags").join(format!("{name}.py")), text).unwrap();
        let arguments = json!({ "text": "twice" });
        Some(DiscoverableTool { tool: name, arguments, text: "twice".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        fs::remove_file(self.world.engine.folder.join("dags").join(format!("{tool}.py"))).unwrap();
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        let starts = self.world.engine.count_starts(key);
        if starts > 0 {
            return starts;
        }
        // A run that is stopped early has no task that started. It is counted without the proxy's faults.
        let direct = Self::new().await;
        for dag in ["greet", "fail", "sleep", "show"] {
            let job = JobSpec { key: key.clone(), ..start(target(dag), json!({})) };
            if direct.world.backend.find(&job).await.unwrap().is_some() {
                return 1;
            }
        }
        0
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

taskbridge_sdk::behaviour_suite!(Airflow::new().await);

/// The discovered tool has the schemas of the DAG's params.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_parameters_are_typed() {
    let airflow = Airflow::new().await;
    let discovery = airflow.world.backend.abilities().discovery.unwrap();
    let tools = discovery.discover().await.unwrap();
    let greet = tools.iter().find(|tool| tool.name == "greet").unwrap();
    let schema = serde_json::to_value(greet).unwrap().to_string();
    assert!(schema.contains("maxLength") && schema.contains("Whom to greet."), "{schema}");
    assert!(!tools.iter().any(|tool| tool.name == "sleep"), "it has no tag");
}

/// A user and a password are exchanged for a token.
#[tokio::test(flavor = "multi_thread")]
async fn password_is_exchanged_for_token() {
    let exchange = json!({ "user": "bridge", "password": "secret" });
    let airflow = Airflow::with(json!({ "exchange": exchange })).await;
    let job = start(target("greet"), json!({}));
    loop {
        match airflow.world.backend.find(&job).await {
            Ok(found) => return assert!(found.is_none()),
            // On a busy machine, Airflow takes longer than the request for a token may.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

/// A success is not overwritten by a cancellation.
#[tokio::test(flavor = "multi_thread")]
async fn late_cancel_keeps_success() {
    let airflow = Airflow::new().await;
    let backend = &airflow.world.backend;
    let (job, _) = airflow.succeeding_job();
    let handle = backend.start(&job).await.unwrap().handle;
    let ended = poll_until_ended(&**backend, &handle).await;
    assert!(matches!(ended.state, JobState::Succeeded(_)), "{ended:?}");
    backend.cancel(&handle).await.unwrap();
    assert_eq!(backend.observe(&handle).await.unwrap().state, ended.state);
}

/// A run of a paused DAG would stay queued: the doctor reports it.
#[tokio::test(flavor = "multi_thread")]
async fn paused_dag_is_reported() {
    let airflow = Airflow::new().await;
    let checkup = airflow.world.backend.abilities().checkup.unwrap();
    let tools = [ToolTarget::new("asleep", target("asleep"))];
    let findings = checkup.check_up(&tools).await;
    let text = serde_json::to_value(&findings).unwrap().to_string();
    assert!(text.contains("the DAG asleep is paused"), "{text}");
}

/// A run of a paused DAG stays queued, and the message of its task says why.
#[tokio::test(flavor = "multi_thread")]
async fn queued_run_of_paused_dag_is_explained() {
    let airflow = Airflow::new().await;
    let backend = &airflow.world.backend;
    let handle = backend.start(&start(target("asleep"), json!({}))).await.unwrap().handle;
    let subject = Subject { handle: handle.clone(), watched: true, age: Duration::ZERO };
    let seen = backend.observe_all(&backend.group(&handle), &[subject]).await.remove(0).unwrap();
    assert_eq!(seen.state, JobState::Queued);
    assert!(seen.message.as_deref().is_some_and(|text| text.contains("asleep is paused")), "{seen:?}");
    backend.cancel(&handle).await.unwrap();
}

/// The fields of a form are properties of the question, and their values reach the task.
#[tokio::test(flavor = "multi_thread")]
async fn form_fields_are_asked_and_delivered() {
    let airflow = Airflow::new().await;
    let backend = &airflow.world.backend;
    let handle = backend.start(&start(target("enter"), json!({}))).await.unwrap().handle;
    let question = question_of(&airflow, &handle).await;
    let schema = serde_json::to_value(&question).unwrap().to_string();
    for part in [
        r#""minLength":2"#,
        r#""default":1"#,
        "Such as 1.2.",
        r#""required":["_options","copies","version"]"#,
    ] {
        assert!(schema.contains(part), "{part} is missing in {schema}");
    }
    let content = json!({ "_options": "OK", "version": "1.2", "copies": 3 }).as_object().unwrap().clone();
    let questions = backend.abilities().questions.unwrap();
    let outcome = questions.answer(&handle, &question.id, &Answer::Accept(content)).await.unwrap();
    assert_eq!(outcome, AnswerOutcome::Accepted);
    let ended = poll_until_ended(&**backend, &handle).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!({ "version": "1.2", "copies": 3 })));
}

/// Waits until a job asks, and returns its question.
async fn question_of(airflow: &Airflow, handle: &JobHandle) -> Question {
    loop {
        let seen = airflow.world.backend.observe(handle).await.unwrap();
        assert!(!seen.state.has_ended(), "{seen:?}");
        if let Some(question) = seen.questions.into_iter().next() {
            return question;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// An option that the task does not have is refused in the engine's words, and the question stays open.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_answer_is_refused() {
    let airflow = Airflow::new().await;
    let backend = &airflow.world.backend;
    let handle = backend.start(&start(target("ask"), json!({}))).await.unwrap().handle;
    let question = question_of(&airflow, &handle).await;
    assert_eq!(question.message, "Ship it?\nThe tests are green.");
    let content = json!({ "_options": "perhaps" }).as_object().unwrap().clone();
    let questions = backend.abilities().questions.unwrap();
    let error = questions.answer(&handle, &question.id, &Answer::Accept(content)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("Invalid options"), "{error}");
    assert_eq!(backend.observe(&handle).await.unwrap().questions, [question]);
    backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(&**backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}
