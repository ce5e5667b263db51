//! `subscriptions/listen`: an open request that notifies the client of what it subscribed to: tasks, lists,
//! resources. The subscription is not stored. A client whose connection broke subscribes again, and first
//! gets the current state of its tasks.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::tasks::{detailed_task, require_tasks};
use super::wire::Filter;
use super::{StatelessCall, from_wire, to_wire};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::resources;
use crate::mcp::features::resources::subscriptions::{ResourceChanges, ResourceSubscriptions};
use crate::mcp::features::results::ResultReadError;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::session::edition::{Edition, List};
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::{Id, Outcome};
use crate::mcp::wire::types;
use crate::tasks::service::RENEW_WATCH;
use crate::tasks::store::StoreError;
use crate::tasks::task::TaskId;

/// Minimum time between two rounds of messages. Of faster changes, only the newest is sent.
const SPACING: Duration = Duration::from_millis(200);
/// Pause after an error of the store, or while there is no memory for a result.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// `subscriptions/listen`: answers only when the server ends the subscription.
///
/// Thousands may be open at once, so short-lived state is boxed and takes no memory while nothing happens.
pub(super) async fn listen(
    call: &StatelessCall<'_>,
    id: &Id,
    params: Value,
    sink: &dyn MessageSink,
) -> Outcome {
    let requested = from_wire::filter(&params)?;
    drop(params);
    if requested.task_ids.is_some() {
        require_tasks(call, "subscriptions/listen with taskIds")?;
    }
    let granted = Box::pin(grant(call, requested)).await.map_err(store_error)?;
    sink.set_long_lived();
    let acknowledged = json!({ "notifications": granted });
    // Before the acknowledgement: a client that has read it may read the lists at once.
    let stream = SubscriptionStream::new(call, id, sink, granted);
    sink.send(to_wire::subscription_notification(
        "notifications/subscriptions/acknowledged",
        id,
        acknowledged,
    ))
    .await;
    tokio::select! {
        biased;
        () = call.bridge.context.service.stopping() => {}
        () = stream.run() => {}
    }
    if sink.is_shared() {
        let params = json!({ "requestId": id, "reason": "the server stops" });
        sink.send(to_wire::subscription_notification("notifications/cancelled", id, params)).await;
    }
    Ok(to_wire::subscription_ended(id))
}

/// Returns the granted part of a filter: tasks that the caller may see, and resources that exist for the
/// caller, of the first `max_followed_resources`.
async fn grant(call: &StatelessCall<'_>, requested: Filter) -> Result<Filter, StoreError> {
    let mut granted = Filter { task_ids: None, resource_subscriptions: Vec::new(), ..requested };
    let limit = call.bridge.context.settings().limits.max_followed_resources;
    for uri in requested.resource_subscriptions.into_iter().take(limit) {
        if resources::exists(&call.bridge.context, &call.bridge.reads, &call.caller.principal, &uri).await? {
            granted.resource_subscriptions.push(uri);
        }
    }
    if let Some(ids) = requested.task_ids {
        let mut visible = Vec::new();
        for id in ids {
            let task = TaskId::from_wire(&*id);
            match call.bridge.context.service.get(&call.actor(), &task).await? {
                Some(_) => visible.push(id),
                None => call.bridge.context.not_found(call.owner(), &task),
            }
        }
        granted.task_ids = Some(visible);
    }
    Ok(granted)
}

/// One subscription.
struct SubscriptionStream<'a> {
    call: &'a StatelessCall<'a>,
    id: &'a Id,
    sink: &'a dyn MessageSink,
    filter: Filter,
    /// Digests of what was last sent about each task that has not ended.
    sent_digests: HashMap<TaskId, Option<u64>>,
    /// The edition of the lists that the client knows, and a receiver for changes.
    lists: (Edition, watch::Receiver<Edition>),
}

impl<'a> SubscriptionStream<'a> {
    fn new(call: &'a StatelessCall<'a>, id: &'a Id, sink: &'a dyn MessageSink, filter: Filter) -> Self {
        let task_ids = filter.task_ids.iter().flatten();
        let sent_digests = task_ids.map(|id| (TaskId::from_wire(&**id), None)).collect();
        let offers = &call.bridge.context.offers;
        let editions = offers.editions();
        let lists = (offers.edition_for(&call.caller.principal), editions);
        Self { call, id, sink, filter, sent_digests, lists }
    }

