//! Decides which generation speaks. A protocol version is named here and in the generations' own modules, and
//! nowhere else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The revision that has no sessions: every request says for itself what it is written in.
pub const MODERN: &str = "2026-07-28";

/// All revisions that are spoken, the newest first.
pub const SUPPORTED: [&str; 4] =
    [MODERN, Revision::V2025_11_25.as_str(), Revision::V2025_06_18.as_str(), Revision::V2025_03_26.as_str()];

/// Where a request of the generation without sessions names its revision, in `_meta`.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Which generation answers a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// That which begins with `initialize`.
    Sessions,
    /// That in which every request stands by itself.
    Stateless,
}

impl Generation {
    /// Decides by what came. `header` is `MCP-Protocol-Version`, where the transport has headers; `in_session` says
    /// whether the message names a session, or, where there is one for the whole connection, whether it has begun.
    pub fn of(method: &str, params: &Value, header: Option<&str>, in_session: bool) -> Self {
        let says_so = params.get("_meta").and_then(|meta| meta.get(VERSION)).is_some();
        let is_spoken = |version: &str| Revision::parse(version).is_some();
        let by_header = header.is_some_and(|version| version == MODERN || !is_spoken(version));
        match method {
            _ if says_so => Self::Stateless,
            // It may name any version: what is spoken then is negotiated.
            "initialize" => Self::Sessions,
            _ if in_session => Self::Sessions,
            // A probe that says nothing of itself is told what it must say.
            "server/discover" => Self::Stateless,
            _ if by_header => Self::Stateless,
            _ => Self::Sessions,
        }
    }
}

/// Why a request of a session is not allowed in a batch, if it is not.
pub fn bars_batch(method: &str, params: &Value) -> Option<&'static str> {
    if method == "initialize" {
        return Some("initialize must not be in a batch: send it by itself");
    }
    let other = Generation::of(method, params, None, true) == Generation::Stateless;
    other.then_some("a request of a revision without batches must not be in one: send it by itself")
}

/// A revision of the protocol that begins with `initialize`. The three share one wire shape; only the newest has
/// tasks.
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

    /// The revision of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// What `initialize` is answered with: the revision asked for if it is one of these, else the newest.
    pub fn negotiate(asked: &str) -> Self {
        Self::parse(asked).unwrap_or(Self::ALL[0])
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// True if a client of this revision takes an event without data for what it is: older ones try to read it.
    pub fn primes_streams(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// True if a client of this revision may send several messages at once.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// True if a client of this revision can hold tasks.
    pub fn has_tasks(self) -> bool {
        self >= Self::V2025_11_25
    }
}

/// What became of a client's response to a request of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replied {
    /// It took effect.
    Taken,
    /// What was asked is settled already, or its task is gone; the response changes nothing.
    Late,
    /// The answer was not taken, for this reason; the question stays open.
    NotTaken(String),
    /// We never sent a request with this id.
    Unknown,
    /// It could not be kept, for the store cannot be used. The same response can be sent again.
    Lost,
}
