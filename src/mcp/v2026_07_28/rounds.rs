//! Multi round-trip requests: what is asked of a caller before anything starts. What was learned so far travels to the
//! client and back, sealed, so that nothing is kept here between two rounds. What comes back is good for the same
//! caller, the same call and a while only; its nonce names the task that the call makes, so that to send it twice makes
//! one task.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use serde_json::{Map, Value};
use taskbridge_sdk::{Answer, Question, Timestamp};

use super::from_wire::{Retry, invalid};
use super::{Call, errors, to_wire, wire};
use crate::catalog::{ConfirmDefault, Inquiry, Tool};
use crate::mcp::jsonrpc::Error;
use crate::mcp::{heard, params, permit};
use crate::seal::Purpose;
use crate::tasks::asking;
use crate::tasks::task::{Owner, Task, TaskId};

/// How long a caller may take from one round to the next.
const GOOD_FOR: Duration = Duration::from_secs(3600);
/// The key of the question for consent.
const CONFIRM: &str = "confirm";

/// What is asked before it is answered.
pub(super) struct Target<'a> {
    /// What is called, for people.
    pub(super) name: &'a str,
    /// Digest of what is called, and with what.
    pub(super) fingerprint: String,
    /// What it asks.
    pub(super) inquiries: &'a [Inquiry],
}

/// How a request goes on.
#[derive(Debug)]
pub(super) enum Next {
    /// It is answered with this, for the client to ask and to come back.
    Ask(Value),
    /// Somebody said no: why nothing was started.
    Refused(String),
    /// It has all that was asked for.
    Go(Gathered),
}

/// What was learned.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The arguments with what was missing.
    pub(super) arguments: Map<String, Value>,
    /// True if the consent that a tool wants was given.
    pub(super) consented: bool,
    /// Names the call, if it took more than one round.
    pub(super) nonce: Option<String>,
}

/// What travels to the client and back.
#[derive(Serialize, Deserialize)]
struct State {
    owner: Owner,
    fingerprint: String,
    expires: Timestamp,
    at: At,
}

/// Where a request stands.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum At {
    /// Nothing was started.
    Before(Learned),
    /// The job of this task asks.
    During(Begun),
}

/// A task whose job asks.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The task.
    pub(super) task: TaskId,
    /// What it said until this moment could be told.
    pub(super) heard: Timestamp,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Learned {
    nonce: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    arguments: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answered: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    consented: bool,
}

/// The task that a request which is sent again goes on with, if its job had begun when it asked.
///
/// # Errors
/// If the state is not one that this call was given.
pub(super) fn resumed(call: &Call<'_>, target: &Target<'_>, retry: &Retry) -> Result<Option<Begun>, Error> {
    let Some(state) = &retry.state else { return Ok(None) };
    match open(call, target, state)? {
        At::During(begun) => Ok(Some(begun)),
        At::Before(_) => Ok(None),
    }
}

/// The answer to a call whose job asks this client.
pub(super) fn ask_for_task(
    call: &Call<'_>,
    target: &Target<'_>,
    task: &Task,
    input_requests: Map<String, Value>,
) -> Value {
    let begun = Begun { task: task.id.clone(), heard: heard::all_of(task) };
    let request_state = seal(call, target, At::During(begun));
    let result = wire::InputRequiredResult { input_requests, request_state };
    to_wire::result(wire::ResultType::InputRequired, result)
}

/// Takes what a request brings, and says what is still to be asked. `tool` wants consent, perhaps.
///
/// # Errors
/// If the state is not one that this call was given, or the client did not declare what is needed to ask it.
pub(super) async fn next(
    call: &Call<'_>,
    target: &Target<'_>,
    tool: Option<&Arc<Tool>>,
    sent: &Map<String, Value>,
    retry: &Retry,
) -> Result<Next, Error> {
    let begun = match &retry.state {
        None => None,
        Some(state) => match open(call, target, state)? {
            At::Before(learned) => Some(learned),
            At::During(_) => return Err(not_ours()),
        },
    };
    let again = begun.is_some();
    let round = Round { call, target, sent, learned: begun.unwrap_or_default(), unfit: None };
    round.run(tool, retry.responses.as_ref(), again).await
}

/// One round.
struct Round<'a> {
    call: &'a Call<'a>,
    target: &'a Target<'a>,
    sent: &'a Map<String, Value>,
    learned: Learned,
    /// Why an answer was none: said with the question when it is asked again.
    unfit: Option<String>,
}

