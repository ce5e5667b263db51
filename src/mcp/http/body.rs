//! Reads the body of a request: not more than is allowed. How slowly it may come is the connection's matter.

use axum::body::{Body, Bytes, HttpBody as _};
use futures_util::StreamExt as _;

use super::Result;
use super::patience::BodyError;
use super::refusal::Refusal;

/// How much of a body that is too large is read and thrown away, so that the client gets to read why.
const DISCARDED: usize = 64 * 1024 * 1024;

/// The whole body, at most `limit` bytes.
pub(super) async fn read(body: Body, limit: usize) -> Result<Bytes> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut chunks = body.into_data_stream();
    if announced > limit {
        return Err(too_large(chunks, limit).await);
    }
    let Some(first) = chunks.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(broken)?;
    if first.len() > limit {
        return Err(too_large(chunks, limit).await);
    }
    // Nearly every message comes in one piece, which needs no copy.
    let Some(second) = chunks.next().await else { return Ok(first) };
    let mut whole = Vec::with_capacity(announced.max(first.len() * 2).min(limit));
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        let chunk = chunk.map_err(broken)?;
        if whole.len() + chunk.len() > limit {
            return Err(too_large(chunks, limit).await);
        }
        whole.extend_from_slice(&chunk);
        next = chunks.next().await;
    }
    Ok(whole.into())
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

fn broken(error: axum::Error) -> Box<Refusal> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(BodyError::TooSlow) = error.downcast_ref() {
            return Refusal::too_slow();
        }
        cause = error.source();
    }
    Refusal::invalid(format!("the body cannot be read: {error}"))
}
