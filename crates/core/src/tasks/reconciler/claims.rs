//! Claims: leases due rows of connected backends, at most as many as the backend has free call permits. A
//! backend without a free permit delays only its own rows, and their deadlines are applied nevertheless. Rows
//! of a backend whose calls fail here are claimed later ([`super::precedence`]). This module must not call an
//! engine.

use std::collections::BTreeMap;
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::actions::LeasedRow;
use super::engine::{CallPermit, Engines};
use super::permit_requests::PermitRequests;
use crate::tasks::machine::{self, Action, Event};
use crate::tasks::store::{ClaimRequest, ClaimResult, Lease, Result, ServedBackend};
use crate::tasks::task::{Owner, TaskId};

/// Maximum number of rows that are claimed of one backend at a time.
const BATCH: usize = 64;
/// Delay before a backend's rows are claimed again after a claim that returned none although some were due.
const EMPTY_CLAIM_DELAY: Duration = Duration::from_millis(100);
/// Number of rows of a busy backend that are read at a time, to find those that need no call to it.
const LOCAL_BATCH: usize = 256;

/// The state of the claiming loop.
pub(super) struct Claims {
    requests: PermitRequests,
    /// The owner that was served last, by backend.
    cursors: BTreeMap<String, Owner>,
    /// The identity for which rows without an identity were adopted, by backend.
    adopted: BTreeMap<String, String>,
}

impl Claims {
    pub(super) fn new(engines: Engines) -> Self {
        let (cursors, adopted) = Default::default();
        Self { requests: PermitRequests::new(engines), cursors, adopted }
    }
}

impl Core {
    /// Waits until rows are due, and claims them together with a call permit for each.
    pub(super) async fn claim_due(&self, claims: &mut Claims) -> Vec<LeasedRow> {
        loop {
            let earliest = match self.claim_once(claims).await {
                Ok((leased, _)) if !leased.is_empty() => return leased,
                Ok((_, earliest)) => earliest,
                Err(error) => {
                    tracing::warn!(%error, "due rows cannot be claimed");
                    None
                }
            };
            let now = self.writer.now();
            let tick = now + self.settings.tick;
            let wake = earliest.map_or(tick, |due| due.min(tick));
            self.writer.nudge.sleeps_until(wake);
            tokio::select! {
                biased;
                () = tokio::time::sleep(wake.since(now).max(Duration::from_millis(1))) => {}
                () = self.writer.nudge.due.notified() => {}
                () = claims.requests.granted() => {}
            }
        }
    }

    /// Claims the due rows of each backend with free permits. Returns them, and when the next row
    /// of such a backend is due.
    async fn claim_once(&self, claims: &mut Claims) -> Result<(Vec<LeasedRow>, Option<Timestamp>)> {
        let served = self.engines.served();
        for served in &served {
            self.adopt_rows(claims, served).await;
        }
        let due = self.writer.store.next_due(&served).await;
        let due = due.inspect_err(|_| claims.requests.release_granted())?;
        let now = self.writer.now();
        let (mut leased, mut earliest) = (Vec::new(), None);
        let mut next = |due: Timestamp| {
            earliest = Some(earliest.map_or(due, |earliest: Timestamp| earliest.min(due)));
        };
        for (served, due) in served.into_iter().zip(due) {
            let Some(due) = due else { continue };
            let overdue = self.engines.claim_delay(&served.backend);
            let due = due + overdue;
            if due > now {
                next(due);
                continue;
            }
            let Some(call_permit) = claims.requests.take(&served.backend) else { continue };
            let more_permits = std::iter::from_fn(|| self.engines.try_acquire_permit(&served.backend));
            let call_permits: Vec<CallPermit> =
                std::iter::once(call_permit).chain(more_permits.take(BATCH - 1)).collect();
            match self.claim_for(claims, served, overdue, call_permits).await {
                // Another process leased them, or they cannot be read: an immediate retry would
                // return the same.
                Ok(rows) if rows.is_empty() => next(now + EMPTY_CLAIM_DELAY),
                Ok(rows) => {
                    leased.extend(rows);
                    next(due);
                }
                // Rows that are already claimed are processed all the same; these are claimed a tick later.
                Err(error) => tracing::warn!(%error, "due rows cannot be claimed"),
            }
        }
        claims.requests.release_granted();
        Ok((leased, earliest))
    }

    /// Claims rows of one backend that have been due for so long, one for each permit.
    async fn claim_for(
        &self,
        claims: &mut Claims,
        served: ServedBackend,
        overdue: Duration,
        call_permits: Vec<CallPermit>,
    ) -> Result<Vec<LeasedRow>> {
        let ServedBackend { backend, identity } = served.clone();
        let cursor = claims.cursors.get(&backend).cloned();
        let request = ClaimRequest { served, limit: call_permits.len(), cursor, overdue };
        let since = Instant::now();
        let ClaimResult { tasks, cursor } =
            self.writer.store.claim(&self.holder, self.settings.lease, &request).await?;
        if let Some(cursor) = cursor {
            claims.cursors.insert(backend, cursor);
        }
        let leased = |(task, call_permit)| LeasedRow::claimed(task, since, call_permit, identity.clone());
        Ok(tasks.into_iter().zip(call_permits).map(leased).collect())
    }

    /// Adopts rows without an identity, once for each identity. They belong to the engine that is
    /// connected first under their backend's name.
    async fn adopt_rows(&self, claims: &mut Claims, served: &ServedBackend) {
        let Some(identity) = &served.identity else { return };
        if claims.adopted.get(&served.backend) == Some(identity) {
            return;
        }
        let backend = &served.backend;
        match self.writer.store.adopt(served).await {
            Ok(others) => {
                claims.adopted.insert(backend.clone(), identity.clone());
                for (other, tasks) in others {
                    tracing::warn!(
                        "backend `{backend}` is connected to {identity}, and {tasks} unfinished tasks of this store belong to \
                         a backend of the same name that is connected to {other}: they wait until a server connects that one"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, backend, "rows without an identity cannot be adopted"),
        }
    }

    /// Applies, every tick until `stop`, the deadlines of due rows whose backend has no free permit. This
    /// needs no call.
    pub(super) async fn deadline_loop(&self, stop: &CancellationToken) {
        let mut cursors: BTreeMap<String, (Timestamp, TaskId)> = BTreeMap::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.tick) => {}
            }
            for served in self.engines.served() {
                if !self.engines.is_busy(&served.backend) {
                    cursors.remove(&served.backend);
                    continue;
                }
                let after = cursors.remove(&served.backend);
                match self.apply_deadlines(&served, after.as_ref()).await {
                    Ok(Some(last)) => drop(cursors.insert(served.backend, last)),
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "deadlines cannot be applied"),
                }
            }
        }
    }

    /// Applies the deadlines of up to [`LOCAL_BATCH`] due rows after `after`. Returns the last of them if
    /// there may be more.
    async fn apply_deadlines(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
    ) -> Result<Option<(Timestamp, TaskId)>> {
        let rows = self.writer.store.list_due(served, after, LOCAL_BATCH).await?;
        let last = rows.last().and_then(|task| Some((task.due_at?, task.id.clone())));
        let more = rows.len() == LOCAL_BATCH;
        for task in rows {
            if machine::todo(&task, self.writer.now()) != Action::Expire {
                continue;
            }
            // It needs no lease: a claim in the meantime writes another version.
            self.writer.commit(&task, Event::DeadlinePassed, Lease::Keep).await?;
        }
        Ok(last.filter(|_| more))
    }
}
