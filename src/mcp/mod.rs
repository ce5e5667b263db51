//! The protocol: transports and envelopes here, one module per generation below. A request comes in through
//! [`http`] or [`stdio`], [`generation`] decides once which generation speaks, and that generation's handlers
//! translate between the wire and [`crate::tasks::service`]. It must not reach an engine but to read logs and
//! artifacts.

mod asking;
pub mod companions;
pub mod completion;
pub mod cursor;
pub mod fallback;
mod feed;
mod follows;
pub mod generation;
pub mod heard;
pub mod http;
pub mod initializing;
pub mod instructions;
pub mod jsonrpc;
pub mod limits;
mod list_cache;
mod live;
pub mod offers;
pub mod origin;
pub mod outlet;
pub mod params;
pub mod permit;
mod polls;
pub mod progress;
pub mod prompts;
mod rates;
mod readings;
pub mod resource_list;
pub mod resources;
pub mod results;
mod room;
pub mod session;
mod spans;
pub mod speakers;
mod sse;
pub mod stdio;
pub mod tool_list;
pub mod tool_result;
pub mod v2025_11_25;
pub mod v2026_07_28;
mod whose;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Backend;

pub use self::readings::Readings;
use crate::audit::{Asking, Auditor};
use crate::catalog::Catalog;
use crate::clock::{Clock, Entropy};
use crate::current::Current;
use crate::metrics::Metrics;
use crate::seal::Seal;
use crate::tasks::audit::{Audit as _, Event as Told};
use crate::tasks::service::Service;
use crate::tasks::store::{Store, StoreError};
use crate::tasks::task::{Owner, TaskId};

/// All that the handlers of every generation work with. Shared by every connection.
pub struct Bridge {
    /// The verbs.
    pub service: Service,
    /// What clients are offered, and what the config says about the protocol.
    pub offers: offers::Offers,
    /// The backends by name, to read logs and artifacts from.
    pub backends: Current<BTreeMap<String, Arc<dyn Backend>>>,
    /// Seals what clients hold for us.
    pub seal: Seal,
    /// Ended sessions.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Sessions whose clients are not ready yet.
    pub initializing: initializing::Initializing,
    /// The streams that clients opened to listen.
    pub speakers: speakers::Speakers,
    /// Whose turn it is to read an artifact.
    pub readings: Readings,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Who is told what must be accounted for.
    pub audit: Arc<Auditor>,
}

impl Bridge {
    /// The tools that are offered now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.offers.catalog()
    }

    /// What the config says about the protocol now.
    pub fn settings(&self) -> Arc<Settings> {
        self.offers.settings()
    }

    /// The backend of this name, to read logs and artifacts from.
    pub fn backend(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.backends.get().get(name).cloned()
    }

    /// A request is about to be answered: where nothing may be done untold, all that was told of it is on record then.
    async fn answers(&self, asking: &Asking) -> Result<(), jsonrpc::Error> {
        self.audit.answers(asking).await.map_err(|error| self.fault(&error))
    }

    /// Tells that somebody asked for a task that they do not have.
    fn not_found(&self, owner: &Owner, id: &TaskId) {
        self.audit.note(Told::NotFound { owner, id });
    }

    /// Logs a fault of ours under a random name, and makes the error that tells a client this name and nothing else.
    /// Where one row alone cannot be read, it says so.
    pub fn fault(&self, error: &(dyn std::error::Error + 'static)) -> jsonrpc::Error {
        let name: [u8; 5] = crate::clock::random(&*self.entropy);
        let name = data_encoding::BASE32_NOPAD.encode(&name).to_ascii_lowercase();
        tracing::error!(fault = name, error = %error, "a request failed by a fault of ours");
        let what = match error.downcast_ref() {
            Some(StoreError::Unreadable(_)) => {
                "the server's record of this cannot be read. Other tasks are not affected, and asking again will not \
                 help: the operator has to mend it, and "
            }
            _ => "",
        };
        let message = format!("internal error: {what}the server's log says more under fault={name}");
        jsonrpc::Error::new(jsonrpc::INTERNAL_ERROR, message)
    }
}

/// What the config says about the protocol.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a plain call waits for its job.
    pub call_budget: Duration,
    /// How long a call waits for its job before it answers with a task that nobody asked for.
    pub quick_wait: Duration,
    /// How often a waiting plain call reports progress.
    pub progress_every: Duration,
    /// When the companion tools are listed.
    pub companion_tools: CompanionTools,
    /// Entries on one page of a list.
    pub page_size: usize,
    /// How long a session id is good for.
    pub session_lifetime: Duration,
    /// The most bytes of a log in one answer.
    pub max_log_bytes: usize,
    /// The largest artifact that is read.
    pub max_artifact_bytes: u64,
    /// The largest message that is taken, in bytes.
    pub max_body_bytes: usize,
    /// Polls of one owner in a second beyond which they are held back.
    pub max_polls_per_second: u32,
    /// How much one message may ask.
    pub limits: limits::Limits,
    /// Calls of tools of one owner in a minute.
    pub max_calls_per_minute: u32,
}

/// When the companion tools are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompanionTools {
    /// To those who cannot hold tasks by the protocol itself.
    Auto,
    /// To everybody.
    Always,
    /// To nobody.
    Never,
}