    /// Sends messages until it is dropped.
    async fn run(mut self) {
        let bridge = self.call.bridge;
        let mut changes = bridge.context.service.follow(self.sent_digests.keys().cloned());
        let caller = &self.call.caller.principal;
        let mut subscriptions = ResourceSubscriptions::new(&bridge.context, &self.call.caller.principal);
        subscriptions.set(&self.filter.resource_subscriptions.iter().cloned().collect());
        let mut pending: HashSet<TaskId> = self.sent_digests.keys().cloned().collect();
        let mut renew_watch = Instant::now() + RENEW_WATCH;
        loop {
            for id in std::mem::take(&mut pending) {
                match Box::pin(self.notify_task(&id)).await {
                    Ok(true) => {}
                    Ok(false) => {
                        self.sent_digests.remove(&id);
                        changes.remove_task(&id);
                    }
                    // The task is sent once there is memory for its result.
                    Err(ResultReadError::MemoryExhausted(_)) => {
                        pending.insert(id);
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                    Err(ResultReadError::Store(error)) => {
                        tracing::error!(%error, "a subscription cannot read its tasks");
                        pending.insert(id);
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                }
            }
            tokio::time::sleep(SPACING).await;
            tokio::select! {
                biased;
                // First, because it is rare: tasks that change all the time must not delay it.
                resource_changes = subscriptions.next() => match resource_changes {
                    Ok(resource_changes) => self.notify_resources(resource_changes).await,
                    Err(error) => {
                        tracing::error!(%error, "a subscription cannot read its resources");
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                },
                changed = changes.next() => {
                    pending.extend(changed.tasks.into_iter().filter(|id| self.sent_digests.contains_key(id)));
                    if changed.others {
                        pending.extend(self.sent_digests.keys().cloned());
                    }
                }
                Ok(()) = self.lists.1.changed() => {
                    let current = bridge.context.offers.edition_for(caller);
                    let previous = std::mem::replace(&mut self.lists.0, current);
                    self.notify_lists(previous, current).await;
                }
                // Reading a task also renews that it is watched.
                () = tokio::time::sleep_until(renew_watch), if !self.sent_digests.is_empty() => {
                    pending.extend(self.sent_digests.keys().cloned());
                    renew_watch = Instant::now() + RENEW_WATCH;
                }
            }
        }
    }

    /// Sends the state of a task, if it is new. Returns false once nothing more can follow.
    async fn notify_task(&mut self, id: &TaskId) -> Result<bool, ResultReadError> {
        let Some(view) = self.call.bridge.context.service.get(&self.call.actor(), id).await? else {
            return Ok(false);
        };
        let task = types::value(&detailed_task(self.call, &view, self.sink).await?);
        let digest = digest(&task);
        if self.sent_digests.get(id) != Some(&Some(digest)) {
            // It can contain a result. With `on_failure = "refuse"`, the audit log must be written before it
            // is sent.
            self.call.bridge.context.audit.flush_current_request().await?;
            self.sent_digests.insert(id.clone(), Some(digest));
            self.sink.send(to_wire::subscription_notification("notifications/tasks", self.id, task)).await;
        }
        Ok(!view.task.has_ended())
    }

    async fn notify_resources(&self, changes: ResourceChanges) {
        for uri in &changes.changed {
            let params = json!({ "uri": uri });
            let method = "notifications/resources/updated";
            self.sink.send(to_wire::subscription_notification(method, self.id, params)).await;
        }
    }

    async fn notify_lists(&self, previous: Edition, current: Edition) {
        for list in current.differing(previous) {
            let (is_subscribed, method) = match list {
                List::Tools => (self.filter.tools_list_changed, "notifications/tools/list_changed"),
                List::Prompts => (self.filter.prompts_list_changed, "notifications/prompts/list_changed"),
                List::Resources => {
                    (self.filter.resources_list_changed, "notifications/resources/list_changed")
                }
            };
            if is_subscribed {
                self.sink.send(to_wire::subscription_notification(method, self.id, json!({}))).await;
            }
        }
    }
}

/// Returns a digest of the message about a task. The poll interval changes all the time, and is not news.
fn digest(task: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, member) in task.as_object().into_iter().flatten() {
        if name != "pollIntervalMs" {
            name.hash(&mut hasher);
            member.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}
