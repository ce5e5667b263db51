//! [`ResourceSubscriptions`]: the resource subscriptions of one stream. A task's log changes when its job has
//! printed more; the row records that while there is a subscription. A resource of the config changes with
//! the config. It must not know how a generation writes a notification.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::read::Subject;
use crate::auth::Principal;
use crate::catalog::ReadableResource;
use crate::mcp::features::authorization::{CallerContext, Permit};
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::resources;
use crate::mcp::session::edition::Edition;
use crate::tasks::store::Result;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// Minimum time between two messages about one resource. The last one, after the task has ended, is sent at
/// once.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// How long the row counts its log as followed without renewal.
const LEASE: Duration = Duration::from_secs(60);

/// The subscriptions of one stream.
pub(crate) struct ResourceSubscriptions<'a> {
    context: &'a FeatureContext,
    caller: &'a Principal,
    subscriptions: BTreeMap<String, ResourceSubscription>,
    changes: ChangeSubscription,
    editions: watch::Receiver<Edition>,
    /// Tasks whose logs may have changed.
    stale_logs: HashSet<TaskId>,
    /// True if resources of the config may have changed.
    offers_changed: bool,
}

/// One subscription.
struct ResourceSubscription {
    subject: Subject,
    /// What was reported last: a log's length, or a digest of the contents of a resource.
    last_reported: u64,
    /// True if it has changed since.
    changed: bool,
    /// True if it can never change again.
    is_final: bool,
    /// Earliest time of the next message about it.
    not_before: Instant,
    /// When to renew in the row that its log is followed.
    renew_at: Timestamp,
}

/// What there is to report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceChanges {
    /// Resources that have changed.
    pub(crate) changed: Vec<String>,
    /// Logs that can never change again for this caller: the task has ended, or the caller has no such task.
    pub(crate) ended: Vec<String>,
}

impl<'a> ResourceSubscriptions<'a> {
    /// Creates an empty set of subscriptions.
    pub(crate) fn new(context: &'a FeatureContext, caller: &'a Principal) -> Self {
        Self {
            context,
            caller,
            subscriptions: BTreeMap::new(),
            changes: context.service.follow([]),
            editions: context.offers.editions(),
            stale_logs: HashSet::new(),
            offers_changed: false,
        }
    }

    /// Replaces the subscriptions. What a log already contains counts as a change. The current contents of a
    /// resource of the config do not.
    pub(crate) fn set(&mut self, uris: &BTreeSet<String>) {
        for (uri, subscription) in self.subscriptions.extract_if(.., |uri, _| !uris.contains(uri)) {
            tracing::trace!(uri, "no longer followed");
            if let Subject::Log(task) = subscription.subject {
                self.changes.remove_task(&task);
            }
        }
        for uri in
            uris.iter().filter(|uri| !self.subscriptions.contains_key(*uri)).cloned().collect::<Vec<_>>()
        {
            let subject = resources::subject(&uri);
            let last_reported = match &subject {
                Subject::Log(task) => {
                    self.changes.add_task(task);
                    self.stale_logs.insert(task.clone());
                    0
                }
                Subject::Artifact => 0,
                Subject::Configured => self.digest(&uri),
            };
            let (not_before, renew_at) = (Instant::now(), Timestamp::from_millis(0));
            let subscription = ResourceSubscription {
                subject,
                last_reported,
                changed: false,
                is_final: false,
                not_before,
                renew_at,
            };
            self.subscriptions.insert(uri, subscription);
        }
    }

