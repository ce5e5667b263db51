//! Follows a call until it ends, the timeout expires or the user leaves: shows its state, asks its questions
//! at the terminal, and asks what to do after an interrupt. One loop; it spawns nothing.

mod state;

use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use taskbridge_wire::jsonrpc::Outcome;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::state::State;
use super::error::ServerCallError;
use super::session::{OpenedStream, ServerMessage, ServerMessageSender, Session};
use super::terminal::Terminal;
use super::terminal::screen::Screen;
use super::wait::{self, WaitEvent};

/// The interval of animation frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(120);
/// The progress token. There is one call per session.
pub(super) const PROGRESS_TOKEN: &str = "call";

/// The end of following.
#[derive(Debug)]
pub(super) enum FollowOutcome {
    /// The call was answered.
    Answered(Outcome),
    /// The job continues without a waiting client; the exit code gives the reason.
    Detached(u8),
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
    pub(super) receives_progress: bool,
    /// The terminal for questions, if any.
    pub(super) terminal: Option<&'a Terminal>,
    /// When to stop waiting.
    pub(super) deadline: Option<Instant>,
}

impl<'a> FollowedCall<'a> {
    /// Follows a task until it ends. `stream` was opened before its call, if it was called here.
    pub(super) async fn follow_task(
        &self,
        id: &'a str,
        stream: Option<OpenedStream>,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<FollowOutcome, ServerCallError> {
        let (event_sender, events) = mpsc::unbounded_channel();
        let (message_sender, incoming) = mpsc::unbounded_channel();
        let polling =
            wait::poll_task(self.session, id, !self.receives_progress, &message_sender, &event_sender);
        let background = async { tokio::join!(self.session.listen(stream, &message_sender), polling) };
        let answer = wait::wait_for_result(self.session, id, &message_sender, &event_sender);
        self.run(answer, background, incoming, events, screen, signals).await
    }

    /// Follows a plain call, whose answer `request` waits for.
    pub(super) async fn follow_call<F>(
        &self,
        request: impl FnOnce(ServerMessageSender) -> F,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<FollowOutcome, ServerCallError>
    where
        F: Future<Output = Result<Outcome, ServerCallError>>,
    {
        let (_event_sender, events) = mpsc::unbounded_channel();
        let (message_sender, incoming) = mpsc::unbounded_channel();
        self.run(request(message_sender), std::future::pending::<()>(), incoming, events, screen, signals)
            .await
    }

    async fn run<T>(
        &self,
        answer: impl Future<Output = Result<Outcome, ServerCallError>>,
        background: impl Future<Output = T>,
        mut incoming: mpsc::UnboundedReceiver<ServerMessage>,
        mut events: mpsc::UnboundedReceiver<WaitEvent>,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<FollowOutcome, ServerCallError> {
        let mut answer = std::pin::pin!(answer);
        let mut background = std::pin::pin!(background);
        let mut frames = interval(FRAME_INTERVAL);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut state = State::new(self);
        let outcome = loop {
            tokio::select! {
                biased;
                code = signals.next() => match state.handle_interrupt(code, screen) {
                    Some(code) => break FollowOutcome::Detached(code),
                    None => continue,
                },
                result = &mut answer => break FollowOutcome::Answered(result?),
                Some(incoming) = incoming.recv() => state.handle_message(incoming, screen),
                Some(event) = events.recv() => state.handle_event(event, screen),
                input = state.dialog.next_input() => if let Some(code) = state.handle_input(input, screen) {
                    break FollowOutcome::Detached(code);
                },
                Some(finished) = state.requests.next(), if !state.requests.is_empty() => state.handle_finished(finished, screen),
                () = wait_for_deadline(self.deadline) => break FollowOutcome::Detached(TIMED_OUT),
                _ = frames.tick() => screen.draw(),
                _ = &mut background => {}
            }
        };
        if state.is_asking() {
            if let Some(terminal) = self.terminal {
                let _ = terminal.print("\n");
            }
            screen.resume();
        }
        screen.clear();
        Ok(outcome)
    }
}

async fn wait_for_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
