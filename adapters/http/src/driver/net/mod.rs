//! Bounded HTTP client of one engine: where a request may go, how long it may take, and how large its reply
//! may be. It must not know credentials, the grammar, or what a reply means.
//!
//! | rule | file |
//! |---|---|
//! | a request stays below `base`; a download may also go to a named host, without credentials | `targets.rs` |
//! | link-local addresses and metadata services are refused, private addresses only for named hosts | `targets.rs`, the sdk |
//! | both rules also apply to what a name resolves to | `resolver.rs` |
//! | redirects are followed for GET only, and each target is checked again | `client.rs` |
//! | a reply has a maximum size, also after decompression | `body.rs` |
//! | an error reports whether the request may have been sent | `failure.rs` |

mod body;
mod client;
mod config;
mod exchange;
mod failure;
mod resolver;
mod targets;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use client::Client;
pub(crate) use config::NetConfig;
pub(crate) use exchange::{Reply, Request};
pub(crate) use failure::SendError;
