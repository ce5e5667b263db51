//! The parts of a request that the console reads: its head, its query, its form, and the [`Visitor`] who sent
//! it. Bounds their size. It must not authenticate anybody.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use subtle::ConstantTimeEq as _;

use super::respond::Refusal;
use super::session::Session;
use super::{Console, Result};
use crate::auth::{EVERYONE, Peer, Principal};
use crate::limits::caller_key::CallerKey;
use crate::limits::in_flight_limit::InFlightPermit;

/// Maximum size of a form, in bytes.
const MAX_FORM_BYTES: usize = 1024 * 1024;
/// Maximum number of fields of a form or a query.
const MAX_FIELDS: usize = 2_000;
/// Maximum length of a query, in bytes.
const MAX_QUERY_BYTES: usize = 8 * 1024;
/// Name of the form field with the session's form token.
pub(super) const FORM_TOKEN: &str = "form_token";

/// A person who is signed in.
#[derive(Clone)]
pub(super) struct Visitor {
    /// The caller, derived from the session for this request.
    pub(super) principal: Principal,
    /// The session.
    pub(super) session: Session,
    /// True if they operate the whole server.
    pub(super) is_operator: bool,
    /// What forms of this session must contain.
    pub(super) form_token: String,
}

impl Visitor {
    /// Returns the caller's key in limits.
    pub(super) fn caller_key(&self) -> CallerKey {
        CallerKey::of(&self.principal)
    }

    /// Returns the name to show.
    pub(super) fn name(&self) -> &str {
        match self.principal.identity.name.as_str() {
            "" if self.principal.owner.as_str() == EVERYONE => "single user",
            "" => self.principal.owner.as_str(),
            name => name,
        }
    }
}

/// The head of a request.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Fields,
    pub(super) headers: HeaderMap,
    pub(super) peer: Peer,
    authority: Option<String>,
}

impl Head {
    /// Reads the head.
    pub(super) fn of(parts: Parts) -> Self {
        let peer = parts.extensions.get::<Peer>().cloned();
        let query = parts.uri.query().filter(|query| query.len() <= MAX_QUERY_BYTES).unwrap_or_default();
        Self {
            path: parts.uri.path().trim_end_matches('/').to_owned(),
            query: Fields::parse(query.as_bytes()),
            authority: parts.uri.authority().map(|authority| authority.as_str().to_owned()),
            peer: peer.unwrap_or(Peer { address: None, certificate: None }),
            method: parts.method,
            headers: parts.headers,
        }
    }

    /// Returns the host names that the request is addressed to.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.authority.as_deref().into_iter().chain(std::iter::once(self.header(header::HOST.as_str())))
    }

    /// Returns a header; empty if it is missing or no text.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the method for the audit log: the first part of the path, without names and ids.
    pub(super) fn audit_method(&self) -> String {
        let mut parts = self.path.trim_start_matches("/console").trim_start_matches('/').split('/');
        let first = parts.next().filter(|part| !part.is_empty()).unwrap_or("inbox");
        match parts.nth(1).filter(|act| act.chars().all(|c| c.is_ascii_lowercase() || c == '_')) {
            Some(act) => format!("{first}/{act}"),
            None => first.to_owned(),
        }
    }

    /// Returns the address of this page without `live`.
    pub(super) fn address(&self) -> String {
        self.query.address(&self.path, &[("live", None)])
    }
}

/// The fields of a query or a form, in order. A name can occur several times.
#[derive(Clone, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(text: &[u8]) -> Self {
        let fields = form_urlencoded::parse(text).take(MAX_FIELDS);
        Self(fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Returns the first value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the first value of a field that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns all values of a field.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Returns an address with these fields, some of them replaced or (with `None`) removed.
    pub(super) fn address(&self, path: &str, changes: &[(&str, Option<&str>)]) -> String {
        let mut fields: BTreeMap<&str, &str> =
            self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for (name, value) in changes {
            match value {
                Some(value) => fields.insert(name, value),
                None => fields.remove(name),
            };
        }
        fields.retain(|_, value| !value.is_empty());
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }
}

/// Reads the form of a person who is signed in, and checks its token. The read counts as a pending request of
/// its owner.
pub(super) async fn read_form(
    console: &Console,
    visitor: &Visitor,
    head: &Head,
    body: Body,
) -> Result<Fields> {
    let _permit = count(console, visitor)?;
    check_form_type(head)?;
    let too_large = || Refusal::plain(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large, or was cut off");
    let bytes = axum::body::to_bytes(body, MAX_FORM_BYTES).await.map_err(|_| too_large())?;
    let form = Fields::parse(&bytes);
    let presented = form.get(FORM_TOKEN).unwrap_or_default();
    if !bool::from(presented.as_bytes().ct_eq(visitor.form_token.as_bytes())) {
        let message = "the form belongs to another session: open the page again";
        return Err(Refusal::plain(StatusCode::FORBIDDEN, message));
    }
    Ok(form)
}

/// Reads the form of a person who is not signed in. Such bodies are small and have a budget of their own.
pub(super) async fn read_unauthenticated_form(console: &Console, head: &Head, body: Body) -> Result<Fields> {
    check_form_type(head)?;
    let read = console.body_budget.read(Some(&head.peer), body, MAX_QUERY_BYTES).await;
    read.map(|bytes| Fields::parse(&bytes)).map_err(Refusal::Response)
}

/// Counts one more pending request or stream of this owner.
pub(super) fn count(console: &Console, visitor: &Visitor) -> Result<InFlightPermit> {
    let context = &console.parts.bridge.context;
    let limit = context.settings().limits.max_streams_per_owner;
    console.parts.access_control.usage.in_flight.take(&visitor.principal, limit).ok_or_else(|| {
        context.audit.limit_exceeded("max_streams");
        Refusal::plain(StatusCode::TOO_MANY_REQUESTS, "too many open pages and requests of yours: close some")
    })
}

fn check_form_type(head: &Head) -> Result<()> {
    let kind = head.header(header::CONTENT_TYPE.as_str());
    match kind.split(';').next().unwrap_or_default().trim() == "application/x-www-form-urlencoded" {
        true => Ok(()),
        false => Err(Refusal::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_keeps_and_changes_fields() {
        let fields = Fields::parse(b"tool=a%26b&state=&live=1&q=x+y");
        assert_eq!(fields.get("tool"), Some("a&b"));
        assert_eq!(fields.text("state"), None);
        assert_eq!(fields.address("/console/tasks", &[("live", None)]), "/console/tasks?q=x+y&tool=a%26b");
        assert_eq!(
            fields.address("/console/tasks", &[("live", None), ("q", None), ("tool", Some("<c>"))]),
            "/console/tasks?tool=%3Cc%3E"
        );
        assert_eq!(Fields::default().address("/console", &[]), "/console");
    }
}
