//! Decides which generation speaks. A protocol version is named here and in the generations' own modules, and
//! nowhere else.

use serde::{Deserialize, Serialize};

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
    pub fn as_str(self) -> &'static str {
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

    /// True if a client of this revision can hold tasks.
    pub fn has_tasks(self) -> bool {
        self >= Self::V2025_11_25
    }
}

/// What became of a client's response to a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replied {
    /// It took effect.
    Taken,
    /// What was asked is settled already, or its task is gone; the response changes nothing.
    Late,
    /// We never sent a request with this id.
    Unknown,
}
