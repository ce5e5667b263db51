//! Fuzz targets of client input: one module for each input, with a function that generates requests from
//! bytes, sends them to the real endpoint and checks the invariants of every response. libFuzzer drives
//! these functions (`targets/`), and so does `tests/it/fuzz.rs` with bytes that follow from a seed. The
//! targets do not know the right response to a particular request, except for forged tokens and repeated
//! keys.
#![allow(clippy::unwrap_used, reason = "what finds nothing to unwrap has found a mistake")]

pub mod bounds;
mod bridge;
pub mod cursor;
mod draw;
mod endpoint;
pub mod envelope;
pub mod forwarded;
pub mod headers;
pub mod issuer;
pub mod key;
mod response;
pub mod session;
pub mod state;
pub mod token;

use std::cell::RefCell;

pub use endpoint::Endpoint;

/// A function that generates requests from bytes.
pub type Target = fn(&Endpoint, &[u8]);

/// All targets by name.
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

/// The endpoint is recreated after this number of runs, because created tasks stay on the disk.
const MAX_RUNS: usize = 20_000;

/// Runs a target once, with the endpoint of this thread.
pub fn run(target: Target, bytes: &[u8]) {
    thread_local! {
        static ENDPOINT: RefCell<Option<(Endpoint, usize)>> = const { RefCell::new(None) };
    }
    ENDPOINT.with_borrow_mut(|cached| {
        cached.take_if(|(_, runs)| *runs == MAX_RUNS);
        let (endpoint, runs) = cached.get_or_insert_with(|| (Endpoint::new(), 0));
        *runs += 1;
        target(endpoint, bytes);
    });
}
