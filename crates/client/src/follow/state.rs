//! [`State`]: the state of a followed call, and the dialog with the person at the terminal: pending
//! questions, answers being sent, and the choice after Ctrl-C. It must not wait for anything itself.

use std::collections::VecDeque;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use reqwest::StatusCode;
use serde_json::{Value, json};
use taskbridge_wire::jsonrpc::Id;

use super::super::error::ServerCallError;
use super::super::session::{ServerMessage, Session};
use super::super::shape::value_text;
use super::super::task::{self, Status, Task};
use super::super::terminal::Terminal;
use super::super::terminal::ask::{self, Choice, Reply};
use super::super::terminal::screen::{JobProgress, Screen};
use super::super::wait::{self, WaitEvent};
use super::{FollowedCall, INTERRUPTED, PROGRESS_TOKEN};

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
    /// The terminal is closed.
    TerminalClosed,
}

/// The current dialog.
pub(super) enum Dialog<'a> {
    Idle,
    Question(Question, LocalBoxFuture<'a, UserInput>),
    Interrupted(LocalBoxFuture<'a, UserInput>),
}

impl Dialog<'_> {
    /// Waits for the person's input; forever if nothing is asked.
    pub(super) async fn next_input(&mut self) -> UserInput {
        match self {
            Self::Idle => std::future::pending().await,
            Self::Question(_, input) | Self::Interrupted(input) => input.await,
        }
    }
}

/// The state that changes while a call is followed.
pub(super) struct State<'a> {
    session: &'a Session,
    label: &'a str,
    task: Option<&'a str>,
    terminal: Option<&'a Terminal>,
    progress: JobProgress,
    /// The address of the job's page that was printed last.
    printed_link: Option<String>,
    /// True while the server cannot be reached.
    disconnected: bool,
    pending_questions: VecDeque<Question>,
    pub(super) dialog: Dialog<'a>,
    /// Answers that the server has not received yet.
    unconfirmed_answers: Vec<(Question, Reply)>,
    /// Answers and cancellations that are being sent.
    pub(super) requests: FuturesUnordered<LocalBoxFuture<'a, RequestOutcome>>,
}

/// A finished request.
pub(super) struct RequestOutcome {
    /// The question that was answered, if any.
    question_id: Option<Id>,
    /// The error, if any.
    problem: Option<String>,
}

impl<'a> State<'a> {
    /// Creates the initial state: no status and no question.
    pub(super) fn new(call: &FollowedCall<'a>) -> Self {
        Self {
            session: call.session,
            label: call.label,
            task: call.task,
            terminal: call.terminal,
            progress: JobProgress::default(),
            printed_link: None,
            disconnected: false,
            pending_questions: VecDeque::new(),
            dialog: Dialog::Idle,
            unconfirmed_answers: Vec::new(),
            requests: FuturesUnordered::new(),
        }
    }

    /// Returns true while a dialog is open: a question, or the choice after an interrupt.
    pub(super) fn is_asking(&self) -> bool {
        !matches!(self.dialog, Dialog::Idle)
    }

    /// Handles a message of the server.
    pub(super) fn handle_message(&mut self, message: ServerMessage, screen: &mut Screen) {
        match message {
            ServerMessage::Question { id, params } => self.handle_question(Question { id, params }, screen),
            ServerMessage::ResponseFailed { method, error } => {
                let text =
                    format!("{}: cannot respond to the server's {method:?} request: {error}", self.label);
                screen.print_line(&text);
            }
            ServerMessage::Notification { method, params } => match method.as_str() {
                "notifications/progress"
                    if params.get("progressToken").is_some_and(|t| t == PROGRESS_TOKEN) =>
                {
                    self.handle_progress(&params, screen);
                }
                "notifications/tasks/status" => {
                    if let Some(task) =
                        Task::parse(&params).filter(|task| Some(task.id.as_str()) == self.task)
                    {
                        self.update_status(task, screen);
                    }
                }
                "notifications/message" => screen.print_line(&format_log_message(self.label, &params)),
                "notifications/cancelled" => self.handle_withdrawal(&params, screen),
                _ => {}
            },
        }
    }

