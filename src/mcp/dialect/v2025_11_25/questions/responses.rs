//! Handles responses to questions: the answer, or the state of the client's task for the question. They
//! arrive at any process, on any connection of the owner. It must not send a request.

use serde_json::Value;
use taskbridge_sdk::{Answer, Ask};

use super::client_tasks::{delete_client_task, dismiss, store_change};
use super::{MessageKind, MessageSubject};
use crate::mcp::Bridge;
use crate::mcp::dialect::v2025_11_25::from_wire;
use crate::mcp::dialect::v2025_11_25::from_wire::ClientTask;
use crate::mcp::features::authorization::CallerContext;
use crate::mcp::session::token::{Caller, Session};
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, Id, Outcome};
use crate::mcp::wire::params;
use crate::mcp::wire::revision::ResponseOutcome;
use crate::seal::Purpose;
use crate::sessions::{ClientTaskRecord, ClientTaskStatus, QuestionMessage, SessionChange};
use crate::tasks::audit::{Audit as _, AuditEvent};
use crate::tasks::service::{Actor as _, AnswerError, TaskOperation};
use crate::tasks::store::StoreError;
use crate::tasks::task::{QuestionStatus, Task, TaskQuestion};

/// Error code of a client whose user rejected a sampling request.
const USER_REJECTED: i32 = -1;

/// Handles the client's response to a question, or to a request about its task for that question.
pub(in crate::mcp::dialect::v2025_11_25) async fn handle_response(
    bridge: &Bridge,
    caller: &Caller,
    id: &Id,
    outcome: Outcome,
) -> ResponseOutcome {
    let Id::Text(id) = id else { return ResponseOutcome::Unknown };
    let Some(MessageSubject { of: question, what: kind }) =
        bridge.context.seal.open::<MessageSubject>(Purpose::Question, id)
    else {
        return ResponseOutcome::Unknown;
    };
    let result = match (kind, &caller.session) {
        (MessageKind::Question, session) => {
            handle_question_response(bridge, caller, session.as_ref(), question, outcome).await
        }
        (MessageKind::Status, Some(session)) => {
            handle_status_response(bridge, caller, session, question, outcome).await
        }
        (MessageKind::Result, Some(session)) => {
            handle_result_response(bridge, caller, session, question, outcome).await
        }
        // Whatever the response is, nothing more is to be done about that task.
        (MessageKind::Cancel, Some(session)) => {
            delete_client_task(bridge, session, &question).await.map(|()| ResponseOutcome::Accepted)
        }
        (_, None) => Ok(ResponseOutcome::Unknown),
    };
    result.unwrap_or_else(|error| {
        tracing::error!(%error, "an answer could not be kept; the question stays open");
        ResponseOutcome::NotStored
    })
}

/// Handles the notification of a client about one of its tasks.
pub(in crate::mcp::dialect::v2025_11_25) async fn handle_task_status(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    params: &Value,
) {
    if !session.client.can_run_tasks() {
        return;
    }
    let update = async {
        let Ok(reported) = from_wire::client_task(params) else { return Ok(()) };
        let records = bridge.sessions.store.settings(&session.nonce).await?.unwrap_or_default().held;
        match records.into_iter().find(|record| record.id == reported.id) {
            Some(record) => update_client_task(bridge, caller, session, record, reported).await,
            None => Ok(()),
        }
    };
    if let Err::<(), StoreError>(error) = update.await {
        tracing::warn!(%error, "word of a client's task was lost; it is asked for again");
    }
}

/// Handles the response to a question: an answer, or a task of the client's.
async fn handle_question_response(
    bridge: &Bridge,
    caller: &Caller,
    session: Option<&Session>,
    question: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    if let (Some(session), Ok(result)) = (session, &outcome)
        && session.client.can_run_tasks()
        && result["task"].is_object()
    {
        let found = find_question(bridge, caller, &question).await?;
        // For any other question no task was requested, and the client cannot create one.
        let may_have_task = found
            .as_ref()
            .is_none_or(|(_, task_question)| session.client.can_run_as_task(&task_question.question.ask));
        match from_wire::client_task(&result["task"]) {
            Ok(task) if may_have_task => {
                return record_client_task(bridge, session, question, found, task).await;
            }
            Ok(_) => {}
            Err(why) => {
                tracing::debug!(task = ?question.task, key = question.key, why, "a client's task cannot be read")
            }
        }
    }
    apply_answer(bridge, caller, question, outcome).await
}