impl<'a> Round<'a> {
    async fn run(
        mut self,
        tool: Option<&Arc<Tool>>,
        responses: Option<&Map<String, Value>>,
        again: bool,
    ) -> Result<Next, Error> {
        for inquiry in self.open() {
            let Some(response) = responses.and_then(|responses| responses.get(&inquiry.key)) else {
                continue;
            };
            match self.answer(&inquiry.question(&self.arguments()), response) {
                Some(Answer::Accept(content)) => {
                    let mut filled = self.arguments();
                    inquiry.fill(&content, &mut filled);
                    filled.retain(|name, _| !self.sent.contains_key(name));
                    self.learned.arguments = filled;
                    self.learned.answered.push(inquiry.key.clone());
                }
                Some(_) if inquiry.optional => self.learned.answered.push(inquiry.key.clone()),
                Some(answer) => return Ok(Next::Refused(self.refusal(&answer))),
                None => {}
            }
        }
        let open = self.open();
        if let Some(inquiry) = open.iter().find(|inquiry| !inquiry.optional && !self.can_ask(inquiry)) {
            return Err(errors::needs_ability(self.target.name, &inquiry.question(&self.arguments()).ask));
        }
        let askable: Vec<&Inquiry> = open.into_iter().filter(|inquiry| self.can_ask(inquiry)).collect();
        if let Some(step) = askable.iter().map(|inquiry| inquiry.step).min() {
            let arguments = self.arguments();
            // Nobody is asked for the sake of a call that would be refused anyway.
            if let Some(tool) = tool
                && let Err(problem) = tool.validate(arguments.clone()).await
            {
                return Ok(Next::Refused(problem));
            }
            let now = askable.into_iter().filter(|inquiry| inquiry.step == step);
            return Ok(self.ask(now.map(|inquiry| inquiry.question(&arguments)).collect()));
        }
        if let Some(tool) = tool
            && permit::may_consent(&self.call.asker.principal, tool)
            && let Some(next) = self.consent(tool, responses).await?
        {
            return Ok(next);
        }
        let nonce = again.then(|| self.learned.nonce.clone());
        Ok(Next::Go(Gathered { arguments: self.arguments(), consented: self.learned.consented, nonce }))
    }

    /// Sees to it that consent is given, where the tool wants it. `None` if nothing more is to be done.
    async fn consent(
        &mut self,
        tool: &Arc<Tool>,
        responses: Option<&Map<String, Value>>,
    ) -> Result<Option<Next>, Error> {
        let arguments = self.arguments();
        let Some((question, default)) = tool.confirmation(&arguments).filter(|_| !self.learned.consented)
        else {
            return Ok(None);
        };
        if let Err(problem) = tool.validate(arguments).await {
            return Ok(Some(Next::Refused(problem)));
        }
        if let Some(response) = responses.and_then(|responses| responses.get(CONFIRM)) {
            match self.answer(&question, response) {
                Some(Answer::Accept(_)) => {
                    self.learned.consented = true;
                    return Ok(None);
                }
                Some(answer) => return Ok(Some(Next::Refused(self.refusal(&answer)))),
                None => {}
            }
        }
        match (self.call.client().can_ask(&question.ask), default) {
            (true, _) => Ok(Some(self.ask(vec![question]))),
            (false, ConfirmDefault::Accept) => Ok(None),
            (false, ConfirmDefault::Refuse) => Err(errors::needs_ability(self.target.name, &question.ask)),
        }
    }

    /// The arguments as far as they are known.
    fn arguments(&self) -> Map<String, Value> {
        let mut arguments = self.learned.arguments.clone();
        arguments.extend(self.sent.clone());
        arguments
    }

    fn open(&self) -> Vec<&'a Inquiry> {
        let arguments = self.arguments();
        let target: &'a Target<'a> = self.target;
        let is_open = |inquiry: &&Inquiry| inquiry.is_open(&arguments, &self.learned.answered);
        target.inquiries.iter().filter(is_open).collect()
    }

    fn can_ask(&self, inquiry: &Inquiry) -> bool {
        self.call.client().can_ask(&inquiry.question(&Map::new()).ask)
    }

    /// The answer, if it is one.
    fn answer(&mut self, question: &Question, response: &Value) -> Option<Answer> {
        let answer = params::answer(&question.ask, response).and_then(|answer| asking::fit(question, answer));
        answer.map_err(|problem| self.unfit = Some(problem)).ok()
    }

    fn refusal(&self, answer: &Answer) -> String {
        let how = match answer {
            Answer::Cancel => "the question was closed without an answer",
            Answer::Accept(_) | Answer::Decline => "the user declined",
        };
        format!("{}: {how}; nothing was started", self.target.name)
    }

    /// The answer that asks these questions.
    fn ask(&mut self, mut questions: Vec<Question>) -> Next {
        if let Some(problem) = &self.unfit {
            for question in &mut questions {
                question.message = format!("{} (An answer did not fit: {problem}.)", question.message);
            }
        }
        if self.learned.nonce.is_empty() {
            self.learned.nonce = self.call.bridge.seal.nonce();
        }
        let input_requests =
            to_wire::input_requests(questions.iter().map(|question| (question.id.as_str(), question)));
        let request_state = seal(self.call, self.target, At::Before(self.learned.clone()));
        let result = wire::InputRequiredResult { input_requests, request_state };
        Next::Ask(to_wire::result(wire::ResultType::InputRequired, result))
    }
}

fn seal(call: &Call<'_>, target: &Target<'_>, at: At) -> String {
    let expires = call.bridge.clock.now() + GOOD_FOR;
    let state = State { owner: call.owner().clone(), fingerprint: target.fingerprint.clone(), expires, at };
    call.bridge.seal.seal(Purpose::State, &state)
}

fn open(call: &Call<'_>, target: &Target<'_>, text: &str) -> Result<At, Error> {
    let state: State = call.bridge.seal.open(Purpose::State, text).ok_or_else(not_ours)?;
    let is_its = state.owner == *call.owner() && state.fingerprint == target.fingerprint;
    if !is_its {
        return Err(not_ours());
    }
    if call.bridge.clock.now() >= state.expires {
        return Err(invalid("`requestState` has expired: send the request again without it"));
    }
    Ok(state.at)
}

/// What is not ours, somebody else's and another call's are answered with.
fn not_ours() -> Error {
    invalid(
        "`requestState` is not one that this request was answered with: send the request again without it",
    )
}
