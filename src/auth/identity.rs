//! The identity of a caller, and the credentials that a request presents. Plain data; it must not decide who
//! is admitted.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Certificate;

/// The identity of a caller, as its authentication method reports it. An anonymous caller has an empty name
/// and no other field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Display name for logs and for records of the engine. It never identifies an owner.
    pub name: String,
    /// The issuer: the `iss` of the token, or `certificate` for a client certificate. An API key has none.
    pub issuer: Option<String>,
    /// The subject: the `sub` of the token, or the `principal` of the config for a client certificate.
    pub subject: Option<String>,
    /// The `client_id` of a client that acts for itself; then there is no subject.
    pub client_id: Option<String>,
    /// The tenant, where an issuer serves several organisations.
    pub tenant: Option<String>,
    /// The granted scopes (RFC 6749, section 3.3).
    pub scopes: BTreeSet<String>,
    /// The groups of the caller.
    pub groups: BTreeSet<String>,
    /// All claims of the token, or of the introspection response.
    pub claims: Map<String, Value>,
}

impl Identity {
    /// Returns an identity that has only a name.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Address of the client, resolved through the trusted proxies of the config. `None` if it is not a
    /// network connection.
    pub address: Option<SocketAddr>,
    /// The client certificate, if one was presented, verified against the authorities of the config.
    pub certificate: Option<Arc<Certificate>>,
}

/// The credentials of a request.
#[derive(Clone, Copy)]
pub struct RequestCredentials<'a> {
    /// The `Authorization` header.
    pub authorization: Option<&'a [u8]>,
    /// The connection of the request.
    pub peer: &'a Peer,
}
