//! Multi round-trip requests: what a caller is asked before anything starts, or by the job of a plain call.
//! The state so far travels to the client and back, sealed, so that nothing is stored here between two
//! rounds. It is only valid for the same caller and call, and for a limited time. Its nonce names the task
//! that the call creates, so that a state sent twice creates one task.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use serde_json::{Map, Value};
use taskbridge_sdk::{Answer, Question, Timestamp};

use super::from_wire::invalid;
use super::{StatelessCall, errors, to_wire};
use crate::catalog::{ConfirmDefault, Inquiry, Tool};
use crate::mcp::features::authorization;
use crate::mcp::features::dialect::{CallInput, Dialect as _};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::session::log_cursor;
use crate::mcp::wire::jsonrpc::Error;
use crate::mcp::wire::params::{self, Retry};
use crate::seal::Purpose;
use crate::tasks::asking;
use crate::tasks::task::{Owner, Task, TaskId};

/// How long the state is valid between two rounds.
const STATE_TTL: Duration = Duration::from_secs(3600);
/// Key of the question for consent.
const CONFIRM: &str = "confirm";

/// The called tool or prompt, and the questions to ask first.
pub(super) struct CallTarget<'a> {
    /// Name of the tool or prompt, for people.
    pub(super) name: &'a str,
    /// Digest of the call and its arguments.
    pub(super) fingerprint: String,
    /// Questions to ask first.
    pub(super) inquiries: &'a [Inquiry],
}

/// Next step of a request.
#[derive(Debug)]
pub(super) enum NextStep {
    /// Answer with this result; the client asks its user and sends the request again.
    Ask(Value),
    /// Nothing was started, for this reason: a question was declined, or the arguments are invalid.
    Refused(String),
    /// All input is complete.
    Proceed(CallInput),
}

/// The state that travels to the client and back.
#[derive(Serialize, Deserialize)]
struct RequestState {
    owner: Owner,
    fingerprint: String,
    expires: Timestamp,
    at: RequestStage,
}

/// Stage of a request.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestStage {
    /// Nothing was started.
    Before(PartialInput),
    /// The job of this task asks.
    During(AskingTask),
}

/// A task whose job asks something.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AskingTask {
    /// The task.
    pub(super) task: TaskId,
    /// Log messages up to this time count as sent.
    pub(super) heard: Timestamp,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct PartialInput {
    nonce: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    arguments: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answered: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    consented: bool,
}

/// Returns the task that a repeated request continues, if the question came from its job.
///
/// # Errors
/// If the state was not issued for this call, or has expired.
pub(super) fn resumed_task(
    call: &StatelessCall<'_>,
    target: &CallTarget<'_>,
    retry: &Retry,
) -> Result<Option<AskingTask>, Error> {
    let Some(state) = &retry.state else { return Ok(None) };
    match open_state(call, target, state)? {
        RequestStage::During(asking_task) => Ok(Some(asking_task)),
        RequestStage::Before(_) => Ok(None),
    }
}

/// Returns the answer to a call whose job asks this client something.
pub(super) fn ask_for_task(
    call: &StatelessCall<'_>,
    fingerprint: &str,
    task: &Task,
    input_requests: Map<String, Value>,
) -> Value {
    let asking_task = AskingTask { task: task.id.clone(), heard: log_cursor::newest_entry_time(task) };
    let request_state = seal_state(call, fingerprint, RequestStage::During(asking_task));
    to_wire::input_required(input_requests, request_state)
}

