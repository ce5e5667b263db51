//! Who asks, from where and by which request, for as long as the request is answered: what is told of it says so by itself, and
//! no verb has to hand it on. It lies beside the work, as a span does, and decides nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::futures::TaskLocalFuture;

use super::record::{From, Request, Who, capped, trace_id};
use crate::auth::Principal;
use crate::seal::Seal;

tokio::task_local! {
    static ASKING: Arc<Asking>;
}

/// What sessions are named by in lines.
const SESSION: &str = "audit session";

/// Who asks, and by which request.
#[derive(Debug, Default)]
pub struct Asking {
    /// Who; nobody in particular before they were let in.
    pub principal: Option<Principal>,
    /// An operator's name, where one works at a terminal.
    pub operator: Option<String>,
    /// The request's method.
    pub method: Option<String>,
    /// Its id.
    pub id: Option<String>,
    /// What names its session within the server.
    pub session: Option<String>,
    /// Its trace, as a `traceparent`.
    pub trace: Option<String>,
    /// Set once something of it was told.
    told: AtomicBool,
    /// Set once something of it was told that there was no room for.
    lost: AtomicBool,
}

impl Asking {
    /// Somebody who was let in.
    pub fn of(principal: &Principal) -> Self {
        Self { principal: Some(principal.clone()), ..Self::default() }
    }

    /// An operator at a terminal of this machine.
    pub fn operator(name: String) -> Self {
        Self { operator: Some(name), ..Self::default() }
    }

    /// Does the work of this request.
    pub fn within<F: Future>(self: &Arc<Self>, work: F) -> TaskLocalFuture<Arc<Self>, F> {
        ASKING.scope(Arc::clone(self), work)
    }

    /// Does something at once for this request.
    pub fn while_doing<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        ASKING.sync_scope(Arc::clone(self), work)
    }

    /// Who asks here, if anybody does: what a process does by itself nobody asked for.
    pub(super) fn here() -> Option<Arc<Self>> {
        ASKING.try_with(Arc::clone).ok()
    }

    pub(super) fn has_told(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// True if there was no room for something that was told of it since this was asked last.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// True if something of it was told since this was asked last.
    pub(super) fn take_told(&self) -> bool {
        self.told.swap(false, Ordering::Relaxed)
    }

    pub(super) fn who(&self) -> Option<Who> {
        if let Some(name) = &self.operator {
            return Some(Who { name: capped(name), ..Who::default() });
        }
        let Principal { owner, identified, who, .. } = self.principal.as_ref()?;
        let text = |text: &Option<String>| text.as_deref().map(capped);
        Some(Who {
            name: capped(&who.name),
            owner: Some(capped(owner.as_str())),
            identified: Some(*identified),
            issuer: text(&who.issuer),
            subject: text(&who.subject),
            client: text(&who.client),
            tenant: text(&who.tenant),
        })
    }

    pub(super) fn from(&self) -> From {
        let by = match (&self.operator, self.address()) {
            (Some(_), _) => "terminal",
            (None, Some(_)) => "http",
            (None, None) => "stdio",
        };
        From { by, address: self.address().map(|address| address.to_string()) }
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        self.principal.as_ref()?.from
    }

    pub(super) fn request(&self, seal: &Seal) -> Option<Request> {
        let request = Request {
            method: self.method.as_deref().map(capped),
            id: self.id.as_deref().map(capped),
            session: self.session.as_deref().map(|nonce| seal.digest(&[SESSION, nonce])),
            trace: self.trace.as_deref().map(trace_id),
        };
        (request != Request::default()).then_some(request)
    }
}
