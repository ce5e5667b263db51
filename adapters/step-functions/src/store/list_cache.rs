//! Cache of the last lists of running executions, by state machine, with their maximum age. It may be lost.
//! It must not call AWS.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

/// How long an execution counts as wanted after a poll.
const POLLED_TTL: Duration = Duration::from_secs(180);
/// How long listed data is ignored for an execution that may have changed: AWS may not know the change
/// everywhere.
const CHANGED_TTL: Duration = Duration::from_secs(10);

/// Running executions by ARN, and their start times.
pub(crate) type Running = HashMap<String, Option<Timestamp>>;

/// Cached lists.
pub(crate) struct ExecutionListCache {
    /// Maximum age of any list.
    max_age: Duration,
    machines: Mutex<HashMap<String, CachedList>>,
    /// Executions that may have changed, and when that was reported.
    changed: Mutex<HashMap<String, Instant>>,
}

/// Cached list of one state machine.
#[derive(Default)]
struct CachedList {
    last_list: Option<(Instant, Running)>,
    /// Recently polled executions.
    recently_polled: HashMap<String, Instant>,
}

/// Cached state before a poll, and the list to request.
#[derive(Debug, PartialEq)]
pub(crate) struct CachedExecutions {
    /// Executions that count as running.
    pub(crate) running: Running,
    /// Recently polled executions of the state machine, if a new list is due.
    pub(crate) executions_to_list: Option<Vec<String>>,
}

impl ExecutionListCache {
    pub(crate) fn new(max_age: Duration) -> Self {
        Self { max_age, machines: Mutex::default(), changed: Mutex::default() }
    }

    /// Records that an execution may have changed.
    pub(crate) fn mark_changed(&self, arn: &str, now: Instant) {
        let mut changed = self.changed.lock();
        changed.retain(|_, at| now - *at < CHANGED_TTL);
        changed.insert(arn.to_owned(), now);
    }

    /// Records these executions of a state machine as polled, and returns their cached state. `wall_clock` is
    /// the time of this machine, compared with start times from AWS.
    ///
    /// A list is used for a tenth of an execution's age, but at most for `list_every`, so the end of an
    /// execution is seen with at most that delay.
    pub(crate) fn record_poll(
        &self,
        machine: &str,
        arns: &[&str],
        now: Instant,
        wall_clock: Timestamp,
    ) -> CachedExecutions {
        let changed = self.changed.lock();
        let is_changed = |arn: &str| changed.get(arn).is_some_and(|at| now - *at < CHANGED_TTL);
        let mut machines = self.machines.lock();
        machines.retain(|name, entry| {
            name == machine || entry.recently_polled.values().any(|at| now - *at < POLLED_TTL)
        });
        let entry = machines.entry(machine.to_owned()).or_default();
        entry.recently_polled.retain(|_, at| now - *at < POLLED_TTL);
        entry.recently_polled.extend(arns.iter().map(|arn| ((*arn).to_owned(), now)));
        let mut running = Running::new();
        let mut is_old = true;
        if let Some((at, list)) = &entry.last_list {
            let age = now - *at;
            is_old = age > self.max_age;
            for arn in arns.iter().filter(|arn| !is_changed(arn)) {
                let Some(Some(since)) = list.get(*arn) else { continue };
                if age <= self.max_age.min(wall_clock.since(*since) / 10) {
                    running.insert((*arn).to_owned(), Some(*since));
                }
            }
        }
        // A single execution is described by itself, unless other executions would soon require a list.
        let unknown_count = arns.iter().filter(|arn| !running.contains_key(**arn)).count();
        let is_due = unknown_count > 1 || (unknown_count == 1 && is_old && entry.recently_polled.len() > 1);
        let executions_to_list = is_due.then(|| entry.recently_polled.keys().cloned().collect());
        CachedExecutions { running, executions_to_list }
    }

    /// Stores the result of a list that was requested at `requested_at`.
    pub(crate) fn store(&self, machine: &str, requested_at: Instant, running: Running) {
        self.machines.lock().entry(machine.to_owned()).or_default().last_list = Some((requested_at, running));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const OLD: Timestamp = Timestamp::from_millis(0);
    const TODAY: Timestamp = Timestamp::from_millis(86_400_000);

    fn cache_with(arns: &[&str], since: Timestamp) -> (ExecutionListCache, Instant) {
        let (cache, now) = (ExecutionListCache::new(MINUTE), Instant::now());
        cache.store("m", now, arns.iter().map(|arn| ((*arn).to_owned(), Some(since))).collect());
        (cache, now)
    }

    fn running_count(cached: &CachedExecutions) -> usize {
        cached.running.len()
    }

    /// Polls of a hundred old executions, one at a time, cause one list call a minute.
    #[test]
    fn executions_are_listed_once_per_minute() {
        let arns: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let (cache, start) = (ExecutionListCache::new(MINUTE), Instant::now());
        let mut list_calls = 0;
        // Each execution is polled twice per minute, one after the other, for five minutes.
        for tick in 0..1000u32 {
            let now = start + Duration::from_millis(300) * tick;
            let cached = cache.record_poll("m", &[&arns[tick as usize % 100]], now, TODAY);
            if let Some(due) = cached.executions_to_list {
                list_calls += 1;
                assert!(tick == 1 || due.len() > 90);
                cache.store("m", now, arns.iter().map(|arn| (arn.clone(), Some(OLD))).collect());
            }
        }
        assert_eq!(list_calls, 5);
    }

    /// A list is reused for a tenth of the age of an execution, but no longer than configured.
    #[test]
    fn list_expires_by_execution_age() {
        let since = TODAY - Duration::from_secs(100);
        let (cache, now) = cache_with(&["a", "b"], since);
        let cached_after = |after| cache.record_poll("m", &["a"], now + Duration::from_secs(after), TODAY);
        assert_eq!((running_count(&cached_after(10)), running_count(&cached_after(11))), (1, 0));
        assert_eq!(cached_after(11).executions_to_list, None, "a single execution needs no list");
        assert!(
            cache
                .record_poll("m", &["a", "b"], now + Duration::from_secs(11), TODAY)
                .executions_to_list
                .is_some()
        );
        let (cache, now) = cache_with(&["a"], OLD);
        assert_eq!(running_count(&cache.record_poll("m", &["a"], now + MINUTE, TODAY)), 1);
        assert_eq!(running_count(&cache.record_poll("m", &["a"], now + MINUTE * 2, TODAY)), 0);
        assert_eq!(
            running_count(&cache.record_poll("m", &["x"], now, TODAY)),
            0,
            "an unlisted execution may have ended"
        );
    }

    /// An execution that may have changed is requested by itself for a while.
    #[test]
    fn changed_execution_bypasses_list() {
        let (cache, now) = cache_with(&["a", "b"], OLD);
        cache.mark_changed("a", now);
        assert_eq!(
            cache.record_poll("m", &["a"], now, TODAY),
            CachedExecutions { running: Running::new(), executions_to_list: None }
        );
        assert_eq!(running_count(&cache.record_poll("m", &["b"], now, TODAY)), 1);
        assert_eq!(running_count(&cache.record_poll("m", &["a"], now + CHANGED_TTL, TODAY)), 1);
    }
}
