//! [`UsualDuration`]: how long a tool's jobs usually take, from the durations that a store keeps; its text,
//! and the estimated end of a running job. It is the only definition of "usual": the poll schedule, status
//! messages, commands and pages use it. Pure: it must not read a store or a clock.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use crate::tasks::task::Task;

/// Maximum number of durations that a store keeps of one tool: the newest.
pub const MAX_DURATIONS: usize = 100;
/// Minimum number of durations for a usual one. With fewer, a single unusual job would decide it.
pub const MIN_DURATIONS: usize = 5;

/// Maximum number of variants of a tool with durations of their own. Two rare ones may share a number.
pub const MAX_VARIANTS: u16 = 4096;

/// The word that each text of this module contains.
const USUALLY: &str = "usually";

/// The usual duration of a tool's jobs, from the engine's acceptance to the end. Only jobs that succeeded
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsualDuration {
    /// Half of the jobs took at most this long.
    pub median: Duration,
    /// Nine of ten jobs took at most this long. At least the median.
    pub p90: Duration,
    /// Number of durations that these values are from: between [`MIN_DURATIONS`] and [`MAX_DURATIONS`].
    pub jobs: usize,
}

/// How much longer a job is expected to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// The median is this far away.
    About(Duration),
    /// The median has passed, and the 90th percentile is this far away.
    Within(Duration),
    /// The job has run longer than nine of ten jobs.
    LongerThanUsual,
}

/// Returns the names under which a store keeps the durations of a task's jobs: that of its variant of the tool,
/// and that of all its jobs. No tool has a `#` in its name.
pub fn duration_keys(task: &Task) -> impl Iterator<Item = String> + use<> {
    let tool = task.tool.clone();
    let of_variant = task.variant.map(|variant| format!("{tool}#{variant}"));
    of_variant.into_iter().chain([tool])
}

impl UsualDuration {
    /// Returns the usual duration, by the nearest-rank method. `None` if there are fewer than
    /// [`MIN_DURATIONS`].
    pub fn of(durations: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut sorted: Vec<Duration> = durations.into_iter().collect();
        sorted.sort_unstable();
        let jobs = sorted.len();
        if jobs < MIN_DURATIONS {
            return None;
        }
        let ranked = |percent: usize| sorted[(jobs * percent).div_ceil(100) - 1];
        Some(Self { median: ranked(50), p90: ranked(90), jobs })
    }

    /// Returns the estimate for a job that has run this long.
    pub fn estimate(&self, elapsed: Duration) -> Estimate {
        if elapsed < self.median {
            Estimate::About(self.median - elapsed)
        } else if elapsed < self.p90 {
            Estimate::Within(self.p90 - elapsed)
        } else {
            Estimate::LongerThanUsual
        }
    }

    /// Returns when a job that began at `started_at` is expected to end: after the median, or after the 90th
    /// percentile once the median has passed. `None` if the job runs longer than usual.
    pub fn expected_end(&self, started_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match self.estimate(now.since(started_at)) {
            Estimate::About(_) => Some(started_at + self.median),
            Estimate::Within(_) => Some(started_at + self.p90),
            Estimate::LongerThanUsual => None,
        }
    }

    /// Returns the text for people: `usually 4 to 6 min`, from the median to the 90th percentile.
    pub fn text(&self) -> String {
        let (unit, name) = unit(self.p90);
        let from = self.median.as_secs() / unit;
        let to = self.p90.as_millis().div_ceil(u128::from(unit) * 1000).max(1);
        match (u128::from(from), to) {
            (0, to) => format!("{USUALLY} up to {to} {name}"),
            (from, to) if from == to => format!("{USUALLY} {to} {name}"),
            (from, to) => format!("{USUALLY} {from} to {to} {name}"),
        }
    }

    /// Returns the text for a job that has run this long: `usually 4 to 6 min, about 3 min left`.
    pub fn text_after(&self, elapsed: Duration) -> String {
        let text = self.text();
        match self.estimate(elapsed) {
            Estimate::LongerThanUsual => format!("{text}; {}", Estimate::LongerThanUsual.text()),
            estimate => format!("{text}, {}", estimate.text()),
        }
    }

