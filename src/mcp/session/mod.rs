//! Sessions and the streams of a client: the sealed session token, what was sent on which stream, open requests,
//! and resource subscriptions. It must not know a generation's wire types or a transport.

pub mod in_flight;
pub mod log_cursor;
pub mod message_sink;
pub mod resource_subscriptions;
pub mod stream_election;
pub mod token;
pub mod uninitialized;
