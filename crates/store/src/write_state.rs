//! [`WriteState`]: whether a store accepts writes, according to its last ones. It must not write anything
//! itself.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Minimum interval between two logs of the same reason while writes fail.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The last failure that affects all writes, until a write succeeds. Both stores have one.
#[derive(Debug, Default)]
pub(super) struct WriteState(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failure: Option<&'static str>,
    logged: Option<(&'static str, Instant)>,
}

impl WriteState {
    /// Returns the reason of that failure, as fixed text; `None` while writes succeed.
    pub(super) fn failure(&self) -> Option<&'static str> {
        self.0.lock().failure
    }

    /// Records a successful write.
    pub(super) fn record_success(&self) {
        self.0.lock().failure = None;
    }

    /// Records a failure that affects all writes.
    pub(super) fn record_failure(&self, reason: &'static str, error: &impl std::fmt::Display) {
        let mut state = self.0.lock();
        state.failure = Some(reason);
        if !state.logged.is_some_and(|(last, at)| last == reason && at.elapsed() < LOG_EVERY) {
            state.logged = Some((reason, Instant::now()));
            tracing::error!(%error, "the store takes no writes");
        }
    }
}
