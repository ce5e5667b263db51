//! Counts calls, so that a caller starts no more in a minute than the config lets them. One process does not know what
//! another counted, and it forgets within a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const WINDOW: Duration = Duration::from_secs(60);

/// By caller, until when what they called so far uses up what they may call, were it spread evenly.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Instant>>);

impl Rates {
    /// Counts one call of a caller who may make `most` a minute.
    ///
    /// # Errors
    /// How long it takes until they may call again; this call is not counted.
    pub(super) fn take(&self, caller: &str, most: u32, now: Instant) -> Result<(), Duration> {
        let mut used = self.0.lock();
        if !used.contains_key(caller) {
            // Callers come and go; those that fell silent are dropped when a new one comes.
            used.retain(|_, until| *until > now);
        }
        let until = used.get(caller).copied().unwrap_or(now).max(now) + WINDOW / most.max(1);
        match until.checked_duration_since(now + WINDOW) {
            Some(over) if !over.is_zero() => Err(over),
            _ => {
                used.insert(caller.to_owned(), until);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_may_come_at_once_and_then_one_after_the_other() {
        let rates = Rates::default();
        let start = Instant::now();
        let take = |caller, at| rates.take(caller, 6, start + Duration::from_secs(at));
        for _ in 0..6 {
            assert_eq!(take("ann", 0), Ok(()));
        }
        assert_eq!(take("ann", 0), Err(Duration::from_secs(10)));
        assert_eq!(take("ann", 4), Err(Duration::from_secs(6)), "a refusal counts for nothing");
        assert_eq!(take("bob", 4), Ok(()), "each by themselves");
        assert_eq!(take("ann", 10), Ok(()));
        assert_eq!(take("ann", 11), Err(Duration::from_secs(9)));
        for _ in 0..6 {
            assert_eq!(take("ann", 200), Ok(()));
        }
        assert_eq!(take("cid", 400), Ok(()));
        assert_eq!(rates.0.lock().len(), 1, "silent callers are forgotten");
    }
}
