//! Questions of an execution, derived from its history. Pure.
//!
//! A step asks in one of two ways. It schedules a task for a configured activity, or it sends a message to
//! the configured queue and waits until the token in it is answered. The history shows which steps asked,
//! what they asked, and the outcome. Nothing has to be stored: a restarted server reads the same history.
//! Only the tokens are kept elsewhere.

use std::collections::HashMap;

use serde_json::Value;
use taskbridge_sdk::{Answer, Question};

use crate::content::QuestionContent;
use crate::history::ExecutionEvent;

/// Error with which a step ends if its question was declined.
pub(crate) const DECLINED: &str = "taskbridge.Declined";
/// Error with which a step ends if the question was closed without a choice.
pub(crate) const DISMISSED: &str = "taskbridge.Dismissed";
/// Error with which a step ends if its question is invalid.
pub(crate) const MISTAKEN: &str = "taskbridge.BadQuestion";

/// Configured ways in which steps can ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionChannels {
    /// ARNs of activities.
    pub(crate) activities: Vec<String>,
    /// URL of a queue.
    pub(crate) queue: Option<String>,
}

impl QuestionChannels {
    /// Returns true if none is configured.
    pub(crate) fn are_closed(&self) -> bool {
        self.activities.is_empty() && self.queue.is_none()
    }

    /// Returns the content of the question if this event asks one. `Some(None)` if the history does not
    /// contain a valid content.
    fn asked(&self, event: &ExecutionEvent) -> Option<Option<QuestionContent>> {
        let resource = event.resource.as_deref()?;
        let given = event.parameters.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if self.activities.iter().any(|activity| activity == resource) {
            return Some(given.and_then(|given| QuestionContent::of(&given).ok()));
        }
        let queue = self.queue.as_deref().filter(|_| {
            resource.ends_with("sqs:sendMessage.waitForTaskToken")
                || resource == "sendMessage.waitForTaskToken"
        })?;
        let Some(given) = given else { return Some(None) };
        let same = given["QueueUrl"].as_str().is_some_and(|url| path(url) == path(queue));
        same.then(|| match &given["MessageBody"] {
            Value::String(text) => {
                serde_json::from_str(text).ok().and_then(|body| QuestionContent::of(&body).ok())
            }
            body => QuestionContent::of(body).ok(),
        })
    }
}

/// Returns the account and name of a queue, which are the same in all of its URLs.
fn path(url: &str) -> Option<&str> {
    let at = url.rmatch_indices('/').nth(1)?.0;
    url.get(at..)
}

/// Outcome of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QuestionOutcome {
    /// The step received this answer.
    Given(Value),
    /// The step failed with this error.
    Refused(String),
    /// The step stopped waiting without an answer, or the history does not contain its answer.
    Over,
}

impl QuestionOutcome {
    /// Returns the outcome that an answer causes.
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Accept(said) => Self::Given(Value::Object(said.clone())),
            Answer::Decline => Self::Refused(DECLINED.to_owned()),
            Answer::Cancel => Self::Refused(DISMISSED.to_owned()),
        }
    }
}

/// State of a question.
#[derive(Debug, PartialEq)]
pub(crate) enum QuestionSettlement<'a> {
    /// Waiting for an answer. The content of the question has this digest.
    Open(&'a str),
    /// Settled with this outcome.
    Settled(&'a QuestionOutcome),
    /// Not asked.
    Unknown,
}

/// Step that waits for an answer, or whose wait timed out and that may be scheduled again.
#[derive(Clone, Debug, PartialEq)]
struct WaitingStep {
    /// Id of its newest event.
    tail: i64,
    resource: String,
    /// `None` if the history does not contain it.
    content: Option<QuestionContent>,
    /// True after a timeout or a missed heartbeat: the machine may schedule the task again.
    lapsed: bool,
}

impl WaitingStep {
    /// Returns true if this event continues the step.
    fn goes_on_with(&self, event: &ExecutionEvent) -> bool {
        // If the history does not link events, the resource identifies the step.
        let unlinked = event.previous == 0 && event.resource.as_ref() == Some(&self.resource);
        event.previous == self.tail || unlinked
    }
}

/// Questions of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QuestionHistory {
    waiting: Vec<WaitingStep>,
    /// Outcomes by the digest of the question, in the order of settlement.
    settled: HashMap<String, Vec<QuestionOutcome>>,
}

