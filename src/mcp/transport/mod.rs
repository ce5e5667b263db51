//! The transports: Streamable HTTP and stdio. They parse envelopes, and pass each message to its generation.

pub mod http;
mod outbound_queue;
mod sse;
pub mod stdio;
