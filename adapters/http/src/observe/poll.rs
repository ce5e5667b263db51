//! Polls of one job: the reply of `observe`, and those of `more`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use taskbridge_sdk::{Error, JobHandle, JobState, Observation, Result};

use crate::config::{More, State};
use crate::core::Http;
use crate::driver::auth::By;
use crate::identity::handle;
use crate::language::Scope;
use crate::observe::conclude::observation;
use crate::observe::snapshot::{Snapshot, observe_table, state_of};
use crate::store::list_cache::SharedReplies;

/// What a poll is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    /// The state alone.
    State,
    /// An observation, for a client that waits for progress or not.
    Observation { watched: bool },
    /// These replies of `more`, in any state.
    Replies(&'a BTreeSet<String>),
}

impl Http {
    /// Polls a job.
    ///
    /// # Errors
    /// See [`taskbridge_sdk::Backend::observe`].
    pub(crate) async fn poll(
        &self,
        handle: &JobHandle,
        watched: bool,
        shared: Option<&SharedReplies>,
    ) -> Result<Observation> {
        match self.snapshot(handle, Purpose::Observation { watched }, shared).await? {
            Some(snapshot) => observation(&self.config, handle, &snapshot).map_err(|message| {
                Error::unavailable(format!("observe: the reply cannot be read: {message}"))
            }),
            None => Ok(Observation::new(JobState::Gone)),
        }
    }

    /// Returns the scope of requests about a job. `None` for a handle that is not one of this backend.
    pub(crate) fn handle_scope(&self, handle: &JobHandle) -> Option<Scope> {
        let values = handle::parse(handle)?;
        // A handle of an older config may lack a member that a request needs.
        let is_complete = self.config.start.handle.keys().all(|name| values.contains_key(name));
        let is_renamed = self.config.observe.iter().filter_map(|table| table.rename.as_ref());
        let is_new = is_renamed.into_iter().any(|rename| rename.keys().all(|name| values.contains_key(name)));
        (is_complete || is_new).then(|| self.base_scope().with("handle", values))
    }

    /// Polls a job. `None` if the engine does not know it.
    ///
    /// # Errors
    /// As for [`Http::poll`].
    pub(crate) async fn snapshot(
        &self,
        handle: &JobHandle,
        purpose: Purpose<'_>,
        shared: Option<&SharedReplies>,
    ) -> Result<Option<Snapshot<'_>>> {
        let Some(scope) = self.handle_scope(handle) else { return Ok(None) };
        let table = observe_table(&self.config, &scope).map_err(unreadable)?;
        let reply =
            self.call(&table.request, &scope, &[], By::Own).await.map_err(|e| e.of_read("observe"))?;
        let Some((state, word)) = state_of(&self.config, table, &reply, &scope)? else { return Ok(None) };
        if word.is_unknown {
            self.report_unknown(&word.text);
        }
        let mut snapshot = Snapshot {
            state,
            word: word.text,
            scope: reply.scope(scope),
            table,
            retry_after: reply.retry_after.filter(|_| !state.has_ended()),
        };
        let mut replies = Map::new();
        for more in &self.config.more {
            if !is_wanted(more, purpose, &snapshot).map_err(unreadable)? {
                continue;
            }
            match self.more(more, &snapshot.scope, shared).await {
                Ok(Some(value)) => {
                    if is_pending(more, &snapshot.scope, &value).map_err(unreadable)? {
                        snapshot.state = State::Running;
                    }
                    replies.insert(more.name.clone(), value);
                }
                Ok(None) => {}
                // Only details for a client that waits: the state is known without them.
                Err(_) if more.watched && !state.has_ended() => {}
                Err(error) => return Err(error),
            }
            snapshot.scope = snapshot.scope.with("more", &replies);
        }
        Ok(Some(snapshot))
    }

    /// Returns a further reply. `None` if there is nothing.
    pub(crate) async fn more(
        &self,
        more: &More,
        scope: &Scope,
        shared: Option<&SharedReplies>,
    ) -> Result<Option<Value>> {
        match shared.filter(|_| more.shared) {
            Some(replies) => replies.get_or_request(&more.name, self.fetch(more, scope)).await,
            None => self.fetch(more, scope).await,
        }
    }

    async fn fetch(&self, more: &More, scope: &Scope) -> Result<Option<Value>> {
        let what = format!("more.{}", more.name);
        let reply = self.call(&more.request, scope, &[], By::Own).await.map_err(|e| e.of_read(&what))?;
        let is_missing = match &more.missing {
            Some(missing) => missing.is_true(&reply.scope(scope.clone())).map_err(unreadable)?,
            None => reply.is_absent(),
        };
        if is_missing {
            return Ok(None);
        }
        let reply = self.expect_success(&what, reply, scope)?;
        let mut value = reply.value();
        if let Some(items) = &more.items {
            let found =
                self.items(&what, &more.request, more.next.as_ref(), items, scope, Some(reply)).await?;
            value["items"] = found.items.into();
        }
        Ok(Some(value))
    }
}

/// Returns whether a further reply comes too early.
fn is_pending(more: &More, scope: &Scope, value: &Value) -> Result<bool, String> {
    let Some(pending) = &more.pending else { return Ok(false) };
    pending.is_true(&scope.clone().with("status", &value["status"]).with("body", &value["body"]))
}

/// Returns whether a further reply is wanted.
fn is_wanted(more: &More, purpose: Purpose<'_>, snapshot: &Snapshot<'_>) -> Result<bool, String> {
    let is_asked_for = match purpose {
        Purpose::State => false,
        Purpose::Replies(names) => names.contains(&more.name),
        Purpose::Observation { watched } => is_due(more, snapshot.state, watched),
    };
    let condition = more.condition.as_ref().filter(|_| is_asked_for);
    condition.map_or(Ok(is_asked_for), |condition| condition.is_true(&snapshot.scope))
}

/// Returns whether a poll of a job in this state sends the request.
pub(crate) fn is_due(more: &More, state: State, watched: bool) -> bool {
    let is_for_state = more.when.as_ref().is_none_or(|states| states.contains(&state));
    // The observation of an ended job is the same for every client.
    is_for_state && (!more.watched || watched || state.has_ended())
}

/// Returns the names of `more` that expressions use.
pub(crate) fn names_of_more<'a>(names: impl IntoIterator<Item = String> + 'a) -> BTreeSet<String> {
    let more = |name: String| {
        name.strip_prefix("more.").map(|rest| rest.split('.').next().unwrap_or(rest).to_owned())
    };
    names.into_iter().filter_map(more).collect()
}

fn unreadable(message: String) -> Error {
    Error::unavailable(format!("the reply cannot be read: {message}"))
}
