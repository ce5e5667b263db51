//! Dagu: the behaviour suite of the sdk, and what only this preset has.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, QuestionJob, RefusedJob, RepeatedStart,
    fresh_key,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

const GREET: &str = "
params:
  - who: world
steps:
  - name: greet
    command: sh -c 'echo hello $1; echo started >> \"$2\"' greet ${who} STARTS/${DAG_RUN_ID}
    output: SAID
";
const FAIL: &str = "
steps:
  - name: fail
    command: sh -c 'echo out of luck >&2; echo started >> STARTS/${DAG_RUN_ID}; exit 3'
";
const SLEEP: &str = "
steps:
  - name: sleep
    command: sh -c 'echo started >> STARTS/${DAG_RUN_ID}; exec sleep 600'
";
const PRINT: &str = "
steps:
  - name: print
    command: printf 'first line\\nsecond line\\nthird line\\n'
";
const ASK: &str = "
steps:
  - name: gate
    type: hitl
    config:
      prompt: Ship it?
      input: [REASON]
      required: [REASON]
  - name: ship
    command: echo shipped
    output: SAID
";

static ENGINE: Shared = Shared::new("dagu");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "/start HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "/start HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "GET /api/v2/dag-runs", Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, "GET /api/v2/dags?", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /api/v2/dags?", Fault::Status(503)),
];

struct Dagu {
    world: World,
}

impl Dagu {
    async fn new() -> Self {
        static DAGS: Once = Once::new();
        let folder = &ENGINE.get().folder;
        DAGS.call_once(|| {
            let starts = folder.join("starts");
            fs::create_dir(&starts).unwrap();
            for (name, text) in
                [("greet", GREET), ("fail", FAIL), ("sleep", SLEEP), ("print", PRINT), ("ask", ASK)]
            {
                let text = text.replace("STARTS", starts.to_str().unwrap());
                fs::write(folder.join("dags").join(format!("{name}.yaml")), text).unwrap();
            }
        });
        Self { world: World::connect(&ENGINE, "dagu", json!({})).await }
    }
}

/// Counts the attempts that Dagu has records of.
fn attempts(folder: &Path, key: &JobKey) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let count = |path: PathBuf| match path.to_string_lossy().ends_with(key.as_str()) {
        true => fs::read_dir(&path).map_or(0, Iterator::count),
        false => attempts(&path, key),
    };
    folders.map(count).sum()
}

fn target(dag: &str) -> Value {
    json!({ "dag": dag })
}

#[async_trait]
impl Fixture for Dagu {
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
        JobHandle::new(json!({ "dag": "sleep", "run": fresh_key().as_str() }).to_string())
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = json!({ "REASON": "it is time" }).as_object().unwrap().clone();
        Some(QuestionJob { job: start(target("ask"), json!({})), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line", "second line", "third line"].map(str::to_owned).to_vec();
        Some(LogJob { job: start(target("print"), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = start(target("no-such-dag"), json!({}));
        Some(RefusedJob { job, message: "DAG no-such-dag not found".to_owned() })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("no-such-dag"))
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let name = format!("offer-{}", &fresh_key().as_str()[3..15]);
        let text = "
description: Says it again.
tags: [mcp]
params:
  - text: nothing
steps:
  - name: say
    command: echo ${text}
    output: SAID
";
        fs::write(self.world.engine.folder.join("dags").join(format!("{name}.yaml")), text).unwrap();
        let arguments = json!({ "text": "twice" });
        Some(DiscoverableTool { tool: name, arguments, text: "twice".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        fs::remove_file(self.world.engine.folder.join("dags").join(format!("{tool}.yaml"))).unwrap();
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        // A run that is stopped early has no step that started.
        let engine = self.world.engine;
        engine.count_starts(key).max(attempts(&engine.folder.join("data"), key))
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

taskbridge_sdk::behaviour_suite!(Dagu::new().await);
