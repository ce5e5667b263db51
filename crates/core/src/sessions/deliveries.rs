//! The messages that carry questions to clients: which stream has claimed a question, and until when. A claim
//! keeps a question on one stream at a time. Pure; it must not depend on a store or on a protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use crate::tasks::task::{Task, TaskId, TaskQuestion};

/// The newest message that carries a question to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Number of the message, from 1.
    pub n: u32,
    /// Until when its stream counts as open, unless it is renewed.
    pub until: Timestamp,
    /// True once the client has handled it: the request that carried it was answered. A message that is not
    /// over after `until` was perhaps never seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// Why the answer to it was refused, as text for the person who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The question whose delivery is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredQuestion {
    /// The task that asks.
    pub task: TaskId,
    /// The channel of the task, whose subscribers are notified.
    pub channel: Option<String>,
    /// The question's key.
    pub key: String,
    /// What an older version recorded in the task's row.
    pub recorded: Option<Delivery>,
}

/// A change of a question's newest delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryChange {
    /// Claims the question for one stream, under the next number, if `seen` is still the newest delivery.
    Claim {
        /// The newest delivery when the stream decided.
        seen: Option<Delivery>,
        /// How long the stream counts as open.
        lease: Duration,
    },
    /// Renews the claim of an open stream. A message that has ended is not renewed, even if its stream missed
    /// the end.
    Renew {
        /// The number of the message.
        n: u32,
        /// How long the stream counts as open.
        lease: Duration,
    },
    /// The message is no longer on a stream.
    End {
        /// The number of the message.
        n: u32,
        /// True if the client has handled it; false if its stream broke, and perhaps no person saw it.
        handled: bool,
        /// Why the answer to it was refused, if there was one.
        problem: Option<String>,
    },
}

/// The member of a question in a task's row in which older versions recorded its delivery. They may run
/// beside this version during an upgrade, and do not read the table.
const RECORDED: &str = "delivery";

/// Returns the newer of two deliveries of a question: what an older version recorded in the task's row, and
/// what is stored. Of two with the same number, the stored one was written later.
pub fn newest(recorded: Option<Delivery>, stored: Option<Delivery>) -> Option<Delivery> {
    match (recorded, stored) {
        (Some(recorded), Some(stored)) if recorded.n > stored.n => Some(recorded),
        (recorded, stored) => stored.or(recorded),
    }
}

/// Returns what an older version recorded about the delivery of this question in the task's row.
pub fn recorded(question: &TaskQuestion) -> Option<Delivery> {
    Delivery::deserialize(question.front_end.get(RECORDED)?).ok()
}

impl DeliveredQuestion {
    /// Returns a question of this task.
    pub fn of(task: &Task, question: &TaskQuestion) -> Self {
        Self {
            task: task.id.clone(),
            channel: task.origin.channel.clone(),
            key: question.key.clone(),
            recorded: recorded(question),
        }
    }
}

impl Delivery {
    /// Returns true while a stream that counts as open carries the question.
    pub fn is_open(&self, now: Timestamp) -> bool {
        !self.over && self.until > now
    }

    fn end(self, handled: bool, problem: Option<String>, now: Timestamp) -> Self {
        let problem = problem.or(self.problem);
        match self.over {
            true => Self { problem, ..self },
            false => Self { over: handled, until: self.until.min(now), problem, ..self },
        }
    }
}

impl DeliveryChange {
    /// Returns the delivery after this change; `None` if the change does not apply to the newest one.
    pub fn apply(&self, newest: Option<Delivery>, now: Timestamp) -> Option<Delivery> {
        match self {
            DeliveryChange::Claim { seen, lease } => (newest == *seen).then(|| {
                let n = newest.map_or(0, |delivery| delivery.n).saturating_add(1);
                Delivery { n, until: now + *lease, over: false, problem: None }
            }),
            DeliveryChange::Renew { n, lease } => newest
                .filter(|delivery| delivery.n == *n && delivery.is_open(now))
                .map(|delivery| Delivery { until: now + *lease, ..delivery }),
            DeliveryChange::End { n, handled, problem } => newest
                .filter(|delivery| delivery.n == *n)
                .map(|delivery| delivery.end(*handled, problem.clone(), now)),
        }
    }

