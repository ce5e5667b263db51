//! Tests for [`crate::Hooks`].

use std::sync::Arc;

use super::{Fixture, HookRequest, claimed_ability, claimed_item, fresh_key, start};
use crate::{Backend, Delivery, HookEvent, JobHandle};

/// A running job, and the request that its engine posts about it.
struct RunningJob {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    request: HookRequest,
}

impl RunningJob {
    /// Starts a job. Returns `None` if the fixture claims no hooks.
    async fn run<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        claimed_ability(fixture.claims().hooks, backend.abilities().hooks, "hooks");
        if !fixture.claims().hooks {
            return None;
        }
        let handle = start(fixture, &*backend, &fixture.long_job()).await.handle;
        let request = claimed_item(fixture.claims().hooks, fixture.hook_request(&handle), "hook_request")?;
        Some(Self { backend, handle, request })
    }

    fn read(&self, headers: &[(String, String)], body: &[u8]) -> Option<HookEvent> {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.backend.abilities().hooks.expect("hooks are claimed").read(&Delivery {
            headers: &headers,
            body,
            path: "",
        })
    }

    async fn stop(self) {
        self.backend.cancel(&self.handle).await.expect("the engine accepts the request to cancel");
    }
}

/// Checks that a delivery names its job, and gives the same result when it arrives again.
pub async fn hook_names_the_job<F: Fixture>(fixture: &F) {
    let Some(job) = RunningJob::run(fixture).await else { return };
    let HookRequest { headers, body, .. } = &job.request;
    let event = job.read(headers, body).expect("the delivery is authentic");
    assert!(event.jobs.contains(&job.handle), "{:?} is not in {event:?}", job.handle);
    assert_eq!(job.read(headers, body), Some(event), "the repeated delivery has another event");
    job.stop().await;
}

/// Checks that a delivery is rejected if its proof is missing or wrong, or if its body differs from the
/// signed one.
pub async fn hook_without_proof_is_not_believed<F: Fixture>(fixture: &F) {
    let Some(job) = RunningJob::run(fixture).await else { return };
    let HookRequest { headers, body, proof_header, signs_body } = &job.request;
    let headers_without_proof: Vec<_> =
        headers.iter().filter(|(name, _)| name != proof_header).cloned().collect();
    assert!(
        headers_without_proof.len() < headers.len(),
        "the fixture's proof header {proof_header:?} is not in {headers:?}"
    );
    assert_eq!(job.read(&headers_without_proof, body), None, "a delivery without a proof is accepted");
    let with_proof = |change: fn(&str) -> String| -> Vec<_> {
        let change_header = |(name, value): &(String, String)| match name == proof_header {
            true => (name.clone(), change(value)),
            false => (name.clone(), value.clone()),
        };
        headers.iter().map(change_header).collect()
    };
    let corruptions: [fn(&str) -> String; 4] = [
        |_| String::new(),
        |value| value[..value.len() - 1].to_owned(),
        |value| format!("{value}0"),
        |value| format!("{}{}", &value[..value.len() - 1], if value.ends_with('0') { '1' } else { '0' }),
    ];
    for change in corruptions {
        let headers = with_proof(change);
        assert_eq!(job.read(&headers, body), None, "a wrong proof is accepted: {headers:?}");
    }
    if *signs_body {
        let mut other_body = body.clone();
        other_body.push(b' ');
        assert_eq!(job.read(headers, &other_body), None, "a changed body is accepted");
    }
    job.stop().await;
}

/// Checks that a delivery that names only our key is accepted, and names that key.
pub async fn hook_names_the_key<F: Fixture>(fixture: &F) {
    let key = fresh_key();
    let (backend, Some(request)) = (fixture.backend(), fixture.key_hook_request(&key)) else { return };
    let headers: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let hooks = backend.abilities().hooks.expect("hooks are claimed");
    let read = |headers: &[(&str, &str)], path| hooks.read(&Delivery { headers, body: &request.body, path });
    let event = read(&headers, &request.path).expect("the delivery is authentic");
    assert_eq!(event.keys, [key], "the delivery names another key");
    let without_proof: Vec<_> =
        headers.iter().filter(|(name, _)| *name != request.proof_header).copied().collect();
    if without_proof.len() < headers.len() {
        assert_eq!(read(&without_proof, &request.path), None, "a delivery without a proof is accepted");
    } else {
        // The proof is in the path.
        let cut = &request.path[..request.path.len().saturating_sub(1)];
        assert_eq!(read(&headers, cut), None, "a delivery with a wrong proof is accepted");
    }
}
