//! Types that describe one job, which is one run inside an engine: the start request, the names of the job,
//! and its observed state. Plain data; this module must not perform I/O.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, JobKey, Note, OnBehalfOf, Output, Question, Result, SourceFile, Timestamp};

/// The engine's own name for a run: an ARN, a run id, a directory. Stored, and opaque to everything but its
/// adapter.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct JobHandle(String);

/// Name of a group: the jobs that one engine call can report on, such as those of a state machine, a workflow
/// or a cluster.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GroupKey(String);

macro_rules! opaque_name {
    ($name:ident) => {
        impl $name {
            /// Wraps a name that the adapter chose.
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }

            /// Returns the name as the adapter gave it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}
opaque_name!(JobHandle);
opaque_name!(GroupKey);

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
shown_as_text!(JobHandle, GroupKey);

/// Request to start a job.
#[derive(Clone)]
pub struct JobSpec {
    /// The idempotency key. At most one job ever runs under it.
    pub key: JobKey,
    /// What to run in the engine. It has the shape of the adapter's `Target`, which was checked when the
    /// config was read.
    pub target: Value,
    /// The caller's arguments: an object that is valid against the tool's input schema.
    pub arguments: Value,
    /// Files that the caller sent with the arguments. The adapter stages them.
    pub files: Vec<InputFile>,
    /// True if an earlier attempt under this key may have reached the engine, but its reply was not received.
    pub may_exist: bool,
    /// Time of the first attempt under this key that may have reached the engine, by the server's clock; the
    /// time of this attempt if there was none. No job with this key is older, so a search can leave out
    /// earlier jobs (with a margin for the difference between the clocks). It is the same in every repeated
    /// attempt. See also [`crate::Backend::key_lifetime`].
    pub first_attempt_at: Timestamp,
    /// Trace context of the call. The job continues this trace if the engine can pass it on.
    pub trace: Option<Trace>,
    /// The person who requested the job; `None` if no person is known. A backend that acts with each person's
    /// own credentials must not start a job for a person without credentials, and must not fall back to its
    /// own.
    pub on_behalf_of: Option<OnBehalfOf>,
}

impl JobSpec {
    /// Parses the target.
    ///
    /// # Errors
    /// `Config` if it does not have the shape of `T`, such as after a change of the config.
    pub fn parse_target<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.target).map_err(|e| Error::config(format!("the tool's target is invalid: {e}")))
    }
}

/// Position in a distributed trace, in the format of W3C Trace Context, level 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// `traceparent`: version, trace id, parent id and flags.
    pub parent: String,
    /// `tracestate`: data of the tracing systems along the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl Trace {
    /// Longest `tracestate` that is propagated, in bytes. The W3C requires support for at least 512.
    pub const MAX_STATE: usize = 1024;

    /// Parses a trace context. Returns `None` if the parent is not a valid `traceparent`. Drops an invalid
    /// state, as the W3C requires.
    pub fn new(parent: &str, state: Option<&str>) -> Option<Self> {
        let hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let is_nonzero = |text: &str| text.bytes().any(|byte| byte != b'0');
        let mut parts = parent.splitn(5, '-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_well_formed = hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
        // Version 00 has exactly these four parts. Later versions may have more, and version ff is invalid.
        let rest = parts.next();
        let is_supported_version = version != "ff" && (version != "00" || rest.is_none());
        let is_printable = parent.len() <= 256 && parent.bytes().all(|byte| byte.is_ascii_graphic());
        if !(is_well_formed && is_supported_version && is_printable && is_nonzero(trace) && is_nonzero(span))
        {
            return None;
        }
        let is_valid_state = |state: &&str| {
            !state.is_empty()
                && state.len() <= Self::MAX_STATE
                && state.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        };
        Some(Self { parent: parent.to_owned(), state: state.filter(is_valid_state).map(str::to_owned) })
    }

    /// Returns the environment variables with which OpenTelemetry passes a trace to a process.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.state.as_deref().map(|state| ("TRACESTATE", state));
        std::iter::once(("TRACEPARENT", self.parent.as_str())).chain(state)
    }
}

