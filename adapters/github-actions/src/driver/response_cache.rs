//! Cache of GitHub's responses by path, with their ETags. GitHub does not count a request for unchanged data
//! against the rate limit. Its size is limited, and all of it may be lost. It must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum total size of cached responses, in bytes.
const MAX_BYTES: usize = 32 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct ResponseCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_path: HashMap<String, CachedResponse>,
    bytes: usize,
    use_count: u64,
}

struct CachedResponse {
    etag: String,
    body: Bytes,
    /// When GitHub last sent or confirmed this response.
    validated_at: Instant,
    last_use: u64,
}

impl ResponseCache {
    /// Returns the ETag of the last response for this path.
    pub(crate) fn etag(&self, path: &str) -> Option<String> {
        self.entries.lock().by_path.get(path).map(|response| response.etag.clone())
    }

    /// Returns the last response for this path, which GitHub has just confirmed.
    pub(crate) fn revalidate(&self, path: &str) -> Option<Bytes> {
        let mut entries = self.entries.lock();
        entries.by_path.get_mut(path)?.validated_at = Instant::now();
        entries.get_and_touch(path)
    }

    /// Returns the last response for this path, if GitHub sent or confirmed it within `max_age`.
    pub(crate) fn get_fresh(&self, max_age: Duration, path: &str) -> Option<Bytes> {
        let mut entries = self.entries.lock();
        let is_fresh =
            entries.by_path.get(path).is_some_and(|response| response.validated_at.elapsed() < max_age);
        if is_fresh { entries.get_and_touch(path) } else { None }
    }

    /// Stores a response, and evicts the least recently used ones beyond `MAX_BYTES`.
    pub(crate) fn put(&self, path: &str, etag: String, body: Bytes) {
        self.put_with_limit(MAX_BYTES, path, etag, body);
    }

    fn put_with_limit(&self, max_bytes: usize, path: &str, etag: String, body: Bytes) {
        let mut entries = self.entries.lock();
        entries.use_count += 1;
        let last_use = entries.use_count;
        entries.bytes += body.len();
        let response = CachedResponse { etag, body, validated_at: Instant::now(), last_use };
        if let Some(previous) = entries.by_path.insert(path.to_owned(), response) {
            entries.bytes -= previous.body.len();
        }
        while entries.bytes > max_bytes {
            let oldest = entries.by_path.iter().min_by_key(|(_, response)| response.last_use);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else { break };
            let removed_bytes = entries.by_path.remove(&path).map(|response| response.body.len());
            entries.bytes -= removed_bytes.unwrap_or_default();
        }
    }
}

impl Entries {
    fn get_and_touch(&mut self, path: &str) -> Option<Bytes> {
        self.use_count += 1;
        let response = self.by_path.get_mut(path)?;
        response.last_use = self.use_count;
        Some(response.body.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least recently used response is dropped when the cache is full.
    #[test]
    fn least_recently_used_response_is_evicted() {
        let cache = ResponseCache::default();
        let put = |path: &str| {
            cache.put_with_limit(10, path, format!("tag of {path}"), Bytes::from_static(b"four"))
        };
        put("a");
        put("b");
        assert_eq!(cache.revalidate("a").as_deref(), Some(&b"four"[..]));
        put("c");
        assert_eq!(cache.etag("a").as_deref(), Some("tag of a"));
        assert_eq!((cache.etag("b"), cache.etag("c").is_some()), (None, true));
        put("a");
        assert_eq!(cache.entries.lock().bytes, 8, "a response replaces the previous one");
    }

    /// A cached response is used only up to the age that the caller allows.
    #[test]
    fn cached_response_respects_max_age() {
        let cache = ResponseCache::default();
        cache.put("a", "tag".to_owned(), Bytes::from_static(b"four"));
        assert!(
            cache.get_fresh(Duration::MAX, "a").is_some() && cache.get_fresh(Duration::MAX, "b").is_none()
        );
        assert!(cache.get_fresh(Duration::ZERO, "a").is_none(), "age zero always needs a request");
    }
}
