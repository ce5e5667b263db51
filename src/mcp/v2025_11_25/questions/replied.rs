//! Handles responses to questions: the answer, or the state of the client's task for the question. They
//! arrive at any process, on any connection of the owner.

use serde_json::Value;
use taskbridge_sdk::{Answer, Ask};

use super::super::from_wire::{self, ClientTask};
use super::held::{dismiss, let_go, note};
use super::{Sent, What};
use crate::mcp::generation::Replied;
use crate::mcp::jsonrpc::{Error, INTERNAL_ERROR, Id, Outcome};
use crate::mcp::permit::Acting;
use crate::mcp::session::{Caller, Session};
use crate::mcp::{Bridge, params};
use crate::seal::Purpose;
use crate::tasks::audit::{Audit as _, Event as Told};
use crate::tasks::service::{Actor as _, AnswerError, Carried, Deed};
use crate::tasks::store::{Held, Message, Setting, Stage, StoreError};
use crate::tasks::task::Asked;

/// Error code of a client whose user rejected a sampling request.
const USER_REJECTED: i32 = -1;

/// Handles the client's response to a question, or to a request about its task for that question.
pub(in crate::mcp::v2025_11_25) async fn replied(
    bridge: &Bridge,
    caller: &Caller,
    id: &Id,
    outcome: Outcome,
) -> Replied {
    let Id::Text(id) = id else { return Replied::Unknown };
    let Some(Sent { of, what }) = bridge.seal.open::<Sent>(Purpose::Question, id) else {
        return Replied::Unknown;
    };
    let taken = match (what, &caller.session) {
        (What::Question, session) => asked(bridge, caller, session.as_ref(), of, outcome).await,
        (What::Status, Some(session)) => looked(bridge, caller, session, of, outcome).await,
        (What::Result, Some(session)) => fetched(bridge, caller, session, of, outcome).await,
        // Whatever the response is, nothing more is to be done about that task.
        (What::Cancel, Some(session)) => let_go(bridge, session, &of).await.map(|()| Replied::Taken),
        (_, None) => Ok(Replied::Unknown),
    };
    taken.unwrap_or_else(|error| {
        tracing::error!(%error, "an answer could not be kept; the question stays open");
        Replied::Lost
    })
}

/// Handles the notification of a client about one of its tasks.
pub(in crate::mcp::v2025_11_25) async fn told(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    params: &Value,
) {
    if !session.client.makes_tasks() {
        return;
    }
    let told = async {
        let Ok(now) = from_wire::client_task(params) else { return Ok(()) };
        let held = bridge.store.settings(&session.nonce).await?.unwrap_or_default().held;
        match held.into_iter().find(|held| held.id == now.id) {
            Some(held) => stands(bridge, caller, session, held, now).await,
            None => Ok(()),
        }
    };
    if let Err::<(), StoreError>(error) = told.await {
        tracing::warn!(%error, "word of a client's task was lost; it is asked for again");
    }
}

/// Handles the response to a question: an answer, or a task of the client's.
async fn asked(
    bridge: &Bridge,
    caller: &Caller,
    session: Option<&Session>,
    of: Message,
    outcome: Outcome,
) -> Result<Replied, StoreError> {
    if let (Some(session), Ok(result)) = (session, &outcome)
        && session.client.makes_tasks()
        && result["task"].is_object()
    {
        let asked = find(bridge, caller, &of).await?;
        // For any other question no task was requested, and the client cannot create one.
        let can = asked.as_ref().is_none_or(|asked| session.client.makes_task_of(&asked.question.ask));
        match from_wire::client_task(&result["task"]) {
            Ok(task) if can => return made(bridge, session, of, asked, task).await,
            Ok(_) => {}
            Err(why) => tracing::debug!(task = ?of.task, key = of.key, why, "a client's task cannot be read"),
        }
    }
    answered(bridge, caller, of, outcome).await
}

/// Records that the client has created a task of its own for the question. From now on that task is polled,
/// and the question is not asked again.
async fn made(
    bridge: &Bridge,
    session: &Session,
    of: Message,
    asked: Option<Asked>,
    ClientTask { id, stage, every }: ClientTask,
) -> Result<Replied, StoreError> {
    // Also if the question is closed: the task must then be cancelled.
    let held = Held { of: of.clone(), id, since: bridge.clock.now(), stage, every };
    bridge.audit.note(Told::ClientTask { owner: &session.owner, held: &held });
    if !note(bridge, session, Setting::Hold(held)).await? {
        tracing::debug!(task = ?of.task, key = of.key, "the session has ended, or its client holds too many tasks");
    }
    if let Some(asked) = asked {
        dealt_with(bridge, of, asked, None).await?;
    }
    Ok(Replied::Taken)
}

/// Handles the response with the status of a client's task.
async fn looked(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    of: Message,
    outcome: Outcome,
) -> Result<Replied, StoreError> {
    let Some(held) = held(bridge, session, &of).await? else { return Ok(Replied::Late) };
    match outcome.map(|task| from_wire::client_task(&task)) {
        Ok(Ok(now)) => stands(bridge, caller, session, held, now).await?,
        Ok(Err(why)) => tracing::debug!(task = ?of.task, key = of.key, why, "a client's task cannot be read"),
        // Such an error carries no information about the task.
        Err(error) if error.code == INTERNAL_ERROR => {
            tracing::debug!(task = ?of.task, key = of.key, why = error.message, "a client could not say how its task stands");
        }
        Err(error) => {
            tracing::debug!(task = ?of.task, key = of.key, why = error.message, "a client's task is gone");
            let_go(bridge, session, &of).await?;
        }
    }
    Ok(Replied::Taken)
}

