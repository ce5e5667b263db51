//! Abuse detection: one owner or address that repeats what should be rare. It reports each pattern once per
//! subject and window. The lines of a window are written up to a limit, and further events are only counted,
//! so that no caller fills the log. Each pattern has its own table, so that a flood in one hides nothing in
//! the others. Pure: the caller passes the time, and past windows are deleted.

use std::collections::HashMap;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::record::Kind;

/// The length of a counting window.
pub const WINDOW: Duration = Duration::from_secs(60);
/// The minimum interval between sweeps of all counters: a sweep takes a while, and all callers wait for it.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The alert threshold: the number of events of a subject within a window.
pub const ALERT_THRESHOLD: u32 = 20;
/// The maximum lines per pattern, subject and window, except for reads and reports of client tasks.
pub const MAX_LINES: u32 = 100;
/// The maximum lines per subject and window for [`Pattern::Reads`] and [`Pattern::ClientTaskReports`].
const MAX_REPEATED_LINES: u32 = 10;
/// The maximum number of subjects of a pattern. Beyond it, new ones share one counter, or are not counted and
/// all their lines are written (see `shares_overflow`).
const MAX_SUBJECTS: usize = 4_096;

/// The subject of the shared counter.
const SHARED_SUBJECT: &str = "all others";

/// A pattern of events that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Lookups of tasks that do not exist.
    Lookups,
    /// Failed authentications.
    Authentications,
    /// Polls, calls and other requests beyond a limit.
    Excess,
    /// Calls without permission.
    Denials,
    /// Repeated reads of the same data by one caller within the window. The subject is the caller and the
    /// data.
    Reads,
    /// Reports of a client on a task that it created for a question. The subject is the caller and the
    /// question.
    ClientTaskReports,
}

impl Pattern {
    /// Returns its name in a line. It is kept in audit logs, and operators search for it.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Lookups => "many failed lookups",
            Pattern::Authentications => "many failed authentications",
            Pattern::Excess => "many requests beyond a limit",
            Pattern::Denials => "many denied calls",
            Pattern::Reads => "many reads of one and the same",
            Pattern::ClientTaskReports => "many words on one task of a client's",
        }
    }

    /// Returns the pattern of a kind of event.
    pub const fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::LookupFailed => Some(Pattern::Lookups),
            Kind::AuthFailed => Some(Pattern::Authentications),
            Kind::LimitExceeded => Some(Pattern::Excess),
            Kind::CallDenied => Some(Pattern::Denials),
            Kind::ResultRead | Kind::LogRead | Kind::ArtifactRead => Some(Pattern::Reads),
            Kind::ClientTask => Some(Pattern::ClientTaskReports),
            _ => None,
        }
    }

    /// Returns the maximum lines per subject and window.
    const fn max_lines(self) -> u32 {
        match self {
            Pattern::Reads | Pattern::ClientTaskReports => MAX_REPEATED_LINES,
            Pattern::Lookups | Pattern::Authentications | Pattern::Excess | Pattern::Denials => MAX_LINES,
        }
    }

    /// Returns true if the subjects beyond the maximum number share one counter. A caller who reads much
    /// data, or gets many questions, is not suspicious: all of these lines are written.
    const fn shares_overflow(self) -> bool {
        !matches!(self, Pattern::Reads | Pattern::ClientTaskReports)
    }
}

/// The decision on one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertDecision {
    /// Whether its line is written.
    pub is_written: bool,
    /// Whether this event reaches the alert threshold.
    pub is_alert: bool,
}

/// A window that is over, and in which some lines were suppressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedWindow {
    /// The pattern.
    pub pattern: Pattern,
    /// The subject.
    pub subject: String,
    /// The number of events.
    pub count: u32,
}

/// The event counters per pattern and subject.
#[derive(Debug, Default)]
pub struct AbuseCounters {
    counts: HashMap<Pattern, HashMap<String, (Timestamp, u32)>>,
    last_sweep: Option<Timestamp>,
}

impl AbuseCounters {
    /// Counts one event. Also returns windows that are over and in which lines were suppressed: that of this
    /// subject, and those of a sweep if one is due.
    pub fn count(
        &mut self,
        pattern: Pattern,
        subject: &str,
        now: Timestamp,
    ) -> (AlertDecision, Vec<SuppressedWindow>) {
        let mut suppressed = Vec::new();
        let counter = self.counts.get(&pattern).and_then(|subjects| subjects.get(subject));
        let is_known = counter.is_some_and(|(since, _)| is_active(*since, now));
        if !is_known && self.last_sweep.is_none_or(|last_sweep| now.since(last_sweep) >= SWEEP_INTERVAL) {
            suppressed = self.sweep(now);
        }
        let subjects = self.counts.entry(pattern).or_default();
        let is_full = !subjects.contains_key(subject) && subjects.len() >= MAX_SUBJECTS;
        if is_full && !pattern.shares_overflow() {
            return (AlertDecision { is_written: true, is_alert: false }, suppressed);
        }
        let subject = if is_full { SHARED_SUBJECT } else { subject };
        let (since, count) = subjects.entry(subject.to_owned()).or_insert((now, 0));
        // This window ends on time, independently of the sweeps.
        if !is_active(*since, now) {
            let before = std::mem::take(count);
            *since = now;
            if before > pattern.max_lines() {
                suppressed.push(SuppressedWindow { pattern, subject: subject.to_owned(), count: before });
            }
        }
        *count = count.saturating_add(1);
        (
            AlertDecision { is_written: *count <= pattern.max_lines(), is_alert: *count == ALERT_THRESHOLD },
            suppressed,
        )
    }

