//! [`Fixture`]: what the suite needs to test a backend. It must not have defaults that hide a missing
//! ability: the fixture must claim each ability as present or absent.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{Backend, JobHandle, JobKey, JobSpec, Level, Timestamp};

/// A backend under test, and the jobs to test it with. Each test creates its own fixture.
///
/// Every call that returns a job returns a new one with its own key ([`job`] creates one).
#[async_trait]
pub trait Fixture: Send + Sync {
    /// What the backend and the fixture can do. The suite checks whether each ability is present or absent as
    /// claimed. Without `counts_starts` or a fault in `faults`, it skips what needs them.
    const CLAIMS: Claims;

    /// Returns the claims of this very fixture. The default is [`Fixture::CLAIMS`]. Override it if the abilities
    /// of the backend are known only at run time.
    fn claims(&self) -> Claims {
        Self::CLAIMS
    }

    /// Returns the connected backend.
    fn backend(&self) -> Arc<dyn Backend>;

    /// Returns a job that succeeds soon, and a text that its output contains.
    fn succeeding_job(&self) -> (JobSpec, String);

    /// Returns a job that soon runs and fails.
    fn failing_job(&self) -> JobSpec;

    /// Returns a job that runs until it is cancelled, and then ends as cancelled. It should end by itself
    /// some time after [`Fixture::timeout`], because a failed test leaves it running.
    fn long_job(&self) -> JobSpec;

    /// Returns a well-formed handle that belongs to no job.
    fn unknown_handle(&self) -> JobHandle;

    /// Returns a job that asks one question, if `questions` is claimed.
    fn question_job(&self) -> Option<QuestionJob> {
        None
    }

    /// Returns a job that prints lines and succeeds, if `logs` is claimed.
    fn log_job(&self) -> Option<LogJob> {
        None
    }

    /// Returns a job that emits notes while it runs and succeeds, if `notes` is claimed.
    fn notes_job(&self) -> Option<NotesJob> {
        None
    }

    /// Returns a job that leaves a file and succeeds, if `artifacts` is claimed.
    fn artifact_job(&self) -> Option<ArtifactJob> {
        None
    }

    /// Returns a job that the engine refuses to start, if `refuses` is claimed.
    fn refused_job(&self) -> Option<RefusedJob> {
        None
    }

    /// Adds something to the engine that can be discovered and run, if `discovery` is claimed. Each call adds
    /// a different one.
    async fn add_tool(&self) -> Option<DiscoverableTool> {
        None
    }

    /// Removes what `add_tool` added to the engine for this tool. Called only if `discovery` is claimed.
    async fn remove_tool(&self, _tool: &str) {
        panic!("`discovery` is claimed, so the fixture must override `remove_tool`");
    }

    /// Returns a target that does not exist in the engine, if `checkup` is claimed.
    fn missing_target(&self) -> Option<Value> {
        None
    }

    /// Returns the request that the engine would post about a change of this job, if `hooks` is claimed.
    fn hook_request(&self, _handle: &JobHandle) -> Option<HookRequest> {
        None
    }

    /// Returns the request that the engine would post about a change of the job with this key, if a sender
    /// that knows no handle may name the key ([`crate::HookEvent::keys`]).
    fn key_hook_request(&self, _key: &JobKey) -> Option<KeyHookRequest> {
        None
    }

    /// Returns a job that the engine renames and that then succeeds soon, if the engine renames jobs
    /// ([`crate::Observation::renamed_to`]).
    fn renamed_job(&self) -> Option<JobSpec> {
        None
    }

    /// Returns a job that the engine cannot stop, if the engine has such jobs
    /// ([`crate::ErrorKind::Unsupported`]). It runs for longer than [`Fixture::timeout`] and then ends by
    /// itself.
    fn unstoppable_job(&self) -> Option<JobSpec> {
        None
    }

    /// Returns how many jobs the engine has actually started under this key. Called only if `counts_starts`
    /// is claimed.
    async fn count_starts(&self, _key: &JobKey) -> usize {
        panic!("`counts_starts` is claimed, so the fixture must override `count_starts`");
    }

    /// Injects a fault into the next request of its kind. Called only for faults that are listed in
    /// `faults`.
    async fn inject(&self, fault: InjectedFault) {
        panic!("{fault:?} is claimed, so the fixture must override `inject`");
    }

