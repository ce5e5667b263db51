//! What a request says of who asks, for what is told of it ([`crate::audit`]). It must not know a method.

use std::sync::Arc;

use super::jsonrpc::{Id, Request};
use super::params;
use super::session::Caller;
use crate::audit::Asking;
use crate::auth::Principal;

/// Who asks by this request.
pub(super) fn by(principal: &Principal, request: &Request) -> Asking {
    let id = match &request.id {
        Id::Integer(id) => id.to_string(),
        Id::Text(id) => id.clone(),
    };
    // What is wrong with `_meta` is said by whoever reads it for more than this.
    let trace = params::trace(&request.params).ok().flatten().map(|trace| trace.parent);
    let mut asking = Asking::of(principal);
    (asking.method, asking.id, asking.trace) = (Some(request.method.clone()), Some(id), trace);
    asking
}

/// Who asks by this request in a session.
pub(super) fn in_session(caller: &Caller, request: &Request) -> Arc<Asking> {
    let mut asking = by(&caller.principal, request);
    asking.session = caller.session.as_ref().map(|session| session.nonce.clone());
    Arc::new(asking)
}

/// Who sends a message of this method, or is answered again what was asked by one.
pub(super) fn of(caller: &Caller, method: &str) -> Arc<Asking> {
    let mut asking = Asking::of(&caller.principal);
    asking.method = Some(method.to_owned());
    asking.session = caller.session.as_ref().map(|session| session.nonce.clone());
    Arc::new(asking)
}
