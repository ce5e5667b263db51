//! What GitHub lets a credential ask: once it says that it is enough, nothing more is asked until then. One for each
//! backend, since a backend has one credential. All of it may be lost.

use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use taskbridge_sdk::{Budget, Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::failure::patience;

/// Below this part of its hourly allowance, a credential asks only for what must be known.
const SPARE: f64 = 0.1;

#[derive(Debug, Default)]
pub(crate) struct Limits {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    until: Option<Instant>,
    /// True if little is left of the hour's allowance.
    scarce: bool,
    /// What is left of it, and what there was.
    hour: Option<(f64, f64)>,
}

impl Limits {
    /// An error if GitHub asked for patience and it is not over.
    pub(crate) fn check(&self) -> Result<()> {
        let until = self.known.lock().until;
        let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
        if left.is_zero() {
            return Ok(());
        }
        Err(Error::limited(Some(left), "GitHub asked for patience, and nothing is asked of it until then"))
    }

    /// Learns from an answer that was given.
    pub(crate) fn learn(&self, headers: &HeaderMap) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
        let (Some(left), Some(all)) = (number("x-ratelimit-remaining"), number("x-ratelimit-limit")) else {
            return;
        };
        {
            let mut known = self.known.lock();
            (known.scarce, known.hour) = (left < all * SPARE, Some((left, all)));
        }
        if left < 1.0 {
            self.wait(patience(headers));
        }
    }

    /// What is left of the hour's allowance, as GitHub last said.
    pub(crate) fn budget(&self) -> Option<Budget> {
        let (left, limit) = self.known.lock().hour?;
        Some(Budget { name: "hour".to_owned(), left, limit })
    }

    /// Learns from a refusal.
    pub(crate) fn refused(&self, error: &Error) {
        if let ErrorKind::Limited { after: Some(after) } = error.kind() {
            self.wait(after);
        }
    }

    /// False if what is only nice to know must not be asked for.
    pub(crate) fn are_ample(&self) -> bool {
        let scarce = self.known.lock().scarce;
        !scarce && self.check().is_ok()
    }

    fn wait(&self, after: Duration) {
        let until = Instant::now() + after;
        let mut known = self.known.lock();
        known.until = Some(known.until.map_or(until, |known| known.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(remaining: &str) -> Limits {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", remaining)] {
            headers.insert(name, value.parse().unwrap());
        }
        let limits = Limits::default();
        limits.learn(&headers);
        limits
    }

    #[tokio::test]
    async fn a_spent_allowance_is_not_asked_again() {
        assert!(told("5000").are_ample() && told("4000").check().is_ok());
        let scarce = told("499");
        assert!(!scarce.are_ample() && scarce.check().is_ok());
        assert!(told("0").check().is_err());
        let limits = Limits::default();
        limits.refused(&Error::limited(Some(Duration::from_secs(7)), "no"));
        limits.refused(&Error::limited(Some(Duration::from_secs(3)), "no"));
        let Err(error) = limits.check() else { panic!("nothing was learned") };
        let ErrorKind::Limited { after: Some(after) } = error.kind() else { panic!("{error}") };
        assert!(after > Duration::from_secs(6), "the longest holds: {after:?}");
    }
}
