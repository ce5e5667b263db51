//! The protocol: transports and envelopes, with one submodule per generation. A request arrives through
//! [`transport::http`] or [`transport::stdio`], and [`wire::revision`] decides once which generation handles it. The handlers of that
//! generation translate between the wire format and [`crate::tasks::service`]. It must not access an engine,
//! except to read logs and artifacts.

pub mod dialect;
pub mod features;
pub mod session;
pub mod transport;
pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Backend;

pub use self::features::resources::read_limit::ArtifactReadLimit;
use crate::audit::{Auditor, RequestContext};
use crate::catalog::Catalog;
use crate::clock::{Clock, Entropy};
use crate::current::Current;
use crate::metrics::Metrics;
use crate::seal::Seal;
use crate::tasks::audit::{Audit as _, AuditEvent};
use crate::tasks::service::Service;
use crate::tasks::store::{Store, StoreError};
use crate::tasks::task::{Owner, TaskId};

/// The dependencies of the handlers of all generations. All connections share one.
pub struct Bridge {
    /// The operations on tasks.
    pub service: Service,
    /// The tools, prompts and resources offered to clients, and the protocol settings of the config.
    pub offers: features::offers::Offers,
    /// The backends by name, to read logs and artifacts from.
    pub backends: Current<BTreeMap<String, Arc<dyn Backend>>>,
    /// Seals state that clients keep for the server.
    pub seal: Seal,
    /// The store, for the state of sessions.
    pub store: Arc<dyn Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Which sessions' clients are ready to be asked.
    pub uninitialized_sessions: session::uninitialized::UninitializedSessions,
    /// The listening streams of sessions.
    pub stream_election: session::stream_election::StreamElection,
    /// Limits concurrent reads of artifacts.
    pub artifact_reads: ArtifactReadLimit,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The audit log.
    pub audit: Arc<Auditor>,
}

impl Bridge {
    /// Returns the tools that are currently offered.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.offers.catalog()
    }

    /// Returns the current protocol settings.
    pub fn settings(&self) -> Arc<Settings> {
        self.offers.settings()
    }

    /// Returns the backend with this name, to read logs and artifacts from.
    pub fn backend(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.backends.get().get(name).cloned()
    }

    /// Runs before a request is answered. With `on_failure = "refuse"`, waits until the audit log contains
    /// the events of the request, and fails if it cannot.
    async fn wait_for_audit(&self, request_context: &RequestContext) -> Result<(), wire::jsonrpc::Error> {
        self.audit.flush_request(request_context).await.map_err(|error| self.fault(&error))
    }

    /// Records in the audit log that an owner asked for a task that does not exist or is not theirs.
    fn not_found(&self, owner: &Owner, id: &TaskId) {
        self.audit.record(AuditEvent::NotFound { owner, id });
    }

    /// Logs an internal error under a random name. Returns an error that gives the client only this name. For
    /// an unreadable row, the error also states that other tasks are not affected.
    pub fn fault(&self, error: &(dyn std::error::Error + 'static)) -> wire::jsonrpc::Error {
        let name: [u8; 5] = crate::clock::random(&*self.entropy);
        let name = data_encoding::BASE32_NOPAD.encode(&name).to_ascii_lowercase();
        tracing::error!(fault = name, error = %error, "a request failed by a fault of ours");
        let detail = match error.downcast_ref() {
            Some(StoreError::Unreadable(_)) => {
                "the server's record of this cannot be read. Other tasks are not affected, and asking again will not \
                 help: the operator has to mend it, and "
            }
            _ => "",
        };
        let message = format!("internal error: {detail}the server's log says more under fault={name}");
        wire::jsonrpc::Error::new(wire::jsonrpc::INTERNAL_ERROR, message)
    }
}

/// The protocol settings of the config.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a plain call waits for its job before it returns a handle.
    pub call_budget: Duration,
    /// How long a call waits for its job before it returns a task, for clients with the tasks extension of
    /// 2026-07-28.
    pub quick_wait: Duration,
    /// Interval of the progress reports of a waiting plain call. New progress of the job is reported earlier.
    pub progress_every: Duration,
    /// When the companion tools are listed and can be called.
    pub companion_tools: CompanionTools,
    /// Entries per page of a list. In `resources/list`, a task counts as one entry.
    pub page_size: usize,
    /// How long a session id is valid.
    pub session_lifetime: Duration,
    /// Maximum size of the log text in one response, in bytes.
    pub max_log_bytes: usize,
    /// Maximum size of an artifact that is read, in bytes.
    pub max_artifact_bytes: u64,
    /// Maximum size of a message, in bytes.
    pub max_body_bytes: usize,
    /// Maximum number of polls per owner and second. Further ones are delayed by some seconds, and then
    /// refused. Two more limits of the same size apply to streams and requests that wait, and to messages
    /// without a response. Only HTTP applies them.
    pub max_polls_per_second: u32,
    /// Limits of messages, sessions and owners.
    pub limits: wire::limits::Limits,
    /// Maximum number of tool calls per minute, for each owner who is identified by credentials. Only HTTP
    /// applies it.
    pub max_calls_per_minute: u32,
}

/// When the companion tools are listed and can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompanionTools {
    /// `task_logs` for all clients, and `task_list` for all identified callers. The others in every session,
    /// and for clients of 2026-07-28 without the tasks extension.
    Auto,
    /// For all clients. `task_list` only for identified callers.
    Always,
    /// Never.
    Never,
}