    fn handle_progress(&mut self, params: &Value, screen: &mut Screen) {
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        if let Some(done) = number("progress") {
            self.progress.progress = Some((done, number("total")));
        }
        if let Some(message) = params.get("message").and_then(Value::as_str) {
            self.progress.message = Some(message.to_owned());
        }
        screen.show(self.progress.clone());
    }

    fn update_status(&mut self, task: Task, screen: &mut Screen) {
        let status_text = || (task.status != Status::Working).then(|| task.status.text().to_owned());
        // Notifications have neither.
        if task.estimate().is_some() || task.status != Status::Working {
            screen.set_estimate(task.estimate().map(str::to_owned));
        }
        if let Some(link) = task.link()
            && self.printed_link.as_deref() != Some(link)
        {
            screen.print_line(&format!("{}: {link}", self.label));
            self.printed_link = Some(link.to_owned());
        }
        self.progress.message = task.message.clone().or_else(status_text);
        screen.show(self.progress.clone());
    }

    pub(super) fn handle_event(&mut self, event: WaitEvent, screen: &mut Screen) {
        match event {
            WaitEvent::TaskStatus(task) => self.update_status(task, screen),
            WaitEvent::Progress(done, total) => {
                self.progress.progress = Some((done, total));
                screen.show(self.progress.clone());
            }
            WaitEvent::Disconnected(reason) if !self.disconnected => {
                self.disconnected = true;
                screen.print_line(&format!("{}: connection lost ({reason}); retrying", self.label));
            }
            WaitEvent::Reconnected if self.disconnected => {
                self.disconnected = false;
                screen.print_line(&format!("{}: reconnected; the task continues", self.label));
            }
            WaitEvent::Disconnected(_) | WaitEvent::Reconnected => {}
        }
    }

    /// Handles a question. The same question in another message replaces the first. If the answer to the same
    /// question has not been received yet, that answer is sent again, and the question is not asked again.
    fn handle_question(&mut self, question: Question, screen: &mut Screen) {
        let known_answer =
            self.unconfirmed_answers.iter().find(|(answered, _)| answered.params == question.params);
        if let Some((_, reply)) = known_answer {
            let reply = reply.clone();
            self.answer(question, reply);
            return;
        }
        let current = match &mut self.dialog {
            Dialog::Question(current, _) => Some(current),
            Dialog::Idle | Dialog::Interrupted(_) => None,
        };
        let mut pending = current.into_iter().chain(&mut self.pending_questions);
        match pending.find(|pending| pending.params == question.params) {
            Some(pending) => pending.id = question.id,
            None => self.pending_questions.push_back(question),
        }
        self.ask_next(screen);
    }

    /// Handles the server's withdrawal of a question.
    fn handle_withdrawal(&mut self, params: &Value, screen: &mut Screen) {
        let id = params.get("requestId").and_then(|id| serde_json::from_value::<Id>(id.clone()).ok());
        self.pending_questions.retain(|question| Some(&question.id) != id.as_ref());
        if let Dialog::Question(question, _) = &self.dialog
            && Some(&question.id) == id.as_ref()
        {
            self.dialog = Dialog::Idle;
            screen.print_line("");
            screen.print_line("The server withdrew the question.");
            self.ask_next(screen);
        }
    }

    /// Asks the next question if no dialog is open. Resumes the output if there is none.
    fn ask_next(&mut self, screen: &mut Screen) {
        if !matches!(self.dialog, Dialog::Idle) {
            return;
        }
        let Some(terminal) = self.terminal else { return };
        let Some(question) = self.pending_questions.pop_front() else {
            screen.resume();
            return;
        };
        screen.pause();
        let asked_question = question.clone();
        let label = self.label;
        let input = Box::pin(async move {
            match ask::ask(terminal, label, &asked_question.params).await {
                Ok(reply) => UserInput::Answer(asked_question, reply),
                Err(_) => UserInput::TerminalClosed,
            }
        });
        self.dialog = Dialog::Question(question, input);
    }

