//! Cache of long lists: a list of three or more pages is used again for a while, so that polls that arrive
//! one after the other do not read all pages each time. So are replies for all of its jobs. It may be lost.
//! It must not call the engine.

use std::collections::{BTreeMap, HashMap};
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

/// A list, and the replies that are for all of its jobs.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Items, by what identifies them.
    pub(crate) items: HashMap<String, Value>,
    /// How many pages were read, and whether there are more.
    pub(crate) pages: u32,
    pub(crate) is_cut: bool,
    pub(crate) shared: SharedReplies,
}

/// Replies of `more` that are for all jobs of a poll of many, by name, and when each was requested.
#[derive(Debug, Default)]
pub(crate) struct SharedReplies(tokio::sync::Mutex<BTreeMap<String, (Instant, Option<Value>)>>);

impl SharedReplies {
    /// Returns the reply of this name if it is recent, and requests it otherwise.
    ///
    /// # Errors
    /// That of the request.
    pub(crate) async fn get_or_request<E>(
        &self,
        name: &str,
        request: impl Future<Output = Result<Option<Value>, E>>,
    ) -> Result<Option<Value>, E> {
        let mut replies = self.0.lock().await;
        if let Some((at, value)) = replies.get(name)
            && at.elapsed() < AGE_PER_PAGE
        {
            return Ok(value.clone());
        }
        let (at, value) = (Instant::now(), request.await?);
        replies.insert(name.to_owned(), (at, value.clone()));
        Ok(value)
    }
}

/// Recent lists, and how often all were dropped.
#[derive(Debug, Default)]
pub(crate) struct ListCache(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    groups: HashMap<GroupKey, (Instant, Arc<Listing>)>,
    generation: u64,
}

impl ListCache {
    /// Returns the list of a group if it is recent.
    pub(crate) fn get(&self, group: &GroupKey, now: Instant) -> Option<Arc<Listing>> {
        let lists = self.0.lock();
        lists.groups.get(group).filter(|(until, _)| now < *until).map(|(_, listed)| listed.clone())
    }

    /// Returns a number that changes with every change: see [`ListCache::put`].
    pub(crate) fn generation(&self) -> u64 {
        self.0.lock().generation
    }

    /// Keeps a list that was requested at `start`, unless something changed since `generation`.
    pub(crate) fn put(&self, group: &GroupKey, listed: &Arc<Listing>, start: Instant, generation: u64) {
        let mut lists = self.0.lock();
        if listed.pages < FEWEST_PAGES || lists.generation != generation {
            return;
        }
        lists.groups.retain(|_, (until, _)| start < *until);
        if lists.groups.len() < MAX_GROUPS {
            lists.groups.insert(group.clone(), (start + AGE_PER_PAGE * listed.pages, listed.clone()));
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

    /// A reply for all jobs is requested ten times a minute at most, and an error is not kept.
    #[tokio::test(start_paused = true)]
    async fn shared_reply_is_requested_every_six_seconds() {
        let (replies, mut requests) = (SharedReplies::default(), 0);
        for _ in 0..60 {
            let request = async {
                requests += 1;
                Ok::<_, ()>(Some(Value::from(1)))
            };
            assert_eq!(replies.get_or_request("asked", request).await, Ok(Some(Value::from(1))));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(requests, 10);
        assert_eq!(replies.get_or_request("other", async { Err(()) }).await, Err(()));
        assert_eq!(replies.get_or_request("other", async { Ok::<_, ()>(None) }).await, Ok(None));
    }

    /// A list of three pages is kept for 18 s; a shorter one is not kept, and neither is one from before a
    /// change.
    #[tokio::test(start_paused = true)]
    async fn long_list_is_kept_until_a_change() {
        let (cache, group) = (ListCache::default(), GroupKey::new("g"));
        let list_of = |pages| Arc::new(Listing { pages, ..Listing::default() });
        let listed = list_of(3);
        let start = Instant::now();
        cache.put(&group, &list_of(2), start, cache.generation());
        assert!(cache.get(&group, start).is_none());
        cache.put(&group, &listed, start, cache.generation());
        assert!(cache.get(&group, start + Duration::from_secs(17)).is_some());
        assert!(cache.get(&group, start + Duration::from_secs(18)).is_none());
        let before = cache.generation();
        cache.clear();
        assert!(cache.get(&group, start).is_none());
        cache.put(&group, &listed, start, before);
        assert!(cache.get(&group, start).is_none());
    }
}
