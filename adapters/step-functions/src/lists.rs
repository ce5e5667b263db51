//! What lists of running executions said last, by state machine, and for how long that is believed. It may be lost, and must
//! not ask for anything itself.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

/// For how long an execution counts that somebody wanted to know of.
const WANTED: Duration = Duration::from_secs(180);
/// For how long nothing that was listed is believed of an execution that may have changed: AWS need not know it everywhere.
const STIRRED: Duration = Duration::from_secs(10);

/// Executions that run, by their ARNs: since when.
pub(crate) type Running = HashMap<String, Option<Timestamp>>;

/// All that was listed.
pub(crate) struct Lists {
    /// The longest that any list is believed.
    longest: Duration,
    machines: Mutex<HashMap<String, Machine>>,
    /// Executions that may have changed, and when that was said.
    stirred: Mutex<HashMap<String, Instant>>,
}

/// What was listed of one state machine.
#[derive(Default)]
struct Machine {
    listed: Option<(Instant, Running)>,
    /// Executions that were to be looked at lately.
    wanted: HashMap<String, Instant>,
}

/// What is known before a look, and what is to be done for it.
#[derive(Debug, PartialEq)]
pub(crate) struct Known {
    /// Those of which it is believed that they run.
    pub(crate) running: Running,
    /// All that a list would answer for, if one is to be asked for.
    pub(crate) to_list: Option<Vec<String>>,
}

impl Lists {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, machines: Mutex::default(), stirred: Mutex::default() }
    }

    /// Notes that an execution may have changed.
    pub(crate) fn stir(&self, arn: &str, now: Instant) {
        let mut stirred = self.stirred.lock();
        stirred.retain(|_, at| now - *at < STIRRED);
        stirred.insert(arn.to_owned(), now);
    }

    /// What is known of these executions of a state machine. `today` is what time it is for AWS.
    ///
    /// A list is believed for a tenth of an execution's age, so that its end is seen with as much delay at most.
    pub(crate) fn known(&self, machine: &str, arns: &[&str], now: Instant, today: Timestamp) -> Known {
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
        // One execution is asked for by itself, unless a list would soon be asked for because of others.
        let unsure = arns.iter().filter(|arn| !running.contains_key(**arn)).count();
        let is_due = unsure > 1 || (unsure == 1 && is_old && it.wanted.len() > 1);
        let to_list = is_due.then(|| it.wanted.keys().cloned().collect());
        Known { running, to_list }
    }

    /// Keeps what a list said that was asked for then.
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

    fn listed(arns: &[&str], since: Timestamp) -> (Lists, Instant) {
        let (lists, now) = (Lists::new(MINUTE), Instant::now());
        lists.keep("m", now, arns.iter().map(|arn| ((*arn).to_owned(), Some(since))).collect());
        (lists, now)
    }

    fn runs(known: &Known) -> usize {
        known.running.len()
    }

    #[test]
    fn old_executions_are_listed_once_a_minute_however_they_come() {
        let arns: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let (lists, begin) = (Lists::new(MINUTE), Instant::now());
        let mut asked = 0;
        // Two looks at each within a minute, one after the other, as they come for five minutes.
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

    #[test]
    fn a_list_is_believed_for_a_tenth_of_an_age() {
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

    #[test]
    fn what_may_have_changed_is_asked_for() {
        let (lists, now) = listed(&["a", "b"], OLD);
        lists.stir("a", now);
        assert_eq!(lists.known("m", &["a"], now, TODAY), Known { running: Running::new(), to_list: None });
        assert_eq!(runs(&lists.known("m", &["b"], now, TODAY)), 1);
        assert_eq!(runs(&lists.known("m", &["a"], now + STIRRED, TODAY)), 1);
    }
}
