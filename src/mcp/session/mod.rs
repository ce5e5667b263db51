//! Sessions and the streams of a client: the sealed session token, what was sent on which stream, claims on
//! questions, open requests, and which clients are ready. It must not know a generation's wire types or a
//! transport.

pub mod deliveries;
pub mod edition;
pub mod in_flight;
pub mod listener_guard;
pub mod log_cursor;
pub mod message_sink;
pub mod progress_token;
pub mod stream_election;
pub mod token;
pub mod uninitialized;

use std::sync::Arc;
use std::time::Duration;

use self::stream_election::StreamElection;
use self::uninitialized::UninitializedSessions;
use crate::sessions::{Deliveries, ServerStore, Sessions};

/// Maximum clock difference of two processes that use the store's time.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(2);
/// Usual clock difference of such processes; it is rarely larger.
pub(crate) const USUAL_CLOCK_SKEW: Duration = Duration::from_millis(250);

/// The state of sessions.
pub struct SessionState {
    /// The store, which keeps the settings of sessions.
    pub store: Arc<dyn Sessions>,
    /// The same store, which keeps the messages that carry questions.
    pub deliveries: Arc<dyn Deliveries>,
    /// True if several processes can use the store at once. The state that they share is then kept there.
    pub is_shared: bool,
    /// Which sessions' clients are ready to be asked.
    pub uninitialized: UninitializedSessions,
    /// The listening streams of sessions.
    pub stream_election: StreamElection,
}

impl SessionState {
    /// Returns the state at the start of a process over this store.
    pub fn new(store: Arc<dyn ServerStore>) -> Self {
        Self {
            is_shared: store.is_shared(),
            deliveries: store.clone(),
            store,
            uninitialized: UninitializedSessions::default(),
            stream_election: StreamElection::default(),
        }
    }
}
