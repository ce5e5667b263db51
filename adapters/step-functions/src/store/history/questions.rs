//! Questions of an execution, derived from its history. Pure.
//!
//! A step asks in one of two ways. It schedules a task for a configured activity, or it sends a message to
//! the configured queue and waits until the token in it is answered. The history shows which steps asked,
//! what they asked, and the outcome. Nothing has to be stored: a restarted server reads the same history.
//! Only the tokens are kept elsewhere.

use std::collections::HashMap;

use serde_json::Value;
use taskbridge_sdk::{Answer, Question};

use crate::store::history::ExecutionEvent;
use crate::store::history::content::QuestionContent;

/// Error with which a step ends if its question was declined.
pub(crate) const DECLINED: &str = "taskbridge.Declined";
/// Error with which a step ends if the question was closed without a choice.
pub(crate) const DISMISSED: &str = "taskbridge.Dismissed";
/// Error with which a step ends if its question is invalid.
pub(crate) const BAD_QUESTION: &str = "taskbridge.BadQuestion";

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
    pub(crate) fn is_empty(&self) -> bool {
        self.activities.is_empty() && self.queue.is_none()
    }

    /// Returns the content of the question if this event asks one. `Some(None)` if the history does not
    /// contain a valid content.
    fn question_content(&self, event: &ExecutionEvent) -> Option<Option<QuestionContent>> {
        let resource = event.resource.as_deref()?;
        let parameters =
            event.parameters.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if self.activities.iter().any(|activity| activity == resource) {
            return Some(parameters.and_then(|parameters| QuestionContent::of(&parameters).ok()));
        }
        let queue = self.queue.as_deref().filter(|_| {
            resource.ends_with("sqs:sendMessage.waitForTaskToken")
                || resource == "sendMessage.waitForTaskToken"
        })?;
        let Some(parameters) = parameters else { return Some(None) };
        let is_own_queue =
            parameters["QueueUrl"].as_str().is_some_and(|url| queue_path(url) == queue_path(queue));
        is_own_queue.then(|| match &parameters["MessageBody"] {
            Value::String(text) => {
                serde_json::from_str(text).ok().and_then(|body| QuestionContent::of(&body).ok())
            }
            body => QuestionContent::of(body).ok(),
        })
    }
}

/// Returns the account and name of a queue, which are the same in all of its URLs.
fn queue_path(url: &str) -> Option<&str> {
    let at = url.rmatch_indices('/').nth(1)?.0;
    url.get(at..)
}

/// Outcome of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QuestionOutcome {
    /// The step received this answer.
    Answered(Value),
    /// The step failed with this error.
    Failed(String),
    /// The step stopped waiting without an answer, or the history does not contain its answer.
    Closed,
}

impl QuestionOutcome {
    /// Returns the outcome that an answer causes.
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Accept(fields) => Self::Answered(Value::Object(fields.clone())),
            Answer::Decline => Self::Failed(DECLINED.to_owned()),
            Answer::Cancel => Self::Failed(DISMISSED.to_owned()),
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
    timed_out: bool,
}

impl WaitingStep {
    /// Returns true if this event continues the step.
    fn is_continued_by(&self, event: &ExecutionEvent) -> bool {
        // If the history does not link events, the resource identifies the step.
        let unlinked = event.previous == 0 && event.resource.as_ref() == Some(&self.resource);
        event.previous == self.tail || unlinked
    }
}

/// Questions of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QuestionHistory {
    waiting_steps: Vec<WaitingStep>,
    /// Outcomes by the digest of the question, in the order of settlement.
    outcomes: HashMap<String, Vec<QuestionOutcome>>,
}