impl QuestionHistory {
    /// Applies the next event.
    pub(crate) fn take(&mut self, ways: &QuestionChannels, event: &ExecutionEvent) {
        let kind = event.kind.as_str();
        if kind.starts_with("Execution") {
            // The execution has ended or starts again: no step waits any more.
            (0..self.waiting.len()).rev().for_each(|at| self.settle(at, QuestionOutcome::Over));
            return;
        }
        let at = self.waiting.iter().position(|waiting| waiting.goes_on_with(event));
        if matches!(kind, "ActivityScheduled" | "TaskScheduled") {
            let Some(content) = ways.asked(event) else { return };
            match at {
                // The same question, scheduled again.
                Some(at) if self.waiting[at].lapsed => {
                    (self.waiting[at].tail, self.waiting[at].lapsed) = (event.id, false);
                }
                _ => {
                    let resource = event.resource.clone().unwrap_or_default();
                    self.waiting.push(WaitingStep { tail: event.id, resource, content, lapsed: false });
                }
            }
            return;
        }
        let Some(at) = at else { return };
        match kind {
            "ActivitySucceeded" | "TaskSucceeded" => {
                let given = event.output.as_deref().and_then(|text| serde_json::from_str(text).ok());
                self.settle(at, given.map_or(QuestionOutcome::Over, QuestionOutcome::Given));
            }
            "ActivityTimedOut" | "TaskTimedOut" => {
                (self.waiting[at].tail, self.waiting[at].lapsed) = (event.id, true);
            }
            kind if kind.starts_with("Activity") || kind.starts_with("Task") => {
                if kind.ends_with("Failed") {
                    let error = event.error.clone().unwrap_or_default();
                    self.settle(at, QuestionOutcome::Refused(error));
                } else if kind.ends_with("StateExited") || kind.ends_with("StateAborted") {
                    self.settle(at, QuestionOutcome::Over);
                } else {
                    self.waiting[at].tail = event.id;
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, at: usize, outcome: QuestionOutcome) {
        if let Some(content) = self.waiting.remove(at).content {
            self.settled.entry(content.digest).or_default().push(outcome);
        }
    }

    /// Returns true if a step waits for an answer, or its wait timed out and it may be scheduled again.
    pub(crate) fn are_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the open questions. If several steps ask the same, the question is asked once at a time and an
    /// answer goes to any of them. `held` contains contents that arrived with tokens; they fill in contents
    /// that the history lacks, which then are kept.
    pub(crate) fn questions(&mut self, held: &[QuestionContent]) -> Vec<Question> {
        for at in 0..self.waiting.len() {
            if self.waiting[at].content.is_none() {
                let new = held.iter().find(|content| !self.is_asked(&content.digest)).cloned();
                self.waiting[at].content = new;
            }
        }
        let mut questions: Vec<Question> = Vec::new();
        for content in self.waiting.iter().filter_map(|waiting| waiting.content.as_ref()) {
            let id = self.id(&content.digest);
            if questions.iter().all(|question| question.id != id) {
                questions.push(Question { id, message: content.message.clone(), ask: content.ask.clone() });
            }
        }
        questions
    }

    fn is_asked(&self, digest: &str) -> bool {
        self.waiting.iter().filter_map(|waiting| waiting.content.as_ref()).any(|known| known.digest == digest)
    }

    /// Returns the id of the open question with this digest. It counts the earlier settlements.
    fn id(&self, digest: &str) -> String {
        format!("{digest}-{}", self.settled.get(digest).map_or(0, Vec::len))
    }

    /// Returns the state of the question with this id.
    pub(crate) fn standing<'a>(&'a self, id: &'a str) -> QuestionSettlement<'a> {
        let Some((digest, at)) = id.rsplit_once('-') else { return QuestionSettlement::Unknown };
        let settled = self.settled.get(digest).map_or(&[][..], Vec::as_slice);
        match at.parse::<usize>().ok().and_then(|at| settled.get(at)) {
            Some(outcome) => QuestionSettlement::Settled(outcome),
            None if self.is_asked(digest) && self.id(digest) == id => QuestionSettlement::Open(digest),
            None => QuestionSettlement::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ACTIVITY: &str = "arn:aws:states:eu-central-1:1:activity:ask";
    const QUEUE: &str = "https://sqs.eu-central-1.amazonaws.com/1/questions";

    fn ways() -> QuestionChannels {
        QuestionChannels { activities: vec![ACTIVITY.to_owned()], queue: Some(QUEUE.to_owned()) }
    }

    fn event(id: i64, previous: i64, kind: &str) -> ExecutionEvent {
        ExecutionEvent { id, previous, kind: kind.to_owned(), ..ExecutionEvent::default() }
    }

    fn scheduled(id: i64, previous: i64, said: &Value) -> ExecutionEvent {
        let (resource, parameters) = (Some(ACTIVITY.to_owned()), Some(said.to_string()));
        ExecutionEvent { resource, parameters, ..event(id, previous, "ActivityScheduled") }
    }

    fn after(events: &[ExecutionEvent]) -> QuestionHistory {
        let mut asks = QuestionHistory::default();
        events.iter().for_each(|event| asks.take(&ways(), event));
        asks
    }

    fn well() -> Value {
        json!({"execution": "e", "message": "Well?", "schema": {"type": "object", "properties": {}}})
    }

    /// A step that times out and is scheduled again asks the same question.
    /// After an answer, the same text in a loop is a new question.
    #[test]
    fn question_keeps_id_until_settled() {
        let mut events =
            vec![event(2, 1, "TaskStateEntered"), scheduled(3, 2, &well()), event(4, 3, "ActivityStarted")];
        let first = after(&events).questions(&[]);
        assert_eq!((first.len(), first[0].message.as_str()), (1, "Well?"));
        events.push(event(5, 4, "ActivityTimedOut"));
        assert_eq!(after(&events).questions(&[]), first, "it may be handed out again");
        events.extend([scheduled(6, 5, &well()), event(7, 6, "ActivityStarted")]);
        assert_eq!(after(&events).questions(&[]), first);
        assert!(matches!(after(&events).standing(&first[0].id), QuestionSettlement::Open(_)));
        let output = Some(r#"{"ok": true}"#.to_owned());
        events.push(ExecutionEvent { output, ..event(8, 7, "ActivitySucceeded") });
        let mut asks = after(&events);
        assert!(asks.questions(&[]).is_empty() && !asks.are_open());
        let given = QuestionOutcome::Given(json!({"ok": true}));
        assert_eq!(asks.standing(&first[0].id), QuestionSettlement::Settled(&given));
        // The same question in a loop is a new one.
        events.push(scheduled(11, 10, &well()));
        let again = after(&events).questions(&[]);
        assert!(again.len() == 1 && again[0].id != first[0].id);
    }

    /// A step that is retried after a decline asks a question with a new id.
    #[test]
    fn retry_after_decline_asks_new_question() {
        let error = Some(DECLINED.to_owned());
        let events = [
            scheduled(3, 2, &well()),
            ExecutionEvent { error, ..event(4, 3, "ActivityFailed") },
            scheduled(5, 4, &well()),
        ];
        let first = after(&events[..1]).questions(&[]).remove(0).id;
        let mut asks = after(&events);
        assert_eq!(
            asks.standing(&first),
            QuestionSettlement::Settled(&QuestionOutcome::of(&Answer::Decline))
        );
        assert_ne!(asks.questions(&[])[0].id, first);
    }

    /// A question that timed out is over when the step is left or the execution ends.
    #[test]
    fn unanswered_question_ends_with_its_step() {
        for last in [event(5, 4, "TaskStateExited"), event(5, 1, "ExecutionAborted")] {
            let events = [scheduled(3, 2, &well()), event(4, 3, "ActivityTimedOut"), last];
            let id = after(&events[..1]).questions(&[]).remove(0).id;
            let mut asks = after(&events);
            assert_eq!(asks.standing(&id), QuestionSettlement::Settled(&QuestionOutcome::Over));
            assert!(asks.questions(&[]).is_empty());
        }
    }

    /// Two steps with the same question are asked one after the other. Other questions do not wait.
    #[test]
    fn identical_questions_are_asked_in_turn() {
        let output = Some("{}".to_owned());
        let events = [
            scheduled(5, 3, &well()),
            scheduled(6, 4, &well()),
            scheduled(7, 2, &json!({"message": "Or?"})),
            ExecutionEvent { output, ..event(8, 6, "ActivitySucceeded") },
        ];
        let before = after(&events[..3]).questions(&[]);
        assert_eq!(before.len(), 2);
        let now = after(&events).questions(&[]);
        assert_eq!(now.len(), 2);
        assert_ne!(now[0].id, before[0].id);
        assert_eq!(now[1], before[1]);
    }

    /// A message to the configured queue asks a question whose id does not depend on the task token.
    #[test]
    fn queue_question_is_independent_of_token() {
        let sent = |token: &str, queue: &str| {
            let body = json!({"token": token, "execution": "e", "message": "Sure?"});
            let parameters = json!({"QueueUrl": queue, "MessageBody": body}).to_string();
            let resource = Some("sendMessage.waitForTaskToken".to_owned());
            ExecutionEvent { resource, parameters: Some(parameters), ..event(3, 2, "TaskScheduled") }
        };
        let first = after(&[sent("t1", QUEUE)]).questions(&[]);
        assert_eq!(first, after(&[sent("t2", "http://127.0.0.1:4566/1/questions")]).questions(&[]));
        assert_eq!(first[0].ask.form(), Some(&json!({"type": "object", "properties": {}})));
        assert!(!format!("{first:?}").contains("t1"));
        assert!(!after(&[sent("t1", "https://sqs.eu-central-1.amazonaws.com/1/other")]).are_open());
    }

    /// If the history has no parameters, the content of the question comes with the token and is kept.
    #[test]
    fn question_without_parameters_comes_with_token() {
        let resource = Some(ACTIVITY.to_owned());
        let mut asks =
            after(&[ExecutionEvent { resource: resource.clone(), ..event(3, 0, "TaskScheduled") }]);
        assert!(asks.questions(&[]).is_empty() && asks.are_open());
        let content = QuestionContent::of(&well()).unwrap();
        let asked = asks.questions(std::slice::from_ref(&content));
        assert_eq!(asked, asks.questions(&[]), "it is kept");
        let output = Some("{}".to_owned());
        asks.take(&ways(), &ExecutionEvent { resource, output, ..event(4, 0, "TaskSucceeded") });
        assert_eq!(
            asks.standing(&asked[0].id),
            QuestionSettlement::Settled(&QuestionOutcome::Given(json!({})))
        );
    }
}
