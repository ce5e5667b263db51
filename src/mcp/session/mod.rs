//! Sessions and the streams of a client: the sealed session token, what was sent on which stream, open
//! requests, and resource subscriptions. It must not know a generation's wire types or a transport.

pub mod edition;
pub mod in_flight;
pub mod log_cursor;
pub mod message_sink;
pub mod stream_election;
pub mod token;
pub mod uninitialized;

use std::sync::Arc;

use self::stream_election::StreamElection;
use self::uninitialized::UninitializedSessions;
use crate::tasks::store::Store;

/// The state of sessions.
pub struct SessionState {
    /// The store, which keeps the settings of sessions.
    pub store: Arc<dyn Store>,
    /// Which sessions' clients are ready to be asked.
    pub uninitialized: UninitializedSessions,
    /// The listening streams of sessions.
    pub stream_election: StreamElection,
}
