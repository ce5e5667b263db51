//! Keeps a program connected, and connects it again with backoff after its end. The thread of a child process
//! lives as long as the process, because the system sends the parent-death signal at the end of the thread
//! that started it. It must not depend on the runtime that it runs on.

use std::ops::ControlFlow;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use serde_json::value::RawValue;
use taskbridge_sdk::{Error, ErrorKind, Level, Result, from_json, one_line};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::error::Failure;
use super::exchange::{End, serve};
use super::session::Session;
use super::shared::{Settings, Shared};
use super::transport::connection::Transport;
use super::wire::write_params;
use crate::protocol::InitializeResult;

/// Shortest and longest time between two starts.
const DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A program that ran for so long starts again at once after its end.
const STEADY: Duration = Duration::from_secs(60);

type Connected = oneshot::Sender<Result<()>>;

/// Runs a future on a thread and a runtime of its own.
///
/// # Errors
/// `Unavailable` if the system has no more threads.
pub(super) fn on_thread(name: String, work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let failed = |e| Error::unavailable("the thread of the program cannot be started").caused_by(e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let thread = std::thread::Builder::new().name(format!("program {name}"));
    thread.spawn(move || runtime.block_on(work)).map(drop).map_err(failed)
}

/// Returns the times between starts. Their random part follows from the seed, if there is one.
fn backoff(seed: Option<u64>) -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(DELAYS.0).with_max_delay(DELAYS.1);
    let builder = builder.with_jitter().without_max_times();
    match seed {
        Some(seed) => builder.with_jitter_seed(seed).build(),
        None => builder.build(),
    }
}

/// Keeps a program running until it is stopped, or until its first start has failed.
pub(super) async fn keep_running(shared: &Shared, transport: &impl Transport, first: Connected) {
    let seed = shared.settings.seed;
    let (mut first, mut delays, mut run) = (Some(first), backoff(seed), 0);
    loop {
        run += 1;
        let began = Instant::now();
        let end = run_once(shared, transport, run, &mut first).await;
        let reason = match &end {
            End::Stopped => "it is stopped".to_owned(),
            End::Lost(reason) => reason.clone(),
            End::Refused(error) => error.to_string(),
        };
        shared.set_away(&reason);
        if matches!(end, End::Stopped) {
            return;
        }
        if let Some(first) = first.take() {
            let error = match end {
                End::Refused(error) => error,
                _ => {
                    Error::unavailable(format!("the program of backend `{}`: {reason}", shared.settings.name))
                }
            };
            let _ = first.send(Err(error));
            return;
        }
        if began.elapsed() >= STEADY {
            delays = backoff(seed);
        }
        let delay = delays.next().unwrap_or(DELAYS.1);
        let text = format!("the program is connected again in {:.1} s: {reason}", delay.as_secs_f64());
        shared.log.write(Level::Warning, &text);
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            () = sleep(delay) => {}
        }
    }
}

async fn run_once(
    shared: &Shared,
    transport: &impl Transport,
    run: u64,
    first: &mut Option<Connected>,
) -> End {
    let mut connection = match transport.connect() {
        Ok(connection) => connection,
        Err(error) => return End::Lost(format!("it cannot be started: {error}")),
    };
    let opening = match write_params(&shared.settings.initialize) {
        Ok(params) => params,
        Err(error) => return End::Lost(format!("`initialize` cannot be written: {error}")),
    };
    let opened = |result: Result<Box<RawValue>, Failure>, lines: mpsc::Sender<Vec<u8>>| {
        let session =
            match result.map_err(|failure| refusal(shared, failure)).and_then(|r| session(shared, &r)) {
                Ok(session) => session,
                Err(error) => return ControlFlow::Break(End::Refused(error)),
            };
        shared.set_up(run, lines, session);
        if let Some(first) = first.take() {
            let _ = first.send(Ok(()));
        }
        ControlFlow::Continue(())
    };
    let end = serve(shared, run, &mut connection, ("initialize", &opening), opened).await;
    // Calls fail now, and not when the program has ended.
    match end {
        End::Stopped => {
            shared.set_away("it is stopped");
            connection.stop().await;
            end
        }
        End::Lost(reason) => {
            shared.set_away(&reason);
            match connection.kill().await {
                Some(status) => End::Lost(format!("{reason} ({status})")),
                None => End::Lost(reason),
            }
        }
        End::Refused(_) => {
            shared.set_away("it refused to initialize");
            connection.stop().await;
            end
        }
    }
}

fn refusal(shared: &Shared, failure: Failure) -> Error {
    let name = &shared.settings.name;
    match failure {
        Failure::NotSent(error) => error,
        Failure::Lost(reason) => Error::unavailable(format!(
            "the program of backend `{name}` did not answer `initialize`: {reason}"
        )),
        Failure::Refused(error) => {
            let message = one_line(&shared.settings.redactor.redact(&error.message));
            let kind = error.data.error_kind().unwrap_or(ErrorKind::Unavailable);
            Error::new(kind, message)
        }
    }
}

fn session(shared: &Shared, result: &RawValue) -> Result<Session> {
    let wrong = |problem: String| {
        Error::unavailable(format!(
            "the program of backend `{}` answered `initialize` wrongly: {problem}",
            shared.settings.name
        ))
    };
    let result: InitializeResult =
        from_json(result.get().as_bytes()).map_err(|e| wrong(one_line(&e.to_string())))?;
    let session = Session::new(result).map_err(wrong)?;
    match shared.last().and_then(|last| last.identity.clone()) {
        Some(identity) if session.identity.as_ref() != Some(&identity) => {
            Err(wrong(format!("its identity was `{identity}` before, and must not change")))
        }
        _ => Ok(session),
    }
}

