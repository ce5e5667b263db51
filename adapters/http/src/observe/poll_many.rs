//! Polls of many jobs: a list, and single polls of the jobs whose state the list cannot show.

use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::{Map, Value};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, JobHandle, JobState, Observation, Result, Subject};
use tokio::time::Instant;

use super::conclude::questions;
use super::poll::is_due;
use super::snapshot::{observe_table, state_word};
use crate::config::{List, State};
use crate::core::Http;
use crate::identity::handle;
use crate::language::Scope;
use crate::store::list_cache::{Listing, SharedReplies};

/// Single polls of one call that run at the same time.
const CONCURRENT_POLLS: usize = 8;

impl Http {
    /// Returns the group of a job.
    pub(crate) fn group_of(&self, handle: &JobHandle) -> GroupKey {
        let group = self.config.list.as_ref().and_then(|list| list.group.as_ref());
        let values = group.and_then(|_| handle::parse(handle));
        let name = group
            .zip(values)
            .and_then(|(group, values)| group.text(&self.base_scope().with("handle", values)).ok().flatten());
        GroupKey::new(name.unwrap_or_default())
    }

    /// Polls many jobs. The results are in the order of the jobs.
    pub(crate) async fn poll_group(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let listed = match &self.config.list {
            // The list costs a request too, so it is for two jobs and more.
            Some(list) if jobs.len() > 1 => match self.list(list, group, jobs).await {
                Ok(listed) => Some((list, listed)),
                // The engine does not have the group any more.
                Err(error) if error.kind() == ErrorKind::Rejected => None,
                Err(error) => return jobs.iter().map(|_| Err(error.clone())).collect(),
            },
            _ => None,
        };
        let own = SharedReplies::default();
        let shared = listed.as_ref().map_or(&own, |(_, listed)| &listed.shared);
        let mut polls = Vec::with_capacity(jobs.len());
        for job in jobs {
            polls.push(self.poll_job(job, listed.as_ref(), shared).boxed());
        }
        stream::iter(polls).buffered(CONCURRENT_POLLS).collect().await
    }

    async fn poll_job(
        &self,
        job: &Subject,
        listed: Option<&(&List, Arc<Listing>)>,
        shared: &SharedReplies,
    ) -> Result<Observation> {
        let Some((list, listed)) = listed else {
            return self.poll(&job.handle, job.watched, Some(shared)).await;
        };
        // Every job is watched in its first minute. Of many, only some are polled for details.
        let watched = job.watched && self.details.take();
        if !watched && let Some(seen) = self.listed_job(list, listed, job, shared).await? {
            return Ok(seen);
        }
        self.poll(&job.handle, watched, Some(shared)).await
    }

    /// Returns the items of the list of a group, by what identifies them.
    async fn list(&self, list: &List, group: &GroupKey, jobs: &[Subject]) -> Result<Arc<Listing>> {
        let (start, generation) = (Instant::now(), self.lists.generation());
        if let Some(listed) = self.lists.get(group, start) {
            let is_listed = |job: &&Subject| {
                let scope = self.handle_scope(&job.handle);
                scope.is_none_or(|scope| !matches!(item(list, &listed, &scope), Ok(None)))
            };
            let missing = jobs.len() - jobs.iter().filter(is_listed).count();
            // They started after the list was read. To read it again is cheaper than to poll each of them.
            if listed.is_cut || missing <= listed.pages as usize {
                return Ok(listed);
            }
        }
        let scope = self.base_scope().with("group", group.as_str());
        let found = self.items("list", &list.request, list.next.as_ref(), &list.items, &scope, None).await?;
        let mut listed = Listing { pages: found.pages, is_cut: found.is_cut, ..Listing::default() };
        for item in found.items {
            let id = list.id.text(&scope.clone().with("item", &item)).map_err(unreadable)?;
            // An engine may list a job twice, on two pages. The newer page comes first.
            id.map(|id| listed.items.entry(id).or_insert(item));
        }
        let listed = Arc::new(listed);
        self.lists.put(group, &listed, start, generation);
        Ok(listed)
    }

    /// Returns what the list shows of a job: only that it still runs. `None` if a single poll is needed.
    async fn listed_job(
        &self,
        list: &List,
        listed: &Listing,
        job: &Subject,
        shared: &SharedReplies,
    ) -> Result<Option<Observation>> {
        let Some(scope) = self.handle_scope(&job.handle) else { return Ok(None) };
        let table = observe_table(&self.config, &scope).map_err(unreadable)?;
        let Some(item) = item(list, listed, &scope).map_err(unreadable)? else { return Ok(None) };
        let item_scope = scope.with("item", item);
        let Ok((state, word)) = state_word(table, &list.state, &item_scope) else { return Ok(None) };
        if word.is_unknown {
            self.report_unknown(&word.text);
        }
        let is_enough = matches!(state, State::Queued | State::Running) && table.rename.is_none();
        let mut due = Vec::new();
        for more in self.config.more.iter().filter(|more| is_due(more, state, false)) {
            let condition = more.condition.as_ref();
            if condition.map_or(Ok(true), |condition| condition.is_true(&item_scope)).map_err(unreadable)? {
                due.push(more);
            }
        }
        // Without questions, replies of `more` only have details, which an unwatched job does not need.
        let needs_more = self.config.ask.is_some() && due.iter().any(|more| !more.shared);
        if !is_enough || needs_more {
            return Ok(None);
        }
        let mut seen = Observation::new(match state {
            State::Queued => JobState::Queued,
            _ => JobState::Running,
        });
        if let Some(ask) = &self.config.ask {
            let mut replies = Map::new();
            for more in due {
                if let Some(value) = self.more(more, &item_scope, Some(shared)).await? {
                    replies.insert(more.name.clone(), value);
                }
            }
            let scope: Scope = item_scope.with("more", &replies).with("body", item);
            seen.questions = questions(ask, &scope).map_err(unreadable)?;
        }
        Ok(Some(seen))
    }
}

/// Returns what a list shows of the job of a scope.
fn item<'a>(list: &List, listed: &'a Listing, scope: &Scope) -> Result<Option<&'a Value>, String> {
    Ok(list.job.text(scope)?.and_then(|id| listed.items.get(&id)))
}

fn unreadable(message: String) -> Error {
    Error::unavailable(format!("list: the reply cannot be read: {message}"))
}
