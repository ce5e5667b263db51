//! Follows a call to its end: shows where it stands, puts its questions to the person at the terminal, and asks what
//! to do when that person interrupts. One loop; nothing is spawned.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::ask::{self, Choice, Reply};
use super::fault::Fault;
use super::screen::{Screen, Standing};
use super::session::{Ear, Heard, Session};
use super::task::{self, Status, Task};
use super::terminal::Terminal;
use super::wait::{self, Word};
use crate::mcp::jsonrpc::{Id, Outcome};

/// How often what moves on the screen is drawn.
const FRAME: Duration = Duration::from_millis(120);
/// The token under which progress is reported. There is one call in a session.
pub(super) const PROGRESS_TOKEN: &str = "call";

/// How following ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The call was answered.
    Answered(Outcome),
    /// The job goes on without anybody who waits; the exit code says why.
    Left(u8),
}

/// The signals that end the waiting, never the job.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// The exit codes of a program that such a signal ended.
pub(super) const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;
/// The exit code of `timeout(1)`.
pub(super) const TIMED_OUT: u8 = 124;

impl Signals {
    /// From now on the signals come here.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal: the exit code of a program that it ends.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}

/// What is followed.
pub(super) struct Pursuit<'a> {
    pub(super) session: &'a Session,
    /// What the job is called on the screen.
    pub(super) label: &'a str,
    /// Its task, if it is one.
    pub(super) task: Option<&'a str>,
    /// True if the task was made in this session.
    pub(super) is_ours: bool,
    /// Who can be asked.
    pub(super) terminal: Option<&'a Terminal>,
    /// When to leave.
    pub(super) until: Option<Instant>,
}

/// A question that waits for its turn, or for its answer.
#[derive(Clone, Debug)]
struct Question {
    id: Id,
    params: Value,
}

/// What a person at the terminal said.
enum Said {
    Answer(Question, Reply),
    Choice(Choice),
    /// The terminal is gone.
    Nothing,
}

/// What is being asked now.
enum Talk<'a> {
    Silence,
    Question(Question, LocalBoxFuture<'a, Said>),
    Interrupted(LocalBoxFuture<'a, Said>),
}

impl Talk<'_> {
    /// Waits for what is said; for ever if nothing is asked.
    async fn said(&mut self) -> Said {
        match self {
            Self::Silence => std::future::pending().await,
            Self::Question(_, talk) | Self::Interrupted(talk) => talk.await,
        }
    }
}

impl<'a> Pursuit<'a> {
    /// Follows a task to its end.
    pub(super) async fn task(
        &self,
        id: &'a str,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<Ending, Fault> {
        let (word, words) = mpsc::unbounded_channel();
        let (ear, heard) = mpsc::unbounded_channel();
        let looking = wait::watch(self.session, id, !self.is_ours, &ear, &word);
        let watching = async { tokio::join!(self.session.listen(&ear), looking) };
        let waiting = wait::result(self.session, id, &ear, &word);
        self.run(waiting, watching, heard, words, screen, signals).await
    }

    /// Follows a plain call, which `request` waits for.
    pub(super) async fn plain<F>(
        &self,
        request: impl FnOnce(Ear) -> F,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<Ending, Fault>
    where
        F: Future<Output = Result<Outcome, Fault>>,
    {
        let (_word, words) = mpsc::unbounded_channel();
        let (ear, heard) = mpsc::unbounded_channel();
        self.run(request(ear), std::future::pending::<()>(), heard, words, screen, signals).await
    }

    async fn run<T>(
        &self,
        waiting: impl Future<Output = Result<Outcome, Fault>>,
        watching: impl Future<Output = T>,
        mut heard: mpsc::UnboundedReceiver<Heard>,
        mut words: mpsc::UnboundedReceiver<Word>,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<Ending, Fault> {
        let mut waiting = std::pin::pin!(waiting);
        let mut watching = std::pin::pin!(watching);
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut state = State::new(self);
        let ending = loop {
            tokio::select! {
                biased;
                code = signals.next() => match state.interrupted(code, screen) {
                    Some(code) => break Ending::Left(code),
                    None => continue,
                },
                answered = &mut waiting => break Ending::Answered(answered?),
                Some(heard) = heard.recv() => state.hear(heard, screen),
                Some(word) = words.recv() => state.notice(word, screen),
                said = state.talk.said() => if let Some(code) = state.said(said, screen) {
                    break Ending::Left(code);
                },
                Some(problem) = state.errands.next(), if !state.errands.is_empty() => {
                    problem.into_iter().for_each(|problem: String| screen.note(&problem));
                }
                () = until(self.until) => break Ending::Left(TIMED_OUT),
                _ = frames.tick() => screen.draw(),
                _ = &mut watching => {}
            }
        };
        if !matches!(state.talk, Talk::Silence) {
            if let Some(terminal) = self.terminal {
                let _ = terminal.say("\n");
            }
            screen.go_on();
        }
        screen.clear();
        Ok(ending)
    }
}

/// All that changes while a call is followed.
struct State<'a> {
    session: &'a Session,
    label: &'a str,
    task: Option<&'a str>,
    terminal: Option<&'a Terminal>,
    standing: Standing,
    status: Status,
    lost: bool,
    waiting: VecDeque<Question>,
    talk: Talk<'a>,
    /// Answers and cancellations on their way. What goes wrong with one is told.
    errands: FuturesUnordered<LocalBoxFuture<'a, Option<String>>>,
}

impl<'a> State<'a> {
    fn new(pursuit: &Pursuit<'a>) -> Self {
        Self {
            session: pursuit.session,
            label: pursuit.label,
            task: pursuit.task,
            terminal: pursuit.terminal,
            standing: Standing::default(),
            status: Status::Working,
            lost: false,
            waiting: VecDeque::new(),
            talk: Talk::Silence,
            errands: FuturesUnordered::new(),
        }
    }

