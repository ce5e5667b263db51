//! Audit context of a request: its caller, method, id, session and trace (for [`crate::audit`]). It must not
//! depend on a particular method.

use std::sync::Arc;

use super::jsonrpc::{Id, Request};
use super::params;
use super::session::Caller;
use crate::audit::RequestContext;
use crate::auth::Principal;

/// Returns the context of this request, without its session.
pub(super) fn by(principal: &Principal, request: &Request) -> RequestContext {
    let id = match &request.id {
        Id::Integer(id) => id.to_string(),
        Id::Text(id) => id.clone(),
    };
    // An error in `_meta` is ignored here: the handler that parses it reports it.
    let trace = params::trace(&request.params).ok().flatten().map(|trace| trace.parent);
    let mut asking = RequestContext::of(principal);
    (asking.method, asking.id, asking.trace) = (Some(request.method.clone()), Some(id), trace);
    asking
}

/// Returns the context of this request in a session.
pub(super) fn in_session(caller: &Caller, request: &Request) -> Arc<RequestContext> {
    let mut asking = by(&caller.principal, request);
    asking.session = caller.session.as_ref().map(|session| session.nonce.clone());
    Arc::new(asking)
}

/// Returns the context of a message, or of a resumed request, with this method. It has no id and no trace.
pub(super) fn of(caller: &Caller, method: &str) -> Arc<RequestContext> {
    let mut asking = RequestContext::of(&caller.principal);
    asking.method = Some(method.to_owned());
    asking.session = caller.session.as_ref().map(|session| session.nonce.clone());
    Arc::new(asking)
}
