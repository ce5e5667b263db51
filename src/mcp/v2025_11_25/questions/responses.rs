//! Handles responses to questions: the answer, or the state of the client's task for the question. They
//! arrive at any process, on any connection of the owner. It must not send a request.

use serde_json::Value;
use taskbridge_sdk::{Answer, Ask};

use super::super::from_wire::{self, ClientTask};
use super::client_tasks::{delete_client_task, dismiss, note};
use super::{MessageKind, MessageSubject};
use crate::mcp::authorization::CallerContext;
use crate::mcp::generation::ResponseOutcome;
use crate::mcp::jsonrpc::{Error, INTERNAL_ERROR, Id, Outcome};
use crate::mcp::session::{Caller, Session};
use crate::mcp::{Bridge, params};
use crate::seal::Purpose;
use crate::tasks::audit::{Audit as _, AuditEvent};
use crate::tasks::service::{Actor as _, AnswerError, QuestionClaim, TaskOperation};
use crate::tasks::store::{ClientTaskRecord, ClientTaskStatus, QuestionMessage, SessionChange, StoreError};
use crate::tasks::task::TaskQuestion;

/// Error code of a client whose user rejected a sampling request.
const USER_REJECTED: i32 = -1;

/// Handles the client's response to a question, or to a request about its task for that question.
pub(in crate::mcp::v2025_11_25) async fn replied(
    bridge: &Bridge,
    caller: &Caller,
    id: &Id,
    outcome: Outcome,
) -> ResponseOutcome {
    let Id::Text(id) = id else { return ResponseOutcome::Unknown };
    let Some(MessageSubject { of, what }) = bridge.seal.open::<MessageSubject>(Purpose::Question, id) else {
        return ResponseOutcome::Unknown;
    };
    let taken = match (what, &caller.session) {
        (MessageKind::Question, session) => asked(bridge, caller, session.as_ref(), of, outcome).await,
        (MessageKind::Status, Some(session)) => looked(bridge, caller, session, of, outcome).await,
        (MessageKind::Result, Some(session)) => fetched(bridge, caller, session, of, outcome).await,
        // Whatever the response is, nothing more is to be done about that task.
        (MessageKind::Cancel, Some(session)) => {
            delete_client_task(bridge, session, &of).await.map(|()| ResponseOutcome::Taken)
        }
        (_, None) => Ok(ResponseOutcome::Unknown),
    };
    taken.unwrap_or_else(|error| {
        tracing::error!(%error, "an answer could not be kept; the question stays open");
        ResponseOutcome::Lost
    })
}

/// Handles the notification of a client about one of its tasks.
pub(in crate::mcp::v2025_11_25) async fn handle_task_status(
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
            Some(held) => update_client_task(bridge, caller, session, held, now).await,
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
    of: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
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
    of: QuestionMessage,
    asked: Option<TaskQuestion>,
    ClientTask { id, stage, every }: ClientTask,
) -> Result<ResponseOutcome, StoreError> {
    // Also if the question is closed: the task must then be cancelled.
    let held = ClientTaskRecord { of: of.clone(), id, since: bridge.clock.now(), stage, every };
    bridge.audit.note(AuditEvent::ClientTask { owner: &session.owner, held: &held });
    if !note(bridge, session, SessionChange::Hold(held)).await? {
        tracing::debug!(task = ?of.task, key = of.key, "the session has ended, or its client holds too many tasks");
    }
    if let Some(asked) = asked {
        dealt_with(bridge, of, asked, None).await?;
    }
    Ok(ResponseOutcome::Taken)
}

/// Handles the response with the status of a client's task.
async fn looked(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    of: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    let Some(held) = held(bridge, session, &of).await? else { return Ok(ResponseOutcome::Late) };
    match outcome.map(|task| from_wire::client_task(&task)) {
        Ok(Ok(now)) => update_client_task(bridge, caller, session, held, now).await?,
        Ok(Err(why)) => tracing::debug!(task = ?of.task, key = of.key, why, "a client's task cannot be read"),
        // Such an error carries no information about the task.
        Err(error) if error.code == INTERNAL_ERROR => {
            tracing::debug!(task = ?of.task, key = of.key, why = error.message, "a client could not say how its task stands");
        }
        Err(error) => {
            tracing::debug!(task = ?of.task, key = of.key, why = error.message, "a client's task is gone");
            delete_client_task(bridge, session, &of).await?;
        }
    }
    Ok(ResponseOutcome::Taken)
}

