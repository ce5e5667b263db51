//! Reads the body of a request, within a size limit. A body that does not arrive at once counts in a limit
//! per owner, and in the memory budget if it is large. `timeouts` limits the transfer rate. This module must
//! not parse a body.

use axum::body::{Body, Bytes, HttpBody as _};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::auth::Principal;
use crate::limits::caller_key::CallerKey;
use crate::limits::in_flight_limit::InFlightPermit;
use crate::limits::memory_budget::{MemoryReservation, SMALL};
use crate::mcp::transport::http::connections::timeouts::BodyError;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::{Http, Result};

/// How much of an oversized body is read and discarded, so that the client can read the error response.
const MAX_DISCARDED: usize = 64 * 1024 * 1024;

/// A body that is being received.
struct IncomingBody<'a> {
    http: &'a Http,
    principal: &'a Principal,
    chunks: axum::body::BodyDataStream,
    /// Upper bound of the body's size.
    max_size: usize,
    received: usize,
    permit: Option<InFlightPermit>,
    reservation: Option<MemoryReservation>,
}

/// Reads the whole body, at most `limit` bytes.
pub(in crate::mcp::transport::http) async fn read(
    http: &Http,
    principal: &Principal,
    body: Body,
    limit: usize,
) -> Result<Bytes> {
    let hint = body.size_hint();
    let announced = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    let max_size = hint.upper().and_then(|max_size| usize::try_from(max_size).ok()).unwrap_or(limit);
    let chunks = body.into_data_stream();
    let mut incoming =
        IncomingBody { http, principal, chunks, max_size, received: 0, permit: None, reservation: None };
    if announced > limit {
        return Err(too_large(incoming.chunks, limit).await);
    }
    let Some(first) = incoming.next().await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large(incoming.chunks, limit).await);
    }
    // Almost every message arrives in one piece, which needs no copy.
    let Some(second) = incoming.next().await? else { return Ok(first) };
    let mut buffer = Vec::with_capacity(announced.max(first.len() * 2).min(limit));
    buffer.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if buffer.len() + chunk.len() > limit {
            return Err(too_large(incoming.chunks, limit).await);
        }
        buffer.extend_from_slice(&chunk);
        next = incoming.next().await?;
    }
    Ok(buffer.into())
}

impl IncomingBody<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let chunk = match self.chunks.next().now_or_never() {
            Some(chunk) => chunk,
            // A chunk that has already arrived costs nothing. Only bodies that have to wait are counted.
            None => {
                self.count()?;
                self.chunks.next().await
            }
        };
        let chunk = chunk.transpose().map_err(to_refusal)?;
        self.received += chunk.as_ref().map_or(0, Bytes::len);
        Ok(chunk)
    }

    /// Counts this body among those of its owner that have to wait, and reserves memory budget for a large
    /// one.
    fn count(&mut self) -> Result<()> {
        let limits = &self.http.bridge.context.settings().limits;
        if self.permit.is_none() {
            let max_streams = limits.max_streams_per_owner;
            let permit = self.http.incoming_limit.take(self.principal, max_streams);
            self.permit = Some(permit.ok_or_else(|| Refusal::too_many_streams(max_streams))?);
        }
        if self.reservation.is_none() && self.received > SMALL {
            let reservation = self.http.memory_budget.take(
                CallerKey::of(self.principal),
                self.max_size,
                limits.max_bytes_in_hand,
            );
            self.reservation = Some(reservation.ok_or_else(Refusal::memory_exhausted)?);
        }
        Ok(())
    }
}

async fn too_large(mut rest: axum::body::BodyDataStream, limit: usize) -> Box<Refusal> {
    let mut discarded = 0;
    while let Some(Ok(chunk)) = rest.next().await {
        discarded += chunk.len();
        if discarded > MAX_DISCARDED {
            break;
        }
    }
    Refusal::too_large(limit)
}

pub(in crate::mcp::transport::http) fn to_refusal(error: axum::Error) -> Box<Refusal> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(BodyError::TooSlow) = error.downcast_ref() {
            return Refusal::too_slow();
        }
        cause = error.source();
    }
    Refusal::invalid(format!("the body cannot be read: {error}"))
}
