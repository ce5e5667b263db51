//! Handles POST with a batch, which sessions of 2025-03-26 may send. Each entry is admitted and counted like
//! a single request. The answers form one JSON array or, if one of them takes time, separate messages on a
//! stream. It must not know a method.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::Value;

use super::exchange::Exchange;
use super::post;
use crate::auth::Principal;
use crate::limits::in_flight_limit::InFlightPermit;
use crate::limits::memory_budget::SMALL;
use crate::mcp::session::message_sink::MessageSink as _;
use crate::mcp::session::token::Caller;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::validation::preconditions;
use crate::mcp::transport::http::{Http, Result};
use crate::mcp::transport::outbound_queue::OutboundQueue;
use crate::mcp::wire::jsonrpc::{Id, Message, Request, batch};
use crate::mcp::wire::limits::Limits;
use crate::mcp::wire::revision;

/// Answers a batch. Other revisions have no batches: without a session that allows them, the batch is refused
/// as an invalid message.
pub(in crate::mcp::transport::http) async fn post(
    http: &Arc<Http>,
    principal: Principal,
    headers: &HeaderMap,
    text: Bytes,
) -> Result<Response> {
    let refuse_batch = || Refusal::malformed(batch::refuse(&text));
    if !headers.contains_key(&preconditions::SESSION_ID) {
        return Err(refuse_batch());
    }
    preconditions::check_version(headers)?;
    let session = preconditions::session(http, &principal, headers).await?;
    if !session.revision.has_batches() {
        return Err(refuse_batch());
    }
    let entries = post::read(http, &principal, text, Limits::read_batch).await?;
    let entries = entries.map_err(Refusal::malformed)?;
    let caller = Caller { principal, session: Some(session) };
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    // The first refusal of an entry that gets no response.
    let mut failure = None;
    for (n, entry) in entries.into_iter().enumerate() {
        match entry.map_err(Refusal::malformed) {
            Ok(Message::Request(request)) => match admit(http, headers, &caller, request).await {
                Ok((request, permit)) => requests.push((n, request, permit)),
                Err(refusal) => answers.push((n, refusal.message())),
            },
            Ok(message) => {
                if let Err(refusal) = post::handle_one_way(http, &caller, message).await {
                    failure.get_or_insert((n, refusal));
                }
            }
            Err(refusal) => answers.push((n, refusal.message())),
        }
    }
    match failure {
        Some((_, refusal)) if requests.is_empty() && answers.is_empty() => return Err(refusal),
        Some((n, refusal)) => answers.push((n, refusal.message())),
        None if requests.is_empty() && answers.is_empty() => {
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        None => {}
    }
    Ok(Exchange::handle_batch(http, caller, requests, answers).await)
}

/// Admits one request of a batch. Refuses `initialize` and requests of the stateless generation. The others
/// are checked and counted like single requests.
async fn admit(
    http: &Arc<Http>,
    headers: &HeaderMap,
    caller: &Caller,
    mut request: Request,
) -> Result<(Request, InFlightPermit)> {
    if let Some(reason) = revision::batch_refusal(&request.method, &request.params) {
        return Err(Refusal::invalid(reason).for_request(Some(request.id)));
    }
    post::continue_trace(&mut request.params, headers);
    let permit = post::admit(http, caller, &request).await?;
    Ok((request, permit))
}

/// The index of an answer in its batch, and its JSON text.
type Answer = (usize, Vec<u8>);

/// The answers to the requests of a batch, each with its index.
#[derive(Default)]
pub(in crate::mcp::transport::http) struct Answers(Mutex<Option<Vec<Answer>>>);

impl Answers {
    /// Starts with the answers that exist before any request is handled.
    pub(in crate::mcp::transport::http) fn new(answers: Vec<Answer>) -> Self {
        Self(Mutex::new(Some(answers)))
    }

    /// Adds an answer. If the collected answers were already taken, sends it on the stream instead.
    pub(in crate::mcp::transport::http) async fn add(
        &self,
        n: usize,
        answer: Vec<u8>,
        queue: &OutboundQueue,
    ) {
        let answer = match &mut *self.0.lock() {
            Some(answers) => return answers.push((n, answer)),
            None => answer,
        };
        send(answer, queue).await;
    }

    /// Takes the answers that exist so far, in the order of the batch.
    pub(in crate::mcp::transport::http) fn take(&self) -> Vec<Vec<u8>> {
        let mut answers = self.0.lock().take().unwrap_or_default();
        answers.sort_by_key(|(n, _)| *n);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

/// Sends an answer on the stream. If the memory budget is exhausted, sends an error for the same request
/// instead.
pub(in crate::mcp::transport::http) async fn send(answer: Vec<u8>, queue: &OutboundQueue) {
    let bytes = answer.len();
    let mut answer: Value = serde_json::from_slice(&answer).expect("a response is JSON");
    if bytes > SMALL && !queue.reserve(bytes) {
        let id = Id::deserialize(&answer["id"]).ok();
        answer = Refusal::no_memory_for_answer().for_request(id).into_value();
    }
    queue.send(answer).await;
}
