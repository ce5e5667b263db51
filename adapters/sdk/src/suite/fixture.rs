//! [`Fixture`]: what the suite has to be given to try a backend. It must not hold defaults that hide a missing
//! ability: what is absent is claimed to be.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{Backend, JobHandle, JobKey, JobSpec, Level};

/// A backend to be tried, and jobs to try it with. Each test makes its own.
///
/// Every call that gives a job gives a new one, under a key of its own ([`job`] makes one).
#[async_trait]
pub trait Fixture: Send + Sync {
    /// What the backend and the fixture can do. Every claim is checked.
    const CLAIMS: Claims;

    /// The backend, connected.
    fn backend(&self) -> Arc<dyn Backend>;

    /// A job that succeeds soon, and a text that its output then holds.
    fn succeeds(&self) -> (JobSpec, String);

    /// A job that soon runs and fails.
    fn fails(&self) -> JobSpec;

    /// A job that runs until it is cancelled, and ends as cancelled then. It should end by itself some time after
    /// [`Fixture::patience`], because a test that fails leaves it running.
    fn runs_long(&self) -> JobSpec;

    /// A well-formed handle of no job.
    fn unknown(&self) -> JobHandle;

    /// A job that asks one question, if `questions` is claimed.
    fn asks(&self) -> Option<Asking> {
        None
    }

    /// A job that prints lines and succeeds, if `logs` is claimed.
    fn prints(&self) -> Option<Printing> {
        None
    }

    /// A job that says something while it runs and succeeds, if `notes` is claimed.
    fn says(&self) -> Option<Saying> {
        None
    }

    /// A job that leaves a file and succeeds, if `artifacts` is claimed.
    fn leaves(&self) -> Option<Leaving> {
        None
    }

    /// A job that the engine refuses to start, if `refuses` is claimed.
    fn refused(&self) -> Option<Refusal> {
        None
    }

    /// Has the engine hold something that can be run and discovered, if `discovery` is claimed: each call another one.
    async fn offers(&self) -> Option<Offering> {
        None
    }

    /// Takes out of the engine what `offers` put there and this tool runs. Called only if `discovery` is claimed.
    async fn withdraws(&self, _tool: &str) {
        panic!("`discovery` is claimed, so the fixture must override `withdraws`");
    }

    /// A target of something that the engine does not have, if `checkup` is claimed.
    fn missing(&self) -> Option<Value> {
        None
    }

    /// What the engine would post about this job that changed, if `hooks` is claimed.
    fn posts(&self, _handle: &JobHandle) -> Option<Posted> {
        None
    }

    /// How many jobs the engine has really started under this key. Called only if `counts_starts` is claimed.
    async fn starts(&self, _key: &JobKey) -> usize {
        panic!("`counts_starts` is claimed, so the fixture must override `starts`");
    }

    /// Has this trouble befall the next request of its kind. Called only for those in `troubles`.
    async fn make(&self, trouble: Trouble) {
        panic!("{trouble:?} is claimed, so the fixture must override `make`");
    }

    /// How long anything may take that should happen soon.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// What a backend and its fixture can do. All is to be said, so that nothing is absent by oversight.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// What a start does whose key may already have a job.
    pub repeat: Repeat,
    /// The backend offers `Questions`.
    pub questions: bool,
    /// The backend's looks hold what jobs say ([`crate::Observation::notes`]).
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
    /// The fixture can count what the engine started.
    pub counts_starts: bool,
    /// The troubles that the fixture can make.
    pub troubles: &'static [Trouble],
}

/// What a start does whose key may already have a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It returns that job or starts the first one: the engine has a key or a fence.
    SameJob,
    /// It looks for that job and is `Uncertain` when it does not find one.
    OnlyLooks,
}

/// Something that goes wrong between the backend and its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The next start is accepted and its reply is lost.
    StartReplyLost,
    /// The next start cannot reach the engine, or the engine cannot serve it.
    StartUnavailable,
    /// The engine asks for patience at the next start.
    StartLimited,
    /// The next look cannot reach the engine, or the engine cannot serve it.
    LookUnavailable,
    /// At the next look the engine does not know the job, because its reads lag behind its starts.
    JobUnlisted,
    /// The next discovery cannot reach the engine, or the engine cannot serve it.
    DiscoveryUnavailable,
    /// The next check-up cannot reach the engine, or the engine cannot serve it.
    CheckupUnavailable,
}

impl Trouble {
    /// Every one of them, for a fixture that can make them all.
    pub const ALL: [Self; 7] = [
        Self::StartReplyLost,
        Self::StartUnavailable,
        Self::StartLimited,
        Self::LookUnavailable,
        Self::JobUnlisted,
        Self::DiscoveryUnavailable,
        Self::CheckupUnavailable,
    ];
}

/// A job that asks.
pub struct Asking {
    /// It asks one question, waits, and succeeds after it was answered.
    pub job: JobSpec,
    /// An answer that fits the question's form.
    pub answer: Map<String, Value>,
}

/// A job that prints.
pub struct Printing {
    /// It prints the lines and succeeds.
    pub job: JobSpec,
    /// At least three different lines of ASCII letters and spaces, none within another. The job's log ends with
    /// them; it may hold more before them, and each line may begin with more, such as the time.
    pub lines: Vec<String>,
}

/// A job that says something.
pub struct Saying {
    /// It says these things, one after the other, and succeeds.
    pub job: JobSpec,
    /// At least two and at most eight, all different.
    pub notes: Vec<(Level, Value)>,
}

/// A job that leaves a file.
pub struct Leaving {
    /// It leaves the file and succeeds.
    pub job: JobSpec,
    /// The file's name within the job.
    pub name: String,
    /// What the file holds: more than one byte.
    pub bytes: Vec<u8>,
}

/// Something in the engine that is discovered as a tool.
pub struct Offering {
    /// The tool's name.
    pub tool: String,
    /// Arguments that fit the tool. With them its job succeeds soon.
    pub arguments: Value,
    /// A text that the job's output then holds.
    pub text: String,
}

/// What an engine posts.
pub struct Posted {
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The name of the header that proves it.
    pub proof: String,
    /// True if that is a signature of the body, and not a secret alone.
    pub signs_the_body: bool,
}

/// A job that the engine refuses.
pub struct Refusal {
    /// It is never started.
    pub job: JobSpec,
    /// Words with which the engine refuses it.
    pub words: String,
}

/// A job of a new key that is started for the first time.
pub fn job(target: Value, arguments: Value) -> JobSpec {
    let (files, may_exist, trace, on_behalf_of) = Default::default();
    JobSpec { key: fresh_key(), target, arguments, files, may_exist, trace, on_behalf_of }
}

/// A key that no other test has, also not in another run against the same engine.
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