    /// Handles an interrupt of the wait. SIGINT at a terminal opens a dialog. Otherwise, and if that dialog
    /// is already open, returns the exit code, and the client exits.
    pub(super) fn handle_interrupt(&mut self, code: u8, screen: &mut Screen) -> Option<u8> {
        let terminal = match (self.terminal, &self.dialog) {
            (Some(terminal), Dialog::Idle | Dialog::Question(..)) if code == INTERRUPTED => terminal,
            _ => return Some(code),
        };
        if let Dialog::Question(question, _) = std::mem::replace(&mut self.dialog, Dialog::Idle) {
            self.pending_questions.push_front(question);
        }
        screen.pause();
        let (label, can_cancel) = (self.label, self.task.is_some());
        self.dialog = Dialog::Interrupted(Box::pin(async move {
            ask::ask_after_interrupt(terminal, label, can_cancel)
                .await
                .map_or(UserInput::TerminalClosed, UserInput::Choice)
        }));
        None
    }

    /// Handles the person's input. Returns the exit code if the person chose to leave, or the terminal is
    /// closed.
    pub(super) fn handle_input(&mut self, input: UserInput, screen: &mut Screen) -> Option<u8> {
        let dialog = std::mem::replace(&mut self.dialog, Dialog::Idle);
        match input {
            UserInput::Answer(question, reply) => {
                // In the meantime the same question may have arrived in another message.
                let newest = if let Dialog::Question(newest, _) = dialog { newest } else { question };
                self.answer(newest, reply);
            }
            UserInput::Choice(Choice::Leave) => return Some(INTERRUPTED),
            UserInput::Choice(Choice::Cancel) => self.cancel(screen),
            UserInput::Choice(Choice::Wait) => {}
            UserInput::TerminalClosed => return Some(INTERRUPTED),
        }
        self.ask_next(screen);
        None
    }

    fn answer(&mut self, question: Question, reply: Reply) {
        let Question { id, params } = &question;
        let message = json!({"jsonrpc": "2.0", "id": id, "result": reply.result(params)});
        let (session, id) = (self.session, id.clone());
        self.unconfirmed_answers.push((question, reply));
        self.requests.push(Box::pin(async move {
            let attempt = async || match session.send(&message).await {
                // The message is sent again in a new session.
                Err(ServerCallError::SessionExpired(_)) => {
                    session.request_with_timeout("ping", json!({})).await?;
                    session.send(&message).await
                }
                result => result,
            };
            let result = wait::retry_until_reached(attempt, |_| {}).await;
            let problem = result.err().map(|error| match error {
                // The server reports the invalid value, and asks again.
                ServerCallError::Status { status: StatusCode::BAD_REQUEST, message }
                    if !message.is_empty() =>
                {
                    message
                }
                error => format!("the server did not accept the answer: {error}"),
            });
            RequestOutcome { question_id: Some(id), problem }
        }));
    }

    fn cancel(&mut self, screen: &mut Screen) {
        let Some(id) = self.task else { return };
        screen.print_line(&format!("{}: cancelling", self.label));
        self.pending_questions.clear();
        let session = self.session;
        self.requests.push(Box::pin(async move {
            let problem =
                match wait::retry_until_reached(async || task::cancel(session, id).await, |_| {}).await {
                    // The task had already ended.
                    Ok(_) | Err(ServerCallError::JsonRpc(_)) => None,
                    Err(error) => Some(format!("cannot be cancelled: {error}")),
                };
            RequestOutcome { question_id: None, problem }
        }));
    }

    pub(super) fn handle_finished(&mut self, done: RequestOutcome, screen: &mut Screen) {
        let RequestOutcome { question_id, problem } = done;
        self.unconfirmed_answers.retain(|(question, _)| Some(&question.id) != question_id.as_ref());
        if let Some(problem) = problem {
            screen.print_line(&format!("{}: {problem}", self.label));
        }
    }
}

/// Formats a job's log message as one line.
fn format_log_message(label: &str, params: &Value) -> String {
    let text = params.get("data").map(value_text).unwrap_or_default();
    match params.get("level").and_then(Value::as_str) {
        None | Some("debug" | "info" | "notice") => format!("{label}: {text}"),
        Some(level) => format!("{label}: {level}: {text}"),
    }
}