/// Records that the client has created a task of its own for the question. From now on that task is polled,
/// and the question is not asked again.
async fn record_client_task(
    bridge: &Bridge,
    session: &Session,
    question: QuestionMessage,
    found: Option<(Task, TaskQuestion)>,
    ClientTask { id, status, poll_interval }: ClientTask,
) -> Result<ResponseOutcome, StoreError> {
    // Also if the question is closed: the task must then be cancelled.
    let record = ClientTaskRecord {
        of: question.clone(),
        id,
        since: bridge.context.clock.now(),
        stage: status,
        every: poll_interval,
    };
    record_stage(bridge, session, &record);
    if !store_change(bridge, session, SessionChange::AddClientTask(record)).await? {
        tracing::debug!(task = ?question.task, key = question.key, "the session has ended, or its client holds too many tasks");
    }
    if let Some((task, task_question)) = &found {
        note_handled(bridge, (task, task_question), question.n, None).await?;
    }
    Ok(ResponseOutcome::Accepted)
}

/// Records the stage of a client's task in the audit log.
fn record_stage(bridge: &Bridge, session: &Session, record: &ClientTaskRecord) {
    let QuestionMessage { task, key, .. } = &record.of;
    bridge.context.audit.record(AuditEvent::ClientTask {
        owner: &session.owner,
        task,
        question: key,
        theirs: &record.id,
        stage: record.stage.as_str(),
    });
}

/// Handles the response with the status of a client's task.
async fn handle_status_response(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    question: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    let Some(record) = find_client_task(bridge, session, &question).await? else {
        return Ok(ResponseOutcome::Late);
    };
    match outcome.map(|task| from_wire::client_task(&task)) {
        Ok(Ok(reported)) => update_client_task(bridge, caller, session, record, reported).await?,
        Ok(Err(why)) => {
            tracing::debug!(task = ?question.task, key = question.key, why, "a client's task cannot be read")
        }
        // Such an error carries no information about the task.
        Err(error) if error.code == INTERNAL_ERROR => {
            tracing::debug!(task = ?question.task, key = question.key, why = error.message, "a client could not say how its task stands");
        }
        Err(error) => {
            tracing::debug!(task = ?question.task, key = question.key, why = error.message, "a client's task is gone");
            delete_client_task(bridge, session, &question).await?;
        }
    }
    Ok(ResponseOutcome::Accepted)
}

async fn update_client_task(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    record: ClientTaskRecord,
    reported: ClientTask,
) -> Result<(), StoreError> {
    let has_ended = matches!(record.stage, ClientTaskStatus::Ended | ClientTaskStatus::Cancelled);
    // A task that has ended stays so; an older message may arrive later.
    if has_ended || (record.stage, record.every) == (reported.status, reported.poll_interval) {
        return Ok(());
    }
    let record = ClientTaskRecord { stage: reported.status, every: reported.poll_interval, ..record };
    record_stage(bridge, session, &record);
    store_change(
        bridge,
        session,
        SessionChange::UpdateClientTask(record.of.clone(), record.stage, record.every),
    )
    .await?;
    match record.stage {
        ClientTaskStatus::Cancelled => {
            let by = CallerContext::new(&bridge.context, &caller.principal);
            dismiss(bridge, &by, session, &record.of).await
        }
        ClientTaskStatus::Working | ClientTaskStatus::InputRequired | ClientTaskStatus::Ended => Ok(()),
    }
}

/// Handles the response with the result of a client's task: the answer to the question.
async fn handle_result_response(
    bridge: &Bridge,
    caller: &Caller,
    session: &Session,
    question: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    let Some(record) = find_client_task(bridge, session, &question).await? else {
        return Ok(ResponseOutcome::Late);
    };
    // Recorded first: otherwise a stream would cancel the task when it sees that the question is answered.
    store_change(
        bridge,
        session,
        SessionChange::UpdateClientTask(question.clone(), ClientTaskStatus::Ended, record.every),
    )
    .await?;
    let result = apply_answer(bridge, caller, question.clone(), outcome).await?;
    delete_client_task(bridge, session, &question).await?;
    Ok(result)
}

