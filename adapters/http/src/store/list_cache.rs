//! Cache of long lists: a list of three or more pages is used again for a while, so that polls that arrive
//! one after the other do not read all pages each time. It may be lost. It must not call the engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use taskbridge_sdk::GroupKey;
use tokio::time::Instant;

/// How long a list is used for each of its pages.
const AGE_PER_PAGE: Duration = Duration::from_secs(6);
/// Fewest pages of a list that is kept.
const FEWEST_PAGES: u32 = 3;
/// Most groups with a list.
const MAX_GROUPS: usize = 256;

/// Items of a list, by what identifies them.
pub(crate) type Listed = Arc<HashMap<String, Value>>;

/// Recent lists, and how often all were dropped.
#[derive(Debug, Default)]
pub(crate) struct ListCache(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    groups: HashMap<GroupKey, (Instant, Listed)>,
    generation: u64,
}

impl ListCache {
    /// Returns the list of a group if it is recent.
    pub(crate) fn get(&self, group: &GroupKey, now: Instant) -> Option<Listed> {
        let lists = self.0.lock();
        lists.groups.get(group).filter(|(until, _)| now < *until).map(|(_, listed)| listed.clone())
    }

    /// Returns a number that changes with every change: see [`ListCache::put`].
    pub(crate) fn generation(&self) -> u64 {
        self.0.lock().generation
    }

    /// Keeps a list that was requested at `start`, unless something changed since `generation`.
    pub(crate) fn put(&self, group: &GroupKey, listed: &Listed, pages: u32, start: Instant, generation: u64) {
        let mut lists = self.0.lock();
        if pages < FEWEST_PAGES || lists.generation != generation {
            return;
        }
        lists.groups.retain(|_, (until, _)| start < *until);
        if lists.groups.len() < MAX_GROUPS {
            lists.groups.insert(group.clone(), (start + AGE_PER_PAGE * pages, listed.clone()));
        }
    }

    /// Drops all lists: a job was changed, or is reported as changed.
    pub(crate) fn clear(&self) {
        let mut lists = self.0.lock();
        lists.groups.clear();
        lists.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of three pages is kept for 18 s; a shorter one is not kept, and neither is one from before a
    /// change.
    #[tokio::test(start_paused = true)]
    async fn long_list_is_kept_until_a_change() {
        let (cache, group, listed) = (ListCache::default(), GroupKey::new("g"), Listed::default());
        let start = Instant::now();
        cache.put(&group, &listed, 2, start, cache.generation());
        assert!(cache.get(&group, start).is_none());
        cache.put(&group, &listed, 3, start, cache.generation());
        assert!(cache.get(&group, start + Duration::from_secs(17)).is_some());
        assert!(cache.get(&group, start + Duration::from_secs(18)).is_none());
        let before = cache.generation();
        cache.clear();
        assert!(cache.get(&group, start).is_none());
        cache.put(&group, &listed, 3, start, before);
        assert!(cache.get(&group, start).is_none());
    }
}
