//! The words for one run inside an engine: what to start, what it is called, and what was seen of it. Plain data;
//! it must not talk to anything.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Note, OnBehalfOf, Output, Question, Result, SourceFile, Timestamp};

/// Our idempotency key for one job: `tb-` and 26 lower-case base-32 characters (128 random bits).
///
/// It is random and is not the task id: a task id may act as a bearer secret, while the key ends up in job names
/// that everybody who uses the engine can read. It is safe in file names, DNS labels and every engine's names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobKey(String);

impl JobKey {
    /// The key that is made of these random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let text = data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase();
        Self(format!("tb-{text}"))
    }

    /// The key as engines see it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The engine's own name for a run: an ARN, a run id, a directory. Opaque to all but its adapter, and stored.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobHandle(String);

/// The jobs that one engine call can answer for share a group: a state machine, a workflow, a cluster.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupKey(String);

macro_rules! opaque_name {
    ($name:ident) => {
        impl $name {
            /// Wraps the adapter's own name.
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }

            /// The name as the adapter gave it.
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
shown_as_text!(JobKey, JobHandle, GroupKey);

/// What to start.
#[derive(Clone)]
pub struct JobSpec {
    /// The idempotency key: one job at most ever runs under it.
    pub key: JobKey,
    /// What to run in the engine; it has the shape of the adapter's `Target`, checked when the config was read.
    pub target: Value,
    /// The caller's arguments: an object that was validated against the tool's input schema.
    pub arguments: Value,
    /// Files that came with the arguments, to be staged by the adapter.
    pub files: Vec<InputFile>,
    /// True if an earlier attempt under this key may have reached the engine and its reply was not received.
    pub may_exist: bool,
    /// The trace that the call belongs to, for the job to go on with where the engine can hand it over.
    pub trace: Option<Trace>,
    /// Who asked for it; `None` if that is nobody in particular. A backend that acts with each person's own credentials
    /// starts nothing for somebody that it has none of, and never takes its own instead.
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// A place in a distributed trace, as the W3C writes it (Trace Context, level 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// `traceparent`: version, trace, parent and flags.
    pub parent: String,
    /// `tracestate`: what the tracing systems on the way have to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl Trace {
    /// The longest `tracestate` that is carried on, in bytes. The W3C asks for 512 at least.
    pub const MAX_STATE: usize = 1024;

    /// A place in a trace. `None` if the parent is not of the form that the W3C gives it; a state that is not of its
    /// form is left out, as the W3C asks for.
    pub fn new(parent: &str, state: Option<&str>) -> Option<Self> {
        let hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let some = |text: &str| text.bytes().any(|byte| byte != b'0');
        let mut parts = parent.splitn(5, '-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let form = hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
        // Version 00 has these four parts; later ones may have more, and ff is none.
        let rest = parts.next();
        let known = version != "ff" && (version != "00" || rest.is_none());
        let plain = parent.len() <= 256 && parent.bytes().all(|byte| byte.is_ascii_graphic());
        if !(form && known && plain && some(trace) && some(span)) {
            return None;
        }
        let fits = |state: &&str| {
            !state.is_empty()
                && state.len() <= Self::MAX_STATE
                && state.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        };
        Some(Self { parent: parent.to_owned(), state: state.filter(fits).map(str::to_owned) })
    }

    /// The environment variables by which OpenTelemetry hands a trace to a process.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.state.as_deref().map(|state| ("TRACESTATE", state));
        std::iter::once(("TRACEPARENT", self.parent.as_str())).chain(state)
    }
}

/// Arguments can hold secrets, so only the key and the attempt are shown.
impl fmt::Debug for JobSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSpec")
            .field("key", &self.key)
            .field("may_exist", &self.may_exist)
            .finish_non_exhaustive()
    }
}

/// A file that the caller handed over with an argument. The adapter puts it where the job can read it and passes
/// the path in place of the argument.
#[derive(Clone)]
pub struct InputFile {
    /// The parameter (a top-level property of the arguments) that the file belongs to.
    pub parameter: String,
    /// A plain file name, without a path.
    pub name: String,
    /// Where the bytes are.
    pub content: FileContent,
}

