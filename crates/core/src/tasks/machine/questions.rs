//! The part of the state machine that handles people: questions and answers. Pure. It must not know how a
//! question is sent.

use std::time::Duration;

use taskbridge_sdk::{Answer, Ask, ErrorKind, OnBehalfOf, Question, Timestamp};

use super::{Answerer, Failure, backoff, end, or_unstoppable, record_cancel_request};
use crate::tasks::asking;
use crate::tasks::task::{Job, OnRefusal, Outcome, QuestionSource, QuestionStatus, Task, TaskQuestion};

/// Maximum number of questions that one row keeps. Beyond it the oldest closed one is dropped; open ones
/// never are.
const MAX_QUESTIONS: usize = 64;

/// Applies the questions that a poll lists: new ones are asked, and the job's questions that are not listed
/// are closed. A question that was settled after `as_of` (its answer was accepted, or too late) may still be
/// listed, and is not a new one. A question that cannot be asked fails the task.
pub(super) fn apply_listed(task: &mut Task, questions: Vec<Question>, as_of: Timestamp, now: Timestamp) {
    for task_question in &mut task.questions {
        let is_missing = !questions.iter().any(|question| question.id == task_question.question.id);
        if task_question.asker == QuestionSource::Job && is_missing {
            task_question.status = QuestionStatus::Closed;
        }
    }
    if task.has_ended() {
        return;
    }
    for question in questions {
        if is_known(task, &question.id, as_of) {
            continue;
        }
        if let Err(why) = asking::check(&question) {
            // No person could answer it, so no person would learn why the job waits.
            let message = format!("the job's question {:?} cannot be asked: {why}", question.id);
            return stop(task, Outcome::Failed, None, message, now);
        }
        ask(task, question, QuestionSource::Job, now);
    }
}

/// Returns true if a listed question is not asked now: it is open, its answer is pending, it was settled so
/// recently that the list may be older, or too many of its answers were refused ([`MAX_ASKS`]). A question
/// that was closed before is asked again, because it may be the next gate of the same name.
fn is_known(task: &Task, id: &str, as_of: Timestamp) -> bool {
    let mut matching =
        task.questions.iter().filter(|a| a.asker == QuestionSource::Job && a.question.id == id);
    let is_recent = |question: &TaskQuestion| question.settled_at.is_some_and(|at| at >= as_of);
    matching.any(|question| question.status != QuestionStatus::Closed || is_recent(question))
        || times_not_allowed(task, id) >= MAX_ASKS
}

/// Returns true if a listed question has the id of a closed one that was settled after `as_of`: a later poll
/// shows whether it is a new question.
pub(in crate::tasks) fn may_ask_again(task: &Task, listed: &[Question], as_of: Timestamp) -> bool {
    let is_over = |question: &TaskQuestion| {
        question.asker == QuestionSource::Job && question.status == QuestionStatus::Closed
    };
    let is_early =
        |question: &TaskQuestion| is_over(question) && question.settled_at.is_some_and(|at| at >= as_of);
    listed.iter().any(|q| {
        task.questions
            .iter()
            .any(|task_question| task_question.question.id == q.id && is_early(task_question))
    })
}

fn times_not_allowed(task: &Task, id: &str) -> usize {
    task.questions
        .iter()
        .filter(|task_question| task_question.not_allowed && task_question.question.id == id)
        .count()
}

/// Asks a question under a key that is new in this task.
fn ask(task: &mut Task, question: Question, source: QuestionSource, now: Timestamp) {
    let last = task
        .questions
        .last()
        .and_then(|task_question| task_question.key.strip_prefix('q')?.parse::<u32>().ok());
    let key = format!("q{}", last.unwrap_or(0).saturating_add(1));
    task.questions.push(TaskQuestion::new(key, question, source, now));
    if task.questions.len() > MAX_QUESTIONS
        && let Some(oldest) =
            task.questions.iter().position(|task_question| task_question.status == QuestionStatus::Closed)
    {
        task.questions.remove(oldest);
    }
}

pub(super) fn close_all(task: &mut Task) {
    for question in &mut task.questions {
        question.status = QuestionStatus::Closed;
    }
}

/// Applies the first answer to an open question; later answers have no effect.
pub(super) fn answered(task: &mut Task, key: &str, answer: Answer, by: Answerer, now: Timestamp) {
    if task.has_ended() {
        return;
    }
    let (rule, what) = match &answer {
        Answer::Accept(_) => (OnRefusal::Tell, "was answered"),
        Answer::Decline => (task.terms.on_decline, "was declined"),
        Answer::Cancel => (task.terms.on_dismiss, "was closed without an answer"),
    };
    let Some(task_question) = find(task, key) else { return };
    if task_question.status != QuestionStatus::Open {
        return;
    }
    (task_question.answered_by, task_question.answered_as) = (Some(by.owner), by.person.clone());
    match task_question.asker {
        QuestionSource::Job => {
            let message =
                format!("the question {:?} {what}, so the job is stopped", task_question.question.message);
            match rule {
                OnRefusal::Tell => {
                    task_question.status = QuestionStatus::Answered { answer, attempts: 0, not_before: now };
                }
                OnRefusal::Fail => stop(task, Outcome::Failed, by.person, message, now),
                OnRefusal::Cancel => stop(task, Outcome::Cancelled, by.person, message, now),
            }
        }
        QuestionSource::Confirm => {
            task_question.status = QuestionStatus::Closed;
            if let Answer::Accept(_) = answer {
                if let Job::Pending { not_before, .. } = &mut task.job {
                    *not_before = now;
                }
                return;
            }
            match task.job {
                Job::Pending { .. } => task.job = Job::Closed { handle: None },
                _ => record_cancel_request(task, by.person, now),
            }
            end(task, Outcome::Cancelled, "declined: the job was not started", now);
        }
    }
}

