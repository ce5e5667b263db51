//! The sdk's behaviour suite, over both transports.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, DiscoverableTool, Fixture, HookRequest, LogJob, QuestionJob, RefusedJob,
    RepeatedStart, fresh_key, job,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::remote::{Remote, TOKEN};
use crate::world::{LIMIT, World};

struct Program {
    world: World,
    backend: Arc<dyn Backend>,
    remote: Option<Remote>,
}

impl Program {
    /// A child process.
    async fn child() -> Self {
        let world = World::new();
        let backend = world.connect(json!({})).await;
        Self { world, backend, remote: None }
    }

    /// A service.
    async fn service() -> Self {
        let (world, remote) = (World::new(), Remote::new());
        let backend = world.try_connect(remote.config(&world, json!({})), LIMIT).await.unwrap();
        Self { world, backend, remote: Some(remote) }
    }
}

fn spec(target: Value) -> JobSpec {
    job(target, json!({}))
}

#[async_trait]
impl Fixture for Program {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
        questions: true,
        notes: false,
        logs: true,
        artifacts: true,
        wakeups: true,
        discovery: true,
        checkup: true,
        hooks: false,
        refuses: true,
        counts_starts: true,
        faults: &[],
    };

    fn claims(&self) -> Claims {
        Claims { hooks: self.remote.is_some(), ..Self::CLAIMS }
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (spec(json!({"text": "all done"})), "all done".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        spec(json!({"fail": true}))
    }

    fn long_job(&self) -> JobSpec {
        spec(json!({"long": true}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new("tb-unknown")
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = Map::from_iter([("yes".to_owned(), json!(true))]);
        Some(QuestionJob { job: spec(json!({"ask": true})), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines: Vec<String> = ["first words", "second thing", "last note"].map(str::to_owned).into();
        Some(LogJob { job: spec(json!({"lines": lines})), lines })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let text = "thirteen byte";
        let (job, name) = (spec(json!({"file": text})), "out.txt".to_owned());
        Some(ArtifactJob { job, name, bytes: text.into() })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "the engine does not like this job".to_owned();
        Some(RefusedJob { job: spec(json!({"refuse": true})), message })
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let tool = fresh_key().to_string();
        std::fs::write(self.world.folder().join(format!("{tool}.tool")), "").unwrap();
        let text = format!("tool {tool}");
        Some(DiscoverableTool { tool, arguments: json!({}), text })
    }

    async fn remove_tool(&self, tool: &str) {
        std::fs::remove_file(self.world.folder().join(format!("{tool}.tool"))).unwrap();
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({"missing": true}))
    }

    fn hook_request(&self, handle: &JobHandle) -> Option<HookRequest> {
        let body = json!({"jsonrpc": "2.0", "method": "changed", "params": {"jobs": [handle]}});
        let proof_header = "authorization".to_owned();
        let headers = vec![(proof_header.clone(), format!("Bearer {TOKEN}"))];
        Some(HookRequest { headers, body: body.to_string().into(), proof_header, signs_body: false })
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.world.starts(key)
    }
}

mod child {
    use super::Program;

    taskbridge_sdk::behaviour_suite!(Program::child().await);
}

mod service {
    use super::Program;

    taskbridge_sdk::behaviour_suite!(Program::service().await);
}
