//! [`Hints`]: a log of the numbers of jobs that changed. It must not grow without bound: a slow listener
//! loses old hints, which is allowed.

use std::collections::VecDeque;

/// Maximum number of hints that are kept.
const MAX_HINTS: usize = 65_536;

/// Log of hints with any number of listeners, each with its own cursor.
#[derive(Default)]
pub(super) struct Hints {
    queue: VecDeque<u64>,
    /// Total number of hints so far. The latest of them is the last in `queue`.
    count: u64,
    discarding: bool,
}

impl Hints {
    pub(super) fn push(&mut self, number: u64) {
        if self.discarding {
            return;
        }
        if self.queue.len() == MAX_HINTS {
            self.queue.pop_front();
        }
        self.queue.push_back(number);
        self.count += 1;
    }

    /// Sets whether new hints are lost from now on.
    pub(super) fn set_discarding(&mut self, discarding: bool) {
        self.discarding = discarding;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first hint after this cursor that is still kept, and the cursor after it.
    pub(super) fn after(&self, cursor: u64) -> Option<(u64, u64)> {
        let oldest = self.count - self.queue.len() as u64;
        let position = cursor.max(oldest);
        let number = self.queue.get(usize::try_from(position - oldest).ok()?)?;
        Some((*number, position + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that is too slow continues with the oldest hint that is kept.
    #[test]
    fn slow_hint_listener_skips_dropped_hints() {
        let mut hints = Hints::default();
        let total = MAX_HINTS as u64 + 5;
        for number in 0..total {
            hints.push(number);
        }
        assert_eq!(hints.after(0), Some((5, 6)));
        assert_eq!(hints.after(total - 1), Some((total - 1, total)));
        assert_eq!(hints.after(total), None);
        assert_eq!(hints.queue.len(), MAX_HINTS);
    }
}