    /// Deletes the windows that are over. Returns those with suppressed lines.
    pub fn sweep(&mut self, now: Timestamp) -> Vec<SuppressedWindow> {
        self.last_sweep = Some(now);
        let mut suppressed = Vec::new();
        for (pattern, subjects) in &mut self.counts {
            subjects.retain(|subject, (since, count)| {
                let is_current = is_active(*since, now);
                if !is_current && *count > pattern.max_lines() {
                    suppressed.push(SuppressedWindow {
                        pattern: *pattern,
                        subject: subject.clone(),
                        count: *count,
                    });
                }
                is_current
            });
        }
        suppressed
    }
}

/// Returns true if a window that began at `since` is not over.
fn is_active(since: Timestamp, now: Timestamp) -> bool {
    now.since(since) < WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0) + Duration::from_secs(seconds)
    }

    /// At most `MAX_LINES` events of a subject are logged per window; its end reports the count.
    #[test]
    fn alert_is_raised_once_per_window() {
        let mut counters = AbuseCounters::default();
        let decisions: Vec<AlertDecision> =
            (0..200).map(|_| counters.count(Pattern::Lookups, "ann", at(0)).0).collect();
        assert_eq!(decisions.iter().filter(|decision| decision.is_alert).count(), 1);
        assert_eq!(decisions.iter().filter(|decision| decision.is_written).count(), MAX_LINES as usize);
        let (bob, suppressed) = counters.count(Pattern::Lookups, "bob", at(59));
        assert_eq!((bob, suppressed), (AlertDecision { is_written: true, is_alert: false }, Vec::new()));
        let (ann, suppressed) = counters.count(Pattern::Lookups, "ann", at(60));
        assert!(ann.is_written && !ann.is_alert, "another window");
        assert_eq!(
            suppressed,
            [SuppressedWindow { pattern: Pattern::Lookups, subject: "ann".to_owned(), count: 200 }]
        );
        assert_eq!(counters.sweep(at(1000)), []);
        assert!(counters.counts[&Pattern::Lookups].is_empty(), "past windows are deleted");
    }

    /// Any event triggers the check of all windows, and each window ends at its own time.
    #[test]
    fn alert_windows_are_checked_every_second() {
        let mut counters = AbuseCounters::default();
        let ends = |count| SuppressedWindow { pattern: Pattern::Lookups, subject: "ann".to_owned(), count };
        let mut again = |subject: &str, millis: u64, times: u32| {
            let now = Timestamp::from_millis(0) + Duration::from_millis(millis);
            (0..times).flat_map(|_| counters.count(Pattern::Lookups, subject, now).1).collect::<Vec<_>>()
        };
        assert_eq!(again("ann", 0, 200), []);
        assert_eq!(again("new", 59_500, 1), []);
        assert_eq!(again("newer", 60_200, 1), [], "the last sweep was 700 ms ago");
        assert_eq!(again("newest", 60_500, 1), [ends(200)]);
        assert_eq!(again("ann", 60_600, 300), []);
        assert_eq!(again("another", 120_000, 1), []);
        assert_eq!(again("ann", 120_700, 1), [ends(300)], "a window ends on time without a sweep");
    }

    /// Reads of different artifacts are all logged; repeats of one are only counted after the first few.
    #[test]
    fn repeated_reads_are_summarized() {
        let mut counters = AbuseCounters::default();
        let things = 2 * MAX_SUBJECTS;
        let written = (0..things)
            .filter(|n| counters.count(Pattern::Reads, &format!("ann {n}"), at(0)).0.is_written)
            .count();
        assert_eq!(written, things);
        let again =
            (0..1_000).filter(|_| counters.count(Pattern::Reads, "ann 1", at(1)).0.is_written).count();
        assert_eq!(again, MAX_REPEATED_LINES as usize - 1, "one read was counted before");
        let suppressed = counters.sweep(at(60));
        assert_eq!(
            suppressed,
            [SuppressedWindow { pattern: Pattern::Reads, subject: "ann 1".to_owned(), count: 1_001 }]
        );
    }

    /// Subjects beyond the limit of a table share one entry, and one full table does not affect another.
    #[test]
    fn alert_memory_is_bounded() {
        let mut counters = AbuseCounters::default();
        let firsts = (0..3 * MAX_SUBJECTS)
            .filter(|n| counters.count(Pattern::Authentications, &n.to_string(), at(0)).0.is_alert)
            .count();
        assert_eq!(counters.counts[&Pattern::Authentications].len(), MAX_SUBJECTS + 1);
        assert_eq!(firsts, 1, "subjects beyond the limit share one counter");
        let (ann, _) = counters.count(Pattern::Lookups, "ann", at(0));
        assert!(ann.is_written, "a full table does not affect another");
    }
}
