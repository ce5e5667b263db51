//! Follows a call until it ends, the timeout expires or the user leaves: shows its state, asks its questions
//! at the terminal, and asks what to do after an interrupt. One loop; it spawns nothing.

mod state;

use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::state::State;
use super::fault::ServerCallError;
use super::screen::Screen;
use super::session::{ServerMessage, ServerMessageSender, Session};
use super::terminal::Terminal;
use super::wait::{self, WaitEvent};
use crate::mcp::jsonrpc::Outcome;

/// The interval of animation frames.
const FRAME: Duration = Duration::from_millis(120);
/// The progress token. There is one call per session.
pub(super) const PROGRESS_TOKEN: &str = "call";

/// The end of following.
#[derive(Debug)]
pub(super) enum FollowOutcome {
    /// The call was answered.
    Answered(Outcome),
    /// The job continues without a waiting client; the exit code gives the reason.
    Left(u8),
}

/// The signals that end the wait, never the job.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// The exit codes of a program that was ended by these signals.
pub(super) const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;
/// The exit code of `timeout(1)`.
pub(super) const TIMED_OUT: u8 = 124;

impl Signals {
    /// Registers the signal handlers.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal and returns the exit code of a program that it ends.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}

/// A call that is followed.
pub(super) struct FollowedCall<'a> {
    pub(super) session: &'a Session,
    /// The label of the job on the screen.
    pub(super) label: &'a str,
    /// Its task, if any.
    pub(super) task: Option<&'a str>,
    /// True if the server sends the task's progress to this session. Otherwise the progress is requested.
    pub(super) is_ours: bool,
    /// The terminal for questions, if any.
    pub(super) terminal: Option<&'a Terminal>,
    /// When to stop waiting.
    pub(super) until: Option<Instant>,
}

impl<'a> FollowedCall<'a> {
    /// Follows a task until it ends.
    pub(super) async fn task(
        &self,
        id: &'a str,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<FollowOutcome, ServerCallError> {
        let (word, words) = mpsc::unbounded_channel();
        let (ear, heard) = mpsc::unbounded_channel();
        let looking = wait::watch(self.session, id, !self.is_ours, &ear, &word);
        let watching = async { tokio::join!(self.session.listen(&ear), looking) };
        let waiting = wait::result(self.session, id, &ear, &word);
        self.run(waiting, watching, heard, words, screen, signals).await
    }

    /// Follows a plain call, whose answer `request` waits for.
    pub(super) async fn plain<F>(
        &self,
        request: impl FnOnce(ServerMessageSender) -> F,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<FollowOutcome, ServerCallError>
    where
        F: Future<Output = Result<Outcome, ServerCallError>>,
    {
        let (_word, words) = mpsc::unbounded_channel();
        let (ear, heard) = mpsc::unbounded_channel();
        self.run(request(ear), std::future::pending::<()>(), heard, words, screen, signals).await
    }

    async fn run<T>(
        &self,
        waiting: impl Future<Output = Result<Outcome, ServerCallError>>,
        watching: impl Future<Output = T>,
        mut heard: mpsc::UnboundedReceiver<ServerMessage>,
        mut words: mpsc::UnboundedReceiver<WaitEvent>,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<FollowOutcome, ServerCallError> {
        let mut waiting = std::pin::pin!(waiting);
        let mut watching = std::pin::pin!(watching);
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut state = State::new(self);
        let ending = loop {
            tokio::select! {
                biased;
                code = signals.next() => match state.interrupted(code, screen) {
                    Some(code) => break FollowOutcome::Left(code),
                    None => continue,
                },
                answered = &mut waiting => break FollowOutcome::Answered(answered?),
                Some(heard) = heard.recv() => state.handle_message(heard, screen),
                Some(word) = words.recv() => state.notice(word, screen),
                said = state.talk.said() => if let Some(code) = state.handle_input(said, screen) {
                    break FollowOutcome::Left(code);
                },
                Some(done) = state.errands.next(), if !state.errands.is_empty() => state.done(done, screen),
                () = until(self.until) => break FollowOutcome::Left(TIMED_OUT),
                _ = frames.tick() => screen.draw(),
                _ = &mut watching => {}
            }
        };
        if state.is_asking() {
            if let Some(terminal) = self.terminal {
                let _ = terminal.say("\n");
            }
            screen.go_on();
        }
        screen.clear();
        Ok(ending)
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
