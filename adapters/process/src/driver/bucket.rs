//! [`Bucket`]: a rate limit for what a program sends without being asked. It must not sleep.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket.
pub(super) struct Bucket {
    tokens: f64,
    burst: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(burst: f64, per_second: f64) -> Self {
        Self { tokens: burst, burst, per_second, at: Instant::now() }
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let new = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + new).min(self.burst);
        self.at = now;
    }

    /// Takes tokens if there are enough.
    pub(super) fn take(&mut self, tokens: f64) -> bool {
        self.refill();
        let enough = self.tokens >= tokens;
        if enough {
            self.tokens -= tokens;
        }
        enough
    }

    /// Takes tokens in any case, and returns the time until the bucket is no longer in debt.
    pub(super) fn charge(&mut self, tokens: f64) -> Duration {
        self.refill();
        self.tokens -= tokens;
        match self.tokens < 0.0 {
            true => Duration::from_secs_f64(-self.tokens / self.per_second),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_then_rate() {
        let mut bucket = Bucket::new(3.0, 2.0);
        assert_eq!([(); 4].map(|()| bucket.take(1.0)), [true, true, true, false]);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!([(); 2].map(|()| bucket.take(1.0)), [true, false]);
        assert_eq!(bucket.charge(1.0), Duration::from_millis(500));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!([(); 4].map(|()| bucket.take(1.0)), [true, true, true, false]);
    }
}