    /// Returns the timeout for everything that should happen soon.
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Abilities of a backend and its fixture. Every field is required, so that nothing is absent by oversight.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// Behaviour of a start whose key may already have a job.
    pub repeated_start: RepeatedStart,
    /// The backend offers `Questions`.
    pub questions: bool,
    /// The backend's observations contain the notes of jobs ([`crate::Observation::notes`]).
    pub notes: bool,
    /// The backend offers `Logs`.
    pub logs: bool,
    /// The backend offers `Artifacts`.
    pub artifacts: bool,
    /// The backend offers `Wakeups`.
    pub wakeups: bool,
    /// The backend offers `Discovery`.
    pub discovery: bool,
    /// The backend offers `Checkup`.
    pub checkup: bool,
    /// The backend offers `Hooks`.
    pub hooks: bool,
    /// The fixture has a job that the engine refuses.
    pub refuses: bool,
    /// The fixture can count the jobs that the engine started.
    pub counts_starts: bool,
    /// Faults that the fixture can inject.
    pub faults: &'static [InjectedFault],
}

/// Behaviour of a start whose key may already have a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedStart {
    /// It returns that job or starts the first one: the engine has a key or a fence.
    SameJob,
    /// It searches for that job, and returns `Uncertain` if it does not find one.
    SearchOnly,
}

/// A fault between the backend and its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The engine accepts the next start, and its reply is lost.
    StartReplyLost,
    /// The next start cannot reach the engine, or the engine cannot serve it.
    StartUnavailable,
    /// The engine rate limits the next start.
    StartLimited,
    /// The next poll cannot reach the engine, or the engine cannot serve it.
    PollUnavailable,
    /// At the next poll the engine does not know the job, because its reads lag behind its starts.
    JobUnlisted,
    /// The next discovery cannot reach the engine, or the engine cannot serve it.
    DiscoveryUnavailable,
    /// The next self-check cannot reach the engine, or the engine cannot serve it.
    CheckupUnavailable,
}

impl InjectedFault {
    /// All faults, for a fixture that can inject every one.
    pub const ALL: [Self; 7] = [
        Self::StartReplyLost,
        Self::StartUnavailable,
        Self::StartLimited,
        Self::PollUnavailable,
        Self::JobUnlisted,
        Self::DiscoveryUnavailable,
        Self::CheckupUnavailable,
    ];
}

/// A job that asks a question.
pub struct QuestionJob {
    /// It asks one question, waits, and succeeds after the answer.
    pub job: JobSpec,
    /// A valid answer to the question.
    pub answer: Map<String, Value>,
}

/// A job that prints lines.
pub struct LogJob {
    /// It prints the lines and succeeds.
    pub job: JobSpec,
    /// At least three different lines of ASCII letters and spaces. No line contains another. The job's log
    /// ends with these lines. It may contain more text before them, and each line may have a prefix, such as
    /// the time.
    pub lines: Vec<String>,
}

/// A job that emits notes.
pub struct NotesJob {
    /// It emits these notes one after the other, and succeeds.
    pub job: JobSpec,
    /// At least two and at most eight notes, all different.
    pub notes: Vec<(Level, Value)>,
}

/// A job that leaves a file.
pub struct ArtifactJob {
    /// It leaves the file and succeeds.
    pub job: JobSpec,
    /// Name of the file within the job.
    pub name: String,
    /// Content of the file: more than one byte.
    pub bytes: Vec<u8>,
}

/// Something in the engine that is discovered as a tool.
pub struct DiscoverableTool {
    /// Name of the tool.
    pub tool: String,
    /// Valid arguments for the tool. With them, its job succeeds soon.
    pub arguments: Value,
    /// A text that the output of the job contains.
    pub text: String,
}

/// HTTP request that an engine posts.
pub struct HookRequest {
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
    /// Name of the header that contains the proof.
    pub proof_header: String,
    /// True if the proof is a signature of the body. False if it is only a shared secret.
    pub signs_body: bool,
}

/// A request that names a job by our key. Its proof is a header, or the end of the path.
pub struct KeyHookRequest {
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
    /// Rest of the path ([`crate::Delivery::path`]).
    pub path: String,
    /// Name of the header that contains the proof; empty if it is in the path.
    pub proof_header: String,
}

/// A job that the engine refuses.
pub struct RefusedJob {
    /// A job that never starts.
    pub job: JobSpec,
    /// Text of the engine's refusal.
    pub message: String,
}

/// Creates a job with a new key, for its first start.
pub fn job(target: Value, arguments: Value) -> JobSpec {
    let (files, may_exist, trace, on_behalf_of) = Default::default();
    let first_attempt_at = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
    JobSpec { key: fresh_key(), target, arguments, files, may_exist, first_attempt_at, trace, on_behalf_of }
}

/// Creates a key that no other test uses, even in another run against the same engine.
pub fn fresh_key() -> JobKey {
    // The standard library seeds each of these from the system's randomness.
    let half = || RandomState::new().build_hasher().finish().to_be_bytes();
    let (mut bytes, (high, low)) = ([0; 16], (half(), half()));
    bytes[..8].copy_from_slice(&high);
    bytes[8..].copy_from_slice(&low);
    JobKey::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_fresh() {
        let keys: HashSet<_> = (0..1000).map(|_| fresh_key()).collect();
        assert_eq!(keys.len(), 1000);
    }
}
