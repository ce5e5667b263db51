//! What a backend may offer beyond its duty. Each ability is a trait behind a getter of [`crate::Backend`], so that
//! what is not there cannot be called; [`crate::Discovery`], [`crate::Checkup`] and [`crate::Hooks`] are three more. None of these may change a job but [`Questions::answer`].

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Answer, ArtifactData, JobHandle, OnBehalfOf, Result};

/// Jobs can ask, and be answered.
#[async_trait]
pub trait Questions: Send + Sync {
    /// Hands an answer to the job that asked `question` (an id from an observation).
    ///
    /// - Handing the same answer over again is harmless and says the same.
    /// - The first answer that the engine took stands; the question is no longer in later observations. Only a page that
    ///   somebody agreed to visit may stay there, until the visit is over.
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken>;

    /// Hands an answer over on behalf of whoever gave it.
    ///
    /// - The default is [`Questions::answer`]; see [`crate::Backend::cancel_for`].
    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        _by: Option<&OnBehalfOf>,
    ) -> Result<Taken> {
        self.answer(handle, question, answer).await
    }

    /// How long after an accepted answer an observation may still list the question.
    ///
    /// - A question that is listed again after that is a new question. Too short a lag asks a person twice; too long a lag delays
    ///   the next question that has the same id.
    /// - [`Duration::MAX`] where an id never names another question.
    fn list_lag(&self) -> Duration {
        Duration::ZERO
    }
}

/// Whether an answer reached the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// The job has it, or had it before.
    Accepted,
    /// The job has ended, no longer asks, or never asked.
    TooLate,
    /// Whoever gave it may not, by the engine's own rules, and the job goes on waiting for somebody who may: it is asked again.
    NotAllowed,
}

/// What jobs print can be read.
#[async_trait]
pub trait Logs: Send + Sync {
    /// The end of what the job has printed so far.
    ///
    /// - At most `max_bytes` bytes, cut at line starts where it can be; `cut` says that something was left out.
    /// - With `search`, only lines that contain it (case-insensitive), of all that is kept.
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText>;
}

/// Which part of a log is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRequest {
    /// The most bytes to return.
    pub max_bytes: usize,
    /// Keep only the lines that contain this.
    pub search: Option<String>,
}

/// Part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogText {
    /// The lines.
    pub text: String,
    /// True if there is more than this, before it or, where the engine dropped lines, within it.
    pub cut: bool,
}

/// The files that jobs leave can be read.
#[async_trait]
pub trait Artifacts: Send + Sync {
    /// Reads one artifact whole; `None` if the job has none of that name.
    ///
    /// - One that is larger than `max_bytes` is `Rejected`, and the message names its size.
    /// - A name can never lead outside of what the job left.
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>>;
}

/// The engine can say that a job changed.
#[async_trait]
pub trait Wakeups: Send + Sync {
    /// Waits for the next hint and names the job. Hints may be lost, doubled or wrong: they only make things
    /// quicker.
    async fn next(&self) -> JobHandle;
}
