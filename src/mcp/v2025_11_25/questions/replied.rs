//! Answers on their way back. They come to any process, on any connection of the owner.

use taskbridge_sdk::{Answer, Ask};

use super::Sent;
use crate::mcp::generation::Replied;
use crate::mcp::jsonrpc::{Error, Id, Outcome};
use crate::mcp::session::Caller;
use crate::mcp::{Bridge, params};
use crate::seal::Purpose;
use crate::tasks::service::{AnswerError, Carried};
use crate::tasks::store::StoreError;

/// The error code by which a client says that its user did not want its model to be asked.
const USER_REJECTED: i32 = -1;

/// Takes the client's response to a question.
pub(in crate::mcp::v2025_11_25) async fn replied(
    bridge: &Bridge,
    caller: &Caller,
    id: &Id,
    outcome: Outcome,
) -> Replied {
    let Id::Text(id) = id else { return Replied::Unknown };
    let Some(sent) = bridge.seal.open::<Sent>(Purpose::Question, id) else { return Replied::Unknown };
    match taken(bridge, caller, sent, outcome).await {
        Ok(replied) => replied,
        Err(error) => {
            tracing::error!(%error, "an answer was lost; the question stays open");
            Replied::Taken
        }
    }
}

async fn taken(
    bridge: &Bridge,
    caller: &Caller,
    sent: Sent,
    outcome: Outcome,
) -> Result<Replied, StoreError> {
    let owner = &caller.principal.owner;
    let Sent { task, key, n } = sent;
    // We asked it, so a task that is gone by now, or not this caller's, is nothing that the client did wrong.
    let Some(view) = bridge.service.get(owner, &task).await? else { return Ok(Replied::Late) };
    let Some(asked) = view.task.questions.into_iter().find(|asked| asked.key == key) else {
        return Ok(Replied::Late);
    };
    let ask = &asked.question.ask;
    let answer: Result<Answer, String> = match outcome {
        Ok(result) => params::answer(ask, &result),
        Err(error) => refused(ask, &error),
    };
    let (why, problem) = match answer {
        Err(why) => (why, None),
        Ok(answer) => match bridge.service.answer(owner, &task, &key, answer).await {
            Ok(_) => return Ok(Replied::Taken),
            Err(AnswerError::Closed | AnswerError::NotFound) => return Ok(Replied::Late),
            Err(AnswerError::Store(error)) => return Err(error),
            Err(AnswerError::Invalid(problem)) => (problem.clone(), Some(problem)),
        },
    };
    tracing::debug!(?task, key, n, why, "an answer was not taken; the question stays open");
    bridge.service.carrying(Carried { task, key, n, asked }).over(problem).await?;
    Ok(Replied::Taken)
}

/// What an error says to the question. Most say nothing about the user's will, and the question stays open.
fn refused(ask: &Ask, error: &Error) -> Result<Answer, String> {
    match ask {
        Ask::Sampling(_) if error.code == USER_REJECTED => Ok(Answer::Decline),
        _ => Err(format!("the client answered with error {}: {}", error.code, error.message)),
    }
}
