//! The behaviour suite of the sdk, against an engine with a key and against one without.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, DiscoverableTool, Fixture, HookRequest, InjectedFault, LogJob, QuestionJob,
    RefusedJob, RepeatedStart, job,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::nasty::{Fault, Nasty};
use crate::world::{COMMON, KEYED, UNKEYED, backend, handle};

/// An engine, and what of it differs.
struct World<const KEYED_START: bool> {
    nasty: Nasty,
    backend: Arc<dyn Backend>,
    added: AtomicU32,
}

impl<const KEYED_START: bool> World<KEYED_START> {
    async fn new() -> Self {
        let nasty = Nasty::start().await;
        let start = if KEYED_START { KEYED } else { UNKEYED };
        let backend = backend(&nasty, &[COMMON, start]).await;
        Self { nasty, backend, added: AtomicU32::new(0) }
    }
}

fn of_kind(kind: &str) -> JobSpec {
    job(json!({"kind": kind}), json!({"a": 1}))
}

#[async_trait]
impl<const KEYED_START: bool> Fixture for World<KEYED_START> {
    const CLAIMS: Claims = Claims {
        repeated_start: if KEYED_START { RepeatedStart::SameJob } else { RepeatedStart::SearchOnly },
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
        self.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (of_kind("succeed"), "all is well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        of_kind("fail")
    }

    fn long_job(&self) -> JobSpec {
        of_kind("long")
    }

    fn unknown_handle(&self) -> JobHandle {
        handle("no-such-job")
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let answer = json!({"go": true}).as_object().unwrap().clone();
        Some(QuestionJob { job: of_kind("ask"), answer })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line of it", "second entry here", "third and last"];
        Some(LogJob { job: of_kind("log"), lines: lines.map(str::to_owned).to_vec() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let bytes = "the content of the report\n".as_bytes().to_vec();
        Some(ArtifactJob { job: of_kind("file"), name: "out/report.txt".to_owned(), bytes })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        Some(RefusedJob { job: of_kind("nothing"), message: "there is no kind \"nothing\"".to_owned() })
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let tool = format!("added-{}", self.added.fetch_add(1, Ordering::Relaxed));
        let schema =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        self.nasty.engine.lock().kinds.insert(tool.clone(), schema);
        let arguments = json!({"text": "said twice"});
        Some(DiscoverableTool { tool, arguments, text: "said twice".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        self.nasty.engine.lock().kinds.remove(tool);
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({"kind": "nothing"}))
    }

    fn hook_request(&self, handle: &JobHandle) -> Option<HookRequest> {
        let id = serde_json::from_str::<Value>(handle.as_str()).unwrap()["id"].clone();
        let body = json!({"job": id}).to_string().into_bytes();
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"hush").unwrap();
        mac.update(&body);
        let signature = format!("sha256={}", HEXLOWER.encode(&mac.finalize().into_bytes()));
        let headers = vec![("x-signature".to_owned(), signature)];
        Some(HookRequest { headers, body, proof_header: "x-signature".to_owned(), signs_body: true })
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.nasty.engine.lock().jobs.iter().filter(|job| job.key == key.as_str()).count()
    }

    async fn inject(&self, fault: InjectedFault) {
        let start = if KEYED_START { "PUT /api/jobs" } else { "POST /api/jobs" };
        match fault {
            InjectedFault::StartReplyLost => self.nasty.fault(start, Fault::ReplyLost),
            InjectedFault::StartUnavailable => self.nasty.fault(start, Fault::Before(503)),
            InjectedFault::StartLimited => self.nasty.fault(start, Fault::Before(429)),
            InjectedFault::PollUnavailable => self.nasty.fault("GET /api/jobs/", Fault::Page(502)),
            InjectedFault::JobUnlisted => self.nasty.fault("GET /api/jobs/", Fault::Before(404)),
            InjectedFault::DiscoveryUnavailable => self.nasty.fault("GET /api/kinds", Fault::Before(500)),
            InjectedFault::CheckupUnavailable => self.nasty.fault("GET /api/me", Fault::Before(503)),
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(120)
    }
}

mod keyed {
    //! An engine with a key.

    use super::World;

    taskbridge_sdk::behaviour_suite!(World::<true>::new().await);
}

mod unkeyed {
    //! An engine without a key, whose jobs are found in a list with pages.

    use super::World;

    taskbridge_sdk::behaviour_suite!(World::<false>::new().await);
}
