//! Webhook: parses what GitHub posts to `/hooks/NAME` when a run or one of its jobs changes. It verifies the
//! signature before it uses anything in the body. A delivery only names runs, which are polled as usual. It
//! must not call GitHub.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;
use taskbridge_sdk::{Delivery, HookEvent, Hooks, JobHandle, same_secret};
use tokio::time::Instant;

use crate::core::Actions;
use crate::identity::handle::RunHandle;

/// Common fields of events about runs, as far as they are used.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    /// Of `workflow_run` and `deployment_review`.
    workflow_run: Option<Run>,
    /// Of `workflow_job`.
    workflow_job: Option<Job>,
    repository: Option<Repository>,
}

#[derive(Deserialize)]
struct Run {
    id: u64,
    #[serde(default)]
    run_attempt: Option<u64>,
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize)]
struct Job {
    run_id: u64,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
    #[serde(default)]
    id: Option<u64>,
}

impl Hooks for Actions {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let secret = self.webhook_secret.as_ref()?;
        let received_signature = delivery.header("x-hub-signature-256")?.strip_prefix("sha256=")?;
        if !same_secret(received_signature.as_bytes(), signature(secret.reveal(), delivery.body).as_bytes()) {
            return None;
        }
        let event: Event = serde_json::from_slice(delivery.body).unwrap_or_default();
        let id = delivery.header("x-github-delivery").map(str::to_owned);
        Some(HookEvent { jobs: self.affected_jobs(&event), keys: Vec::new(), id })
    }
}

impl Actions {
    /// Returns the jobs that an event is about: those that this process polls, and those that the event
    /// itself names, because another process may poll them.
    fn affected_jobs(&self, event: &Event) -> Vec<JobHandle> {
        let run = event.workflow_run.as_ref().map(|run| run.id);
        let Some(run) = run.or(event.workflow_job.as_ref().map(|job| job.run_id)) else { return Vec::new() };
        self.list_cache.mark_changed(run, Instant::now());
        let mut jobs = self.polled_jobs_of(run);
        for job in named_jobs(event) {
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        jobs
    }
}

/// Returns the jobs that an event names, whether the run was started here or elsewhere.
fn named_jobs(event: &Event) -> Vec<JobHandle> {
    let (Some(run), Some(repository)) = (&event.workflow_run, &event.repository) else { return Vec::new() };
    let file = run.path.as_deref().and_then(|path| path.split('@').next()?.rsplit('/').next());
    let Some(file) = file.filter(|file| !file.is_empty()) else { return Vec::new() };
    let run_handle = |repository_id, attached| RunHandle {
        repository: repository.full_name.clone(),
        repository_id,
        workflow: file.to_owned(),
        run: run.id,
        attempt: run.run_attempt.unwrap_or(1),
        attached,
    };
    // Handles of earlier versions contain no id.
    let ids = [None, repository.id].into_iter().take(if repository.id.is_some() { 2 } else { 1 });
    ids.flat_map(|id| [false, true].map(|attached| run_handle(id, attached).job_handle())).collect()
}

/// Returns the signature of a body, in hexadecimal digits.
fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(body);
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The signature equals the example in GitHub's documentation.
    #[test]
    fn signature_matches_github_documentation() {
        // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
        let expected = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(signature("It's a Secret to Everybody", b"Hello, World!"), expected);
    }

    #[test]
    fn an_event_names_its_run() {
        let job_names = |event: Value| -> Vec<String> {
            let event: Event = serde_json::from_value(event).unwrap();
            named_jobs(&event).iter().map(|job| job.as_str().to_owned()).collect()
        };
        let run = json!({"id": 7, "run_attempt": 2, "path": ".github/workflows/release.yml@refs/heads/main"});
        let handles = ["octo-org/app/release.yml/7/2", "octo-org/app/release.yml/7/2/attached"];
        let event = json!({"workflow_run": run, "repository": {"full_name": "octo-org/app"}});
        assert_eq!(job_names(event), handles);
        let event = json!({"workflow_run": run, "repository": {"full_name": "octo-org/app", "id": 41}});
        let with_id = handles.map(|handle| handle.replace("release.yml", "release.yml@41"));
        assert_eq!(job_names(event), [handles.map(str::to_owned), with_id].concat());
        for event in [json!({"zen": "Design for failure."}), json!({"workflow_job": {"run_id": 7}})] {
            assert!(job_names(event).is_empty());
        }
    }
}
