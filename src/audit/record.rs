//! What a line says: the kinds of events, and the fields beside. The schema is documented in docs/audit.md and held in
//! docs/audit.schema.json. It must not know where lines go.
//!
//! Arguments, answers, results, credentials and whole ids of tasks never stand in a line. What a caller may choose is cut
//! to a length, and JSON escapes what would begin another line.

use serde::Serialize;
use serde_json::Value;

/// The version of what lines look like. Fields may be added under the same one.
pub const VERSION: u32 = 1;

/// The most characters of a field that somebody outside can choose.
const LONGEST: usize = 200;

/// Stands where something was cut off.
const CUT: char = '…';

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident => $name:literal,)*) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Its name in a line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// The server begins to serve.
    ServerStarted => "server.started",
    /// It has stopped in order.
    ServerStopped => "server.stopped",
    /// Another config is in force, or was refused.
    ConfigReloaded => "config.reloaded",
    /// Something is about to be done that must not be done untold (`on_failure = "refuse"`).
    CallReceived => "call.received",
    /// A call made a task.
    TaskCreated => "task.created",
    /// The engine has the job of a task.
    TaskStarted => "task.started",
    /// A task has ended.
    TaskEnded => "task.ended",
    /// Somebody wants a task cancelled.
    TaskCancelled => "task.cancelled",
    /// A question of a job was answered.
    QuestionAnswered => "question.answered",
    /// A client stands elsewhere with a task of its own that it made of a question.
    ClientTask => "client.task",
    /// Somebody was given the result of a task.
    ResultRead => "result.read",
    /// Somebody was given what a job printed.
    LogRead => "log.read",
    /// Somebody was given a file that a job left.
    ArtifactRead => "artifact.read",
    /// Somebody asked for a task that they do not have.
    LookupFailed => "lookup.failed",
    /// Somebody may not do what they asked for.
    CallDenied => "call.denied",
    /// Somebody was not let in.
    AuthFailed => "auth.failed",
    /// Somebody asked for more than they may.
    LimitExceeded => "limit.exceeded",
    /// An operator changed a task by hand.
    OperatorActed => "operator.acted",
    /// One owner or address does again and again what guessers do.
    Suspicion => "suspicion",
    /// A chain begins.
    LogBegan => "log.began",
    /// A file begins, because the one before was full or old.
    LogRotated => "log.rotated",
    /// The line before this one was cut off when its process was killed.
    LogTorn => "log.torn",
    /// Lines could not be written, and are lost.
    LogLost => "log.lost",
}

/// One line, but for its place in the chain.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The version of the schema.
    pub version: u32,
    /// When, by the machine's clock.
    pub time: String,
    /// The process that tells.
    pub replica: String,
    /// What happened.
    pub event: &'static str,
    /// How it came out.
    pub outcome: &'static str,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// From where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
    /// By which request.
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
    /// What runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// What is particular to the kind.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// Who did it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Who {
    /// Their name; empty where callers are not told apart.
    pub name: String,
    /// The owner that their tasks belong to. An operator has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who says so, where a token does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What that calls them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The client that it stands for, where it names nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// False if callers are not told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identified: Option<bool>,
}

/// From where it was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct From {
    /// `http`, `stdio`, `terminal`.
    pub by: &'static str,
    /// The address, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// The request by which it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Its method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its JSON-RPC id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A keyed digest that names its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The id of its trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A task, so that its lines can be told from those of others, and nobody can use it by what stands here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskName {
    /// The beginning of its id.
    pub id: String,
    /// A keyed digest of the whole of it.
    pub digest: String,
    /// Whose it is, where that is not who acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// What runs a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// The backend.
    pub backend: String,
    /// The engine's own name of the job, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

impl Entry {
    /// An entry that says no more than what happened.
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

    /// The object that becomes a line.
    pub fn object(&self) -> String {
        serde_json::to_string(self).expect("entries have string keys and no failing serializers")
    }
}

/// A text that somebody outside may have chosen, cut to a length, without what could lead a reader astray: control
/// characters and those that change the direction of a text.
pub fn capped(text: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_control() => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    let mut capped: String = text.chars().take(LONGEST).map(plain).collect();
    if text.chars().nth(LONGEST).is_some() {
        capped.push(CUT);
    }
    capped
}

/// The id of the trace that a `traceparent` names: that of the spans of a call differs, and this is the same in all of them.
pub fn trace_id(parent: &str) -> String {
    capped(parent.split('-').nth(1).unwrap_or(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_chose_cannot_begin_another_line_nor_fill_the_disk() {
        let text = format!("a\n{{\"event\":\"task.created\"}}\r\u{1b}[2J\u{202e}{}", "x".repeat(1_000_000));
        let capped = capped(&text);
        assert!(capped.starts_with("a\u{fffd}{\"event\":\"task.created\"}\u{fffd}\u{fffd}[2J\u{fffd}xx"));
        assert_eq!((capped.chars().count(), capped.ends_with(CUT)), (LONGEST + 1, true));
        let mut entry = Entry::new("t".to_owned(), "r", Kind::TaskCreated, "ok");
        entry.tool = Some(text);
        assert!(!entry.object().contains(['\n', '\r', '\u{1b}']), "also what was not cut stays in one line");
    }
}