impl InputFile {
    /// The caller's name for it, if that is one that cannot lead anywhere.
    pub fn plain_name(&self) -> &str {
        let name = self.name.as_str();
        let leads_elsewhere = matches!(name, "" | "." | "..") || name.contains(['/', '\0']);
        if leads_elsewhere || name.len() > 200 { "file" } else { name }
    }
}

/// Where the bytes of an [`InputFile`] are.
#[derive(Clone)]
pub enum FileContent {
    /// The caller sent them.
    Inline(Vec<u8>),
    /// They are in a file on the server. The adapter copies what [`SourceFile::open`] gives.
    Source(SourceFile),
}

/// What `start` knows when the engine has accepted the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The engine's name for the run.
    pub handle: JobHandle,
    /// What was already seen of it; a synchronous engine may be done.
    pub first: Option<Observation>,
}

/// A job to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The engine's name for it.
    pub handle: JobHandle,
    /// True if somebody would notice how far it has come: a client polls its task, waits or listens. Where nobody does,
    /// what is only worth telling (progress, the line for people, notes) may cost the engine no call of its own.
    pub watched: bool,
    /// How long ago the engine accepted the job: by its row and the store's clock, so that every replica says the same.
    pub age: Duration,
}

impl Subject {
    /// These jobs, each of them watched and long since known to the engine.
    pub fn watched(handles: &[JobHandle]) -> Vec<Self> {
        let watched = |handle: &JobHandle| Self { handle: handle.clone(), watched: true, age: Duration::MAX };
        handles.iter().map(watched).collect()
    }

    /// What a poll of this job means where the engine's reads lag behind its starts by up to `start_lag`
    /// ([`crate::Backend::start_lag`]): within that time, a job that the engine does not know is not gone.
    ///
    /// # Errors
    /// Those of the poll; `Unavailable` in place of [`JobState::Gone`] while the job is younger than that.
    pub fn confirm(&self, start_lag: Duration, seen: Result<Observation>) -> Result<Observation> {
        match seen {
            Ok(seen) if seen.state == JobState::Gone && self.age < start_lag => {
                Err(Error::unavailable("the engine does not list this new job yet"))
            }
            seen => seen,
        }
    }
}

/// One look at a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Where the job stands.
    pub state: JobState,
    /// How far it has come, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// One line for people: the current step, the reason for waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when the job has been in this state, by the engine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What the job asks and has not been answered, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The newest things that the job said, oldest first; a look need not hold more than a few dozen. What stood in an
    /// earlier look need not be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// How many bytes the job has printed by now, where that is known: it tells that the log has grown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
}

impl Observation {
    /// A look that saw this state and nothing else.
    pub fn new(state: JobState) -> Self {
        Self {
            state,
            progress: None,
            message: None,
            since: None,
            questions: Vec::new(),
            notes: Vec::new(),
            log_bytes: None,
        }
    }

    /// The same look with a message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// The same look with notes.
    #[must_use]
    pub fn with_notes(mut self, notes: Vec<Note>) -> Self {
        self.notes = notes;
        self
    }

    /// The same look with progress.
    #[must_use]
    pub fn with_progress(mut self, done: f64, total: Option<f64>) -> Self {
        self.progress = Some(Progress { done, total });
        self
    }
}

/// Where a job stands, as the engine sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Accepted, not running yet.
    Queued,
    /// Running, or waiting for an answer (then the observation holds questions).
    Running,
    /// Ended well.
    Succeeded(Output),
    /// Ran and failed; the output says how, and the observation's message says why in one line.
    Failed(Output),
    /// Stopped by somebody before it ended.
    Cancelled(Output),
    /// The engine no longer knows the job, so nobody will ever learn how it ended.
    Gone,
}

impl JobState {
    /// True if the job will not run any further.
    pub fn has_ended(&self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

/// How far a job has come, in units of its own choosing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: f64,
    /// Units in all, where known.
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

    #[test]
    fn a_file_is_given_no_name_that_leads_elsewhere() {
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

    #[test]
    fn a_place_in_a_trace_has_the_form_of_the_w3c() {
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