    /// Waits until there is something to report. A resource in [`ResourceChanges::ended`] is no
    /// longer subscribed to. It is cancel-safe: a drop while it waits loses nothing.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn next(&mut self) -> Result<ResourceChanges> {
        loop {
            // Boxed: thousands may wait here, and only a check needs this memory.
            Box::pin(self.check()).await?;
            let changes = self.take_changes();
            if changes != ResourceChanges::default() {
                return Ok(changes);
            }
            let wake_at = self.next_check();
            tokio::select! {
                biased;
                changed = self.changes.next() => {
                    self.stale_logs.extend(changed.tasks);
                    if changed.others {
                        let logs: Vec<TaskId> = self.logs().collect();
                        self.stale_logs.extend(logs);
                    }
                }
                Ok(()) = self.editions.changed() => self.offers_changed = true,
                () = sleep_until(wake_at) => {}
            }
        }
    }

    /// Takes what there is to report now.
    fn take_changes(&mut self) -> ResourceChanges {
        let now = Instant::now();
        let mut changes = ResourceChanges::default();
        for (uri, subscription) in &mut self.subscriptions {
            if subscription.changed && (subscription.is_final || subscription.not_before <= now) {
                (subscription.changed, subscription.not_before) = (false, now + MIN_INTERVAL);
                changes.changed.push(uri.clone());
            }
        }
        for (uri, subscription) in self.subscriptions.extract_if(.., |_, subscription| subscription.is_final)
        {
            if let Subject::Log(task) = &subscription.subject {
                self.changes.remove_task(task);
            }
            changes.ended.push(uri);
        }
        changes
    }

    /// Checks what may have changed, and renews in the rows that their logs are followed.
    async fn check(&mut self) -> Result<()> {
        if std::mem::take(&mut self.offers_changed) {
            self.editions.borrow_and_update();
            let configured = self
                .subscriptions
                .iter()
                .filter(|(_, subscription)| subscription.subject == Subject::Configured);
            let digests: Vec<_> = configured.map(|(uri, _)| (uri.clone(), self.digest(uri))).collect();
            for (uri, digest) in digests {
                let Some(subscription) = self.subscriptions.get_mut(&uri) else { continue };
                subscription.changed |= std::mem::replace(&mut subscription.last_reported, digest) != digest;
            }
        }
        let (now, by) = (self.context.clock.now(), CallerContext::new(self.context, self.caller));
        let logs = self.subscriptions.values_mut().filter_map(|subscription| match &subscription.subject {
            Subject::Log(task) => Some((task.clone(), subscription)),
            Subject::Artifact | Subject::Configured => None,
        });
        for (task, subscription) in logs {
            let must_renew = subscription.renew_at <= now;
            if !must_renew && !self.stale_logs.contains(&task) {
                continue;
            }
            let row = if must_renew {
                subscription.renew_at = now + LEASE / 2;
                self.context.service.follow_log(&by, &task, LEASE).await?
            } else {
                self.context.service.get(&by, &task).await?.map(|view| view.task)
            };
            self.stale_logs.remove(&task);
            let log_bytes = row.as_ref().and_then(|row| row.printed).map_or(0, |log_bytes| log_bytes.bytes);
            if log_bytes > subscription.last_reported {
                (subscription.last_reported, subscription.changed) = (log_bytes, true);
            }
            subscription.is_final = row.as_ref().is_none_or(Task::has_ended);
        }
        self.stale_logs.clear();
        Ok(())
    }

    fn logs(&self) -> impl Iterator<Item = TaskId> {
        self.subscriptions.values().filter_map(|subscription| match &subscription.subject {
            Subject::Log(task) => Some(task.clone()),
            Subject::Artifact | Subject::Configured => None,
        })
    }

    /// Returns when to check again, with or without a hint.
    fn next_check(&self) -> Option<Instant> {
        let now = (Instant::now(), self.context.clock.now());
        let due = self.subscriptions.values().filter_map(|subscription| match &subscription.subject {
            _ if subscription.changed => Some(subscription.not_before),
            Subject::Log(_) => Some(now.0 + subscription.renew_at.since(now.1)),
            Subject::Artifact | Subject::Configured => None,
        });
        due.min()
    }

    /// Returns a digest of the contents of a resource of the config.
    fn digest(&self, uri: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        let (catalog, permit) = (self.context.catalog(), Permit::of(self.caller));
        let may_read = |readable: ReadableResource<'_>| permit.may_read(&catalog, readable);
        catalog.resources().read(uri, may_read).ok().flatten().hash(&mut hasher);
        hasher.finish()
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
