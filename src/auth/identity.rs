//! Who somebody is, and what a request shows of its sender. Plain data; it must not decide who is let in.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Certificate;

/// Who somebody is, as far as whoever let them in says. Nobody in particular has an empty name and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// What people call them: for logs and for the engine's own records, never to tell owners apart.
    pub name: String,
    /// Who vouches for them: the `iss` of their token.
    pub issuer: Option<String>,
    /// By which name the issuer knows them: the `sub` of their token.
    pub subject: Option<String>,
    /// The client that acts for nobody but itself, by the `client_id` that the issuer knows it by: then there is no subject.
    pub client: Option<String>,
    /// On whose behalf they act, where an issuer serves several organisations.
    pub tenant: Option<String>,
    /// What they were granted (RFC 6749, section 3.3).
    pub scopes: BTreeSet<String>,
    /// The groups that they are in.
    pub groups: BTreeSet<String>,
    /// All that their token says of them.
    pub claims: Map<String, Value>,
}

impl Identity {
    /// Somebody of whom nothing but the name is known.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Where it is, as far as proxies that the config names can tell; none if it is no network connection.
    pub address: Option<SocketAddr>,
    /// The certificate that it showed, if it showed one; it was held against the authorities of the config.
    pub certificate: Option<Arc<Certificate>>,
}

/// What a request shows of its sender.
#[derive(Clone, Copy)]
pub struct Presented<'a> {
    /// The `Authorization` header.
    pub authorization: Option<&'a [u8]>,
    /// The connection that it came by.
    pub peer: &'a Peer,
}
