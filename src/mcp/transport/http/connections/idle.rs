//! [`IdleConnections`]: the connections without a request, in the order in which they became idle. At the
//! connection limit, the oldest idle connection is closed for a new one. This module must not know what a
//! connection is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a connection must be idle before it can be evicted. A new client gets this time to send its
/// request.
const GRACE: Duration = Duration::from_millis(250);

/// Minimum interval between two log messages about evictions.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The idle connections. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::mcp::transport::http) struct IdleConnections(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    added: Notify,
}

#[derive(Default)]
struct Queue {
    next: u64,
    idle: BTreeMap<u64, Idle>,
    /// Evictions since the last log message.
    evicted: u64,
    last_logged: Option<Instant>,
}

struct Idle {
    since: Instant,
    evicted: CancellationToken,
}

/// Idle state of one connection. Dropping it removes the connection from the eviction queue.
pub(in crate::mcp::transport::http) struct IdleState {
    connections: IdleConnections,
    position: Option<u64>,
    evicted: CancellationToken,
}

impl IdleConnections {
    /// Registers a new connection as idle.
    pub(in crate::mcp::transport::http) fn join(&self) -> IdleState {
        let mut state =
            IdleState { connections: self.clone(), position: None, evicted: CancellationToken::new() };
        state.set_idle();
        state
    }

    /// Waits until a connection can be evicted.
    pub(in crate::mcp::transport::http) async fn evictable(&self) {
        loop {
            let oldest = self.0.queue.lock().idle.first_key_value().map(|(_, idle)| idle.since + GRACE);
            match oldest {
                None => self.0.added.notified().await,
                Some(at) if at <= Instant::now() => return,
                Some(at) => sleep_until(at).await,
            }
        }
    }

    /// Evicts the oldest idle connection, if its grace period has passed.
    pub(in crate::mcp::transport::http) fn evict_oldest(&self) {
        let (mut queue, now) = (self.0.queue.lock(), Instant::now());
        let Some(oldest) = queue.idle.first_entry().filter(|oldest| oldest.get().since + GRACE <= now) else {
            return;
        };
        oldest.remove().evicted.cancel();
        queue.evicted += 1;
        if queue.last_logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY) {
            tracing::warn!(
                closed = queue.evicted,
                "the oldest idle connections are closed for new ones: there are as many as max_connections in [limits] and \
                 the descriptor limit allow"
            );
            (queue.evicted, queue.last_logged) = (0, Some(now));
        }
    }
}

impl IdleState {
    /// Returns the token that is cancelled when this connection is evicted.
    pub(in crate::mcp::transport::http) fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }

    /// Marks the connection as idle.
    pub(in crate::mcp::transport::http) fn set_idle(&mut self) {
        self.set_busy();
        if self.evicted.is_cancelled() {
            return;
        }
        let mut queue = self.connections.0.queue.lock();
        let position = queue.next;
        queue.next += 1;
        queue.idle.insert(position, Idle { since: Instant::now(), evicted: self.evicted.clone() });
        drop(queue);
        self.position = Some(position);
        self.connections.0.added.notify_one();
    }

    /// Marks the connection as busy.
    pub(in crate::mcp::transport::http) fn set_busy(&mut self) {
        if let Some(position) = self.position.take() {
            self.connections.0.queue.lock().idle.remove(&position);
        }
    }
}

impl Drop for IdleState {
    fn drop(&mut self) {
        self.set_busy();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn oldest_idle_connection_is_evicted() {
        let connections = IdleConnections::default();
        let mut all = [connections.join(), connections.join(), connections.join()];
        all[0].set_busy();
        let start = Instant::now();
        connections.evictable().await;
        assert_eq!(start.elapsed(), GRACE, "a new connection has a moment");
        connections.evict_oldest();
        let evicted =
            |all: &[IdleState]| all.iter().map(|one| one.evicted().is_cancelled()).collect::<Vec<_>>();
        assert_eq!(evicted(&all), [false, true, false]);
        all[2].set_busy();
        assert!(timeout(GRACE * 10, connections.evictable()).await.is_err(), "none is idle");
        all[0].set_idle();
        all[1].set_idle();
        advance(GRACE).await;
        connections.evict_oldest();
        connections.evict_oldest();
        assert_eq!(evicted(&all), [true, true, false], "one in hand is left alone");
        drop(all);
        assert!(connections.0.queue.lock().idle.is_empty());
    }
}
