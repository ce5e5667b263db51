//! One run of a program, from its first message to its end. It must not start or restart a program.

use std::ops::ControlFlow;

use serde_json::value::RawValue;
use taskbridge_sdk::{Level, from_json, one_line};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::bucket::Bucket;
use super::error::Failure;
use super::line::{LineReader, Long, Read};
use super::session::Ability;
use super::shared::{MAX_LINES, Shared};
use super::transport::connection::Connection;
use super::wire::{self, Incoming, MAX_LINE, Reply};
use crate::protocol::{ChangedParams, NoteParams};

/// Number of calls without any answer after which a program counts as dead.
const MAX_SILENT: u32 = 3;
/// Messages that are no answers, at once and per second. A program that sends more has to wait.
const UNASKED: (f64, f64) = (2000.0, 500.0);
/// Hints at once, and per second. More are lost.
const HINTS: (f64, f64) = (1000.0, 100.0);

/// How a run ended.
#[derive(Debug)]
pub(super) enum End {
    /// We end it.
    Stopped,
    /// It ended, broke the framing or does not answer.
    Lost(String),
    /// Its first answer was an error, or invalid.
    Refused(taskbridge_sdk::Error),
}

/// Serves the calls of one run. `opening` is the first call. Its result goes to `opened`, which decides
/// whether the run continues.
pub(super) async fn serve(
    shared: &Shared,
    run: u64,
    connection: &mut Connection,
    opening: (&str, &RawValue),
    mut opened: impl FnMut(Result<Box<RawValue>, Failure>, mpsc::Sender<Vec<u8>>) -> ControlFlow<End>,
) -> End {
    let (lines, waiting) = mpsc::channel(MAX_LINES);
    shared.calls.open(run);
    let added = shared.calls.add(run, shared.settings.opening_limit, None);
    let Some((id, answer)) = added else { return End::Stopped };
    let first = wire::write_request(id, opening.0, opening.1);
    let open = async {
        let result = match answer.await {
            Ok(Ok(Reply::Result(result))) => Ok(result),
            Ok(Ok(Reply::Error(error))) => Err(Failure::Refused(error)),
            Ok(Err(reason)) => Err(Failure::Lost(reason)),
            Err(_) => Err(Failure::Lost("its run ended".to_owned())),
        };
        match opened(result, lines.clone()) {
            ControlFlow::Break(end) => end,
            ControlFlow::Continue(()) => std::future::pending().await,
        }
    };
    let Connection { input, output, errors, carrier, process: _ } = connection;
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => End::Stopped,
        end = open => end,
        reason = read(shared, output, lines.clone()) => End::Lost(reason),
        reason = write(input, first, waiting) => End::Lost(reason),
        () = shared.calls.watch(MAX_SILENT) => End::Lost(format!("it left {MAX_SILENT} calls without an answer")),
        () = shared.log.copy(errors) => End::Stopped,
        () = carrier => End::Stopped,
    }
}

/// Writes lines until the program no longer reads. Returns the reason.
async fn write(
    input: &mut (impl AsyncWrite + Unpin),
    first: Vec<u8>,
    mut waiting: mpsc::Receiver<Vec<u8>>,
) -> String {
    let mut line = first;
    loop {
        let written = async {
            input.write_all(&line).await?;
            input.flush().await
        };
        if written.await.is_err() {
            return "it closed its standard input".to_owned();
        }
        line = match waiting.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        };
    }
}

/// Reads messages until there are no more. Returns the reason.
async fn read(
    shared: &Shared,
    output: &mut (impl AsyncRead + Unpin),
    lines: mpsc::Sender<Vec<u8>>,
) -> String {
    let mut reader = LineReader::new(output, MAX_LINE, Long::Fail);
    let (mut unasked, mut hints) = (Bucket::new(UNASKED.0, UNASKED.1), Bucket::new(HINTS.0, HINTS.1));
    let mut line = Vec::new();
    loop {
        match reader.next(&mut line).await {
            Ok(Read::Line) => {}
            Ok(Read::Long) => return format!("it wrote a line of more than {MAX_LINE} bytes"),
            Ok(Read::End) if line.is_empty() => return "it ended".to_owned(),
            Ok(Read::End) => return "it ended in the middle of a line".to_owned(),
            Err(error) => return format!("its output cannot be read: {error}"),
        }
        let is_answer = match wire::read(&line) {
            Some(Incoming::Answer { id, reply, changed }) => {
                if let Some(jobs) = changed.and_then(|jobs| serde_json::from_str(jobs.get()).ok()) {
                    hint(shared, &mut hints, ChangedParams { jobs });
                }
                shared.calls.answer(id, reply)
            }
            Some(Incoming::Notification { method, params }) => {
                notified(shared, &mut hints, &method, params.as_deref());
                false
            }
            Some(Incoming::Request { id }) => {
                // A program that does not read must not block its own answers.
                let _ = lines.try_send(wire::write_unknown_method(&id));
                false
            }
            Some(Incoming::Invalid(problem)) => {
                shared.log.write(Level::Warning, &format!("standard output: {problem}"));
                false
            }
            None => false,
        };
        let wait = if is_answer { std::time::Duration::ZERO } else { unasked.charge(1.0) };
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

fn notified(shared: &Shared, hints: &mut Bucket, method: &str, params: Option<&RawValue>) {
    let params = params.map_or("{}", RawValue::get).as_bytes();
    match method {
        "changed" => {
            if let Ok(params) = from_json(params) {
                hint(shared, hints, params);
            }
        }
        "note" => {
            if let Ok(NoteParams { level, text }) = from_json(params) {
                shared.log.write(level, &one_line(&text));
            }
        }
        _ => {}
    }
}

fn hint(shared: &Shared, hints: &mut Bucket, ChangedParams { jobs }: ChangedParams) {
    if !shared.last().is_some_and(|session| session.has(Ability::Changed)) {
        return;
    }
    for job in jobs {
        if !hints.take(1.0) {
            break;
        }
        // A full queue means that nobody reads hints.
        let _ = shared.hints.try_send(job);
    }
}
