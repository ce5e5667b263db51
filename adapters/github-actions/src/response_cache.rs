//! Cache of GitHub's responses by path, with their ETags. GitHub does not count a request for unchanged data
//! against the rate limit. Its size is limited, and all of it may be lost. It must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum total size of cached responses, in bytes.
const MOST_BYTES: usize = 32 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct ResponseCache {
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    by_path: HashMap<String, Answer>,
    bytes: usize,
    uses: u64,
}

struct Answer {
    tag: String,
    body: Bytes,
    /// When GitHub last sent or confirmed this response.
    told_at: Instant,
    used: u64,
}

impl ResponseCache {
    /// Returns the ETag of the last response for this path.
    pub(crate) fn tag(&self, path: &str) -> Option<String> {
        self.answers.lock().by_path.get(path).map(|answer| answer.tag.clone())
    }

    /// Returns the last response for this path, which GitHub has just confirmed.
    pub(crate) fn confirmed(&self, path: &str) -> Option<Bytes> {
        let mut answers = self.answers.lock();
        answers.by_path.get_mut(path)?.told_at = Instant::now();
        answers.take(path)
    }

    /// Returns the last response for this path, if GitHub sent or confirmed it within `age`.
    pub(crate) fn within(&self, age: Duration, path: &str) -> Option<Bytes> {
        let mut answers = self.answers.lock();
        let is_recent = answers.by_path.get(path).is_some_and(|answer| answer.told_at.elapsed() < age);
        if is_recent { answers.take(path) } else { None }
    }

    /// Stores a response, and evicts the least recently used ones beyond `MOST_BYTES`.
    pub(crate) fn put(&self, path: &str, tag: String, body: Bytes) {
        self.put_within(MOST_BYTES, path, tag, body);
    }

    fn put_within(&self, most: usize, path: &str, tag: String, body: Bytes) {
        let mut answers = self.answers.lock();
        answers.uses += 1;
        let used = answers.uses;
        answers.bytes += body.len();
        let answer = Answer { tag, body, told_at: Instant::now(), used };
        if let Some(before) = answers.by_path.insert(path.to_owned(), answer) {
            answers.bytes -= before.body.len();
        }
        while answers.bytes > most {
            let oldest = answers.by_path.iter().min_by_key(|(_, answer)| answer.used);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else { break };
            let forgotten = answers.by_path.remove(&path).map(|answer| answer.body.len());
            answers.bytes -= forgotten.unwrap_or_default();
        }
    }
}

impl Answers {
    fn take(&mut self, path: &str) -> Option<Bytes> {
        self.uses += 1;
        let answer = self.by_path.get_mut(path)?;
        answer.used = self.uses;
        Some(answer.body.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least recently used response is dropped when the cache is full.
    #[test]
    fn least_recently_used_response_is_evicted() {
        let kept = ResponseCache::default();
        let put =
            |path: &str| kept.put_within(10, path, format!("tag of {path}"), Bytes::from_static(b"four"));
        put("a");
        put("b");
        assert_eq!(kept.confirmed("a").as_deref(), Some(&b"four"[..]));
        put("c");
        assert_eq!(kept.tag("a").as_deref(), Some("tag of a"));
        assert_eq!((kept.tag("b"), kept.tag("c").is_some()), (None, true));
        put("a");
        assert_eq!(kept.answers.lock().bytes, 8, "an answer takes the place of the one before");
    }

    /// A cached response is used only up to the age that the caller allows.
    #[test]
    fn cached_response_respects_max_age() {
        let kept = ResponseCache::default();
        kept.put("a", "tag".to_owned(), Bytes::from_static(b"four"));
        assert!(kept.within(Duration::MAX, "a").is_some() && kept.within(Duration::MAX, "b").is_none());
        assert!(kept.within(Duration::ZERO, "a").is_none(), "who wants to know how it is now must ask");
    }
}
