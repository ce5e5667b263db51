//! [`ConnectionScheduler`]: lets the connections whose last request was not accepted be polled a few at a
//! time. Every other task that is ready runs in between. Otherwise, a thousand hostile connections that
//! become readable at once would delay a good client until all of them were polled. It must not know what a
//! connection does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;
use tokio_util::sync::PollSemaphore;

/// How many connections are polled between two yields to the runtime.
const POLLS_PER_YIELD: usize = 2;

/// The queue of all connections of a listener. Cheap to clone.
#[derive(Clone)]
pub(in crate::mcp::transport::http) struct ConnectionScheduler(Arc<Shared>);

struct Shared {
    /// Turns that were granted and not yet used. The semaphore is fair: first come, first served.
    turns: Arc<Semaphore>,
    /// Connections that wait for a turn.
    waiting: AtomicUsize,
    joined: Notify,
}

/// One connection.
pub(in crate::mcp::transport::http) struct ScheduledConnection {
    scheduler: ConnectionScheduler,
    turns: PollSemaphore,
    is_waiting: bool,
}

impl Default for ConnectionScheduler {
    fn default() -> Self {
        let (turns, waiting, joined) = (Arc::new(Semaphore::new(0)), AtomicUsize::new(0), Notify::new());
        Self(Arc::new(Shared { turns, waiting, joined }))
    }
}

impl ConnectionScheduler {
    /// Grants turns, and never returns.
    pub(in crate::mcp::transport::http) async fn run(&self) {
        let Shared { turns, waiting, joined } = &*self.0;
        loop {
            let count = waiting.load(Ordering::Acquire).min(POLLS_PER_YIELD);
            if count == 0 {
                joined.notified().await;
                continue;
            }
            waiting.fetch_sub(count, Ordering::AcqRel);
            turns.add_permits(count);
            // The runtime polls for new events before this task continues.
            yield_now().await;
        }
    }

    /// Adds a connection.
    pub(in crate::mcp::transport::http) fn join(&self) -> ScheduledConnection {
        let turns = PollSemaphore::new(Arc::clone(&self.0.turns));
        ScheduledConnection { scheduler: self.clone(), turns, is_waiting: false }
    }
}

impl ScheduledConnection {
    /// Returns ready once the connection may be polled once.
    pub(in crate::mcp::transport::http) fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_waiting {
            self.is_waiting = true;
            self.scheduler.0.waiting.fetch_add(1, Ordering::AcqRel);
            self.scheduler.0.joined.notify_one();
        }
        let turn = ready!(self.turns.poll_acquire(context));
        self.is_waiting = false;
        // The semaphore is never closed, and each turn is used only once.
        turn.into_iter().for_each(tokio::sync::OwnedSemaphorePermit::forget);
        Poll::Ready(())
    }
}

impl Drop for ScheduledConnection {
    /// Withdraws a pending turn, so that the number of turns matches the number of waiting connections.
    fn drop(&mut self) {
        if !self.is_waiting {
            return;
        }
        let Shared { turns, waiting, .. } = &*self.scheduler.0;
        self.turns = PollSemaphore::new(Arc::clone(turns));
        let is_counted =
            waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1)).is_ok();
        if !is_counted && let Ok(turn) = turns.try_acquire() {
            turn.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::future::join_all;

    use super::*;

    /// A hundred connections that are ready at once are polled two at a time, and another task runs in
    /// between.
    #[tokio::test]
    async fn ready_connections_take_turns() {
        let (scheduler, polled) = (ConnectionScheduler::default(), AtomicUsize::new(0));
        let connections = join_all((0..100).map(|_| {
            let (mut connection, polled) = (scheduler.join(), &polled);
            async move {
                poll_fn(|context| connection.poll_turn(context)).await;
                polled.fetch_add(1, Ordering::Relaxed);
            }
        }));
        let other = async {
            let mut longest = 0;
            loop {
                let before = polled.load(Ordering::Relaxed);
                yield_now().await;
                let after = polled.load(Ordering::Relaxed);
                longest = longest.max(after - before);
                if after == 100 {
                    return longest;
                }
            }
        };
        let longest = tokio::select! {
            biased;
            (_, longest) = async { tokio::join!(connections, other) } => longest,
            () = scheduler.run() => unreachable!("it never returns"),
        };
        assert!(longest <= 2 * POLLS_PER_YIELD, "{longest} connections in a row");
    }

    /// A connection that is dropped while it waits takes no turn from others.
    #[tokio::test]
    async fn dropped_connection_blocks_no_others() {
        let scheduler = ConnectionScheduler::default();
        let (mut dropped, mut remaining) = (scheduler.join(), scheduler.join());
        let is_pending = poll_fn(|context| Poll::Ready(dropped.poll_turn(context).is_pending())).await;
        assert!(is_pending);
        drop(dropped);
        assert_eq!(scheduler.0.waiting.load(Ordering::Relaxed), 0);
        tokio::select! {
            () = poll_fn(|context| remaining.poll_turn(context)) => {}
            () = scheduler.run() => unreachable!("it never returns"),
        }
        assert_eq!(scheduler.0.turns.available_permits(), 0);
    }
}