async fn apply_answer(
    bridge: &Bridge,
    caller: &Caller,
    question: QuestionMessage,
    outcome: Outcome,
) -> Result<ResponseOutcome, StoreError> {
    let by = CallerContext::new(&bridge.context, &caller.principal);
    // This server asked. If the task is gone by now, or is not this caller's, the client did nothing wrong.
    let Some(view) = bridge.context.service.get(&by, &question.task).await? else {
        return Ok(ResponseOutcome::Late);
    };
    let Some(task_question) =
        view.task.questions.iter().find(|task_question| task_question.key == question.key)
    else {
        return Ok(ResponseOutcome::Late);
    };
    let ask = &task_question.question.ask;
    // An error is not an answer, but it is how a client reports that there will be none. It is accepted.
    let is_error = outcome.is_err();
    let answer: Result<Answer, String> = match outcome {
        Ok(result) => params::answer(ask, &result),
        Err(error) => error_to_answer(ask, &error),
    };
    let (why, problem) = match answer {
        Err(why) => (why, None),
        Ok(answer) => match bridge.context.service.answer(&by, &question.task, &question.key, answer).await {
            Ok(_) => return Ok(ResponseOutcome::Accepted),
            Err(AnswerError::Closed | AnswerError::NotFound) => return Ok(ResponseOutcome::Late),
            Err(AnswerError::Store(error)) => return Err(error),
            Err(AnswerError::Invalid(problem)) => (problem.clone(), Some(problem)),
            // The question is for another caller, who can still answer.
            Err(AnswerError::Refused(why)) => {
                tracing::debug!(task = ?question.task, key = question.key, why, "an answer was refused");
                return Ok(ResponseOutcome::Rejected(why));
            }
        },
    };
    tracing::debug!(task = ?question.task, key = question.key, n = question.n, why, "an answer was not taken; the question stays open");
    note_handled(bridge, (&view.task, task_question), question.n, problem).await?;
    Ok(if is_error { ResponseOutcome::Accepted } else { ResponseOutcome::Rejected(why) })
}

/// Records that the client has dealt with message `n`; the question stays open.
async fn note_handled(
    bridge: &Bridge,
    (task, task_question): (&Task, &TaskQuestion),
    n: u32,
    problem: Option<String>,
) -> Result<(), StoreError> {
    if task_question.status != QuestionStatus::Open {
        return Ok(());
    }
    bridge.sessions.end_delivery(&bridge.context.service, (task, task_question), n, problem).await
}

/// Returns the question and its task, if this caller may answer it.
async fn find_question(
    bridge: &Bridge,
    caller: &Caller,
    question: &QuestionMessage,
) -> Result<Option<(Task, TaskQuestion)>, StoreError> {
    let by = CallerContext::new(&bridge.context, &caller.principal);
    let view = bridge.context.service.get(&by, &question.task).await?;
    let task = view.map(|view| view.task).filter(|task| by.may(TaskOperation::Answer, task).is_ok());
    Ok(task.and_then(|task| {
        let found = task.questions.iter().find(|task_question| task_question.key == question.key).cloned();
        Some((task, found?))
    }))
}

/// Returns the client's task for this message, if it is still recorded.
async fn find_client_task(
    bridge: &Bridge,
    session: &Session,
    question: &QuestionMessage,
) -> Result<Option<ClientTaskRecord>, StoreError> {
    let records = bridge.sessions.store.settings(&session.nonce).await?.unwrap_or_default().held;
    Ok(records.into_iter().find(|record| record.of == *question))
}

/// Converts an error response to an answer. Most errors carry no information about the user's decision, and
/// the question stays open.
fn error_to_answer(ask: &Ask, error: &Error) -> Result<Answer, String> {
    match ask {
        Ask::Sampling(_) if error.code == USER_REJECTED => Ok(Answer::Decline),
        _ => Err(format!("the client answered with error {}: {}", error.code, error.message)),
    }
}
