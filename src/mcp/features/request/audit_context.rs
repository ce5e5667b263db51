//! Audit context of a request: its caller, method, id, session and trace (for [`crate::audit`]). It must not
//! depend on a particular method.

use std::sync::Arc;

use crate::audit::RequestContext;
use crate::auth::Principal;
use crate::mcp::session::token::Caller;
use crate::mcp::wire::jsonrpc::{Id, Request};
use crate::mcp::wire::params;

/// Returns the context of this request, without its session.
pub(crate) fn for_request(principal: &Principal, request: &Request) -> RequestContext {
    let id = match &request.id {
        Id::Integer(id) => id.to_string(),
        Id::Text(id) => id.clone(),
    };
    // An error in `_meta` is ignored here: the handler that parses it reports it.
    let trace = params::trace(&request.params).ok().flatten().map(|trace| trace.parent);
    let mut request_context = RequestContext::of(principal);
    (request_context.method, request_context.id, request_context.trace) =
        (Some(request.method.clone()), Some(id), trace);
    request_context
}

/// Returns the context of this request in a session.
pub(crate) fn for_session_request(caller: &Caller, request: &Request) -> Arc<RequestContext> {
    let mut request_context = for_request(&caller.principal, request);
    request_context.session = caller.session.as_ref().map(|session| session.nonce.clone());
    Arc::new(request_context)
}

/// Returns the context of a message, or of a resumed request, with this method. It has no id and no trace.
pub(crate) fn for_method(caller: &Caller, method: &str) -> Arc<RequestContext> {
    let mut request_context = RequestContext::of(&caller.principal);
    request_context.method = Some(method.to_owned());
    request_context.session = caller.session.as_ref().map(|session| session.nonce.clone());
    Arc::new(request_context)
}