/// Ends the task with this outcome, and requests that the job that asked is stopped.
pub(super) fn stop(
    task: &mut Task,
    outcome: Outcome,
    on_behalf_of: Option<OnBehalfOf>,
    message: String,
    now: Timestamp,
) {
    record_cancel_request(task, on_behalf_of, now);
    let message = or_unstoppable(task, message);
    end(task, outcome, message, now);
}

pub(super) fn answer_accepted(task: &mut Task, key: &str, now: Timestamp) {
    if let Some(task_question) = find(task, key) {
        task_question.settled_at.get_or_insert(now);
        let agreed =
            matches!(&task_question.status, QuestionStatus::Answered { answer: Answer::Accept(_), .. });
        // The visit of a page takes time. The job stops listing the question when the visit is over.
        let visiting = agreed && matches!(task_question.question.ask, Ask::Url(_));
        task_question.status = match task_question.status {
            QuestionStatus::Visiting => return,
            _ if visiting => QuestionStatus::Visiting,
            _ => QuestionStatus::Closed,
        };
    }
}

pub(super) fn answer_too_late(task: &mut Task, key: &str, now: Timestamp) {
    if let Some(question) = find(task, key) {
        question.status = QuestionStatus::Closed;
        question.settled_at.get_or_insert(now);
    }
    if !task.has_ended() {
        task.message = Some("an answer came too late: the job no longer waited for it".to_owned());
    }
}

/// Maximum number of times that one question of a job is asked, if the engine refuses each answer.
const MAX_ASKS: usize = 10;

/// The engine refuses an answer because of the person who gave it.
pub(super) fn answer_not_allowed(task: &mut Task, key: &str, now: Timestamp) {
    ask_again(task, key, " because of the person who gave it", now);
}

/// Asks the same question again. It gets a new key, since a client does not answer the same key twice.
fn ask_again(task: &mut Task, key: &str, why: &str, now: Timestamp) {
    let ended = task.has_ended();
    let Some(task_question) = find(task, key)
        .filter(|task_question| matches!(task_question.status, QuestionStatus::Answered { .. }))
    else {
        return;
    };
    (task_question.status, task_question.not_allowed) = (QuestionStatus::Closed, true);
    let (question, source) = (task_question.question.clone(), task_question.asker);
    if ended {
        return;
    }
    let ask_again = times_not_allowed(task, &question.id) < MAX_ASKS;
    let next = if ask_again { "the question is asked again" } else { "it can no longer be answered here" };
    task.message = Some(format!("the engine refused the answer{why}: {next}"));
    if ask_again {
        ask(task, question, source, now);
    }
}

/// Maximum delay between two attempts to send an answer to the engine. The person who answered waits for the
/// result. What was missing (a token that arrives separately) may be available a moment later without a hint.
const MAX_ANSWER_DELAY: Duration = Duration::from_secs(10);

/// An answer could not be sent. One that the engine rejects would be rejected again, so the person is asked again.
pub(super) fn answer_failed(task: &mut Task, key: &str, failure: &Failure, now: Timestamp) {
    if failure.kind == ErrorKind::Rejected {
        return ask_again(task, key, &format!(" ({})", failure.message), now);
    }
    let job = task.key.clone();
    if let Some(TaskQuestion { status: QuestionStatus::Answered { attempts, not_before, .. }, .. }) =
        find(task, key)
    {
        *attempts += 1;
        *not_before = now + backoff(&job, *attempts).min(MAX_ANSWER_DELAY);
    }
}

/// Makes all pending answers due now, as if none had been sent before. So if an attempt is in progress and
/// fails, the next one comes soon.
pub(super) fn hasten_answers(task: &mut Task, now: Timestamp) {
    for question in &mut task.questions {
        if let QuestionStatus::Answered { not_before, attempts, .. } = &mut question.status {
            *not_before = now.min(*not_before);
            *attempts = 0;
        }
    }
}

/// Delays all pending answers until this time at least.
pub(super) fn postpone_answers(task: &mut Task, later: Timestamp) {
    for question in &mut task.questions {
        if let QuestionStatus::Answered { not_before, .. } = &mut question.status {
            *not_before = later.max(*not_before);
        }
    }
}

fn find<'a>(task: &'a mut Task, key: &str) -> Option<&'a mut TaskQuestion> {
    task.questions.iter_mut().find(|question| question.key == key)
}