/// Shows only the key and the attempt, because arguments can contain secrets.
impl fmt::Debug for JobSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSpec")
            .field("key", &self.key)
            .field("may_exist", &self.may_exist)
            .finish_non_exhaustive()
    }
}

/// File that the caller passed with an argument. The adapter places it where the job can read it, and passes
/// the path in place of the argument.
#[derive(Clone)]
pub struct InputFile {
    /// The parameter that the file belongs to: a top-level property of the arguments.
    pub parameter: String,
    /// File name, without a path. Adapters use [`InputFile::plain_name`], which checks it again.
    pub name: String,
    /// Source of the bytes.
    pub content: FileContent,
}

impl InputFile {
    /// Returns the file name if it has no path and at most 200 bytes, and `file` otherwise.
    pub fn plain_name(&self) -> &str {
        let name = self.name.as_str();
        let has_path = matches!(name, "" | "." | "..") || name.contains(['/', '\0']);
        if has_path || name.len() > 200 { "file" } else { name }
    }
}

/// Source of the bytes of an [`InputFile`].
#[derive(Clone)]
pub enum FileContent {
    /// Bytes that the caller sent.
    Inline(Vec<u8>),
    /// A file on the server. The adapter copies the file that [`SourceFile::open`] returns.
    Source(SourceFile),
}

/// Result of a successful `start`: the engine has accepted the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The engine's name for the run.
    pub handle: JobHandle,
    /// First observation, if the engine returned one. A job of a synchronous engine may already have ended.
    pub first: Option<Observation>,
}

/// A job to poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The engine's name for it.
    pub handle: JobHandle,
    /// True if a client is waiting for progress: it polls the task, waits or listens. For an unwatched job,
    /// the backend must not spend an engine call on progress, the status message or notes alone.
    pub watched: bool,
    /// Time since the engine accepted the job, computed from its row and the store's clock. Every replica
    /// therefore computes the same age.
    pub age: Duration,
}

impl Subject {
    /// Returns watched subjects for these handles, with the maximum age.
    pub fn watched(handles: &[JobHandle]) -> Vec<Self> {
        let to_subject =
            |handle: &JobHandle| Self { handle: handle.clone(), watched: true, age: Duration::MAX };
        handles.iter().map(to_subject).collect()
    }

    /// Interprets a poll result for an engine whose reads lag behind its starts by up to `start_lag`
    /// ([`crate::Backend::start_lag`]). Until that time has passed, an unknown job does not count as gone.
    ///
    /// # Errors
    /// Returns the error of the poll. Returns `Unavailable` in place of [`JobState::Gone`] while the job is
    /// younger than `start_lag`.
    pub fn confirm(&self, start_lag: Duration, result: Result<Observation>) -> Result<Observation> {
        match result {
            Ok(observation) if observation.state == JobState::Gone && self.age < start_lag => {
                Err(Error::unavailable("the engine does not list this new job yet"))
            }
            other => other,
        }
    }
}

/// Result of one poll of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// State of the job.
    pub state: JobState,
    /// Progress, if the job reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Status message of one line for people: the current step, or the reason for waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which the job entered this state, by the engine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Questions of the job that have no answer yet, oldest first. Within [`crate::Questions::list_lag`], an
    /// answered question may still be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// Newest notes of the job, oldest first. A few dozen are enough. An observation may repeat notes of
    /// earlier ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Number of bytes that the job has printed so far, if known. A larger number means that the log has
    /// grown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// The engine's new name for this job, if it has one: for example the build that came out of a queued
    /// request. The server stores it and uses it in every later call. The job may belong to another group
    /// ([`crate::Backend::group`]) under its new name.
    ///
    /// The name may be lost before it is stored. So the old name is polled until then, and must return the
    /// new one each time. It must stay valid for calls that had read it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<JobHandle>,
    /// How long the engine asks to wait before the next poll of this job, such as the `Retry-After` of an HTTP
    /// reply. The server limits it to 15 minutes. A hint ([`crate::Wakeups`], [`crate::Hooks`]) or a deadline
    /// of the task may cause an earlier poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Address of the job in the engine's own pages, for people. It begins with `https://`; see
    /// [`is_page_link`](crate::is_page_link). Any other is dropped. A later observation may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Observation {
    /// Creates an observation with this state and nothing else.
    pub fn new(state: JobState) -> Self {
        Self {
            state,
            progress: None,
            message: None,
            since: None,
            questions: Vec::new(),
            notes: Vec::new(),
            log_bytes: None,
            renamed_to: None,
            retry_after: None,
            link: None,
        }
    }

    /// Returns the observation with a new name of the job: see [`Observation::renamed_to`].
    #[must_use]
    pub fn with_new_name(mut self, handle: JobHandle) -> Self {
        self.renamed_to = Some(handle);
        self
    }

    /// Returns the observation with the wait that the engine asks for: see [`Observation::retry_after`].
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the observation with this message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Returns the observation with these notes.
    #[must_use]
    pub fn with_notes(mut self, notes: Vec<Note>) -> Self {
        self.notes = notes;
        self
    }

    /// Returns the observation with this progress.
    #[must_use]
    pub fn with_progress(mut self, done: f64, total: Option<f64>) -> Self {
        self.progress = Some(Progress { done, total });
        self
    }
}

