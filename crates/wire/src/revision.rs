//! Decides which generation handles a message. Only this module and the generations' own modules may contain
//! the text of a protocol version.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The revision without sessions, in which every request names its revision.
pub const MODERN: &str = "2026-07-28";

/// All supported revisions, newest first.
pub const SUPPORTED: [&str; 4] =
    [MODERN, Revision::V2025_11_25.as_str(), Revision::V2025_06_18.as_str(), Revision::V2025_03_26.as_str()];

/// Key in `_meta` by which a request of the generation without sessions names its revision.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The generation that handles a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The revisions that begin with `initialize`.
    Sessions,
    /// The revision in which every request is self-contained.
    Stateless,
}

impl Generation {
    /// Selects the generation of a message. `header` is `MCP-Protocol-Version`, where the transport has
    /// headers. `in_session` is whether the message names a session, or, where a connection has one session,
    /// whether that has begun.
    pub fn of(method: &str, params: &Value, header: Option<&str>, in_session: bool) -> Self {
        let names_revision = params.get("_meta").and_then(|meta| meta.get(VERSION)).is_some();
        let has_sessions = |version: &str| Revision::parse(version).is_some();
        let header_is_stateless = header.is_some_and(|version| version == MODERN || !has_sessions(version));
        match method {
            _ if names_revision => Self::Stateless,
            // `initialize` may name any version: the revision is then negotiated.
            "initialize" => Self::Sessions,
            _ if in_session => Self::Sessions,
            // A probe without metadata gets an error that names the missing part.
            "server/discover" => Self::Stateless,
            _ if header_is_stateless => Self::Stateless,
            _ => Self::Sessions,
        }
    }
}

/// Returns why a request of a session is not allowed in a batch, or `None` if it is.
pub fn batch_refusal(method: &str, params: &Value) -> Option<&'static str> {
    if method == "initialize" {
        return Some("initialize must not be in a batch: send it by itself");
    }
    let is_stateless = Generation::of(method, params, None, true) == Generation::Stateless;
    is_stateless.then_some("a request of a revision without batches must not be in one: send it by itself")
}

/// A revision of the protocol that begins with `initialize`. The three share their wire types. An older one
/// lacks what came later: titles and structured content before 2025-06-18, tasks before 2025-11-25. Only the
/// oldest has batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Revision {
    /// 2025-03-26.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// 2025-06-18.
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// 2025-11-25.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
}

impl Revision {
    /// All of them, the newest first.
    pub const ALL: [Revision; 3] = [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26];

    /// Returns the revision of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Returns the revision for the answer of `initialize`: the requested one if it is one of these,
    /// otherwise the newest of these.
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested).unwrap_or(Self::ALL[0])
    }

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// Returns true if clients of this revision accept an event without data. Older ones try to parse it.
    pub fn accepts_empty_events(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Returns true if clients of this revision may send several messages at once.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Returns true if this revision has tasks.
    pub fn has_tasks(self) -> bool {
        self >= Self::V2025_11_25
    }
}

/// Outcome of a client's response to a request of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// It was accepted. That includes an error response to a question, which can stay open.
    Accepted,
    /// The question is closed already, or its task is gone or not visible to the caller. The response changes
    /// nothing.
    Late,
    /// The answer was rejected for this reason; the question stays open.
    Rejected(String),
    /// This server never sent a request with this id.
    Unknown,
    /// The response could not be stored, because the store failed. The client can send it again.
    NotStored,
}
