//! What GitHub answered lately, by path, with the tag under which it says that nothing has changed. Such an answer is not
//! counted by GitHub. Bounded; all of it may be lost.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The most bytes of answers that are kept.
const MOST_BYTES: usize = 32 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Kept {
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
    /// When GitHub last said that this is how it is.
    told_at: Instant,
    used: u64,
}

impl Kept {
    /// The tag of the last answer to this path.
    pub(crate) fn tag(&self, path: &str) -> Option<String> {
        self.answers.lock().by_path.get(path).map(|answer| answer.tag.clone())
    }

    /// The last answer to this path, of which GitHub has said just now that it still holds.
    pub(crate) fn confirmed(&self, path: &str) -> Option<Bytes> {
        let mut answers = self.answers.lock();
        answers.by_path.get_mut(path)?.told_at = Instant::now();
        answers.take(path)
    }

    /// The last answer to this path, if GitHub gave or confirmed it within this time.
    pub(crate) fn within(&self, age: Duration, path: &str) -> Option<Bytes> {
        let mut answers = self.answers.lock();
        let is_recent = answers.by_path.get(path).is_some_and(|answer| answer.told_at.elapsed() < age);
        if is_recent { answers.take(path) } else { None }
    }

    /// Keeps an answer, and forgets those that were not used for longest.
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

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let kept = Kept::default();
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

    #[test]
    fn an_answer_counts_for_as_long_as_is_wanted_and_not_for_more() {
        let kept = Kept::default();
        kept.put("a", "tag".to_owned(), Bytes::from_static(b"four"));
        assert!(kept.within(Duration::MAX, "a").is_some() && kept.within(Duration::MAX, "b").is_none());
        assert!(kept.within(Duration::ZERO, "a").is_none(), "who wants to know how it is now must ask");
    }
}
