//! [`WriteState`]: whether a store takes writes, as its last ones went. It must not write anything itself.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often one reason is logged while writes fail.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Whether the last write failed. Both stores keep one.
#[derive(Debug, Default)]
pub(super) struct WriteState(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failing: Option<&'static str>,
    logged: Option<(&'static str, Instant)>,
}

impl WriteState {
    /// Why the last write failed, in fixed words.
    pub(super) fn failing(&self) -> Option<&'static str> {
        self.0.lock().failing
    }

    /// A write succeeded.
    pub(super) fn succeeded(&self) {
        self.0.lock().failing = None;
    }

    /// A write failed as others will.
    pub(super) fn failed(&self, reason: &'static str, error: &impl std::fmt::Display) {
        let mut state = self.0.lock();
        state.failing = Some(reason);
        if !state.logged.is_some_and(|(last, at)| last == reason && at.elapsed() < LOG_EVERY) {
            state.logged = Some((reason, Instant::now()));
            tracing::error!(%error, "the store takes no writes");
        }
    }
}
