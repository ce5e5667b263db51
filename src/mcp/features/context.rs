//! [`FeatureContext`]: what the features share. It must not know a session or a transport.

use std::sync::Arc;

use super::offers::Offers;
use super::results::internal_error::store_error;
use crate::audit::{Auditor, RequestContext};
use crate::catalog::Catalog;
use crate::clock::{Clock, Entropy};
use crate::mcp::Settings;
use crate::mcp::wire::jsonrpc::Error;
use crate::seal::Seal;
use crate::tasks::audit::{Audit as _, AuditEvent};
use crate::tasks::service::Service;
use crate::tasks::task::{Owner, TaskId};

/// What the features share.
pub struct FeatureContext {
    /// The operations on tasks.
    pub service: Service,
    /// The tools, prompts and resources offered to clients, and the protocol settings of the config.
    pub offers: Offers,
    /// Seals state that clients keep for the server.
    pub seal: Seal,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The audit log.
    pub audit: Arc<Auditor>,
}

impl FeatureContext {
    /// Returns the tools that are currently offered.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.offers.catalog()
    }

    /// Returns the current protocol settings.
    pub fn settings(&self) -> Arc<Settings> {
        self.offers.settings()
    }

    /// Runs before a request is answered. With `on_failure = "refuse"`, waits until the audit log contains
    /// the events of the request, and fails if it cannot.
    pub(crate) async fn wait_for_audit(&self, request_context: &RequestContext) -> Result<(), Error> {
        self.audit.flush_request(request_context).await.map_err(store_error)
    }

    /// Records in the audit log that an owner asked for a task that does not exist or is not theirs.
    pub(crate) fn not_found(&self, owner: &Owner, id: &TaskId) {
        self.audit.record(AuditEvent::NotFound { owner, id });
    }
}
