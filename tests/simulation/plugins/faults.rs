//! What a plugin does wrong with a message, drawn from the seed of the world.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::rng::Rng;
use super::LIMIT;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The plugin dies before it acts.
    DieBefore,
    /// It acts and dies before it replies.
    DieAfter,
    /// It acts and dies within the line of its reply.
    HalfReply,
    /// It does not act, and never replies.
    LostRequest,
    /// It acts, and never replies.
    LostReply,
    /// It acts, and replies after the time of the call.
    LateReply(Duration),
    /// It acts after the time of the call, and replies then. Only a start can be late: an engine that executes
    /// an old answer could take it for one to a new question of the same id.
    LateRequest(Duration),
    /// It replies after a while, so that replies come out of order.
    Slow(Duration),
    /// It replies twice.
    Twice,
    /// It replies between lines that are no messages, and replies to calls that do not exist.
    Garbage,
}

/// The faults of all plugins of one engine.
#[derive(Default)]
pub(in super::super) struct PluginFaults {
    is_faulty: AtomicBool,
    is_silent: AtomicBool,
}

impl PluginFaults {
    /// Sets whether plugins have random faults.
    pub(in super::super) fn set_faulty(&self, is_faulty: bool) {
        self.is_faulty.store(is_faulty, Ordering::Relaxed);
    }

    /// Sets whether plugins leave every call without an answer.
    pub(in super::super) fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Returns what happens to a call. Of the calls of `initialize`, a plugin can only lose the reply.
    pub(super) fn next(&self, rng: &Rng, is_first: bool) -> Option<Fault> {
        if self.is_silent.load(Ordering::Relaxed) && !is_first {
            return Some(Fault::LostRequest);
        }
        if !self.is_faulty.load(Ordering::Relaxed) || is_first || !rng.one_in(4) {
            return None;
        }
        let late = || LIMIT + Duration::from_millis(1 + rng.below(20_000));
        Some(match rng.below(14) {
            0 => Fault::DieBefore,
            1 => Fault::DieAfter,
            2 => Fault::HalfReply,
            3 => Fault::LostRequest,
            4 | 5 => Fault::LostReply,
            6 | 7 => Fault::LateReply(late()),
            8 => Fault::LateRequest(late()),
            9 | 10 => Fault::Slow(Duration::from_millis(1 + rng.below(8_000))),
            11 | 12 => Fault::Twice,
            _ => Fault::Garbage,
        })
    }

    /// Reports whether a hint is lost.
    pub(super) fn loses_hint(&self, rng: &Rng) -> bool {
        self.is_faulty.load(Ordering::Relaxed) && rng.one_in(3)
    }
}
