//! [`Abilities`]: what a backend can do beyond the methods of [`crate::Backend`]. Each ability is a trait of
//! its own, so that an absent ability cannot be called. Three of them have modules of their own:
//! [`Discovery`], [`Checkup`] and [`Hooks`]. Only [`Questions`] may change a job.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answer, ArtifactData, Checkup, Discovery, Hooks, JobHandle, OnBehalfOf, Result};

/// Optional abilities of a backend. `None` means that the backend lacks the ability.
#[derive(Clone, Copy, Default)]
pub struct Abilities<'a> {
    /// Answers questions, if the engine's jobs can ask any.
    pub questions: Option<&'a dyn Questions>,
    /// Reads job logs, if the engine keeps them.
    pub logs: Option<&'a dyn Logs>,
    /// Reads the files of jobs, if the engine keeps them.
    pub artifacts: Option<&'a dyn Artifacts>,
    /// Source of hints about changed jobs, if the engine sends any.
    pub wakeups: Option<&'a dyn Wakeups>,
    /// Lists what the engine could run, if the engine can list it.
    pub discovery: Option<&'a dyn Discovery>,
    /// Self-check of the backend, if it can report more than that it is connected.
    pub checkup: Option<&'a dyn Checkup>,
    /// Parser for requests to `/hooks/NAME`, if the config enables them.
    pub hooks: Option<&'a dyn Hooks>,
}

/// Ability to answer the questions of jobs.
#[async_trait]
pub trait Questions: Send + Sync {
    /// Sends an answer to the job that asked `question` (an id from an observation).
    ///
    /// - Sending the same answer again is harmless and returns the same result.
    /// - The first answer that the engine accepted is final. The question disappears from observations, at
    ///   the latest after [`Questions::list_lag`].
    /// - A URL question ([`crate::Ask::Url`]) is the exception: if the person agreed to visit the page,
    ///   observations may list the question until the visit is over.
    ///
    /// # Errors
    /// `Rejected` if the engine does not accept this answer: the person reads the message and is asked again.
    /// After any other error, the same answer is sent again.
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome>;

    /// Sends an answer on behalf of the person who gave it.
    ///
    /// - The default calls [`Questions::answer`]. See [`crate::Backend::cancel_for`].
    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        _by: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        self.answer(handle, question, answer).await
    }

    /// Returns how long after an accepted answer an observation may still list the question.
    ///
    /// - A question that is listed after that time is a new question, even if its id is the same. If the lag
    ///   is too short, a person is asked twice. If it is too long, the next question with the same id is
    ///   delayed.
    /// - It is [`Duration::MAX`] if a job never uses the id of a question for another question.
    fn list_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns true if an answer needs something that reaches one replica only, such as the token of a step,
    /// and that a hint announces there ([`Wakeups`]).
    ///
    /// - Then a hint makes an answer due that could not be sent, and the replica with the hint sends it.
    fn needs_token(&self) -> bool {
        false
    }
}

/// Result of sending an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// The job has the answer, or had it before.
    Accepted,
    /// The job has ended, is unknown, or does not ask this question (any more), for example because another
    /// answer was accepted.
    TooLate,
    /// The engine's own rules do not allow this person to answer. The job continues to wait for a permitted
    /// person, and the server asks again.
    NotAllowed,
}

/// Ability to read what jobs print.
#[async_trait]
pub trait Logs: Send + Sync {
    /// Returns the end of what the job has printed so far.
    ///
    /// - At most `max_bytes` bytes, cut at the start of a line where possible. `cut` is true if text was left
    ///   out.
    /// - With `search`, only the lines that contain this text (case-insensitive). The search covers the whole
    ///   log, not only its last `max_bytes` bytes. If it does not reach the start of a very large log, `cut`
    ///   is true.
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText>;
}

/// Request for a part of a log.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogRequest {
    /// Maximum number of bytes to return.
    pub max_bytes: usize,
    /// Text that a line must contain to be returned.
    pub search: Option<String>,
}

/// Part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogText {
    /// The lines.
    pub text: String,
    /// True if there is more text before this part or, where the engine dropped lines, within it.
    #[serde(default)]
    pub cut: bool,
}

impl LogText {
    /// Returns the last whole lines of a text that fit into `max_bytes`. If the last line alone does not fit,
    /// returns its end.
    pub fn last_lines(text: String, max_bytes: usize) -> Self {
        if text.len() <= max_bytes {
            return Self { text, cut: false };
        }
        let start = text.ceil_char_boundary(text.len() - max_bytes);
        let at_line_start = start == 0 || text.as_bytes()[start - 1] == b'\n';
        let end = &text[start..];
        let text = match end.split_once('\n') {
            Some((_, lines)) if !at_line_start && !lines.is_empty() => lines,
            _ => end,
        };
        Self { text: text.to_owned(), cut: true }
    }
}

/// Ability to read the files that jobs leave.
#[async_trait]
pub trait Artifacts: Send + Sync {
    /// Reads one artifact completely. Returns `None` if the job has no artifact with that name.
    ///
    /// - An artifact larger than `max_bytes` is an error of the kind [`crate::ErrorKind::Rejected`]. Its
    ///   message contains the size of the artifact.
    /// - A name can never lead outside the files that the job left.
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>>;
}

/// Ability to report that a job changed.
#[async_trait]
pub trait Wakeups: Send + Sync {
    /// Waits for the next hint and returns the handle of the job. Hints may be lost, duplicated or wrong.
    /// They only reduce latency.
    async fn next(&self) -> JobHandle;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_never_exceed_the_limit() {
        let text = "one\nzwei äöü\nthree\n";
        for max_bytes in 0..30 {
            let log = LogText::last_lines(text.to_owned(), max_bytes);
            assert!(log.text.len() <= max_bytes, "{max_bytes}: {log:?}");
            assert_eq!(log.cut, max_bytes < 22, "{max_bytes}: {log:?}");
            assert!(text.ends_with(&log.text), "{max_bytes}: {log:?}");
        }
        for (max_bytes, expected) in
            [(20, "zwei äöü\nthree\n"), (18, "zwei äöü\nthree\n"), (17, "three\n"), (3, "ee\n")]
        {
            assert_eq!(LogText::last_lines(text.to_owned(), max_bytes).text, expected, "{max_bytes}");
        }
    }
}
