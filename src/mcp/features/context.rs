//! [`FeatureContext`]: what the features share. It must not know a session or a transport.

use std::sync::Arc;

use super::offers::Offers;
use crate::audit::{Auditor, RequestContext};
use crate::catalog::Catalog;
use crate::clock::{self, Clock, Entropy};
use crate::mcp::Settings;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR};
use crate::seal::Seal;
use crate::tasks::audit::{Audit as _, AuditEvent};
use crate::tasks::service::Service;
use crate::tasks::store::StoreError;
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
        self.audit.flush_request(request_context).await.map_err(|error| self.fault(&error))
    }

    /// Records in the audit log that an owner asked for a task that does not exist or is not theirs.
    pub(crate) fn not_found(&self, owner: &Owner, id: &TaskId) {
        self.audit.record(AuditEvent::NotFound { owner, id });
    }

    /// Logs an internal error under a random name. Returns an error that gives the client only this name. For
    /// an unreadable row, the error also states that other tasks are not affected.
    pub fn fault(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let name: [u8; 5] = clock::random(&*self.entropy);
        let name = data_encoding::BASE32_NOPAD.encode(&name).to_ascii_lowercase();
        tracing::error!(fault = name, error = %error, "internal error");
        let detail = match error.downcast_ref() {
            Some(StoreError::Unreadable(_)) => {
                "the server's record of this cannot be read. Other tasks are not affected, and asking again will not \
                 help: the operator has to mend it, and "
            }
            _ => "",
        };
        let message = format!("internal error: {detail}the server's log says more under fault={name}");
        Error::new(INTERNAL_ERROR, message)
    }
}
