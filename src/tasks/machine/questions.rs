//! The part of the state machine that handles people: questions, their delivery to clients, and answers.
//! Pure. It must not know how a question is sent.

use std::time::Duration;

use taskbridge_sdk::{Answer, Ask, OnBehalfOf, Question, Timestamp};

use super::{Answerer, backoff, end, record_cancel_request};
use crate::tasks::asking;
use crate::tasks::task::{
    Delivery, Job, OnRefusal, Outcome, QuestionSource, QuestionStatus, Task, TaskQuestion,
};

/// Maximum number of questions that one row keeps. Beyond it the oldest closed one is dropped; open ones
/// never are.
const MOST_KEPT: usize = 64;

/// Applies the questions that a poll lists: new ones are asked, and the job's questions that are not listed
/// are closed. A question that was settled after `as_of` (its answer was accepted, or too late) may still be
/// listed, and is not a new one. A question that cannot be asked fails the task.
pub(super) fn seen(task: &mut Task, questions: Vec<Question>, as_of: Timestamp, now: Timestamp) {
    for asked in &mut task.questions {
        let gone = !questions.iter().any(|question| question.id == asked.question.id);
        if asked.asker == QuestionSource::Job && gone {
            asked.status = QuestionStatus::Closed;
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
/// recently that the list may be older, or too many of its answers were refused ([`ASKED_AGAIN`]). A question
/// that was closed before is asked again, because it may be the next gate of the same name.
fn is_known(task: &Task, id: &str, as_of: Timestamp) -> bool {
    let mut same = task.questions.iter().filter(|a| a.asker == QuestionSource::Job && a.question.id == id);
    let is_recent = |asked: &TaskQuestion| asked.settled_at.is_some_and(|at| at >= as_of);
    same.any(|asked| asked.status != QuestionStatus::Closed || is_recent(asked))
        || times_not_allowed(task, id) >= ASKED_AGAIN
}

/// Returns true if a listed question has the id of a closed one that was settled after `as_of`: a later poll
/// shows whether it is a new question.
pub(in crate::tasks) fn may_ask_again(task: &Task, listed: &[Question], as_of: Timestamp) -> bool {
    let is_over =
        |asked: &TaskQuestion| asked.asker == QuestionSource::Job && asked.status == QuestionStatus::Closed;
    let is_early = |asked: &TaskQuestion| is_over(asked) && asked.settled_at.is_some_and(|at| at >= as_of);
    listed.iter().any(|q| task.questions.iter().any(|asked| asked.question.id == q.id && is_early(asked)))
}

fn times_not_allowed(task: &Task, id: &str) -> usize {
    task.questions.iter().filter(|asked| asked.not_allowed && asked.question.id == id).count()
}

/// Asks a question under a key that is new in this task.
fn ask(task: &mut Task, question: Question, asker: QuestionSource, now: Timestamp) {
    let last = task.questions.last().and_then(|asked| asked.key.strip_prefix('q')?.parse::<u32>().ok());
    let key = format!("q{}", last.unwrap_or(0).saturating_add(1));
    task.questions.push(TaskQuestion::new(key, question, asker, now));
    if task.questions.len() > MOST_KEPT
        && let Some(oldest) = task.questions.iter().position(|asked| asked.status == QuestionStatus::Closed)
    {
        task.questions.remove(oldest);
    }
}

pub(super) fn close_all(task: &mut Task) {
    for asked in &mut task.questions {
        asked.status = QuestionStatus::Closed;
    }
}

/// Applies the first answer to an open question; later answers have no effect. An answer also ends
/// the message that carries the question. A question that is closed without an answer must still be
/// withdrawn from its stream.
pub(super) fn answered(task: &mut Task, key: &str, answer: Answer, by: Answerer, now: Timestamp) {
    if task.has_ended() {
        return;
    }
    let (rule, what) = match &answer {
        Answer::Accept(_) => (OnRefusal::Tell, "was answered"),
        Answer::Decline => (task.terms.on_decline, "was declined"),
        Answer::Cancel => (task.terms.on_dismiss, "was closed without an answer"),
    };
    let Some(asked) = find(task, key) else { return };
    if asked.status != QuestionStatus::Open {
        return;
    }
    if let Some(delivery) = &mut asked.delivery {
        end_delivery(delivery, true, now);
    }
    (asked.answered_by, asked.answered_as) = (Some(by.owner), by.person.clone());
    match asked.asker {
        QuestionSource::Job => {
            let message = format!("the question {:?} {what}, so the job is stopped", asked.question.message);
            match rule {
                OnRefusal::Tell => {
                    asked.status = QuestionStatus::Answered { answer, attempts: 0, not_before: now };
                }
                OnRefusal::Fail => stop(task, Outcome::Failed, by.person, message, now),
                OnRefusal::Cancel => stop(task, Outcome::Cancelled, by.person, message, now),
            }
        }
        QuestionSource::Confirm => {
            asked.status = QuestionStatus::Closed;
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
    end(task, outcome, message, now);
}

pub(super) fn handed_over(task: &mut Task, key: &str, now: Timestamp) {
    if let Some(asked) = find(task, key) {
        asked.settled_at.get_or_insert(now);
        let agreed = matches!(&asked.status, QuestionStatus::Answered { answer: Answer::Accept(_), .. });
        // The visit of a page takes time. The job stops listing the question when the visit is over.
        let visiting = agreed && matches!(asked.question.ask, Ask::Url(_));
        asked.status = match asked.status {
            QuestionStatus::Visiting => return,
            _ if visiting => QuestionStatus::Visiting,
            _ => QuestionStatus::Closed,
        };
    }
}

pub(super) fn too_late(task: &mut Task, key: &str, now: Timestamp) {
    if let Some(asked) = find(task, key) {
        asked.status = QuestionStatus::Closed;
        asked.settled_at.get_or_insert(now);
    }
    if !task.has_ended() {
        task.message = Some("an answer came too late: the job no longer waited for it".to_owned());
    }
}

/// Maximum number of times that one question of a job is asked, if the engine refuses each answer
/// because of the person who gave it.
const ASKED_AGAIN: usize = 10;

/// Asks the same question again. It gets a new key, since a client does not answer the same key twice.
pub(super) fn not_allowed(task: &mut Task, key: &str, now: Timestamp) {
    let ended = task.has_ended();
    let Some(asked) = find(task, key).filter(|asked| matches!(asked.status, QuestionStatus::Answered { .. }))
    else {
        return;
    };
    (asked.status, asked.not_allowed) = (QuestionStatus::Closed, true);
    let (question, asker) = (asked.question.clone(), asked.asker);
    if ended {
        return;
    }
    let again = times_not_allowed(task, &question.id) < ASKED_AGAIN;
    let next = if again { "it is asked again" } else { "it is asked here no more" };
    task.message =
        Some(format!("the answer was given by somebody who may not, and the job did not take it: {next}"));
    if again {
        ask(task, question, asker, now);
    }
}

/// Maximum delay between two attempts to send an answer to the engine. The person who answered waits for the
/// result, and what was missing (a token that arrives separately) may be available a moment later.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn hand_over_failed(task: &mut Task, key: &str, now: Timestamp) {
    let job = task.key.clone();
    if let Some(TaskQuestion { status: QuestionStatus::Answered { attempts, not_before, .. }, .. }) =
        find(task, key)
    {
        *attempts += 1;
        *not_before = now + backoff(&job, *attempts).min(HAND_OVER_WITHIN);
    }
}

/// Delays all pending answers until this time at least.
pub(super) fn put_off(task: &mut Task, later: Timestamp) {
    for asked in &mut task.questions {
        if let QuestionStatus::Answered { not_before, .. } = &mut asked.status {
            *not_before = later.max(*not_before);
        }
    }
}

/// Claims the question for one stream (a new `n`), or extends the claim of the stream that has it (the same
/// `n`). A message that has ended cannot be extended, even by a stream that missed its end.
pub(super) fn delivering(task: &mut Task, key: &str, n: u32, until: Timestamp, now: Timestamp) {
    if let Some(asked) = find(task, key) {
        let newest = asked.delivery.as_ref().map_or(0, |delivery| delivery.n);
        if asked.status == QuestionStatus::Open && (n == newest + 1 || (n == newest && asked.is_out(now))) {
            asked.delivery = Some(Delivery { n, until, over: false, problem: None });
        }
    }
}

pub(super) fn delivery_ended(
    task: &mut Task,
    key: &str,
    n: u32,
    over: bool,
    problem: Option<String>,
    now: Timestamp,
) {
    let Some(asked) = find(task, key) else { return };
    if let Some(delivery) = &mut asked.delivery
        && delivery.n == n
        && asked.status == QuestionStatus::Open
    {
        end_delivery(delivery, over, now);
        delivery.problem = problem.or(delivery.problem.take());
    }
}

fn end_delivery(delivery: &mut Delivery, over: bool, now: Timestamp) {
    if !delivery.over {
        delivery.over = over;
        delivery.until = delivery.until.min(now);
    }
}

fn find<'a>(task: &'a mut Task, key: &str) -> Option<&'a mut TaskQuestion> {
    task.questions.iter_mut().find(|asked| asked.key == key)
}
