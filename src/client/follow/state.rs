//! [`State`]: the state of a followed call, and the dialog with the person at the terminal: pending
//! questions, answers being sent, and the choice after Ctrl-C. It must not wait for anything itself.

use std::collections::VecDeque;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::super::ask::{self, Choice, Reply};
use super::super::fault::ServerCallError;
use super::super::screen::{JobProgress, Screen};
use super::super::session::{ServerMessage, Session};
use super::super::shape::plain;
use super::super::task::{self, Status, Task};
use super::super::terminal::Terminal;
use super::super::wait::{self, WaitEvent};
use super::{FollowedCall, INTERRUPTED, PROGRESS_TOKEN};
use crate::mcp::jsonrpc::Id;

/// A pending question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    id: Id,
    params: Value,
}

/// A person's input at the terminal.
pub(super) enum UserInput {
    Answer(Question, Reply),
    Choice(Choice),
    /// The terminal is gone.
    Nothing,
}

/// The current dialog.
pub(super) enum Dialog<'a> {
    Silence,
    Question(Question, LocalBoxFuture<'a, UserInput>),
    Interrupted(LocalBoxFuture<'a, UserInput>),
}

impl Dialog<'_> {
    /// Waits for the person's input; forever if nothing is asked.
    pub(super) async fn said(&mut self) -> UserInput {
        match self {
            Self::Silence => std::future::pending().await,
            Self::Question(_, talk) | Self::Interrupted(talk) => talk.await,
        }
    }
}

/// The state that changes while a call is followed.
pub(super) struct State<'a> {
    session: &'a Session,
    label: &'a str,
    task: Option<&'a str>,
    terminal: Option<&'a Terminal>,
    standing: JobProgress,
    /// True while the server cannot be reached.
    lost: bool,
    waiting: VecDeque<Question>,
    pub(super) talk: Dialog<'a>,
    /// Answers that the server has not received yet.
    given: Vec<(Question, Reply)>,
    /// Answers and cancellations that are being sent.
    pub(super) errands: FuturesUnordered<LocalBoxFuture<'a, RequestOutcome>>,
}

/// A finished request.
pub(super) struct RequestOutcome {
    /// The question that was answered, if any.
    answered: Option<Id>,
    /// The error, if any.
    problem: Option<String>,
}

impl<'a> State<'a> {
    /// Creates the initial state: no status and no question.
    pub(super) fn new(pursuit: &FollowedCall<'a>) -> Self {
        Self {
            session: pursuit.session,
            label: pursuit.label,
            task: pursuit.task,
            terminal: pursuit.terminal,
            standing: JobProgress::default(),
            lost: false,
            waiting: VecDeque::new(),
            talk: Dialog::Silence,
            given: Vec::new(),
            errands: FuturesUnordered::new(),
        }
    }

    /// Returns true while a dialog is open: a question, or the choice after an interrupt.
    pub(super) fn is_asking(&self) -> bool {
        !matches!(self.talk, Dialog::Silence)
    }

    /// Handles a message of the server.
    pub(super) fn handle_message(&mut self, heard: ServerMessage, screen: &mut Screen) {
        match heard {
            ServerMessage::Asked { id, params } => self.asked(Question { id, params }, screen),
            ServerMessage::Unanswered { method, why } => {
                let words = format!(
                    "{}: the server asked for {method:?}, and did not take the answer: {why}",
                    self.label
                );
                screen.note(&words);
            }
            ServerMessage::Notification { method, params } => match method.as_str() {
                "notifications/progress"
                    if params.get("progressToken").is_some_and(|t| t == PROGRESS_TOKEN) =>
                {
                    self.progress(&params, screen);
                }
                "notifications/tasks/status" => {
                    if let Some(task) = Task::read(&params).filter(|task| Some(task.id.as_str()) == self.task)
                    {
                        self.update_status(task, screen);
                    }
                }
                "notifications/message" => screen.note(&said(self.label, &params)),
                "notifications/cancelled" => self.withdrawn(&params, screen),
                _ => {}
            },
        }
    }

    fn progress(&mut self, params: &Value, screen: &mut Screen) {
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        if let Some(done) = number("progress") {
            self.standing.progress = Some((done, number("total")));
        }
        if let Some(message) = params.get("message").and_then(Value::as_str) {
            self.standing.message = Some(message.to_owned());
        }
        screen.show(self.standing.clone());
    }

    fn update_status(&mut self, task: Task, screen: &mut Screen) {
        let words = || (task.status != Status::Working).then(|| task.status.words().to_owned());
        self.standing.message = task.message.or_else(words);
        screen.show(self.standing.clone());
    }

    pub(super) fn notice(&mut self, word: WaitEvent, screen: &mut Screen) {
        match word {
            WaitEvent::Stands(task) => self.update_status(task, screen),
            WaitEvent::Progress(done, total) => {
                self.standing.progress = Some((done, total));
                screen.show(self.standing.clone());
            }
            WaitEvent::Lost(why) if !self.lost => {
                self.lost = true;
                screen.note(&format!("{}: the connection broke ({why}); trying again", self.label));
            }
            WaitEvent::Back if self.lost => {
                self.lost = false;
                screen.note(&format!("{}: connected again; the task goes on", self.label));
            }
            WaitEvent::Lost(_) | WaitEvent::Back => {}
        }
    }

    /// Handles a question. The same question in another message replaces the first. If the answer to the same
    /// question has not been received yet, that answer is sent again, and the question is not asked again.
    fn asked(&mut self, question: Question, screen: &mut Screen) {
        let given = self.given.iter().find(|(given, _)| given.params == question.params);
        if let Some((_, reply)) = given {
            let reply = reply.clone();
            self.answer(question, reply);
            return;
        }
        let current = match &mut self.talk {
            Dialog::Question(current, _) => Some(current),
            Dialog::Silence | Dialog::Interrupted(_) => None,
        };
        let mut known = current.into_iter().chain(&mut self.waiting);
        match known.find(|known| known.params == question.params) {
            Some(known) => known.id = question.id,
            None => self.waiting.push_back(question),
        }
        self.turn(screen);
    }