impl QuestionHistory {
    /// Applies the next event.
    pub(crate) fn apply(&mut self, channels: &QuestionChannels, event: &ExecutionEvent) {
        let kind = event.kind.as_str();
        if kind.starts_with("Execution") {
            // The execution has ended or starts again: no step waits any more.
            (0..self.waiting_steps.len()).rev().for_each(|at| self.settle(at, QuestionOutcome::Closed));
            return;
        }
        let at = self.waiting_steps.iter().position(|step| step.is_continued_by(event));
        if matches!(kind, "ActivityScheduled" | "TaskScheduled") {
            let Some(content) = channels.question_content(event) else { return };
            match at {
                // The same question, scheduled again.
                Some(at) if self.waiting_steps[at].timed_out => {
                    (self.waiting_steps[at].tail, self.waiting_steps[at].timed_out) = (event.id, false);
                }
                _ => {
                    let resource = event.resource.clone().unwrap_or_default();
                    self.waiting_steps.push(WaitingStep {
                        tail: event.id,
                        resource,
                        content,
                        timed_out: false,
                    });
                }
            }
            return;
        }
        let Some(at) = at else { return };
        match kind {
            "ActivitySucceeded" | "TaskSucceeded" => {
                let answer = event.output.as_deref().and_then(|text| serde_json::from_str(text).ok());
                self.settle(at, answer.map_or(QuestionOutcome::Closed, QuestionOutcome::Answered));
            }
            "ActivityTimedOut" | "TaskTimedOut" => {
                (self.waiting_steps[at].tail, self.waiting_steps[at].timed_out) = (event.id, true);
            }
            kind if kind.starts_with("Activity") || kind.starts_with("Task") => {
                if kind.ends_with("Failed") {
                    let error = event.error.clone().unwrap_or_default();
                    self.settle(at, QuestionOutcome::Failed(error));
                } else if kind.ends_with("StateExited") || kind.ends_with("StateAborted") {
                    self.settle(at, QuestionOutcome::Closed);
                } else {
                    self.waiting_steps[at].tail = event.id;
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, at: usize, outcome: QuestionOutcome) {
        if let Some(content) = self.waiting_steps.remove(at).content {
            self.outcomes.entry(content.digest).or_default().push(outcome);
        }
    }

    /// Returns true if a step waits for an answer, or its wait timed out and it may be scheduled again.
    pub(crate) fn has_open(&self) -> bool {
        !self.waiting_steps.is_empty()
    }

    /// Returns the open questions. If several steps ask the same, the question is asked once at a time and an
    /// answer goes to any of them. `token_contents` are contents that arrived with tokens. They replace those
    /// that the history lacks, and are kept.
    pub(crate) fn questions(&mut self, token_contents: &[QuestionContent]) -> Vec<Question> {
        for at in 0..self.waiting_steps.len() {
            if self.waiting_steps[at].content.is_none() {
                let content = token_contents.iter().find(|content| !self.is_asked(&content.digest)).cloned();
                self.waiting_steps[at].content = content;
            }
        }
        let mut questions: Vec<Question> = Vec::new();
        for content in self.waiting_steps.iter().filter_map(|step| step.content.as_ref()) {
            let id = self.id(&content.digest);
            if questions.iter().all(|question| question.id != id) {
                questions.push(Question { id, message: content.message.clone(), ask: content.ask.clone() });
            }
        }
        questions
    }

    fn is_asked(&self, digest: &str) -> bool {
        self.waiting_steps
            .iter()
            .filter_map(|step| step.content.as_ref())
            .any(|content| content.digest == digest)
    }

    /// Returns the id of the open question with this digest. It counts the earlier settlements.
    fn id(&self, digest: &str) -> String {
        format!("{digest}-{}", self.outcomes.get(digest).map_or(0, Vec::len))
    }

    /// Returns the state of the question with this id.
    pub(crate) fn settlement<'a>(&'a self, id: &'a str) -> QuestionSettlement<'a> {
        let Some((digest, at)) = id.rsplit_once('-') else { return QuestionSettlement::Unknown };
        let outcomes = self.outcomes.get(digest).map_or(&[][..], Vec::as_slice);
        match at.parse::<usize>().ok().and_then(|at| outcomes.get(at)) {
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

    fn channels() -> QuestionChannels {
        QuestionChannels { activities: vec![ACTIVITY.to_owned()], queue: Some(QUEUE.to_owned()) }
    }

    fn event(id: i64, previous: i64, kind: &str) -> ExecutionEvent {
        ExecutionEvent { id, previous, kind: kind.to_owned(), ..ExecutionEvent::default() }
    }

    fn scheduled(id: i64, previous: i64, question: &Value) -> ExecutionEvent {
        let (resource, parameters) = (Some(ACTIVITY.to_owned()), Some(question.to_string()));
        ExecutionEvent { resource, parameters, ..event(id, previous, "ActivityScheduled") }
    }

    fn history_of(events: &[ExecutionEvent]) -> QuestionHistory {
        let mut history = QuestionHistory::default();
        events.iter().for_each(|event| history.apply(&channels(), event));
        history
    }

    fn sample_question() -> Value {
        json!({"execution": "e", "message": "Well?", "schema": {"type": "object", "properties": {}}})
    }

    /// A step that times out and is scheduled again asks the same question.
    /// After an answer, the same text in a loop is a new question.
    #[test]
    fn question_keeps_id_until_settled() {
        let mut events = vec![
            event(2, 1, "TaskStateEntered"),
            scheduled(3, 2, &sample_question()),
            event(4, 3, "ActivityStarted"),
        ];
        let first = history_of(&events).questions(&[]);
        assert_eq!((first.len(), first[0].message.as_str()), (1, "Well?"));
        events.push(event(5, 4, "ActivityTimedOut"));
        assert_eq!(history_of(&events).questions(&[]), first, "the step may be scheduled again");
        events.extend([scheduled(6, 5, &sample_question()), event(7, 6, "ActivityStarted")]);
        assert_eq!(history_of(&events).questions(&[]), first);
        assert!(matches!(history_of(&events).settlement(&first[0].id), QuestionSettlement::Open(_)));
        let output = Some(r#"{"ok": true}"#.to_owned());
        events.push(ExecutionEvent { output, ..event(8, 7, "ActivitySucceeded") });
        let mut history = history_of(&events);
        assert!(history.questions(&[]).is_empty() && !history.has_open());
        let answered = QuestionOutcome::Answered(json!({"ok": true}));
        assert_eq!(history.settlement(&first[0].id), QuestionSettlement::Settled(&answered));
        // The same question in a loop is a new one.
        events.push(scheduled(11, 10, &sample_question()));
        let again = history_of(&events).questions(&[]);
        assert!(again.len() == 1 && again[0].id != first[0].id);
    }

    /// A step that is retried after a decline asks a question with a new id.
    #[test]
    fn retry_after_decline_asks_new_question() {
        let error = Some(DECLINED.to_owned());
        let events = [
            scheduled(3, 2, &sample_question()),
            ExecutionEvent { error, ..event(4, 3, "ActivityFailed") },
            scheduled(5, 4, &sample_question()),
        ];
        let first = history_of(&events[..1]).questions(&[]).remove(0).id;
        let mut history = history_of(&events);
        assert_eq!(
            history.settlement(&first),
            QuestionSettlement::Settled(&QuestionOutcome::of(&Answer::Decline))
        );
        assert_ne!(history.questions(&[])[0].id, first);
    }

    /// A question that timed out is over when the step is left or the execution ends.
    #[test]
    fn unanswered_question_ends_with_its_step() {
        for last in [event(5, 4, "TaskStateExited"), event(5, 1, "ExecutionAborted")] {
            let events = [scheduled(3, 2, &sample_question()), event(4, 3, "ActivityTimedOut"), last];
            let id = history_of(&events[..1]).questions(&[]).remove(0).id;
            let mut history = history_of(&events);
            assert_eq!(history.settlement(&id), QuestionSettlement::Settled(&QuestionOutcome::Closed));
            assert!(history.questions(&[]).is_empty());
        }
    }

    /// Two steps with the same question are asked one after the other. Other questions do not wait.
    #[test]
    fn identical_questions_are_asked_in_turn() {
        let output = Some("{}".to_owned());
        let events = [
            scheduled(5, 3, &sample_question()),
            scheduled(6, 4, &sample_question()),
            scheduled(7, 2, &json!({"message": "Or?"})),
            ExecutionEvent { output, ..event(8, 6, "ActivitySucceeded") },
        ];
        let before = history_of(&events[..3]).questions(&[]);
        assert_eq!(before.len(), 2);
        let now = history_of(&events).questions(&[]);
        assert_eq!(now.len(), 2);
        assert_ne!(now[0].id, before[0].id);
        assert_eq!(now[1], before[1]);
    }

    /// A message to the configured queue asks a question whose id does not depend on the task token.
    #[test]
    fn queue_question_is_independent_of_token() {
        let message_event = |token: &str, queue: &str| {
            let body = json!({"token": token, "execution": "e", "message": "Sure?"});
            let parameters = json!({"QueueUrl": queue, "MessageBody": body}).to_string();
            let resource = Some("sendMessage.waitForTaskToken".to_owned());
            ExecutionEvent { resource, parameters: Some(parameters), ..event(3, 2, "TaskScheduled") }
        };
        let first = history_of(&[message_event("t1", QUEUE)]).questions(&[]);
        assert_eq!(
            first,
            history_of(&[message_event("t2", "http://127.0.0.1:4566/1/questions")]).questions(&[])
        );
        assert_eq!(first[0].ask.form(), Some(&json!({"type": "object", "properties": {}})));
        assert!(!format!("{first:?}").contains("t1"));
        assert!(
            !history_of(&[message_event("t1", "https://sqs.eu-central-1.amazonaws.com/1/other")]).has_open()
        );
    }

    /// If the history has no parameters, the content of the question comes with the token and is kept.
    #[test]
    fn question_without_parameters_comes_with_token() {
        let resource = Some(ACTIVITY.to_owned());
        let mut history =
            history_of(&[ExecutionEvent { resource: resource.clone(), ..event(3, 0, "TaskScheduled") }]);
        assert!(history.questions(&[]).is_empty() && history.has_open());
        let content = QuestionContent::of(&sample_question()).unwrap();
        let questions = history.questions(std::slice::from_ref(&content));
        assert_eq!(questions, history.questions(&[]), "the content is kept");
        let output = Some("{}".to_owned());
        history.apply(&channels(), &ExecutionEvent { resource, output, ..event(4, 0, "TaskSucceeded") });
        assert_eq!(
            history.settlement(&questions[0].id),
            QuestionSettlement::Settled(&QuestionOutcome::Answered(json!({})))
        );
    }
}
