//! Cache of the last lists of running executions, by state machine, with their maximum age. It may be lost.
//! It must not call AWS.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

/// How long an execution counts as wanted after a poll.
const WANTED: Duration = Duration::from_secs(180);
/// How long listed data is ignored for an execution that may have changed: AWS may not know the change
/// everywhere.
const STIRRED: Duration = Duration::from_secs(10);

/// Running executions by ARN, and their start times.
pub(crate) type Running = HashMap<String, Option<Timestamp>>;

/// Cached lists.
pub(crate) struct ExecutionListCache {
    /// Maximum age of any list.
    longest: Duration,
    machines: Mutex<HashMap<String, Machine>>,
    /// Executions that may have changed, and when that was reported.
    stirred: Mutex<HashMap<String, Instant>>,
}

/// Cached list of one state machine.
#[derive(Default)]
struct Machine {
    listed: Option<(Instant, Running)>,
    /// Recently polled executions.
    wanted: HashMap<String, Instant>,
}

/// Cached state before a poll, and the list to request.
#[derive(Debug, PartialEq)]
pub(crate) struct CachedExecutions {
    /// Executions that count as running.
    pub(crate) running: Running,
    /// Recently polled executions of the state machine, if a new list is due.
    pub(crate) to_list: Option<Vec<String>>,
}

impl ExecutionListCache {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, machines: Mutex::default(), stirred: Mutex::default() }
    }

    /// Records that an execution may have changed.
    pub(crate) fn mark_changed(&self, arn: &str, now: Instant) {
        let mut stirred = self.stirred.lock();
        stirred.retain(|_, at| now - *at < STIRRED);
        stirred.insert(arn.to_owned(), now);
    }

    /// Records these executions of a state machine as polled, and returns their cached state. `today` is this
    /// machine's wall clock, compared with start times from AWS.
    ///
    /// A list is used for a tenth of an execution's age, but at most for `list_every`, so the end of an
    /// execution is seen with at most that delay.
    pub(crate) fn known(
        &self,
        machine: &str,
        arns: &[&str],
        now: Instant,
        today: Timestamp,
    ) -> CachedExecutions {
        let stirred = self.stirred.lock();
        let is_stirred = |arn: &str| stirred.get(arn).is_some_and(|at| now - *at < STIRRED);
        let mut machines = self.machines.lock();
        machines.retain(|name, it| name == machine || it.wanted.values().any(|at| now - *at < WANTED));
        let it = machines.entry(machine.to_owned()).or_default();
        it.wanted.retain(|_, at| now - *at < WANTED);
        it.wanted.extend(arns.iter().map(|arn| ((*arn).to_owned(), now)));
        let mut running = Running::new();
        let mut is_old = true;
        if let Some((at, listed)) = &it.listed {
            let age = now - *at;
            is_old = age > self.longest;
            for arn in arns.iter().filter(|arn| !is_stirred(arn)) {
                let Some(Some(since)) = listed.get(*arn) else { continue };
                if age <= self.longest.min(today.since(*since) / 10) {
                    running.insert((*arn).to_owned(), Some(*since));
                }
            }
        }
        // A single execution is described by itself, unless other executions would soon require a list.
        let unsure = arns.iter().filter(|arn| !running.contains_key(**arn)).count();
        let is_due = unsure > 1 || (unsure == 1 && is_old && it.wanted.len() > 1);
        let to_list = is_due.then(|| it.wanted.keys().cloned().collect());
        CachedExecutions { running, to_list }
    }

    /// Stores the result of a list that was requested at `asked`.
    pub(crate) fn keep(&self, machine: &str, asked: Instant, running: Running) {
        self.machines.lock().entry(machine.to_owned()).or_default().listed = Some((asked, running));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const OLD: Timestamp = Timestamp::from_millis(0);
    const TODAY: Timestamp = Timestamp::from_millis(86_400_000);

    fn listed(arns: &[&str], since: Timestamp) -> (ExecutionListCache, Instant) {
        let (lists, now) = (ExecutionListCache::new(MINUTE), Instant::now());
        lists.keep("m", now, arns.iter().map(|arn| ((*arn).to_owned(), Some(since))).collect());
        (lists, now)
    }

    fn runs(known: &CachedExecutions) -> usize {
        known.running.len()
    }

    /// Polls of a hundred old executions, one at a time, cause one list call a minute.
    #[test]
    fn executions_are_listed_once_per_minute() {
        let arns: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let (lists, begin) = (ExecutionListCache::new(MINUTE), Instant::now());
        let mut asked = 0;
        // Each execution is polled twice per minute, one after the other, for five minutes.
        for tick in 0..1000u32 {
            let now = begin + Duration::from_millis(300) * tick;
            let known = lists.known("m", &[&arns[tick as usize % 100]], now, TODAY);
            if let Some(wanted) = known.to_list {
                asked += 1;
                assert!(tick == 1 || wanted.len() > 90);
                lists.keep("m", now, arns.iter().map(|arn| (arn.clone(), Some(OLD))).collect());
            }
        }
        assert_eq!(asked, 5);
    }

    /// A list is reused for a tenth of the age of an execution, but no longer than configured.
    #[test]
    fn list_expires_by_execution_age() {
        let since = TODAY - Duration::from_secs(100);
        let (lists, now) = listed(&["a", "b"], since);
        let known = |after| lists.known("m", &["a"], now + Duration::from_secs(after), TODAY);
        assert_eq!((runs(&known(10)), runs(&known(11))), (1, 0));
        assert_eq!(known(11).to_list, None, "one is asked for by itself");
        assert!(lists.known("m", &["a", "b"], now + Duration::from_secs(11), TODAY).to_list.is_some());
        let (lists, now) = listed(&["a"], OLD);
        assert_eq!(runs(&lists.known("m", &["a"], now + MINUTE, TODAY)), 1);
        assert_eq!(runs(&lists.known("m", &["a"], now + MINUTE * 2, TODAY)), 0);
        assert_eq!(runs(&lists.known("m", &["x"], now, TODAY)), 0, "what was not listed may have ended");
    }

    /// An execution that may have changed is requested by itself for a while.
    #[test]
    fn changed_execution_bypasses_list() {
        let (lists, now) = listed(&["a", "b"], OLD);
        lists.mark_changed("a", now);
        assert_eq!(
            lists.known("m", &["a"], now, TODAY),
            CachedExecutions { running: Running::new(), to_list: None }
        );
        assert_eq!(runs(&lists.known("m", &["b"], now, TODAY)), 1);
        assert_eq!(runs(&lists.known("m", &["a"], now + STIRRED, TODAY)), 1);
    }
}