    /// Handles the server's withdrawal of a question.
    fn withdrawn(&mut self, params: &Value, screen: &mut Screen) {
        let id = params.get("requestId").and_then(|id| serde_json::from_value::<Id>(id.clone()).ok());
        self.waiting.retain(|question| Some(&question.id) != id.as_ref());
        if let Dialog::Question(question, _) = &self.talk
            && Some(&question.id) == id.as_ref()
        {
            self.talk = Dialog::Silence;
            screen.note("");
            screen.note("No answer is needed any more.");
            self.turn(screen);
        }
    }

    /// Asks the next question if no dialog is open. Resumes the output if there is none.
    fn turn(&mut self, screen: &mut Screen) {
        if !matches!(self.talk, Dialog::Silence) {
            return;
        }
        let Some(terminal) = self.terminal else { return };
        let Some(question) = self.waiting.pop_front() else {
            screen.go_on();
            return;
        };
        screen.hold();
        let asked = question.clone();
        let label = self.label;
        let talk = Box::pin(async move {
            match ask::ask(terminal, label, &asked.params).await {
                Ok(reply) => UserInput::Answer(asked, reply),
                Err(_) => UserInput::Nothing,
            }
        });
        self.talk = Dialog::Question(question, talk);
    }

    /// Handles an interrupt of the wait. SIGINT at a terminal opens a dialog. Otherwise, and if that dialog
    /// is already open, returns the exit code, and the client exits.
    pub(super) fn interrupted(&mut self, code: u8, screen: &mut Screen) -> Option<u8> {
        let terminal = match (self.terminal, &self.talk) {
            (Some(terminal), Dialog::Silence | Dialog::Question(..)) if code == INTERRUPTED => terminal,
            _ => return Some(code),
        };
        if let Dialog::Question(question, _) = std::mem::replace(&mut self.talk, Dialog::Silence) {
            self.waiting.push_front(question);
        }
        screen.hold();
        let (label, can_cancel) = (self.label, self.task.is_some());
        self.talk = Dialog::Interrupted(Box::pin(async move {
            ask::interrupted(terminal, label, can_cancel).await.map_or(UserInput::Nothing, UserInput::Choice)
        }));
        None
    }

    /// Handles the person's input. Returns the exit code if the person chose to leave, or the terminal is
    /// gone.
    pub(super) fn handle_input(&mut self, said: UserInput, screen: &mut Screen) -> Option<u8> {
        let talk = std::mem::replace(&mut self.talk, Dialog::Silence);
        match said {
            UserInput::Answer(asked, reply) => {
                // In the meantime the same question may have arrived in another message.
                let newest = if let Dialog::Question(newest, _) = talk { newest } else { asked };
                self.answer(newest, reply);
            }
            UserInput::Choice(Choice::Leave) => return Some(INTERRUPTED),
            UserInput::Choice(Choice::Cancel) => self.cancel(screen),
            UserInput::Choice(Choice::Wait) => {}
            UserInput::Nothing => return Some(INTERRUPTED),
        }
        self.turn(screen);
        None
    }

    fn answer(&mut self, question: Question, reply: Reply) {
        let Question { id, params } = &question;
        let message = json!({"jsonrpc": "2.0", "id": id, "result": reply.result(params)});
        let (session, id) = (self.session, id.clone());
        self.given.push((question, reply));
        self.errands.push(Box::pin(async move {
            let attempt = async || match session.send(&message).await {
                // The message is sent again in a new session.
                Err(ServerCallError::NoSession(_)) => {
                    session.quick("ping", json!({})).await?;
                    session.send(&message).await
                }
                sent => sent,
            };
            let sent = wait::retry_until_reached(attempt, |_| {}).await;
            let problem = sent.err().map(|fault| match fault {
                // The server reports the invalid value, and asks again.
                ServerCallError::Status { status: StatusCode::BAD_REQUEST, message }
                    if !message.is_empty() =>
                {
                    message
                }
                fault => format!("the answer was not taken: {fault}"),
            });
            RequestOutcome { answered: Some(id), problem }
        }));
    }

    fn cancel(&mut self, screen: &mut Screen) {
        let Some(id) = self.task else { return };
        screen.note(&format!("{}: cancelling", self.label));
        self.waiting.clear();
        let session = self.session;
        self.errands.push(Box::pin(async move {
            let problem =
                match wait::retry_until_reached(async || task::cancel(session, id).await, |_| {}).await {
                    // The task had already ended.
                    Ok(_) | Err(ServerCallError::Refused(_)) => None,
                    Err(fault) => Some(format!("it could not be cancelled: {fault}")),
                };
            RequestOutcome { answered: None, problem }
        }));
    }

    pub(super) fn done(&mut self, done: RequestOutcome, screen: &mut Screen) {
        let RequestOutcome { answered, problem } = done;
        self.given.retain(|(question, _)| Some(&question.id) != answered.as_ref());
        if let Some(problem) = problem {
            screen.note(&format!("{}: {problem}", self.label));
        }
    }
}

/// Formats a job's log message as one line.
fn said(label: &str, params: &Value) -> String {
    let words = params.get("data").map(plain).unwrap_or_default();
    match params.get("level").and_then(Value::as_str) {
        None | Some("debug" | "info" | "notice") => format!("{label}: {words}"),
        Some(level) => format!("{label}: {level}: {words}"),
    }
}
