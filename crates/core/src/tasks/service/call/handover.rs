//! Hands a new task that is leased at once to the reconciler, with its call permit. It must not decide
//! whether a task is leased.

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::{CommittedStart, Service, StartOrigin};
use super::Call;
use crate::tasks::machine::{self, Event};
use crate::tasks::reconciler::CallPermit;
use crate::tasks::task::Task;

/// The right to pass a row that is inserted with a lease to the reconciler. If it is dropped before the
/// outcome of the insert is known, it passes the row on as an orphan. Otherwise no process could act on the
/// row until its lease expires.
pub(super) struct HandoverGuard<'a> {
    service: &'a Service,
    permit: Option<(mpsc::Permit<'a, CommittedStart>, Option<CallPermit>)>,
    /// The row as inserted.
    pub(super) row: Task,
    since: Instant,
    cancel_on_abandon: bool,
}

impl HandoverGuard<'_> {
    pub(super) fn has_call_permit(&self) -> bool {
        self.permit.as_ref().is_some_and(|(_, call_permit)| call_permit.is_some())
    }

    /// Passes on the row after the insert succeeded.
    pub(super) fn hand_over(mut self, task: Task) {
        // Without a `CallPermit` the row was inserted as due, and is claimed like any other.
        if let Some((permit, call_permit @ Some(_))) = self.permit.take() {
            let origin = StartOrigin::Inserted;
            permit.send(CommittedStart { task, since: self.since, origin, call_permit });
        }
    }

    /// Releases the permit: the row was not inserted, and will not be.
    pub(super) fn give_up(mut self) {
        self.permit = None;
    }
}

impl Drop for HandoverGuard<'_> {
    fn drop(&mut self) {
        if let Some((permit, call_permit)) = self.permit.take() {
            // A server that shuts down drops its pending calls; their clients did not disconnect.
            let cancel = self.cancel_on_abandon && !self.service.is_stopping();
            let (task, origin) = (self.row.clone(), StartOrigin::Orphaned { cancel });
            permit.send(CommittedStart { task, since: self.since, origin, call_permit });
        }
    }
}

impl Service {
    /// Guards a row that is about to be inserted with this permit.
    pub(super) fn handover_guard<'a>(
        &'a self,
        permit: (mpsc::Permit<'a, CommittedStart>, Option<CallPermit>),
        pending: &Task,
        call: &Call,
    ) -> HandoverGuard<'a> {
        let committed = match permit.1 {
            Some(_) => machine::next(pending, Event::StartCommitted, pending.created_at).task,
            None => pending.clone(),
        };
        let cancel_on_abandon = call.blocking.as_ref().is_some_and(|blocking| blocking.cancel_on_abandon);
        let row = Task { version: 1, ..committed };
        HandoverGuard { service: self, permit: Some(permit), row, since: Instant::now(), cancel_on_abandon }
    }
}
