//! Counts polls, and messages that are no requests, so that a caller who sends them without pause is slowed down. It forgets within seconds, and one process
//! does not know what another counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::whose::Whose;

const WINDOW: Duration = Duration::from_secs(1);

/// So many times as many polls as are answered at once are held until the second is over; beyond that they are refused.
const HELD: u32 = 5;

/// Polls of the current second, by caller.
#[derive(Debug, Default)]
pub(super) struct Polls {
    windows: Mutex<HashMap<Whose, Window>>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    count: u32,
}

/// What is to be done with a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is answered.
    Now,
    /// It is answered after so long.
    After(Duration),
    /// It is refused.
    Never,
}

impl Turn {
    /// Waits for it. False if it never comes.
    pub(super) async fn comes(self) -> bool {
        if let Self::After(pause) = self {
            tokio::time::sleep(pause).await;
        }
        self != Self::Never
    }
}

impl Polls {
    /// Counts one poll of a caller who may make `most` a second.
    pub(super) fn turn(&self, caller: Whose, most: u32, now: Instant) -> Turn {
        let mut windows = self.windows.lock();
        let Some(window) = windows.get_mut(&caller) else {
            // Callers come and go; those that fell silent are dropped when a new one comes.
            windows.retain(|_, window| now.duration_since(window.since) < WINDOW);
            windows.insert(caller, Window { since: now, count: 1 });
            return Turn::Now;
        };
        if now.duration_since(window.since) >= WINDOW {
            *window = Window { since: now, count: 0 };
        }
        window.count = window.count.saturating_add(1);
        match window.count {
            count if count <= most => Turn::Now,
            count if count <= most.saturating_mul(HELD) => {
                Turn::After(WINDOW.saturating_sub(now.duration_since(window.since)))
            }
            _ => Turn::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_so_many_a_second_of_each_caller_holds_some_and_refuses_the_rest() {
        let polls = Polls::default();
        let start = Instant::now();
        let turn = |caller, at| polls.turn(Whose::named(caller), 2, start + Duration::from_millis(at));
        assert_eq!([0, 10].map(|at| turn("ann", at)), [Turn::Now; 2]);
        for at in (20..100).step_by(10) {
            assert_eq!(turn("ann", at), Turn::After(Duration::from_millis(1000 - at)));
        }
        assert_eq!(turn("ann", 100), Turn::Never);
        assert_eq!(turn("bob", 100), Turn::Now);
        assert_eq!(turn("ann", 999), Turn::Never);
        assert_eq!(turn("ann", 1000), Turn::Now);
        assert_eq!(turn("cid", 5000), Turn::Now);
        assert_eq!(polls.windows.lock().len(), 1, "silent callers are forgotten");
    }
}
