//! Tests for [`crate::Hooks`].

use std::sync::Arc;

use super::{Fixture, Posted, made, offered, start};
use crate::{Backend, Delivery, JobHandle, Told};

/// A running job, and the request that its engine posts about it.
struct Running {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    posted: Posted,
}

impl Running {
    /// Starts a job. Returns `None` if the fixture claims no hooks.
    async fn by<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        offered(F::CLAIMS.hooks, backend.hooks(), "hooks");
        if !F::CLAIMS.hooks {
            return None;
        }
        let handle = start(fixture, &*backend, &fixture.runs_long()).await.handle;
        let posted = made(F::CLAIMS.hooks, fixture.posts(&handle), "posts")?;
        Some(Self { backend, handle, posted })
    }

    fn read(&self, headers: &[(String, String)], body: &[u8]) -> Option<Told> {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.backend.hooks().expect("it was offered before").read(&Delivery { headers: &headers, body })
    }

    async fn stop(self) {
        self.backend.cancel(&self.handle).await.expect("the engine takes the request to cancel");
    }
}

/// Checks that a delivery names its job, and gives the same result when it arrives again.
pub async fn hook_names_the_job<F: Fixture>(fixture: &F) {
    let Some(running) = Running::by(fixture).await else { return };
    let Posted { headers, body, .. } = &running.posted;
    let told = running.read(headers, body).expect("the delivery is genuine");
    assert!(told.jobs.contains(&running.handle), "{:?} is not in {told:?}", running.handle);
    assert_eq!(running.read(headers, body), Some(told), "it says something else the second time");
    running.stop().await;
}

/// Checks that a delivery is rejected if its proof is missing or wrong, or if its body differs from the
/// signed one.
pub async fn hook_without_proof_is_not_believed<F: Fixture>(fixture: &F) {
    let Some(running) = Running::by(fixture).await else { return };
    let Posted { headers, body, proof, signs_the_body } = &running.posted;
    let without: Vec<_> = headers.iter().filter(|(name, _)| name != proof).cloned().collect();
    assert!(without.len() < headers.len(), "the fixture's proof {proof:?} is no header of {headers:?}");
    assert_eq!(running.read(&without, body), None, "nothing proves it");
    let changed = |change: fn(&str) -> String| -> Vec<_> {
        let change = |(name, value): &(String, String)| match name == proof {
            true => (name.clone(), change(value)),
            false => (name.clone(), value.clone()),
        };
        headers.iter().map(change).collect()
    };
    let wrong: [fn(&str) -> String; 4] = [
        |_| String::new(),
        |value| value[..value.len() - 1].to_owned(),
        |value| format!("{value}0"),
        |value| format!("{}{}", &value[..value.len() - 1], if value.ends_with('0') { '1' } else { '0' }),
    ];
    for change in wrong {
        let headers = changed(change);
        assert_eq!(running.read(&headers, body), None, "a wrong proof is believed: {headers:?}");
    }
    if *signs_the_body {
        let mut other = body.clone();
        other.push(b' ');
        assert_eq!(running.read(headers, &other), None, "another body is believed");
    }
    running.stop().await;
}