/// Starts a program, makes one call, and ends the program.
pub(super) async fn ask(
    transport: impl Transport,
    method: &'static str,
    params: Box<RawValue>,
    limit: Duration,
) -> Result<Box<RawValue>, Failure> {
    let (shared, _hints) = Shared::new(Settings::new(method, limit, 1));
    let (sender, receiver) = oneshot::channel();
    let thread = on_thread(method.to_owned(), async move {
        let mut connection = match transport.connect() {
            Ok(connection) => connection,
            Err(error) => {
                let error = Error::unavailable(format!("the program cannot be started: {error}"));
                let _ = sender.send(Err(Failure::NotSent(error)));
                return;
            }
        };
        let mut result = Err(Failure::Lost("it ended".to_owned()));
        let opened = |answer, _| {
            result = answer;
            ControlFlow::Break(End::Stopped)
        };
        let end = serve(&shared, 1, &mut connection, (method, &params), opened).await;
        if let (End::Lost(reason), Err(Failure::Lost(text))) = (&end, &mut result) {
            text.clone_from(reason);
        }
        connection.stop().await;
        let _ = sender.send(result);
    });
    thread.map_err(Failure::NotSent)?;
    receiver.await.unwrap_or_else(|_| Err(Failure::Lost("its thread ended".to_owned())))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};

    use super::super::transport::connection::Connection;
    use super::super::wire::Reply;
    use super::*;

    /// Programs in this process: each start hands the program's ends of its pipes to the test.
    struct InProcess(Mutex<mpsc::UnboundedSender<Program>>);

    struct Program {
        input: BufReader<DuplexStream>,
        output: DuplexStream,
    }

    impl Transport for InProcess {
        fn connect(&self) -> std::io::Result<Connection> {
            let ((input, theirs), (output, our_output)) = (duplex(1 << 20), duplex(1 << 20));
            let program = Program { input: BufReader::new(theirs), output: our_output };
            let _ = self.0.lock().send(program);
            Ok(Connection::piped(input, output, tokio::io::empty(), None))
        }
    }

    impl Program {
        async fn next(&mut self) -> Value {
            let mut line = String::new();
            self.input.read_line(&mut line).await.unwrap();
            serde_json::from_str(&line).unwrap()
        }

        async fn answer(&mut self, id: &Value, result: Value) {
            let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result}));
            self.output.write_all(line.as_bytes()).await.unwrap();
        }

        async fn initialize(&mut self) {
            let call = self.next().await;
            assert_eq!(call["method"], "initialize");
            self.answer(&call["id"], json!({"protocol": 1, "once": "key", "abilities": []})).await;
        }
    }

    /// Sends a call to the run that is up now, and waits for its end.
    async fn call(shared: &Shared) -> Result<Reply, String> {
        let up = shared.up().unwrap();
        let place = up.lines.reserve().await.unwrap();
        let (id, answer) = shared.calls.add(up.run, shared.settings.limit, None).unwrap();
        place.send(super::super::wire::write_request(id, "cancel", &write_params(&json!({})).unwrap()));
        answer.await.unwrap()
    }

    /// Three calls without an answer end a run. Calls then fail at once, and a new run begins. The longer limit
    /// of the first call delays no other.
    #[tokio::test(start_paused = true)]
    async fn silent_program_is_started_again() {
        let limit = Duration::from_secs(10);
        let settings = Settings { opening_limit: limit * 2, ..Settings::new("jobs", limit, 2) };
        let (shared, _hints) = Shared::new(settings);
        let (programs, mut started) = mpsc::unbounded_channel();
        let (first, connected) = oneshot::channel::<Result<()>>();
        let start = InProcess(Mutex::new(programs));
        let test = async {
            let mut program = started.recv().await.unwrap();
            program.initialize().await;
            connected.await.unwrap().unwrap();
            for _ in 0..3 {
                let began = Instant::now();
                assert!(call(&shared).await.is_err());
                assert_eq!(began.elapsed().as_secs(), limit.as_secs());
            }
            let mut again = started.recv().await.unwrap();
            assert!(shared.up().is_err());
            again.initialize().await;
            while shared.up().is_err() {
                tokio::task::yield_now().await;
            }
            let serve = async {
                let request = again.next().await;
                again.answer(&request["id"], json!(7)).await;
                // Twice, and to a call that does not exist: both are ignored.
                again.answer(&request["id"], json!(8)).await;
                again.answer(&json!(12345), json!(9)).await;
            };
            let (reply, ()) = tokio::join!(call(&shared), serve);
            assert!(matches!(reply, Ok(Reply::Result(result)) if result.get() == "7"));
        };
        tokio::select! {
            () = keep_running(&shared, &start, first) => panic!("it must not end"),
            () = test => {}
        }
    }

    /// A program that ends at once is started again after growing times, and never more often.
    #[tokio::test(start_paused = true)]
    async fn starts_back_off() {
        let (shared, _hints) = Shared::new(Settings::new("jobs", Duration::from_secs(10), 2));
        let (programs, mut started) = mpsc::unbounded_channel();
        let (first, _connected) = oneshot::channel();
        let start = InProcess(Mutex::new(programs));
        let test = async {
            let mut program = started.recv().await.unwrap();
            program.initialize().await;
            while shared.up().is_err() {
                tokio::task::yield_now().await;
            }
            drop(program);
            let began = Instant::now();
            for _ in 0..20 {
                drop(started.recv().await.unwrap());
            }
            began.elapsed()
        };
        tokio::select! {
            () = keep_running(&shared, &start, first) => panic!("it must not end"),
            elapsed = test => assert!(elapsed > Duration::from_secs(120), "{elapsed:?}"),
        }
    }
}
