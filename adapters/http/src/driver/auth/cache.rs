//! [`TokenCache`]: keeps one token until shortly before its end. It must not know how a token is obtained.

use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Result, Secret};
use tokio::time::Instant;

/// How long before its end a token is replaced, at most.
const MARGIN: Duration = Duration::from_secs(60);
/// Longest time that a token is kept, whatever its lifetime.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Shortest lifetime that is assumed, so that a server whose tokens have no lifetime is not asked for each
/// request.
const SHORTEST: Duration = Duration::from_secs(2);

/// A new token.
pub(super) struct FreshToken {
    pub(super) token: Secret,
    /// Time until its end.
    pub(super) lasts: Duration,
}

/// Cache of one token. At most one refresh runs at a time; other users of the cache wait for its result.
#[derive(Default)]
pub(super) struct TokenCache {
    current: Mutex<Option<CachedToken>>,
    refresh: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedToken {
    token: Secret,
    replace_at: Instant,
    ends_at: Instant,
}

impl TokenCache {
    /// Returns the token, from `fetch` if there is none or it ends soon.
    ///
    /// # Errors
    /// The error of `fetch`, unless the old token is still valid.
    pub(super) async fn get(&self, fetch: impl AsyncFnOnce() -> Result<FreshToken>) -> Result<Secret> {
        if let Some(current) = self.usable() {
            return Ok(current);
        }
        let _refresh = self.refresh.lock().await;
        // Another user may have refreshed it meanwhile.
        if let Some(current) = self.usable() {
            return Ok(current);
        }
        match fetch().await {
            Ok(fresh) => {
                let lasts = fresh.lasts.clamp(SHORTEST, LONGEST);
                let now = Instant::now();
                let replace_at = now + lasts - MARGIN.min(lasts / 4);
                let token = fresh.token.clone();
                let cached = CachedToken { token: fresh.token, replace_at, ends_at: now + lasts };
                *self.current.lock() = Some(cached);
                Ok(token)
            }
            Err(error) => match self.current.lock().as_ref() {
                Some(old) if Instant::now() < old.ends_at => Ok(old.token.clone()),
                _ => Err(error),
            },
        }
    }

    /// Removes the token: the engine refused it.
    pub(super) fn clear(&self) {
        *self.current.lock() = None;
    }

    fn usable(&self) -> Option<Secret> {
        let current = self.current.lock();
        current.as_ref().filter(|current| Instant::now() < current.replace_at).map(|c| c.token.clone())
    }
}