/// Takes the answers of a request, and decides what to ask next. `tool` may require consent.
///
/// # Errors
/// If the state was not issued for this call or has expired, or if the client did not declare a capability
/// that a question needs.
pub(super) async fn next_step(
    call: &StatelessCall<'_>,
    target: &CallTarget<'_>,
    tool: Option<&Arc<Tool>>,
    provided: &Map<String, Value>,
    retry: &Retry,
) -> Result<NextStep, Error> {
    let partial_input = match &retry.state {
        None => None,
        Some(state) => match open_state(call, target, state)? {
            RequestStage::Before(partial_input) => Some(partial_input),
            RequestStage::During(_) => return Err(invalid_state()),
        },
    };
    let is_retry = partial_input.is_some();
    let round = Round {
        call,
        target,
        provided,
        partial_input: partial_input.unwrap_or_default(),
        answer_problem: None,
    };
    round.run(tool, retry.responses.as_ref(), is_retry).await
}

/// One round.
struct Round<'a> {
    call: &'a StatelessCall<'a>,
    target: &'a CallTarget<'a>,
    provided: &'a Map<String, Value>,
    partial_input: PartialInput,
    /// Why an answer was invalid; shown with the question when it is asked again.
    answer_problem: Option<String>,
}

impl<'a> Round<'a> {
    async fn run(
        mut self,
        tool: Option<&Arc<Tool>>,
        responses: Option<&Map<String, Value>>,
        is_retry: bool,
    ) -> Result<NextStep, Error> {
        for inquiry in self.open_inquiries() {
            let Some(response) = responses.and_then(|responses| responses.get(&inquiry.key)) else {
                continue;
            };
            match self.answer(&inquiry.question(&self.arguments()), response) {
                Some(Answer::Accept(content)) => {
                    let mut filled = self.arguments();
                    inquiry.fill(&content, &mut filled);
                    filled.retain(|name, _| !self.provided.contains_key(name));
                    self.partial_input.arguments = filled;
                    self.partial_input.answered.push(inquiry.key.clone());
                }
                Some(_) if inquiry.optional => self.partial_input.answered.push(inquiry.key.clone()),
                Some(answer) => return Ok(NextStep::Refused(self.refusal(&answer))),
                None => {}
            }
        }
        let open_inquiries = self.open_inquiries();
        if let Some(inquiry) =
            open_inquiries.iter().find(|inquiry| !inquiry.optional && !self.can_ask(inquiry))
        {
            return Err(errors::needs_capability(self.target.name, &inquiry.question(&self.arguments()).ask));
        }
        let askable: Vec<&Inquiry> =
            open_inquiries.into_iter().filter(|inquiry| self.can_ask(inquiry)).collect();
        if let Some(step) = askable.iter().map(|inquiry| inquiry.step).min() {
            let arguments = self.arguments();
            // A call that would be refused anyway must not ask anything.
            if let Some(tool) = tool
                && let Err(problem) = tool.validate(arguments.clone()).await
            {
                return Ok(NextStep::Refused(problem));
            }
            let in_step = askable.into_iter().filter(|inquiry| inquiry.step == step);
            return Ok(self.ask(in_step.map(|inquiry| inquiry.question(&arguments)).collect()));
        }
        if let Some(tool) = tool
            && authorization::may_consent(&self.call.caller.principal, tool)
            && let Some(next) = self.obtain_consent(tool, responses).await?
        {
            return Ok(next);
        }
        let nonce = is_retry.then(|| self.partial_input.nonce.clone());
        Ok(NextStep::Proceed(CallInput {
            arguments: self.arguments(),
            consented: self.partial_input.consented,
            nonce,
            fingerprint: self.target.fingerprint.clone(),
        }))
    }

    /// Obtains consent, if the tool requires it. Returns `None` if the call can go on.
    async fn obtain_consent(
        &mut self,
        tool: &Arc<Tool>,
        responses: Option<&Map<String, Value>>,
    ) -> Result<Option<NextStep>, Error> {
        if self.partial_input.consented || !tool.needs_consent() {
            return Ok(None);
        }
        let arguments = self.arguments();
        let Some((question, default)) = tool.confirmation(&arguments) else { return Ok(None) };
        if let Err(problem) = tool.validate(arguments).await {
            return Ok(Some(NextStep::Refused(problem)));
        }
        if let Some(response) = responses.and_then(|responses| responses.get(CONFIRM)) {
            match self.answer(&question, response) {
                Some(Answer::Accept(_)) => {
                    self.partial_input.consented = true;
                    return Ok(None);
                }
                Some(answer) => return Ok(Some(NextStep::Refused(self.refusal(&answer)))),
                None => {}
            }
        }
        match (self.call.client().can_ask(&question.ask), default) {
            (true, _) => Ok(Some(self.ask(vec![question]))),
            (false, ConfirmDefault::Accept) => Ok(None),
            (false, ConfirmDefault::Refuse) => Err(errors::needs_capability(self.target.name, &question.ask)),
        }
    }

