//! [`Calls`]: the calls in progress. A call keeps its place until it is answered, its program ends or it
//! times out, even if its caller went away. It must not grow beyond what its callers may hold.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::attempts::KeyGuard;
use super::wire::Reply;

/// What a call holds until its end.
pub(super) struct Held {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _key: Option<KeyGuard>,
}

/// The calls of one program.
#[derive(Default)]
pub(super) struct Calls {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    /// The run of the program that calls can be made to. `None` while there is none.
    open: Option<u64>,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    /// Number of calls without an answer since the last answer.
    silent: u32,
}

struct Pending {
    reply: oneshot::Sender<Result<Reply, String>>,
    limit: Duration,
    deadline: Instant,
    _held: Option<Held>,
}

pub(super) type Answer = oneshot::Receiver<Result<Reply, String>>;

impl Calls {
    /// Accepts calls to this run of the program.
    pub(super) fn open(&self, run: u64) {
        let mut state = self.state.lock();
        (state.open, state.silent) = (Some(run), 0);
    }

    /// Adds a call with this limit of time. `None` if this run has ended.
    pub(super) fn add(&self, run: u64, limit: Duration, held: Option<Held>) -> Option<(u64, Answer)> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state.lock();
        if state.open != Some(run) {
            return None;
        }
        state.next_id += 1;
        let id = state.next_id;
        let deadline = Instant::now() + limit;
        state.pending.insert(id, Pending { reply, limit, deadline, _held: held });
        drop(state);
        self.added.notify_one();
        Some((id, answer))
    }

    /// Ends a call with its answer. Returns false if no such call is in progress: the answer came twice, too
    /// late, or to a call that was never made.
    pub(super) fn answer(&self, id: u64, reply: Reply) -> bool {
        let mut state = self.state.lock();
        if id >= 1 && id <= state.next_id {
            state.silent = 0;
        }
        let Some(pending) = state.pending.remove(&id) else { return false };
        drop(state);
        // The caller may have gone away.
        let _ = pending.reply.send(Ok(reply));
        true
    }

    /// Ends the calls that have timed out. Returns when this many calls in a row had no answer.
    pub(super) async fn watch(&self, max_silent: u32) {
        loop {
            let oldest = self.state.lock().pending.first_key_value().map(|(_, pending)| pending.deadline);
            let timeout = async {
                match oldest {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            // A new call may be the oldest by now, with an earlier deadline than one that was answered.
            tokio::select! {
                () = timeout => {}
                () = self.added.notified() => {}
            }
            if self.expire(Instant::now()) >= max_silent {
                return;
            }
        }
    }

    fn expire(&self, now: Instant) -> u32 {
        let mut state = self.state.lock();
        // Calls have the same limit, except `initialize`, which is alone. So the oldest ends first.
        while let Some(entry) = state.pending.first_entry()
            && entry.get().deadline <= now
        {
            let pending = entry.remove();
            let _ = pending.reply.send(Err(format!("timed out after {:?}", pending.limit)));
            state.silent += 1;
        }
        state.silent
    }

    /// Ends all calls, because the program has ended.
    pub(super) fn close(&self, reason: &str) {
        let pending = {
            let mut state = self.state.lock();
            state.open = None;
            std::mem::take(&mut state.pending)
        };
        for pending in pending.into_values() {
            let _ = pending.reply.send(Err(reason.to_owned()));
        }
    }
}