async fn stands(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    held: Held,
    now: ClientTask,
) -> Result<(), StoreError> {
    let is_over = matches!(held.stage, Stage::Ended | Stage::Cancelled);
    // A task that has ended stays so; an older message may arrive later.
    if is_over || (held.stage, held.every) == (now.stage, now.every) {
        return Ok(());
    }
    let held = Held { stage: now.stage, every: now.every, ..held };
    bridge.audit.note(Told::ClientTask { owner: &session.owner, held: &held });
    note(bridge, session, Setting::Stands(held.of.clone(), held.stage, held.every)).await?;
    match held.stage {
        Stage::Cancelled => {
            let by = Acting::new(bridge, &caller.principal);
            dismiss(bridge, &by, session, &held.of).await
        }
        Stage::Working | Stage::InputRequired | Stage::Ended => Ok(()),
    }
}

/// Handles the response with the result of a client's task: the answer to the question.
async fn fetched(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    of: Message,
    outcome: Outcome,
) -> Result<Replied, StoreError> {
    let Some(held) = held(bridge, session, &of).await? else { return Ok(Replied::Late) };
    // Recorded first: otherwise a stream would cancel the task when it sees that the question is answered.
    note(bridge, session, Setting::Stands(of.clone(), Stage::Ended, held.every)).await?;
    let replied = answered(bridge, caller, of.clone(), outcome).await?;
    let_go(bridge, session, &of).await?;
    Ok(replied)
}

async fn answered(
    bridge: &Bridge,
    caller: &Caller,
    of: Message,
    outcome: Outcome,
) -> Result<Replied, StoreError> {
    let by = Acting::new(bridge, &caller.principal);
    // This server asked. If the task is gone by now, or is not this caller's, the client did nothing wrong.
    let Some(view) = bridge.service.get(&by, &of.task).await? else { return Ok(Replied::Late) };
    let Some(asked) = view.task.questions.into_iter().find(|asked| asked.key == of.key) else {
        return Ok(Replied::Late);
    };
    let ask = &asked.question.ask;
    // An error is not an answer, but it is how a client reports that there will be none. It is accepted.
    let is_error = outcome.is_err();
    let answer: Result<Answer, String> = match outcome {
        Ok(result) => params::answer(ask, &result),
        Err(error) => refused(ask, &error),
    };
    let (why, problem) = match answer {
        Err(why) => (why, None),
        Ok(answer) => match bridge.service.answer(&by, &of.task, &of.key, answer).await {
            Ok(_) => return Ok(Replied::Taken),
            Err(AnswerError::Closed | AnswerError::NotFound) => return Ok(Replied::Late),
            Err(AnswerError::Store(error)) => return Err(error),
            Err(AnswerError::Invalid(problem)) => (problem.clone(), Some(problem)),
            // The question is for another caller, who can still answer.
            Err(AnswerError::Refused(why)) => {
                tracing::debug!(task = ?of.task, key = of.key, why, "an answer was refused");
                return Ok(Replied::NotTaken(why));
            }
        },
    };
    tracing::debug!(task = ?of.task, key = of.key, n = of.n, why, "an answer was not taken; the question stays open");
    dealt_with(bridge, of, asked, problem).await?;
    Ok(if is_error { Replied::Taken } else { Replied::NotTaken(why) })
}

/// Records that the client has dealt with the message; the question stays open.
async fn dealt_with(
    bridge: &Bridge,
    of: Message,
    asked: Asked,
    problem: Option<String>,
) -> Result<(), StoreError> {
    let Message { task, key, n } = of;
    bridge.service.carrying(Carried { task, key, n, asked }).over(problem).await
}

/// Returns the question, if this caller may answer it.
async fn find(bridge: &Bridge, caller: &Caller, of: &Message) -> Result<Option<Asked>, StoreError> {
    let by = Acting::new(bridge, &caller.principal);
    let view = bridge.service.get(&by, &of.task).await?;
    let task = view.map(|view| view.task).filter(|task| by.may(Deed::Answer, task).is_ok());
    Ok(task.and_then(|task| task.questions.into_iter().find(|asked| asked.key == of.key)))
}

/// Returns the client's task for this message, if it is still recorded.
async fn held(bridge: &Bridge, session: &Session, of: &Message) -> Result<Option<Held>, StoreError> {
    let held = bridge.store.settings(&session.nonce).await?.unwrap_or_default().held;
    Ok(held.into_iter().find(|held| held.of == *of))
}

/// Converts an error response to an answer. Most errors carry no information about the user's decision, and
/// the question stays open.
fn refused(ask: &Ask, error: &Error) -> Result<Answer, String> {
    match ask {
        Ask::Sampling(_) if error.code == USER_REJECTED => Ok(Answer::Decline),
        _ => Err(format!("the client answered with error {}: {}", error.code, error.message)),
    }
}