    /// Takes what the server says.
    fn hear(&mut self, heard: Heard, screen: &mut Screen) {
        match heard {
            Heard::Asked { id, params } => self.asked(Question { id, params }, screen),
            Heard::Notification { method, params } => match method.as_str() {
                "notifications/progress"
                    if params.get("progressToken").is_some_and(|t| t == PROGRESS_TOKEN) =>
                {
                    self.progress(&params, screen);
                }
                "notifications/tasks/status" => {
                    if let Some(task) = Task::read(&params).filter(|task| Some(task.id.as_str()) == self.task)
                    {
                        self.stands(task, screen);
                    }
                }
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

    fn stands(&mut self, task: Task, screen: &mut Screen) {
        self.status = task.status;
        let words = || (task.status != Status::Working).then(|| task.status.words().to_owned());
        self.standing.message = task.message.or_else(words);
        screen.show(self.standing.clone());
    }

    fn notice(&mut self, word: Word, screen: &mut Screen) {
        match word {
            Word::Stands(task) => self.stands(task, screen),
            Word::Progress(done, total) => {
                self.standing.progress = Some((done, total));
                screen.show(self.standing.clone());
            }
            Word::Lost(why) if !self.lost => {
                self.lost = true;
                screen.note(&format!("{}: the connection broke ({why}); trying again", self.label));
            }
            Word::Back if self.lost => {
                self.lost = false;
                screen.note(&format!("{}: connected again; the task goes on", self.label));
            }
            Word::Lost(_) | Word::Back => {}
        }
    }

    /// Takes a question. The same question in another message takes the place of the first.
    fn asked(&mut self, question: Question, screen: &mut Screen) {
        let current = match &mut self.talk {
            Talk::Question(current, _) => Some(current),
            Talk::Silence | Talk::Interrupted(_) => None,
        };
        let mut known = current.into_iter().chain(&mut self.waiting);
        match known.find(|known| known.params == question.params) {
            Some(known) => known.id = question.id,
            None => self.waiting.push_back(question),
        }
        self.turn(screen);
    }

    /// The server wants no answer to a question any more.
    fn withdrawn(&mut self, params: &Value, screen: &mut Screen) {
        let id = params.get("requestId").and_then(|id| serde_json::from_value::<Id>(id.clone()).ok());
        self.waiting.retain(|question| Some(&question.id) != id.as_ref());
        if let Talk::Question(question, _) = &self.talk
            && Some(&question.id) == id.as_ref()
        {
            self.talk = Talk::Silence;
            screen.note("");
            screen.note("No answer is needed any more.");
            self.turn(screen);
        }
    }

    /// Asks the next question if nothing is asked now.
    fn turn(&mut self, screen: &mut Screen) {
        if !matches!(self.talk, Talk::Silence) {
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
                Ok(reply) => Said::Answer(asked, reply),
                Err(_) => Said::Nothing,
            }
        });
        self.talk = Talk::Question(question, talk);
    }

    /// Somebody wants to stop waiting. Gives the exit code if that is now.
    fn interrupted(&mut self, code: u8, screen: &mut Screen) -> Option<u8> {
        let terminal = match (self.terminal, &self.talk) {
            (Some(terminal), Talk::Silence | Talk::Question(..)) if code == INTERRUPTED => terminal,
            _ => return Some(code),
        };
        if let Talk::Question(question, _) = std::mem::replace(&mut self.talk, Talk::Silence) {
            self.waiting.push_front(question);
        }
        screen.hold();
        let (label, can_cancel) = (self.label, self.task.is_some());
        self.talk = Talk::Interrupted(Box::pin(async move {
            ask::interrupted(terminal, label, can_cancel).await.map_or(Said::Nothing, Said::Choice)
        }));
        None
    }

    /// Takes what the person said. Gives the exit code if that is to leave.
    fn said(&mut self, said: Said, screen: &mut Screen) -> Option<u8> {
        let talk = std::mem::replace(&mut self.talk, Talk::Silence);
        match said {
            Said::Answer(asked, reply) => {
                // Meanwhile the same question may have come in another message.
                let newest = if let Talk::Question(newest, _) = talk { newest } else { asked };
                self.answer(newest, &reply);
            }
            Said::Choice(Choice::Leave) => return Some(INTERRUPTED),
            Said::Choice(Choice::Cancel) => self.cancel(screen),
            Said::Choice(Choice::Wait) => {}
            Said::Nothing => return Some(INTERRUPTED),
        }
        self.turn(screen);
        None
    }

    fn answer(&mut self, question: Question, reply: &Reply) {
        let message = json!({"jsonrpc": "2.0", "id": question.id, "result": reply.result(&question.params)});
        let session = self.session;
        self.errands.push(Box::pin(async move {
            let sent = wait::insist(
                async || match session.send(&message).await {
                    // With a new session it goes through.
                    Err(Fault::NoSession(_)) => {
                        session.quick("ping", json!({})).await?;
                        session.send(&message).await
                    }
                    sent => sent,
                },
                |_| {},
            );
            sent.await.err().map(|fault| format!("the answer was not taken: {fault}"))
        }));
    }

    fn cancel(&mut self, screen: &mut Screen) {
        let Some(id) = self.task else { return };
        screen.note(&format!("{}: cancelling", self.label));
        self.waiting.clear();
        let session = self.session;
        self.errands.push(Box::pin(async move {
            match wait::insist(async || task::cancel(session, id).await, |_| {}).await {
                // It had ended before.
                Ok(_) | Err(Fault::Refused(_)) => None,
                Err(fault) => Some(format!("it could not be cancelled: {fault}")),
            }
        }));
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
