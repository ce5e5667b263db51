//! Behaviour suite of the sdk against the test GitHub.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::suite::{
    Asking, Claims, Fixture, Leaving, Offering, Posted, Printing, Refusal, Repeat, Trouble,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::world::{PATIENCE, World, run, start, workflow};

/// Secret that signs GitHub's deliveries.
const SECRET: &str = "It's a Secret to Everybody";

/// Repository with the workflows that the suite needs.
struct Repository {
    world: World,
    offered: AtomicU32,
}

impl Repository {
    async fn new() -> Self {
        let out = "mkdir -p $TEST_GITHUB_ARTIFACTS/taskbridge-output && echo '{\"text\": \"all is well\"}' \
                   > $TEST_GITHUB_ARTIFACTS/taskbridge-output/out.json";
        let leave = "mkdir -p $TEST_GITHUB_ARTIFACTS/report && printf 'a,b\\n1,2\\n' > $TEST_GITHUB_ARTIFACTS/report/table.csv";
        let gated =
            workflow(&run("echo deployed")).replace("runs-on:", "environment: production\n    runs-on:");
        let workflows = [
            ("succeeds.yml", workflow(&run(out))),
            ("fails.yml", workflow(&run("echo the tray is empty; exit 3"))),
            ("waits.yml", workflow(&run("sleep 600"))),
            ("prints.yml", workflow(&run("echo the first line; echo a second one; echo the third of them"))),
            ("leaves.yml", workflow(&run(leave))),
            ("asks.yml", gated),
        ];
        let world = World::of(
            &workflows,
            json!({"environments": {"production": {}}}),
            json!({"webhook_secret": SECRET}),
        )
        .await;
        Self { world, offered: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Fixture for Repository {
    const CLAIMS: Claims = Claims {
        repeat: Repeat::OnlyLooks,
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
        troubles: &Trouble::ALL,
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeds(&self) -> (JobSpec, String) {
        (start("succeeds.yml", json!({})), "all is well".to_owned())
    }

    fn fails(&self) -> JobSpec {
        start("fails.yml", json!({}))
    }

    fn runs_long(&self) -> JobSpec {
        start("waits.yml", json!({}))
    }

    fn unknown(&self) -> JobHandle {
        self.world.handle("waits.yml", 999_999_999)
    }

    fn asks(&self) -> Option<Asking> {
        let answer = Map::from_iter([("comment".to_owned(), json!("Ship it!"))]);
        Some(Asking { job: start("asks.yml", json!({})), answer })
    }

    fn prints(&self) -> Option<Printing> {
        let lines = ["the first line", "a second one", "the third of them"];
        Some(Printing { job: start("prints.yml", json!({})), lines: lines.map(str::to_owned).to_vec() })
    }

    fn leaves(&self) -> Option<Leaving> {
        let job = start("leaves.yml", json!({}));
        Some(Leaving { job, name: "report/table.csv".to_owned(), bytes: b"a,b\n1,2\n".to_vec() })
    }

    async fn offers(&self) -> Option<Offering> {
        let tool = format!("offer-{}", self.offered.fetch_add(1, Ordering::Relaxed));
        let text = workflow(&run("echo ${{ inputs.taskbridge_job }}"));
        self.world.control("change", json!({"files": {format!(".github/workflows/{tool}.yml"): text}}));
        Some(Offering { tool, arguments: json!({}), text: "The run succeeded".to_owned() })
    }

    async fn withdraws(&self, tool: &str) {
        self.world.control("change", json!({"files": {format!(".github/workflows/{tool}.yml"): null}}));
    }

    fn missing(&self) -> Option<Value> {
        Some(json!({"workflow": "nowhere.yml"}))
    }

    fn posts(&self, handle: &JobHandle) -> Option<Posted> {
        let run = handle.as_str().split('/').nth(3).unwrap();
        let posted = self.world.control("delivery", json!({"id": run, "secret": SECRET}));
        let headers = posted["headers"].as_object().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Some(Posted {
            headers: headers.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            body: text(&posted["body"]).into_bytes(),
            proof: "x-hub-signature-256".to_owned(),
            signs_the_body: true,
        })
    }

    fn refused(&self) -> Option<Refusal> {
        let job = start("succeeds.yml", json!({"vesion": "1"}));
        Some(Refusal { job, words: "no input `vesion`".to_owned() })
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    async fn starts(&self, key: &JobKey) -> usize {
        self.world.count(key.as_str())
    }

    async fn make(&self, trouble: Trouble) {
        const DISPATCH: &str = "actions/create-workflow-dispatch";
        let refused =
            |status: u16, message: &str| json!({"kind": "answer", "status": status, "message": message});
        match trouble {
            Trouble::StartReplyLost => self.world.fault(DISPATCH, json!({"kind": "reply_lost"})),
            // A first start requests the workflow's file before the dispatch, so the outage is seen before
            // anything is sent.
            Trouble::StartUnavailable => {
                self.world.fault("repos/get-content", refused(503, "No server is available"))
            }
            Trouble::StartLimited => {
                let mut fault = refused(403, "You have exceeded a secondary rate limit");
                fault["headers"] = json!({"retry-after": "1"});
                self.world.fault(DISPATCH, fault);
            }
            Trouble::DiscoveryUnavailable => {
                self.world.fault("actions/list-repo-workflows", refused(503, "No server is available"));
            }
            Trouble::CheckupUnavailable => {
                self.world.fault("repos/get", refused(503, "No server is available"))
            }
            Trouble::JobUnlisted => self.world.fault("actions/get-workflow-run", refused(404, "Not Found")),
            Trouble::LookUnavailable => {
                self.world.fault("actions/get-workflow-run", refused(502, "Server Error"))
            }
        }
    }
}

taskbridge_sdk::behaviour_suite!(Repository::new().await);
