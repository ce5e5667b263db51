//! The trial of a backend for `taskbridge presets try`: what `doctor` checks, the discovery, and polls of jobs
//! that do not exist. It must not start, change or stop anything.

use std::path::Path;

use taskbridge_sdk::{Backend, Finding, JobHandle, JobState, Observation, Registry, Result, Subject};

use super::backend_checkup::{CHECK_TIMEOUT, check_connected, check_discovery, connect};
use super::checkup::CheckResult;
use crate::config::{self, Config};

/// What to do about a poll with another result than the engine of the tests gives.
const FIX: &str =
    "compare the reply with the preset (`taskbridge presets NAME`), and correct `observe` in the config";

/// Reads from the engine of a backend what can be read without a job.
pub async fn try_backend(
    config: &Config,
    registry: &Registry,
    program: &Path,
    name: &str,
    backend: &config::Backend,
) -> Vec<CheckResult> {
    let findings = match connect(config, registry, program, name, backend).await {
        Err(fault) => vec![fault],
        Ok(connected) => {
            let mut findings = check_connected(config, registry, name, backend, &*connected).await;
            // The config has no [discover], so this was not checked.
            if backend.discover.is_none() && connected.abilities().discovery.is_some() {
                findings.push(check_discovery(config, registry, name, &*connected).await);
            }
            let handles = registry.get(&backend.kind).map(|it| (it.example_handles)(&backend.fields));
            for handle in handles.iter().flatten() {
                findings.extend(check_polls(&*connected, handle).await);
            }
            findings
        }
    };
    findings.into_iter().map(|finding| CheckResult { of: format!("backend {name}"), finding }).collect()
}

/// Polls a job that does not exist: by itself, and as one of two.
async fn check_polls(backend: &dyn Backend, handle: &JobHandle) -> Vec<Finding> {
    let what = format!("poll of the unknown job {}", handle.as_str());
    let polls = async {
        let (group, twice) = (backend.group(handle), Subject::watched(&[handle.clone(), handle.clone()]));
        (backend.observe(handle).await, backend.observe_all(&group, &twice).await)
    };
    let Ok((one, many)) = tokio::time::timeout(CHECK_TIMEOUT, polls).await else {
        return vec![Finding::fault(
            what,
            format!("timed out after {} seconds", CHECK_TIMEOUT.as_secs()),
            FIX,
        )];
    };
    let many =
        many.into_iter().find(|seen| !is_gone(seen)).unwrap_or_else(|| Ok(Observation::new(JobState::Gone)));
    vec![poll_finding(what.clone(), &one), poll_finding(format!("{what}, in a list"), &many)]
}

fn is_gone(seen: &Result<Observation>) -> bool {
    matches!(seen, Ok(Observation { state: JobState::Gone, .. }))
}

fn poll_finding(what: String, seen: &Result<Observation>) -> Finding {
    match seen {
        Ok(Observation { state: JobState::Gone, .. }) => Finding::ok(what, "is gone"),
        Ok(_) => Finding::warning(what, "the engine has this job, or one that it takes for this one", FIX),
        Err(error) => Finding::fault(what, error.to_string(), FIX),
    }
}