    /// Returns true if other streams act on the result. A renewal changes nothing for them.
    pub fn concerns_others(&self) -> bool {
        !matches!(self, DeliveryChange::Renew { .. })
    }
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::Question;

    use super::*;
    use crate::tasks::task::QuestionSource;

    const LEASE: Duration = Duration::from_secs(30);
    const START: Timestamp = Timestamp::from_millis(1_000);

    fn claim(seen: Option<Delivery>) -> Option<Delivery> {
        DeliveryChange::Claim { seen: seen.clone(), lease: LEASE }.apply(seen, START)
    }

    fn end(n: u32, handled: bool, problem: Option<&str>) -> DeliveryChange {
        DeliveryChange::End { n, handled, problem: problem.map(str::to_owned) }
    }

    /// Of two streams that have seen the same delivery, one claims the question.
    #[test]
    fn second_claim_is_refused() {
        let first = claim(None);
        assert_eq!(first.as_ref().map(|delivery| delivery.n), Some(1));
        let late = DeliveryChange::Claim { seen: None, lease: LEASE };
        assert_eq!(late.apply(first.clone(), START), None);
        assert_eq!(claim(first).map(|delivery| delivery.n), Some(2));
    }

    #[test]
    fn ended_delivery_is_not_renewed() {
        let first = claim(None);
        let renew = DeliveryChange::Renew { n: 1, lease: 2 * LEASE };
        assert_eq!(renew.apply(first.clone(), START).unwrap().until, START + 2 * LEASE);
        assert_eq!(renew.apply(first.clone(), START + LEASE), None, "its time is over");
        let broken = end(1, false, None).apply(first, START);
        assert_eq!(renew.apply(broken.clone(), START), None);
        assert_eq!(renew.apply(claim(broken), START), None, "another stream has the question");
    }

    /// The first end decides whether the client has handled a message; a problem may follow.
    #[test]
    fn delivery_ends_once() {
        let handled = end(1, true, Some("too short")).apply(claim(None), START).unwrap();
        assert!(handled.over && !handled.is_open(START) && handled.until == START);
        let again = end(1, false, None).apply(Some(handled.clone()), START + LEASE);
        assert_eq!(again.as_ref(), Some(&handled));
        let corrected = end(1, true, Some("too long")).apply(again, START);
        assert_eq!(corrected, Some(Delivery { problem: Some("too long".to_owned()), ..handled }));
        assert_eq!(end(2, true, None).apply(corrected, START), None);
    }

    /// During an upgrade both versions write, each in its own place.
    #[test]
    fn higher_number_wins() {
        let numbered = |n| Some(Delivery { n, until: START, over: false, problem: None });
        let stored = Some(Delivery { n: 2, until: START, over: true, problem: None });
        assert_eq!(newest(numbered(3), stored.clone()), numbered(3));
        assert_eq!(newest(numbered(2), stored.clone()), stored);
        assert_eq!(newest(None, stored.clone()), stored);
        assert_eq!(newest(numbered(1), None), numbered(1));
    }

    /// The member of the row is as version 8 of the schema has it.
    #[test]
    fn older_row_keeps_its_delivery() {
        let question = Question::form("x", "x?", serde_json::json!({"type": "object", "properties": {}}));
        let question = TaskQuestion::new("q1".to_owned(), question, QuestionSource::Job, START);
        assert_eq!(recorded(&question), None);
        let mut row = serde_json::to_value(&question).unwrap();
        row["delivery"] = serde_json::json!({"n": 2, "until": START, "over": true, "later": 1});
        let question: TaskQuestion = serde_json::from_value(row.clone()).unwrap();
        assert_eq!(recorded(&question), Some(Delivery { n: 2, until: START, over: true, problem: None }));
        assert_eq!(serde_json::to_value(&question).unwrap(), row);
    }
}
