//! Temporal: the behaviour suite of the sdk, and what only this preset has. The workflows are those of
//! `tests/http/temporal/worker.py`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::poll_until_ended;
use taskbridge_sdk::suite::{
    Claims, Fixture, InjectedFault, QuestionJob, RefusedJob, RepeatedStart, fresh_key,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, JobState, async_trait};

use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("temporal");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "POST /api/v1/namespaces/default/workflows/tb-", Fault::ReplyLost),
    (InjectedFault::StartLimited, "POST /api/v1/namespaces/default/workflows/tb-", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "GET /api/v1/namespaces/default/workflows", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /api/v1/namespaces/default HTTP", Fault::Status(503)),
];

struct Temporal {
    world: World,
}

impl Temporal {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "temporal", json!({})).await }
    }
}

fn target(workflow: &str) -> Value {
    json!({ "workflow": workflow, "queue": "taskbridge", "query": "status" })
}

#[async_trait]
impl Fixture for Temporal {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
        questions: true,
        notes: false,
        logs: false,
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
        self.world.backend.clone()
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
        JobHandle::new(json!({ "query": "status", "workflow": fresh_key().as_str() }).to_string())
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = json!({ "name": "Ada" }).as_object().unwrap().clone();
        Some(QuestionJob { job: start(target("ask"), json!({})), answer })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let target = json!({ "workflow": "x".repeat(2000), "queue": "taskbridge" });
        Some(RefusedJob {
            job: start(target, json!({})),
            message: "WorkflowType length exceeds limit".to_owned(),
        })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({ "workflow": "greet", "queue": "no-worker" }))
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        // The worker creates a file for each run.
        let runs = fs::read_dir(self.world.engine.folder.join("starts").join(key.as_str()));
        runs.map_or(0, Iterator::count)
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

taskbridge_sdk::behaviour_suite!(Temporal::new().await);

/// Progress and the message come from the workflow's query.
#[tokio::test(flavor = "multi_thread")]
async fn query_reports_progress() {
    let temporal = Temporal::new().await;
    let backend = &temporal.world.backend;
    let job = temporal.long_job();
    let handle = backend.start(&job).await.unwrap().handle;
    let seen = backend.observe(&handle).await.unwrap();
    let progress = seen.progress.unwrap();
    assert_eq!((progress.done, progress.total), (1.0, Some(4.0)));
    assert_eq!(seen.message.as_deref(), Some("sleeping"));
    backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(&**backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}

/// A namespace that is missing is an error of the backend: its jobs are not gone.
#[tokio::test(flavor = "multi_thread")]
async fn missing_namespace_is_no_lost_job() {
    let world = World::connect(&ENGINE, "temporal", json!({ "vars": { "namespace": "nowhere" } })).await;
    let handle = JobHandle::new(json!({ "query": false, "workflow": fresh_key().as_str() }).to_string());
    let error = world.backend.observe(&handle).await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}
