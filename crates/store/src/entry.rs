//! Converts a transition into the columns of a history entry, and back. It must not know how entries are
//! stored.

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use taskbridge_core::tasks::history::{EngineCall, Fact, HistoryEntry, Transition};

/// The columns of an entry, without those that the store fills in.
pub(super) struct EntryColumns {
    pub(super) replica: String,
    pub(super) what: String,
}

/// The content of the column `what`, as JSON.
#[derive(Serialize, Deserialize)]
struct EntryContent<T> {
    what: T,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<EngineCall>,
}

impl EntryColumns {
    /// Converts a transition into columns.
    pub(super) fn of(transition: &Transition) -> Result<Self, serde_json::Error> {
        let Transition { replica, what, call } = transition;
        let what = serde_json::to_string(&EntryContent { what, call: *call })?;
        Ok(Self { replica: replica.clone(), what })
    }
}

/// Parses the column `what`.
pub(super) fn parse_transition(what: &str) -> Result<(Vec<Fact>, Option<EngineCall>), serde_json::Error> {
    serde_json::from_str::<EntryContent<Vec<Fact>>>(what).map(|EntryContent { what, call }| (what, call))
}

/// Parses an entry; `None`, with a log message, if it is unreadable: a newer program may have written it.
pub(super) fn parse(version: i64, at: i64, replica: String, what: &str) -> Option<HistoryEntry> {
    match parse_transition(what) {
        Ok((what, call)) => Some(HistoryEntry {
            version: u64::try_from(version).unwrap_or(0),
            at: Timestamp::from_millis(at),
            transition: Transition { replica, what, call },
        }),
        Err(error) => {
            tracing::error!(%error, version, "an entry of a task's history cannot be understood, and is left out");
            None
        }
    }
}