    /// Adds the text for a job that has run this long to its message, without the time left: clients are
    /// notified of a new message, and that time changes all the time. The usual duration is left out if the
    /// engine's message has one.
    pub fn add_to(&self, message: Option<String>, elapsed: Duration) -> String {
        let usual = message.as_ref().is_none_or(|message| !message.contains(USUALLY)).then(|| self.text());
        let estimate = Some(self.estimate(elapsed)).filter(|estimate| *estimate == Estimate::LongerThanUsual);
        let parts = [message, usual, estimate.map(|estimate| estimate.text())];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl Estimate {
    /// Returns the text for people: `about 3 min left`, `at most 2 min left` or `longer than usual`.
    pub fn text(&self) -> String {
        match self {
            Self::About(left) => format!("about {} left", rounded_up(*left)),
            Self::Within(left) => format!("at most {} left", rounded_up(*left)),
            Self::LongerThanUsual => "longer than usual".to_owned(),
        }
    }
}

/// Returns the unit for a duration: its seconds, and its name.
fn unit(duration: Duration) -> (u64, &'static str) {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match duration.as_secs() {
        0..100 => (1, "s"),
        seconds if seconds < 100 * MINUTE => (MINUTE, "min"),
        seconds if seconds < 2 * DAY => (HOUR, "h"),
        _ => (DAY, "days"),
    }
}

fn rounded_up(duration: Duration) -> String {
    let (unit, name) = unit(duration);
    let count = duration.as_millis().div_ceil(u128::from(unit) * 1000).max(1);
    format!("{count} {name}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usual(seconds: &[u64]) -> Option<UsualDuration> {
        UsualDuration::of(seconds.iter().copied().map(Duration::from_secs))
    }

    fn between(median: u64, p90: u64) -> UsualDuration {
        UsualDuration { median: Duration::from_secs(median), p90: Duration::from_secs(p90), jobs: 9 }
    }

    /// From five durations on there is a usual one; the order of the jobs does not matter.
    #[test]
    fn usual_needs_five_durations() {
        assert_eq!(usual(&[]), None);
        assert_eq!(usual(&[60, 60, 60, 60]), None);
        let of_five = UsualDuration { jobs: 5, ..between(30, 90) };
        assert_eq!(usual(&[90, 10, 30, 20, 40]), Some(of_five));
        let of_ten = UsualDuration { jobs: 10, ..between(5, 9) };
        assert_eq!(usual(&[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]), Some(of_ten));
    }

    /// The unit is that of the longer value, and the shorter one is rounded down.
    #[test]
    fn text_has_one_unit() {
        for (median, p90, text) in [
            (0, 1, "usually up to 1 s"),
            (3, 3, "usually 3 s"),
            (40, 99, "usually 40 to 99 s"),
            (30, 110, "usually up to 2 min"),
            (270, 360, "usually 4 to 6 min"),
            (300, 300, "usually 5 min"),
            (5_400, 7_200, "usually 1 to 2 h"),
            (100_000, 200_000, "usually 1 to 3 days"),
        ] {
            assert_eq!(between(median, p90).text(), text);
        }
    }

    /// The estimate counts to the median, then to the 90th percentile, and then says that it was exceeded.
    #[test]
    fn estimate_follows_elapsed_time() {
        let usual = between(270, 360);
        let start = Timestamp::from_millis(1_000_000);
        for (elapsed, text, end) in [
            (0, "usually 4 to 6 min, about 5 min left", Some(270)),
            (200, "usually 4 to 6 min, about 70 s left", Some(270)),
            (270, "usually 4 to 6 min, at most 90 s left", Some(360)),
            (359, "usually 4 to 6 min, at most 1 s left", Some(360)),
            (360, "usually 4 to 6 min; longer than usual", None),
            (86_400, "usually 4 to 6 min; longer than usual", None),
        ] {
            let elapsed = Duration::from_secs(elapsed);
            assert_eq!(usual.text_after(elapsed), text);
            let end = end.map(|seconds| start + Duration::from_secs(seconds));
            assert_eq!(usual.expected_end(start, start + elapsed), end);
        }
    }

    /// The message changes once, when the job runs longer than usual. An engine's own usual duration is not
    /// repeated.
    #[test]
    fn message_changes_only_when_exceeded() {
        let usual = between(270, 360);
        for (message, before, after) in [
            (None, "usually 4 to 6 min", "usually 4 to 6 min; longer than usual"),
            (Some("step 2"), "step 2; usually 4 to 6 min", "step 2; usually 4 to 6 min; longer than usual"),
            (
                Some("step 2; usually 5 min"),
                "step 2; usually 5 min",
                "step 2; usually 5 min; longer than usual",
            ),
        ] {
            let added = |seconds| usual.add_to(message.map(str::to_owned), Duration::from_secs(seconds));
            for seconds in [0, 269, 270, 359] {
                assert_eq!(added(seconds), before);
            }
            assert_eq!(added(360), after);
        }
    }

    proptest! {
        /// Any durations give a median below the percentile, both among them, and a text.
        #[test]
        fn any_durations_have_text(
            millis in prop::collection::vec(0..u64::MAX, MIN_DURATIONS..MAX_DURATIONS),
            elapsed in any::<u64>(),
        ) {
            let durations: Vec<Duration> = millis.into_iter().map(Duration::from_millis).collect();
            let usual = UsualDuration::of(durations.iter().copied()).expect("five or more");
            prop_assert!(usual.median <= usual.p90);
            prop_assert!(durations.contains(&usual.median) && durations.contains(&usual.p90));
            let at_most = |limit| durations.iter().filter(|duration| **duration <= limit).count();
            prop_assert!(at_most(usual.median) * 2 >= durations.len());
            prop_assert!(at_most(usual.p90) * 10 >= durations.len() * 9);
            let text = usual.text_after(Duration::from_millis(elapsed));
            prop_assert!(text.starts_with(USUALLY) && text.len() < 100, "{}", text);
        }
    }
}
