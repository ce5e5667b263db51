//! The frame of a page: head, navigation, and the part that live updates replace. It must not know what a
//! page shows.

use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use crate::console::Console;
use crate::console::assets;
use crate::console::pages::Page;
use crate::console::request::{FORM_TOKEN, Fields, Head, Visitor};

/// The settings of htmx. It must not add styles, which the content security policy forbids, nor keep pages.
const HTMX_CONFIG: &str = "includeIndicatorCSS:false, history:false, extensions:'sse'";

/// Returns a page for a person who is signed in. Its content follows changes while the page is open.
pub(in crate::console) fn page(console: &Console, visitor: &Visitor, page: &Page, head: &Head) -> Markup {
    let live = page.is_live.then(|| {
        let mark = visitor.session.live_mark(console, &head.address(), &page.read.to_text());
        head.query.address(&head.path, &[("live", Some(&mark))])
    });
    frame(
        &page.title,
        html! {
            (navigation(visitor, &head.path))
            @if let Some(live) = live {
                div hx-sse:connect=(live) hx-target="#page" hx-swap="outerMorph" {}
            }
            (content(page))
        },
    )
}

/// Returns the part of a page that live updates replace.
pub(in crate::console) fn content(page: &Page) -> Markup {
    html! { main #page { (page.body) } }
}

/// Returns a page without navigation, for a person who is not signed in.
pub(in crate::console) fn bare(title: &str, body: &Markup) -> Markup {
    frame(title, html! { main #page .narrow { (body) } })
}

/// Returns a page that loads itself again, as a link of this site.
pub(in crate::console) fn reload(address: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (address) };
                title { "taskbridge" }
            }
            body { p { a href=(address) { "Continue" } } }
        }
    }
}

/// Returns the page of a refused request.
pub(in crate::console) fn refusal(visitor: &Visitor, status: StatusCode, message: &str) -> Markup {
    let title = status.canonical_reason().unwrap_or("Refused");
    frame(
        title,
        html! {
            (navigation(visitor, ""))
            main #page {
                h1 { (title) }
                p.problem role="alert" { (message) }
                p { a href="/console" { "Back to the inbox" } }
            }
        },
    )
}

/// Returns the hidden field that every form needs.
pub(in crate::console) fn form_token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(FORM_TOKEN) value=(visitor.form_token); }
}

fn frame(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX_CONFIG);
                title { (title) " - taskbridge" }
                link rel="icon" href=(assets::address("icon.svg"));
                link rel="stylesheet" href=(assets::address("console.css"));
                script src=(assets::address("htmx.min.js")) defer {}
                script src=(assets::address("hx-sse.min.js")) defer {}
                script src=(assets::address("console.js")) defer {}
            }
            body {
                a.skip href="#page" { "Skip to the content" }
                (body)
            }
        }
    }
}

fn navigation(visitor: &Visitor, path: &str) -> Markup {
    let links = [
        ("/console", "Inbox"),
        ("/console/tasks", "Tasks"),
        ("/console/tools", "Tools"),
        ("/console/backends", "Backends"),
        ("/console/audit", "Audit"),
    ];
    let links = links.into_iter().filter(|(to, _)| visitor.is_operator || *to != "/console/audit");
    let is_current = |to: &str| path == to || (to != "/console" && path.starts_with(&format!("{to}/")));
    html! {
        header.top {
            nav aria-label="Main" {
                span.brand { "taskbridge" }
                @for (to, name) in links {
                    a href=(to) aria-current=[is_current(to).then_some("page")] { (name) }
                }
            }
            details.account {
                summary { bdi { (visitor.name()) } }
                form method="post" action="/console/logout" {
                    (form_token(visitor))
                    button type="submit" { "Sign out" }
                    button type="submit" name="everywhere" value="yes" { "Sign out everywhere" }
                }
            }
        }
        p #connection role="status" hidden { "The connection is interrupted. This page may be out of date." }
    }
}

/// Returns the links of a list to its next page, and back to the first.
pub(in crate::console) fn pager(fields: &Fields, path: &str, next: Option<&str>) -> Markup {
    let is_first = fields.text("cursor").is_none();
    html! {
        @if next.is_some() || !is_first {
            nav.pager aria-label="Pages" {
                @if !is_first { a href=(fields.address(path, &[("cursor", None), ("live", None)])) { "First page" } }
                @if let Some(next) = next {
                    a rel="next" href=(fields.address(path, &[("cursor", Some(next)), ("live", None)])) { "Next page" }
                }
            }
        }
    }
}
