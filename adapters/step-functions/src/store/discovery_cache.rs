//! Cached results of discovery. All of it may be lost. It must not call AWS.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_sfn::types::StateMachineListItem;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::Discover;
use crate::driver::log_group::LogGroup;

/// Number of known state machines that one discovery refreshes, least recently read first.
const REFRESH_COUNT: usize = 10;

/// Filter of discovery, and the cached results.
pub(crate) struct DiscoveryCache {
    pub(crate) filter: Discover,
    pub(crate) entries: Mutex<HashMap<String, CachedMachine>>,
    /// Problems of state machines that were already logged.
    pub(crate) logged_problems: Mutex<BTreeSet<String>>,
}

/// Cached result for a state machine.
#[derive(Clone)]
pub(crate) struct CachedMachine {
    pub(crate) read_at: Instant,
    /// Creation time at AWS: a new state machine of the same name has another.
    pub(crate) created_at: i64,
    /// `None` if the filter excludes it, or it no longer exists.
    pub(crate) machine: Option<DiscoveredMachine>,
}

impl DiscoveryCache {
    pub(crate) fn new(filter: Discover) -> Self {
        Self { filter, entries: Mutex::default(), logged_problems: Mutex::default() }
    }

    pub(crate) fn matches_tags(&self, tags: &BTreeMap<String, String>) -> bool {
        let matches = |(name, value): (&String, &String)| {
            tags.get(name).is_some_and(|actual| value.is_empty() || actual == value)
        };
        self.filter.tags.iter().all(matches)
    }

    /// Removes cached state machines that are no longer in the list. Returns those of the list that are not
    /// cached, and those to refresh.
    pub(crate) fn select_reads(
        &self,
        list: &[StateMachineListItem],
    ) -> (Vec<StateMachineListItem>, Vec<StateMachineListItem>) {
        let mut entries = self.entries.lock();
        let listed: HashMap<&str, i64> =
            list.iter().map(|item| (item.state_machine_arn.as_str(), item.creation_date.secs())).collect();
        entries.retain(|arn, entry| listed.get(arn.as_str()) == Some(&entry.created_at));
        let (mut cached, new): (Vec<_>, Vec<_>) =
            list.iter().cloned().partition(|item| entries.contains_key(&item.state_machine_arn));
        cached.sort_by_key(|item| entries.get(&item.state_machine_arn).map(|entry| entry.read_at));
        cached.truncate(REFRESH_COUNT);
        (new, cached)
    }
}

/// State machine that the filter of discovery accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiscoveredMachine {
    pub(crate) arn: String,
    pub(crate) name: String,
    pub(crate) express: bool,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) comment: Option<String>,
    /// Description of its version, if it has one.
    pub(crate) description: Option<String>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) log_group: Option<LogGroup>,
}
