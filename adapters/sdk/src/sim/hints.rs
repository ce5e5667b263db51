//! [`Hints`]: the numbers of jobs that changed, kept for those who wait to hear of it. It must not grow without
//! bound: what a slow listener has not fetched is lost, as hints may be.

use std::collections::VecDeque;

/// How many hints are kept.
const KEPT: usize = 65_536;

/// A log of hints that any number of listeners read, each from its own place.
#[derive(Default)]
pub(super) struct Hints {
    kept: VecDeque<u64>,
    /// How many there ever were; the last of them is the last of `kept`.
    count: u64,
    losing: bool,
}

impl Hints {
    pub(super) fn push(&mut self, number: u64) {
        if self.losing {
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(number);
        self.count += 1;
    }

    /// Whether new hints are lost from now on.
    pub(super) fn lose(&mut self, losing: bool) {
        self.losing = losing;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The first kept hint after so many, and its own place.
    pub(super) fn after(&self, seen: u64) -> Option<(u64, u64)> {
        let oldest = self.count - self.kept.len() as u64;
        let place = seen.max(oldest);
        let number = self.kept.get(usize::try_from(place - oldest).ok()?)?;
        Some((*number, place + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_is_too_slow_goes_on_with_the_oldest_kept() {
        let mut hints = Hints::default();
        let total = KEPT as u64 + 5;
        for number in 0..total {
            hints.push(number);
        }
        assert_eq!(hints.after(0), Some((5, 6)));
        assert_eq!(hints.after(total - 1), Some((total - 1, total)));
        assert_eq!(hints.after(total), None);
        assert_eq!(hints.kept.len(), KEPT);
    }
}