async fn update_client_task(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    held: ClientTaskRecord,
    now: ClientTask,
) -> Result<(), StoreError> {
    let is_over = matches!(held.stage, ClientTaskStatus::Ended | ClientTaskStatus::Cancelled);
    // A task that has ended stays so; an older message may arrive later.
    if is_over || (held.stage, held.every) == (now.stage, now.every) {
        return Ok(());
    }
    let held = ClientTaskRecord { stage: now.stage, every: now.every, ..held };
    bridge.audit.note(AuditEvent::ClientTask { owner: &session.owner, held: &held });
    note(bridge, session, SessionChange::Stands(held.of.clone(), held.stage, held.every)).await?;
    match held.stage {
        ClientTaskStatus::Cancelled => {
            let by = CallerContext::new(bridge, &caller.principal);
            dismiss(bridge, &by, session, &held.of).await
        }
        ClientTaskStatus::Working | ClientTaskStatus::InputRequired | ClientTaskStatus::Ended => Ok(()),
    }
}

/// Handles the response with the result of a client's task: the answer to the question.
async fn fetched(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    of: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    let Some(held) = held(bridge, session, &of).await? else { return Ok(ResponseOutcome::Late) };
    // Recorded first: otherwise a stream would cancel the task when it sees that the question is answered.
    note(bridge, session, SessionChange::Stands(of.clone(), ClientTaskStatus::Ended, held.every)).await?;
    let replied = answered(bridge, caller, of.clone(), outcome).await?;
    delete_client_task(bridge, session, &of).await?;
    Ok(replied)
}

async fn answered(
    bridge: &Bridge,
    caller: &Caller,
    of: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    let by = CallerContext::new(bridge, &caller.principal);
    // This server asked. If the task is gone by now, or is not this caller's, the client did nothing wrong.
    let Some(view) = bridge.service.get(&by, &of.task).await? else { return Ok(ResponseOutcome::Late) };
    let Some(asked) = view.task.questions.into_iter().find(|asked| asked.key == of.key) else {
        return Ok(ResponseOutcome::Late);
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
            Ok(_) => return Ok(ResponseOutcome::Taken),
            Err(AnswerError::Closed | AnswerError::NotFound) => return Ok(ResponseOutcome::Late),
            Err(AnswerError::Store(error)) => return Err(error),
            Err(AnswerError::Invalid(problem)) => (problem.clone(), Some(problem)),
            // The question is for another caller, who can still answer.
            Err(AnswerError::Refused(why)) => {
                tracing::debug!(task = ?of.task, key = of.key, why, "an answer was refused");
                return Ok(ResponseOutcome::NotTaken(why));
            }
        },
    };
    tracing::debug!(task = ?of.task, key = of.key, n = of.n, why, "an answer was not taken; the question stays open");
    dealt_with(bridge, of, asked, problem).await?;
    Ok(if is_error { ResponseOutcome::Taken } else { ResponseOutcome::NotTaken(why) })
}

/// Records that the client has dealt with the message; the question stays open.
async fn dealt_with(
    bridge: &Bridge,
    of: QuestionMessage,
    asked: TaskQuestion,
    problem: Option<String>,
) -> Result<(), StoreError> {
    let QuestionMessage { task, key, n } = of;
    bridge.service.carrying(QuestionClaim { task, key, n, asked }).over(problem).await
}

/// Returns the question, if this caller may answer it.
async fn find(
    bridge: &Bridge,
    caller: &Caller,
    of: &QuestionMessage,
) -> Result<Option<TaskQuestion>, StoreError> {
    let by = CallerContext::new(bridge, &caller.principal);
    let view = bridge.service.get(&by, &of.task).await?;
    let task = view.map(|view| view.task).filter(|task| by.may(TaskOperation::Answer, task).is_ok());
    Ok(task.and_then(|task| task.questions.into_iter().find(|asked| asked.key == of.key)))
}

/// Returns the client's task for this message, if it is still recorded.
async fn held(
    bridge: &Bridge,
    session: &Session,
    of: &QuestionMessage,
) -> Result<Option<ClientTaskRecord>, StoreError> {
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
