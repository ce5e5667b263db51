//! Live updates: one stream per open page, which sends the page's content again when it has changed. For each
//! update the caller is derived again and the page rendered for them, so a stream shows no more than a reload
//! would. It counts as a stream of its owner. It must not renew a session.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use maud::{Markup, html};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::html::layout;
use super::pages::{self, Occasion, Reads, Route};
use super::request::{Head, Visitor, count};
use super::respond::Refusal;
use super::{Console, Result};
use crate::audit::RequestContext;
use crate::limits::in_flight_limit::InFlightPermit;
use crate::mcp::transport::http::make_detachable;
use crate::tasks::watch::RowListener;

/// Shortest interval between two updates of a page. A first change is sent at once.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Longest interval between two checks of a page without a hint. Also the interval of comments, which detect
/// a browser that has gone.
const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// How long a browser waits before it connects again, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// One open page.
struct OpenPage {
    console: Arc<Console>,
    head: Head,
    visitor: Visitor,
    route: Route,
    rows: RowListener,
    session_ends: tokio::sync::watch::Receiver<u64>,
    last_check: Instant,
    /// Why the page is rendered next.
    occasion: Occasion,
    /// The digest of the content that the browser has, without relative times.
    shown: Option<[u8; 32]>,
    is_over: bool,
    _permit: InFlightPermit,
}

/// Opens the stream of a page.
pub(super) fn stream(
    console: &Arc<Console>,
    head: &Head,
    visitor: &Visitor,
    route: Route,
) -> Result<Response> {
    let permit = count(console, visitor)?;
    let service = &console.parts.bridge.context.service;
    let rows = match &route {
        Route::Task(id) => service.listen_to_rows(Some(id)),
        _ => service.listen_to_rows(None),
    };
    let page = OpenPage {
        head: head.clone(),
        visitor: visitor.clone(),
        session_ends: console.session_ends.subscribe(),
        console: Arc::clone(console),
        last_check: Instant::now() - MIN_INTERVAL,
        occasion: occasion(console, head, visitor),
        shown: None,
        is_over: false,
        _permit: permit,
        route,
        rows,
    };
    let first = futures_util::stream::once(async { Bytes::from(format!("retry: {RETRY_MS}\n\n")) });
    let events = futures_util::stream::unfold(page, |mut page| async move {
        let event = page.next().await?;
        Some((event, page))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Proxies of the nginx family buffer a whole response unless this header disables that.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let response = (headers, Body::empty()).into_response();
    Ok(make_detachable(response, first.chain(events).boxed()))
}

/// Returns why a page is rendered first. Without a proof that it was opened, the stream itself is a visit.
fn occasion(console: &Console, head: &Head, visitor: &Visitor) -> Occasion {
    let mark = head.query.get("live").unwrap_or_default();
    match visitor.session.read_by_mark(console, &head.address(), mark).and_then(Reads::parse) {
        Some(read) => Occasion::Update { read },
        None => Occasion::Visit,
    }
}

impl OpenPage {
    /// Returns the next event: the changed content, or a comment. `None` after the end of the session or of
    /// the server.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.shown.is_some() && !self.wait().await {
            return None;
        }
        let console = Arc::clone(&self.console);
        let permit = console.updates.acquire().await.ok()?;
        self.last_check = Instant::now();
        // Boxed, so that a page that waits does not hold the memory of a page that is rendered.
        let content = match Box::pin(self.render()).await {
            Ok(Some(content)) => content,
            Ok(None) => {
                self.is_over = true;
                signed_out()
            }
            // The page stays as it is; the next check tries again.
            Err(Refusal::Message(status, _)) if status.is_server_error() => return Some(comment()),
            Err(_) => {
                self.is_over = true;
                gone()
            }
        };
        drop(permit);
        let text = content.into_string();
        let digest = Sha256::digest(without_times(&text)).into();
        // The browser has just loaded the page, but it may have changed since.
        if self.shown.replace(digest) == Some(digest) {
            return Some(comment());
        }
        Some(event(&text))
    }

    /// Waits for a change, or the next regular check. Returns false when the server stops.
    async fn wait(&mut self) -> bool {
        let hint = async {
            tokio::select! {
                () = self.rows.written() => {}
                _ = self.session_ends.changed() => {}
            }
        };
        tokio::select! {
            () = self.console.parts.shutdown.cancelled() => return false,
            _ = timeout_at(self.last_check + MAX_INTERVAL, hint) => {}
        }
        tokio::select! {
            () = self.console.parts.shutdown.cancelled() => false,
            () = sleep_until(self.last_check + MIN_INTERVAL) => true,
        }
    }

    /// Renders the page for its caller as they are now. `None` if the session has ended.
    async fn render(&mut self) -> Result<Option<Markup>> {
        let session = &self.visitor.session;
        let Some(principal) = session.principal(&self.console, &self.head.peer).await? else {
            return Ok(None);
        };
        self.visitor.is_operator = session.is_operator(&self.console, &principal);
        self.visitor.principal = principal;
        let context = Arc::new(RequestContext::of_console(&self.visitor.principal, "live"));
        let (console, visitor) = (&self.console, &self.visitor);
        let rendering = pages::render(console, visitor, &self.route, &self.head, self.occasion);
        let page = context.scope(rendering).await?;
        let written = console.parts.bridge.context.audit.flush_request(&context).await;
        written?;
        self.occasion = Occasion::Update { read: page.read };
        Ok(Some(layout::content(&page)))
    }
}

/// Returns an event with content, each line of it in a field of its own.
fn event(text: &str) -> Bytes {
    let mut event = String::with_capacity(text.len() + 64);
    for line in text.split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event.into()
}

fn comment() -> Bytes {
    Bytes::from_static(b":\n\n")
}

fn signed_out() -> Markup {
    html! {
        main #page {
            h1 { "Signed out" }
            p { "Your session has ended. " a href="/console/login" { "Sign in" } }
        }
    }
}

fn gone() -> Markup {
    html! { main #page { h1 { "Not found" } p { "What this page showed has expired, or you may no longer see it." } } }
}

/// Returns the text of a page without the texts of its times, which pass without a change.
fn without_times(text: &str) -> String {
    let mut parts = text.split("<time ");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (tag, after) = part.split_once("</time>").unwrap_or((part, ""));
        rest.push_str(tag.split_once('>').map_or(tag, |(attributes, _)| attributes));
        rest.push_str(after);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the passing of time makes no update.
    #[test]
    fn passing_time_is_no_change() {
        let page = |ago: &str, state: &str| format!("<p><time datetime=\"T\">{ago}</time> {state}</p>");
        assert_eq!(without_times(&page("1 s ago", "a")), without_times(&page("2 s ago", "a")));
        assert_ne!(without_times(&page("1 s ago", "a")), without_times(&page("1 s ago", "b")));
        assert_eq!(without_times("<time x"), "x");
    }

    /// A line of a page cannot end the event or begin another field.
    #[test]
    fn event_keeps_lines_apart() {
        assert_eq!(event("a\n\nevent: x\r\nb"), "data: a\ndata: \ndata: event: x\ndata: \ndata: b\n\n");
    }
}
