//! The guard of a listening stream that other processes know of. When it is dropped, the end of the stream is
//! recorded in the row of its session. A drop cannot write to a store, so the reconciler makes that write.
//! This module must not decide which stream is active.

use std::sync::Arc;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::SessionState;
use super::token::Session;
use crate::sessions::streams::{StreamEvent, TaskReport};
use crate::sessions::{SessionChange, Sessions};
use crate::tasks::service::{FrontEndWrite, Service};
use crate::tasks::store::Result;

/// A listening stream that other processes know of. On drop it reports that the stream has ended, so that an
/// older one becomes active.
#[must_use]
pub struct ListenerGuard {
    service: Service,
    end: ListenerClosed,
}

/// The end of a listening stream, as it is written.
#[derive(Clone)]
struct ListenerClosed {
    store: Arc<dyn Sessions>,
    session: String,
    /// The number of the stream in its session.
    n: u64,
    /// Its last reports. An older stream of the session continues from them.
    reports: Vec<TaskReport>,
    /// Until when the session's settings are kept.
    forget_after: Timestamp,
}

impl SessionState {
    /// Guards the listening stream `n` of a session.
    pub fn guard_listener(&self, service: &Service, session: &Session, n: u64) -> ListenerGuard {
        let end = ListenerClosed {
            store: Arc::clone(&self.store),
            session: session.nonce.clone(),
            n,
            reports: Vec::new(),
            forget_after: session.expires,
        };
        ListenerGuard { service: service.clone(), end }
    }
}

impl ListenerGuard {
    /// Records what the stream has reported, now that it ends.
    pub fn set_reports(&mut self, reports: Vec<TaskReport>) {
        self.end.reports = reports;
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        // If the process ends before the write, the stream's entry expires after a while.
        self.service.defer(Box::new(self.end.clone()));
    }
}

#[async_trait]
impl FrontEndWrite for ListenerClosed {
    async fn execute(&self) -> Result<()> {
        // The reports come first, since an older stream becomes active as soon as it sees that this one has
        // closed.
        if !self.reports.is_empty() {
            self.record(StreamEvent::Reported(self.reports.clone())).await?;
        }
        self.record(StreamEvent::Closed(self.n)).await
    }
}

impl ListenerClosed {
    async fn record(&self, event: StreamEvent) -> Result<()> {
        self.store.set(&self.session, SessionChange::Streams(event), self.forget_after).await.map(drop)
    }
}
