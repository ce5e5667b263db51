//! [`ResourceSubscriptions`]: the resource subscriptions of one stream. A task's log changes when its job has
//! printed more; the row records that while there is a subscription. A resource of the config changes with
//! the config. It must not know how a generation writes a notification.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Bridge;
use super::authorization::{CallerContext, Permit};
use super::offers::Edition;
use super::resources::{self, Subject};
use crate::auth::Principal;
use crate::catalog::Readable;
use crate::tasks::store::Result;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// Minimum time between two messages about one resource. The last one, after the task has ended, is sent at
/// once.
const PACE: Duration = Duration::from_secs(1);
/// How long the row counts its log as followed without renewal.
const LEASE: Duration = Duration::from_secs(60);

/// The subscriptions of one stream.
pub(super) struct ResourceSubscriptions<'a> {
    bridge: &'a Bridge,
    caller: &'a Principal,
    followed: BTreeMap<String, ResourceSubscription>,
    changes: ChangeSubscription,
    editions: watch::Receiver<Edition>,
    /// Tasks whose logs may have changed.
    behind: HashSet<TaskId>,
    /// True if resources of the config may have changed.
    offers_changed: bool,
}

/// One subscription.
struct ResourceSubscription {
    subject: Subject,
    /// What was reported last: a log's length, or a digest of the contents of a resource.
    told: u64,
    /// True if it has changed since.
    changed: bool,
    /// True if it can never change again.
    over: bool,
    /// Earliest time of the next message about it.
    not_before: Instant,
    /// When to renew in the row that its log is followed.
    renew_at: Timestamp,
}

/// What there is to report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceChanges {
    /// Resources that have changed.
    pub(super) changed: Vec<String>,
    /// Logs that can never change again for this caller: the task has ended, or the caller has no such task.
    pub(super) over: Vec<String>,
}

impl<'a> ResourceSubscriptions<'a> {
    /// Creates an empty set of subscriptions.
    pub(super) fn new(bridge: &'a Bridge, caller: &'a Principal) -> Self {
        Self {
            bridge,
            caller,
            followed: BTreeMap::new(),
            changes: bridge.service.follow([]),
            editions: bridge.offers.editions(),
            behind: HashSet::new(),
            offers_changed: false,
        }
    }

    /// Replaces the subscriptions. What a log already contains counts as a change. The current contents of a
    /// resource of the config do not.
    pub(super) fn set(&mut self, uris: &BTreeSet<String>) {
        for (uri, followed) in self.followed.extract_if(.., |uri, _| !uris.contains(uri)) {
            tracing::trace!(uri, "no longer followed");
            if let Subject::Log(task) = followed.subject {
                self.changes.remove_task(&task);
            }
        }
        for uri in uris.iter().filter(|uri| !self.followed.contains_key(*uri)).cloned().collect::<Vec<_>>() {
            let subject = resources::subject(&uri);
            let told = match &subject {
                Subject::Log(task) => {
                    self.changes.add_task(task);
                    self.behind.insert(task.clone());
                    0
                }
                Subject::Artifact => 0,
                Subject::Offered => self.digest(&uri),
            };
            let (not_before, renew_at) = (Instant::now(), Timestamp::from_millis(0));
            let followed =
                ResourceSubscription { subject, told, changed: false, over: false, not_before, renew_at };
            self.followed.insert(uri, followed);
        }
    }

    /// Waits until there is something to report. A resource in [`ResourceChanges::over`] is no longer
    /// followed. It is cancel-safe: a drop while it waits loses nothing.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn next(&mut self) -> Result<ResourceChanges> {
        loop {
            // Boxed: thousands may wait here, and only a check needs this memory.
            Box::pin(self.look()).await?;
            let news = self.take();
            if news != ResourceChanges::default() {
                return Ok(news);
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                changed = self.changes.next() => {
                    self.behind.extend(changed.tasks);
                    if changed.others {
                        let logs: Vec<TaskId> = self.logs().collect();
                        self.behind.extend(logs);
                    }
                }
                Ok(()) = self.editions.changed() => self.offers_changed = true,
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Takes what there is to report now.
    fn take(&mut self) -> ResourceChanges {
        let now = Instant::now();
        let mut news = ResourceChanges::default();
        for (uri, followed) in &mut self.followed {
            if followed.changed && (followed.over || followed.not_before <= now) {
                (followed.changed, followed.not_before) = (false, now + PACE);
                news.changed.push(uri.clone());
            }
        }
        for (uri, followed) in self.followed.extract_if(.., |_, followed| followed.over) {
            if let Subject::Log(task) = &followed.subject {
                self.changes.remove_task(task);
            }
            news.over.push(uri);
        }
        news
    }

    /// Checks what may have changed, and renews in the rows that their logs are followed.
    async fn look(&mut self) -> Result<()> {
        if std::mem::take(&mut self.offers_changed) {
            self.editions.borrow_and_update();
            let offered = self.followed.iter().filter(|(_, followed)| followed.subject == Subject::Offered);
            let digests: Vec<_> = offered.map(|(uri, _)| (uri.clone(), self.digest(uri))).collect();
            for (uri, digest) in digests {
                let Some(followed) = self.followed.get_mut(&uri) else { continue };
                followed.changed |= std::mem::replace(&mut followed.told, digest) != digest;
            }
        }
        let (now, by) = (self.bridge.clock.now(), CallerContext::new(self.bridge, self.caller));
        let logs = self.followed.values_mut().filter_map(|followed| match &followed.subject {
            Subject::Log(task) => Some((task.clone(), followed)),
            Subject::Artifact | Subject::Offered => None,
        });
        for (task, followed) in logs {
            let renews = followed.renew_at <= now;
            if !renews && !self.behind.contains(&task) {
                continue;
            }
            let row = if renews {
                followed.renew_at = now + LEASE / 2;
                self.bridge.service.follow_log(&by, &task, LEASE).await?
            } else {
                self.bridge.service.get(&by, &task).await?.map(|view| view.task)
            };
            self.behind.remove(&task);
            let printed = row.as_ref().and_then(|row| row.printed).map_or(0, |printed| printed.bytes);
            if printed > followed.told {
                (followed.told, followed.changed) = (printed, true);
            }
            followed.over = row.as_ref().is_none_or(Task::has_ended);
        }
        self.behind.clear();
        Ok(())
    }

    fn logs(&self) -> impl Iterator<Item = TaskId> {
        self.followed.values().filter_map(|followed| match &followed.subject {
            Subject::Log(task) => Some(task.clone()),
            Subject::Artifact | Subject::Offered => None,
        })
    }

    /// Returns when to check again, with or without a hint.
    fn wake(&self) -> Option<Instant> {
        let now = (Instant::now(), self.bridge.clock.now());
        let due = self.followed.values().filter_map(|followed| match &followed.subject {
            _ if followed.changed => Some(followed.not_before),
            Subject::Log(_) => Some(now.0 + followed.renew_at.since(now.1)),
            Subject::Artifact | Subject::Offered => None,
        });
        due.min()
    }

    /// Returns a digest of the contents of a resource of the config.
    fn digest(&self, uri: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        let (catalog, permit) = (self.bridge.catalog(), Permit::of(self.caller));
        let may = |readable: Readable<'_>| permit.may_read(&catalog, readable);
        catalog.resources().read(uri, may).ok().flatten().hash(&mut hasher);
        hasher.finish()
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
