//! The context of the current request: caller, address and request ids. It is task-local while the request
//! is handled, like a tracing span, so that audit lines contain it without being passed through the
//! operations. It decides nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::futures::TaskLocalFuture;

use super::record::{AuditCaller, Request, RequestOrigin, sanitize, trace_id};
use crate::auth::Principal;
use crate::seal::Seal;

tokio::task_local! {
    static CURRENT: Arc<RequestContext>;
}

/// The domain of session digests in lines.
const SESSION: &str = "audit session";

/// The context of a request.
#[derive(Debug, Default)]
pub struct RequestContext {
    /// The authenticated caller; `None` before authentication.
    pub principal: Option<Principal>,
    /// An operator's name, for a command at a terminal.
    pub operator: Option<String>,
    /// True for a request of a browser in the console.
    is_console: bool,
    /// The request's method.
    pub method: Option<String>,
    /// Its JSON-RPC id.
    pub id: Option<String>,
    /// The server's internal id of its session.
    pub session: Option<String>,
    /// Its trace, as a `traceparent`.
    pub trace: Option<String>,
    /// Set once an audit line was recorded for it.
    recorded: AtomicBool,
    /// Set once an audit line for it was lost because the queue was full.
    lost: AtomicBool,
}

impl RequestContext {
    /// Creates the context of an authenticated caller.
    pub fn of(principal: &Principal) -> Self {
        Self { principal: Some(principal.clone()), ..Self::default() }
    }

    /// Creates the context of a person in the console, with the path that they asked for.
    pub fn of_console(principal: &Principal, path: &str) -> Self {
        Self { is_console: true, method: Some(format!("console/{path}")), ..Self::of(principal) }
    }

    /// Creates the context of an operator at a terminal of this machine.
    pub fn operator(name: String) -> Self {
        Self { operator: Some(name), ..Self::default() }
    }

    /// Runs a future in the context of this request.
    pub fn scope<F: Future>(self: &Arc<Self>, work: F) -> TaskLocalFuture<Arc<Self>, F> {
        CURRENT.scope(Arc::clone(self), work)
    }

    /// Runs a closure in the context of this request.
    pub fn sync_scope<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Arc::clone(self), work)
    }

    /// Returns the current context; `None` for work that the process does by itself.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    pub(super) fn mark_recorded(&self) {
        self.recorded.store(true, Ordering::Relaxed);
    }

    pub(super) fn mark_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Returns true if a line for it was lost since the last call.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// Returns true if a line for it was recorded since the last call.
    pub(super) fn take_recorded(&self) -> bool {
        self.recorded.swap(false, Ordering::Relaxed)
    }

    pub(super) fn caller(&self) -> Option<AuditCaller> {
        if let Some(name) = &self.operator {
            return Some(AuditCaller { name: sanitize(name), ..AuditCaller::default() });
        }
        let Principal { owner, identified, identity: who, .. } = self.principal.as_ref()?;
        let text = |text: &Option<String>| text.as_deref().map(sanitize);
        Some(AuditCaller {
            name: sanitize(&who.name),
            owner: Some(sanitize(owner.as_str())),
            identified: Some(*identified),
            issuer: text(&who.issuer),
            subject: text(&who.subject),
            client: text(&who.client_id),
            tenant: text(&who.tenant),
        })
    }

    pub(super) fn origin(&self) -> RequestOrigin {
        let by = match (&self.operator, self.address()) {
            (Some(_), _) => "terminal",
            (None, _) if self.is_console => "console",
            (None, Some(_)) => "http",
            (None, None) => "stdio",
        };
        RequestOrigin { by, address: self.address().map(|address| address.to_string()) }
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        self.principal.as_ref()?.client_address
    }

    pub(super) fn request(&self, seal: &Seal) -> Option<Request> {
        let request = Request {
            method: self.method.as_deref().map(sanitize),
            id: self.id.as_deref().map(sanitize),
            session: self.session.as_deref().map(|nonce| seal.digest(&[SESSION, nonce])),
            trace: self.trace.as_deref().map(trace_id),
        };
        (request != Request::default()).then_some(request)
    }
}
