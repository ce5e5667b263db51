//! What looks like guessing: one owner or one address that does again and again what should be rare. It is told once for
//! each pattern and window, and what goes on beyond is counted and not written, so that nobody fills the log. Pure: it is
//! handed the time, and forgets what is past.

use std::collections::HashMap;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::record::Kind;

/// Over how long something is counted.
pub const WINDOW: Duration = Duration::from_secs(60);
/// So often within a window is suspicious.
pub const SUSPICIOUS: u32 = 20;
/// So many lines of one pattern and subject are written within a window.
pub const WRITTEN: u32 = 100;
/// The most subjects that are counted at a time. Beyond that, new ones are one and the same.
const MOST: usize = 4_096;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Tasks looked for that are not there.
    Lookups,
    /// Attempts to be let in.
    Authentications,
    /// Polls, calls or anything else beyond a limit.
    Excess,
    /// Calls of what one may not call.
    Denials,
}

impl Pattern {
    /// Its name in a line.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Lookups => "many failed lookups",
            Pattern::Authentications => "many failed authentications",
            Pattern::Excess => "many requests beyond a limit",
            Pattern::Denials => "many denied calls",
        }
    }

    /// What an event is counted as.
    pub const fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::LookupFailed => Some(Pattern::Lookups),
            Kind::AuthFailed => Some(Pattern::Authentications),
            Kind::LimitExceeded => Some(Pattern::Excess),
            Kind::CallDenied => Some(Pattern::Denials),
            _ => None,
        }
    }
}

/// What is to be done with one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Whether its line is written.
    pub writes: bool,
    /// Whether this is the one that makes it suspicious.
    pub is_first: bool,
}

/// A window that is over, of which not every line was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// What was counted.
    pub pattern: Pattern,
    /// Of whom.
    pub subject: String,
    /// How often it was.
    pub count: u32,
}

/// Who does what how often.
#[derive(Debug, Default)]
pub struct Suspects {
    counts: HashMap<(Pattern, String), (Timestamp, u32)>,
}

impl Suspects {
    /// Counts one event.
    pub fn count(&mut self, pattern: Pattern, subject: &str, now: Timestamp) -> (Judged, Vec<Over>) {
        let mut over = Vec::new();
        let key = (pattern, subject.to_owned());
        let is_known = self.counts.get(&key).is_some_and(|(since, _)| now.since(*since) < WINDOW);
        if !is_known {
            over = self.over(now);
        }
        let key = if is_known || self.counts.len() < MOST { key } else { (pattern, String::new()) };
        let (_, count) = self.counts.entry(key).or_insert((now, 0));
        *count = count.saturating_add(1);
        (Judged { writes: *count <= WRITTEN, is_first: *count == SUSPICIOUS }, over)
    }

    /// Forgets the windows that are over. Those of which something was not written come back.
    pub fn over(&mut self, now: Timestamp) -> Vec<Over> {
        let mut over = Vec::new();
        self.counts.retain(|(pattern, subject), (since, count)| {
            let lasts = now.since(*since) < WINDOW;
            if !lasts && *count > WRITTEN {
                over.push(Over { pattern: *pattern, subject: subject.clone(), count: *count });
            }
            lasts
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn tells_once_in_a_window_and_writes_no_more_than_so_many_lines() {
        let mut suspects = Suspects::default();
        let judged: Vec<Judged> =
            (0..200).map(|_| suspects.count(Pattern::Lookups, "ann", at(0)).0).collect();
        assert_eq!(judged.iter().filter(|judged| judged.is_first).count(), 1);
        assert_eq!(judged.iter().filter(|judged| judged.writes).count(), WRITTEN as usize);
        let (bob, over) = suspects.count(Pattern::Lookups, "bob", at(59));
        assert_eq!((bob, over), (Judged { writes: true, is_first: false }, Vec::new()));
        let (ann, over) = suspects.count(Pattern::Lookups, "ann", at(60));
        assert!(ann.writes && !ann.is_first, "another window");
        assert_eq!(over, [Over { pattern: Pattern::Lookups, subject: "ann".to_owned(), count: 200 }]);
        assert_eq!(suspects.over(at(1000)), []);
        assert!(suspects.counts.is_empty(), "what is past is forgotten");
    }

    #[test]
    fn many_subjects_take_no_more_memory_than_some() {
        let mut suspects = Suspects::default();
        let firsts = (0..3 * MOST)
            .filter(|n| suspects.count(Pattern::Authentications, &n.to_string(), at(0)).0.is_first)
            .count();
        assert_eq!(suspects.counts.len(), MOST + 1);
        assert_eq!(firsts, 1, "all that have no room of their own are one");
    }
}