    /// Returns the arguments that are known so far.
    fn arguments(&self) -> Map<String, Value> {
        let mut arguments = self.partial_input.arguments.clone();
        arguments.extend(self.provided.clone());
        arguments
    }

    fn open_inquiries(&self) -> Vec<&'a Inquiry> {
        let target: &'a CallTarget<'a> = self.target;
        if target.inquiries.is_empty() {
            return Vec::new();
        }
        let arguments = self.arguments();
        let is_open = |inquiry: &&Inquiry| inquiry.is_open(&arguments, &self.partial_input.answered);
        target.inquiries.iter().filter(is_open).collect()
    }

    fn can_ask(&self, inquiry: &Inquiry) -> bool {
        self.call.client().can_ask(&inquiry.question(&Map::new()).ask)
    }

    /// Returns the answer, if it is valid. Otherwise keeps the problem in `answer_problem`.
    fn answer(&mut self, question: &Question, response: &Value) -> Option<Answer> {
        let answer = params::answer(&question.ask, response)
            .and_then(|answer| asking::normalize_answer(question, answer));
        answer.map_err(|problem| self.answer_problem = Some(problem)).ok()
    }

    fn refusal(&self, answer: &Answer) -> String {
        let reason = match answer {
            Answer::Cancel => "the question was closed without an answer",
            Answer::Accept(_) | Answer::Decline => "the user declined",
        };
        format!("{}: {reason}; nothing was started", self.target.name)
    }

    /// Returns the result that asks these questions.
    fn ask(&mut self, mut questions: Vec<Question>) -> NextStep {
        if let Some(problem) = &self.answer_problem {
            for question in &mut questions {
                question.message = format!("{} (An answer did not fit: {problem}.)", question.message);
            }
        }
        if self.partial_input.nonce.is_empty() {
            self.partial_input.nonce = self.call.bridge.context.seal.nonce();
        }
        let input_requests =
            to_wire::input_requests(questions.iter().map(|question| (question.id.as_str(), question)));
        let request_state =
            seal_state(self.call, &self.target.fingerprint, RequestStage::Before(self.partial_input.clone()));
        NextStep::Ask(to_wire::input_required(input_requests, request_state))
    }
}

fn seal_state(call: &StatelessCall<'_>, fingerprint: &str, stage: RequestStage) -> String {
    let expires = call.bridge.context.clock.now() + STATE_TTL;
    let state =
        RequestState { owner: call.owner().clone(), fingerprint: fingerprint.to_owned(), expires, at: stage };
    call.bridge.context.seal.seal(Purpose::State, &state)
}

fn open_state(call: &StatelessCall<'_>, target: &CallTarget<'_>, text: &str) -> Result<RequestStage, Error> {
    let state: RequestState =
        call.bridge.context.seal.open(Purpose::State, text).ok_or_else(invalid_state)?;
    let is_own = state.owner == *call.owner() && state.fingerprint == target.fingerprint;
    if !is_own {
        return Err(invalid_state());
    }
    if call.bridge.context.clock.now() >= state.expires {
        return Err(invalid("`requestState` has expired: send the request again without it"));
    }
    Ok(state.at)
}

/// Returns the error for a state that is invalid, or belongs to another caller or call.
fn invalid_state() -> Error {
    invalid(
        "`requestState` is not one that this request was answered with: send the request again without it",
    )
}
