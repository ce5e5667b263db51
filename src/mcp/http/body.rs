//! Reads the body of a request, within a size limit. A body that does not arrive at once counts in a limit
//! per owner, and in the memory budget if it is large. `timeouts` limits the transfer rate. This module must
//! not parse a body.

use axum::body::{Body, Bytes, HttpBody as _};
use futures_util::{FutureExt as _, StreamExt as _};

use super::in_flight_limit::InFlightPermit;
use super::refusal::Refusal;
use super::timeouts::BodyError;
use super::{Http, Result};
use crate::auth::Principal;
use crate::mcp::caller_key::CallerKey;
use crate::mcp::memory_budget::{MemoryReservation, SMALL};

/// How much of an oversized body is read and discarded, so that the client can read the error response.
const DISCARDED: usize = 64 * 1024 * 1024;

/// A body that is being received.
struct Coming<'a> {
    http: &'a Http,
    principal: &'a Principal,
    chunks: axum::body::BodyDataStream,
    /// Upper bound of the body's size.
    most: usize,
    received: usize,
    share: Option<InFlightPermit>,
    spot: Option<MemoryReservation>,
}

/// Reads the whole body, at most `limit` bytes.
pub(super) async fn read(http: &Http, principal: &Principal, body: Body, limit: usize) -> Result<Bytes> {
    let hint = body.size_hint();
    let announced = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    let most = hint.upper().and_then(|most| usize::try_from(most).ok()).unwrap_or(limit);
    let chunks = body.into_data_stream();
    let mut coming = Coming { http, principal, chunks, most, received: 0, share: None, spot: None };
    if announced > limit {
        return Err(too_large(coming.chunks, limit).await);
    }
    let Some(first) = coming.next().await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large(coming.chunks, limit).await);
    }
    // Almost every message arrives in one piece, which needs no copy.
    let Some(second) = coming.next().await? else { return Ok(first) };
    let mut whole = Vec::with_capacity(announced.max(first.len() * 2).min(limit));
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if whole.len() + chunk.len() > limit {
            return Err(too_large(coming.chunks, limit).await);
        }
        whole.extend_from_slice(&chunk);
        next = coming.next().await?;
    }
    Ok(whole.into())
}

impl Coming<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let chunk = match self.chunks.next().now_or_never() {
            Some(chunk) => chunk,
            // A chunk that has already arrived costs nothing. Only bodies that have to wait are counted.
            None => {
                self.count()?;
                self.chunks.next().await
            }
        };
        let chunk = chunk.transpose().map_err(broken)?;
        self.received += chunk.as_ref().map_or(0, Bytes::len);
        Ok(chunk)
    }

    /// Counts this body among those of its owner that have to wait, and reserves memory budget for a large
    /// one.
    fn count(&mut self) -> Result<()> {
        let limits = &self.http.bridge.settings().limits;
        if self.share.is_none() {
            let most = limits.max_streams_per_owner;
            let share = self.http.coming.take(self.principal, most);
            self.share = Some(share.ok_or_else(|| Refusal::too_many_streams(most))?);
        }
        if self.spot.is_none() && self.received > SMALL {
            let spot =
                self.http.room.take(CallerKey::of(self.principal), self.most, limits.max_bytes_in_hand);
            self.spot = Some(spot.ok_or_else(Refusal::no_room)?);
        }
        Ok(())
    }
}

async fn too_large(mut rest: axum::body::BodyDataStream, limit: usize) -> Box<Refusal> {
    let mut discarded = 0;
    while let Some(Ok(chunk)) = rest.next().await {
        discarded += chunk.len();
        if discarded > DISCARDED {
            break;
        }
    }
    Refusal::too_large(limit)
}

pub(super) fn broken(error: axum::Error) -> Box<Refusal> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(BodyError::TooSlow) = error.downcast_ref() {
            return Refusal::too_slow();
        }
        cause = error.source();
    }
    Refusal::invalid(format!("the body cannot be read: {error}"))
}