/// State of a job, as the engine reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Accepted, but not running yet.
    Queued,
    /// Running, or waiting for an answer. In the second case the observation contains questions.
    Running,
    /// Ended successfully.
    Succeeded(Output),
    /// Ran and failed. The output contains the details, and the observation's message gives the reason in one
    /// line.
    Failed(Output),
    /// Cancelled before it ended by itself.
    Cancelled(Output),
    /// Unknown to the engine. Before [`crate::Backend::start_lag`] has passed, the job may still appear: see
    /// [`Subject::confirm`]. After that, how it ended can no longer be found out.
    Gone,
}

impl JobState {
    /// Returns true for every state except `Queued` and `Running`, so also for `Gone`.
    pub fn has_ended(&self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

/// Progress of a job, in units of its own choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Units done.
    pub done: f64,
    /// Total number of units, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn new_job_is_not_gone() {
        let lag = Duration::from_secs(60);
        let aged = |age| Subject { handle: JobHandle::new("1"), watched: true, age };
        let gone = || Ok(Observation::new(JobState::Gone));
        let error = aged(lag - Duration::from_millis(1)).confirm(lag, gone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        for (age, lag) in [(lag, lag), (Duration::MAX, lag), (Duration::ZERO, Duration::ZERO)] {
            assert_eq!(aged(age).confirm(lag, gone()).unwrap().state, JobState::Gone);
        }
        let runs = Ok(Observation::new(JobState::Running));
        assert_eq!(aged(Duration::ZERO).confirm(lag, runs).unwrap().state, JobState::Running);
    }

    /// A name that is empty, too long or could lead elsewhere becomes `file`.
    #[test]
    fn input_file_name_has_no_path() {
        let long = "x".repeat(201);
        for (name, plain) in [
            ("a b.csv", "a b.csv"),
            ("..x", "..x"),
            ("", "file"),
            ("..", "file"),
            ("a/b", "file"),
            ("a\0b", "file"),
            (&long, "file"),
        ] {
            let content = FileContent::Inline(Vec::new());
            let file = InputFile { parameter: "p".to_owned(), name: name.to_owned(), content };
            assert_eq!(file.plain_name(), plain, "{name:?}");
        }
    }

    /// An invalid `traceparent` is dropped, and so is a `tracestate` that does not fit in a header.
    #[test]
    fn trace_context_follows_w3c() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let trace = Trace::new(parent, Some("vendor=a,other=b")).unwrap();
        assert_eq!((trace.parent.as_str(), trace.state.as_deref()), (parent, Some("vendor=a,other=b")));
        let variables: Vec<_> = trace.variables().collect();
        assert_eq!(variables, [("TRACEPARENT", parent), ("TRACESTATE", "vendor=a,other=b")]);
        assert_eq!(Trace::new(parent, Some("line\nbreak")).unwrap().state, None);
        assert!(Trace::new(&format!("01{}-more", &parent[2..]), None).is_some(), "a later version");
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7",
            "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more",
            "01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-\n",
        ] {
            assert_eq!(Trace::new(wrong, None), None, "{wrong}");
        }
    }
}
