//! Behaviour suite of the sdk against the test GitHub.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, DiscoverableTool, Fixture, HookRequest, InjectedFault, LogJob, QuestionJob,
    RefusedJob, RepeatedStart,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::world::{POLL_TIMEOUT, World, run, start, workflow};

/// Secret that signs GitHub's deliveries.
const SECRET: &str = "It's a Secret to Everybody";

/// Repository with the workflows that the suite needs.
struct Repository {
    world: World,
    offer_count: AtomicU32,
}

impl Repository {
    async fn new() -> Self {
        let write_output = "mkdir -p $TEST_GITHUB_ARTIFACTS/taskbridge-output && echo '{\"text\": \"all is well\"}' \
                   > $TEST_GITHUB_ARTIFACTS/taskbridge-output/out.json";
        let write_artifact = "mkdir -p $TEST_GITHUB_ARTIFACTS/report && printf 'a,b\\n1,2\\n' > $TEST_GITHUB_ARTIFACTS/report/table.csv";
        let gated =
            workflow(&run("echo deployed")).replace("runs-on:", "environment: production\n    runs-on:");
        let workflows = [
            ("succeeds.yml", workflow(&run(write_output))),
            ("fails.yml", workflow(&run("echo the tray is empty; exit 3"))),
            ("waits.yml", workflow(&run("sleep 600"))),
            ("prints.yml", workflow(&run("echo the first line; echo a second one; echo the third of them"))),
            ("leaves.yml", workflow(&run(write_artifact))),
            ("asks.yml", gated),
        ];
        let world = World::with_settings(
            &workflows,
            json!({"environments": {"production": {}}}),
            json!({"webhook_secret": SECRET}),
        )
        .await;
        Self { world, offer_count: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Fixture for Repository {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
        questions: true,
        notes: false,
        logs: true,
        artifacts: true,
        wakeups: false,
        discovery: true,
        checkup: true,
        hooks: true,
        refuses: true,
        counts_starts: true,
        faults: &InjectedFault::ALL,
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (start("succeeds.yml", json!({})), "all is well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start("fails.yml", json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start("waits.yml", json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        self.world.handle("waits.yml", 999_999_999)
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = Map::from_iter([("comment".to_owned(), json!("Ship it!"))]);
        Some(QuestionJob { job: start("asks.yml", json!({})), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["the first line", "a second one", "the third of them"];
        Some(LogJob { job: start("prints.yml", json!({})), lines: lines.map(str::to_owned).to_vec() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let job = start("leaves.yml", json!({}));
        Some(ArtifactJob { job, name: "report/table.csv".to_owned(), bytes: b"a,b\n1,2\n".to_vec() })
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let tool = format!("offer-{}", self.offer_count.fetch_add(1, Ordering::Relaxed));
        let text = workflow(&run("echo ${{ inputs.taskbridge_job }}"));
        self.world.control("change", json!({"files": {format!(".github/workflows/{tool}.yml"): text}}));
        Some(DiscoverableTool { tool, arguments: json!({}), text: "The run succeeded".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        self.world.control("change", json!({"files": {format!(".github/workflows/{tool}.yml"): null}}));
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({"workflow": "nowhere.yml"}))
    }

    fn hook_request(&self, handle: &JobHandle) -> Option<HookRequest> {
        let run = handle.as_str().split('/').nth(3).unwrap();
        let delivery = self.world.control("delivery", json!({"id": run, "secret": SECRET}));
        let headers = delivery["headers"].as_object().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Some(HookRequest {
            headers: headers.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            body: text(&delivery["body"]).into_bytes(),
            proof_header: "x-hub-signature-256".to_owned(),
            signs_body: true,
        })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = start("succeeds.yml", json!({"vesion": "1"}));
        Some(RefusedJob { job, message: "no input `vesion`".to_owned() })
    }

    fn timeout(&self) -> Duration {
        POLL_TIMEOUT
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.world.count(key.as_str())
    }

    async fn inject(&self, fault: InjectedFault) {
        const DISPATCH: &str = "actions/create-workflow-dispatch";
        let error_response =
            |status: u16, message: &str| json!({"kind": "answer", "status": status, "message": message});
        match fault {
            InjectedFault::StartReplyLost => self.world.inject_fault(DISPATCH, json!({"kind": "reply_lost"})),
            // A first start requests the workflow's file before the dispatch, so the outage is seen before
            // anything is sent.
            InjectedFault::StartUnavailable => {
                self.world.inject_fault("repos/get-content", error_response(503, "No server is available"))
            }
            InjectedFault::StartLimited => {
                let mut response = error_response(403, "You have exceeded a secondary rate limit");
                response["headers"] = json!({"retry-after": "1"});
                self.world.inject_fault(DISPATCH, response);
            }
            InjectedFault::DiscoveryUnavailable => {
                self.world.inject_fault(
                    "actions/list-repo-workflows",
                    error_response(503, "No server is available"),
                );
            }
            InjectedFault::CheckupUnavailable => {
                self.world.inject_fault("repos/get", error_response(503, "No server is available"))
            }
            InjectedFault::JobUnlisted => {
                self.world.inject_fault("actions/get-workflow-run", error_response(404, "Not Found"))
            }
            InjectedFault::PollUnavailable => {
                self.world.inject_fault("actions/get-workflow-run", error_response(502, "Server Error"))
            }
        }
    }
}

taskbridge_sdk::behaviour_suite!(Repository::new().await);
