//! The fields of an audit line and the kinds of events. The schema is documented in docs/audit.md and
//! defined in docs/audit.schema.json. This module must not know where lines are stored.
//!
//! Arguments, answers, results, credentials and complete task ids never appear in a line. Text that a caller
//! can choose is truncated, and JSON escapes line breaks in it.

use serde::Serialize;
use serde_json::Value;

/// The version of the line format. Fields may be added without a new version.
pub const VERSION: u32 = 1;

/// The maximum number of characters of a field that an external party can choose.
const MAX_CHARS: usize = 200;

/// The mark at the end of a truncated text.
const TRUNCATION_MARK: char = '…';

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident => $name:literal,)*) => {
        /// The kind of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Returns its name in a line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// The server starts to serve.
    ServerStarted => "server.started",
    /// The server has shut down cleanly.
    ServerStopped => "server.stopped",
    /// A new config is in force, or was refused.
    ConfigReloaded => "config.reloaded",
    /// An operation that requires a record is about to be done (`on_failure = "refuse"`).
    CallReceived => "call.received",
    /// A call created a task.
    TaskCreated => "task.created",
    /// The engine accepted the job of a task.
    TaskStarted => "task.started",
    /// A task has ended.
    TaskEnded => "task.ended",
    /// A caller requested the cancellation of a task.
    TaskCancelled => "task.cancelled",
    /// A question of a job was answered.
    QuestionAnswered => "question.answered",
    /// A client reported a new stage of a task that it created for a question.
    ClientTask => "client.task",
    /// A person looked at a task of another owner in the console, or at a list of such tasks.
    TaskRead => "task.read",
    /// A caller read the result of a task.
    ResultRead => "result.read",
    /// A caller read the output of a job.
    LogRead => "log.read",
    /// A caller read a file that a job left.
    ArtifactRead => "artifact.read",
    /// A caller asked for a task that they do not have.
    LookupFailed => "lookup.failed",
    /// A caller tried an operation that they may not do.
    CallDenied => "call.denied",
    /// A caller failed to authenticate.
    AuthFailed => "auth.failed",
    /// A caller exceeded a limit.
    LimitExceeded => "limit.exceeded",
    /// An operator changed a task.
    OperatorActed => "operator.acted",
    /// A person signed in to the console.
    ConsoleSignedIn => "console.signed_in",
    /// A person signed out of the console, in one browser or in all.
    ConsoleSignedOut => "console.signed_out",
    /// One owner or address repeats what suggests guessing.
    Suspicion => "suspicion",
    /// A chain begins.
    LogBegan => "log.began",
    /// A file begins, because the one before was full or old, or ended with lines of another key.
    LogRotated => "log.rotated",
    /// The line before this one was cut off, when its process was killed or its disk was full.
    LogTorn => "log.torn",
    /// Lines could not be written, and are lost.
    LogLost => "log.lost",
}

/// One line, without its fields of the chain.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntry {
    /// The version of the schema.
    pub version: u32,
    /// The time of the event, by the machine's clock.
    pub time: String,
    /// The process that recorded the event.
    pub replica: String,
    /// The kind of event.
    pub event: &'static str,
    /// The outcome.
    pub outcome: &'static str,
    /// The caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<AuditCaller>,
    /// The origin of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<RequestOrigin>,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// A keyed digest of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
    /// The engine that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The fields that are specific to the kind.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// The caller of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditCaller {
    /// The caller's name; empty if callers are not distinguished.
    pub name: String,
    /// The owner of the caller's tasks. An operator has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The issuer of the token, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The subject at that issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The client that the token was issued to, if it identifies no person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// False if callers are not distinguished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identified: Option<bool>,
}

/// The origin of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestOrigin {
    /// `http`, `stdio`, `terminal`, `console`.
    pub by: &'static str,
    /// The address, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// The request of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Its method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its JSON-RPC id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A keyed digest of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The id of its trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A reference to a task. It correlates lines, but gives no access to the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskName {
    /// The beginning of its id.
    pub id: String,
    /// A keyed digest of the whole id.
    pub digest: String,
    /// The task's owner; absent if only the id is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// The engine of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// The backend.
    pub backend: String,
    /// The job's handle, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

impl AuditEntry {
    /// Creates an entry with only the kind and the outcome.
    pub fn new(time: String, replica: &str, kind: Kind, outcome: &'static str) -> Self {
        Self {
            version: VERSION,
            time,
            replica: replica.to_owned(),
            event: kind.name(),
            outcome,
            who: None,
            from: None,
            request: None,
            tool: None,
            arguments: None,
            task: None,
            engine: None,
            detail: Value::Null,
        }
    }

    /// Returns the JSON object of a line.
    pub fn object(&self) -> String {
        serde_json::to_string(self).expect("entries have string keys and no failing serializers")
    }
}

/// Truncates a text that an external party may have chosen. Replaces characters that can mislead a reader:
/// control characters, and those that change the direction of text.
pub fn sanitize(text: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_control() => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    let mut sanitized: String = text.chars().take(MAX_CHARS).map(plain).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        sanitized.push(TRUNCATION_MARK);
    }
    sanitized
}

/// Returns the trace id of a `traceparent`. The span ids of a call differ, but the trace id is the same in
/// all of them.
pub fn trace_id(parent: &str) -> String {
    sanitize(parent.split('-').nth(1).unwrap_or(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that a caller chose can neither begin another line nor fill the disk.
    #[test]
    fn audit_text_is_escaped_and_capped() {
        let text = format!("a\n{{\"event\":\"task.created\"}}\r\u{1b}[2J\u{202e}{}", "x".repeat(1_000_000));
        let sanitized = sanitize(&text);
        assert!(sanitized.starts_with("a\u{fffd}{\"event\":\"task.created\"}\u{fffd}\u{fffd}[2J\u{fffd}xx"));
        assert_eq!((sanitized.chars().count(), sanitized.ends_with(TRUNCATION_MARK)), (MAX_CHARS + 1, true));
        let mut entry = AuditEntry::new("t".to_owned(), "r", Kind::TaskCreated, "ok");
        entry.tool = Some(text);
        assert!(!entry.object().contains(['\n', '\r', '\u{1b}']), "untruncated text also stays in one line");
    }
}
