//! What clients send, made up: one module for each entry, with a function that makes requests of any bytes, sends them to
//! the real endpoint and holds the answers against what must be true of every answer. libFuzzer drives these functions
//! (`targets/`), and so does `tests/it/fuzz.rs`, with bytes that follow from a seed. Nothing here knows what is right for a
//! particular request, beyond what a forged token or a repeated key must lead to.
#![allow(clippy::unwrap_used, reason = "what finds nothing to unwrap has found a mistake")]

pub mod bounds;
pub mod cursor;
mod draw;
mod endpoint;
pub mod envelope;
pub mod forwarded;
pub mod headers;
pub mod issuer;
pub mod key;
pub mod session;
pub mod state;
pub mod token;

use std::cell::RefCell;

pub use endpoint::Endpoint;

/// What makes requests of bytes.
pub type Target = fn(&Endpoint, &[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 10] = [
    ("envelope", envelope::target),
    ("headers", headers::target),
    ("session", session::target),
    ("state", state::target),
    ("cursor", cursor::target),
    ("key", key::target),
    ("bounds", bounds::target),
    ("forwarded", forwarded::target),
    ("token", token::target),
    ("issuer", issuer::target),
];

/// After so many runs the endpoint is made anew: tasks that were called for lie on the disk.
const RUNS: usize = 20_000;

/// Runs a target once, with the endpoint of this thread.
pub fn run(target: Target, bytes: &[u8]) {
    thread_local! {
        static ENDPOINT: RefCell<Option<(Endpoint, usize)>> = const { RefCell::new(None) };
    }
    ENDPOINT.with_borrow_mut(|kept| {
        kept.take_if(|(_, runs)| *runs == RUNS);
        let (endpoint, runs) = kept.get_or_insert_with(|| (Endpoint::new(), 0));
        *runs += 1;
        target(endpoint, bytes);
    });
}
