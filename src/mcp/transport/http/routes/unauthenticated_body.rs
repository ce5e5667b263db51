//! [`UnauthenticatedBudget`]: reads bodies of unauthenticated senders. They have a memory budget of their
//! own, so that they take nothing from authenticated callers. This module must not know the content.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use futures_util::StreamExt as _;

use super::body::to_refusal;
use crate::auth::{Peer, Principal};
use crate::limits::caller_key::CallerKey;
use crate::limits::memory_budget::MemoryBudget;
use crate::mcp::transport::http::error_response::Refusal;

/// Memory budget of all such bodies together, in bytes. One address may use a quarter of it, or one body.
const BUDGET: usize = 16 * 1024 * 1024;

/// The memory that such bodies use. Cheap to clone.
#[derive(Clone, Default)]
pub struct UnauthenticatedBudget(MemoryBudget);

impl UnauthenticatedBudget {
    /// Reads the whole body, at most `limit` bytes. Reserves memory for the body's maximum size first. The
    /// returned bytes keep their memory reserved until they are dropped.
    ///
    /// # Errors
    /// The response to the sender, without a reason.
    pub async fn read(&self, peer: Option<&Peer>, body: Body, limit: usize) -> Result<Bytes, Box<Response>> {
        let hint = body.size_hint();
        let to_usize = |hint: u64| usize::try_from(hint).unwrap_or(usize::MAX);
        let refuse = |refusal: Box<Refusal>| Box::new(refusal.into_empty_response());
        if to_usize(hint.lower()) > limit {
            return Err(refuse(Refusal::too_large(limit)));
        }
        let max_size = hint.upper().map_or(limit, |upper| to_usize(upper).min(limit));
        let from = peer.and_then(|peer| peer.address).map(|address| address.ip());
        let sender = Principal { client_address: from, ..Principal::anonymous() };
        let reservation = self
            .0
            .take(CallerKey::of(&sender), max_size, BUDGET)
            .ok_or_else(|| refuse(Refusal::memory_exhausted()))?;
        let (mut chunks, mut buffer) = (body.into_data_stream(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| refuse(to_refusal(error)))?;
            if buffer.len() + chunk.len() > limit {
                return Err(refuse(Refusal::too_large(limit)));
            }
            buffer.extend_from_slice(&chunk);
        }
        Ok(reservation.attach_to(buffer))
    }
}
