//! [`Unproven`]: bodies that are read before anything is known of their sender but where they are from. They have room of
//! their own, so that whoever sends them takes nothing from callers who are let in. It must not know what is in them.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use futures_util::StreamExt as _;

use super::body::broken;
use super::refusal::Refusal;
use crate::auth::{Peer, Principal};
use crate::mcp::room::Room;
use crate::mcp::whose::Whose;

/// Bytes of all such bodies together; an address has a quarter of it.
const ROOM: usize = 16 * 1024 * 1024;

/// What is taken by such bodies. Cheap to clone.
#[derive(Clone, Default)]
pub struct Unproven(Room);

impl Unproven {
    /// The whole body, at most `limit` bytes. It takes its room for as long as there is something of it.
    ///
    /// # Errors
    /// What its sender is answered with, who is told no reason.
    pub async fn read(&self, peer: Option<&Peer>, body: Body, limit: usize) -> Result<Bytes, Box<Response>> {
        let hint = body.size_hint();
        let bytes = |hint: u64| usize::try_from(hint).unwrap_or(usize::MAX);
        let refused = |refusal: Box<Refusal>| Box::new(refusal.wordless());
        if bytes(hint.lower()) > limit {
            return Err(refused(Refusal::too_large(limit)));
        }
        let most = hint.upper().map_or(limit, |upper| bytes(upper).min(limit));
        let from = peer.and_then(|peer| peer.address).map(|address| address.ip());
        let sender = Principal { from, ..Principal::anybody() };
        let spot = self.0.take(Whose::of(&sender), most, ROOM).ok_or_else(|| refused(Refusal::no_room()))?;
        let (mut chunks, mut whole) = (body.into_data_stream(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| refused(broken(error)))?;
            if whole.len() + chunk.len() > limit {
                return Err(refused(Refusal::too_large(limit)));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(spot.hold(whole))
    }
}
