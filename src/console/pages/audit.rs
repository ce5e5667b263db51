//! The audit log, for operators: its newest lines, if it is kept in the store. It must not verify the chain.

use maud::{Markup, html};
use serde_json::Value;

use super::{Page, Reads, Request};
use crate::console::Result;
use crate::console::html::pieces;
use crate::console::respond::Refusal;

/// Lines on a page.
const PAGE_SIZE: usize = 100;

pub(super) async fn page(request: &Request<'_>) -> Result<Page> {
    if !request.visitor.is_operator {
        return Err(Refusal::not_found());
    }
    let before = request.head.query.text("before").and_then(|before| before.parse::<u64>().ok());
    let lines = request.context().audit.newest_lines(before, PAGE_SIZE).await?;
    let oldest = lines.iter().flatten().next_back().map(|(n, _)| *n).filter(|n| *n > 1);
    let body = html! {
        h1 { "Audit log" }
        @match &lines {
            None => {
                p.empty {
                    "The audit log is not kept in the store: set " code { "to = [\"store\"]" } " in " code { "[audit]" }
                    ", or read it with " code { "taskbridge audit show" } "."
                }
            }
            Some(lines) if lines.is_empty() => { p.empty { "No lines." } }
            Some(lines) => { (table(lines)) }
        }
        @if before.is_some() || oldest.is_some() {
            nav.pager aria-label="Pages" {
                @if before.is_some() { a href="/console/audit" { "Newest lines" } }
                @if let Some(oldest) = oldest { a rel="next" href={ "/console/audit?before=" (oldest) } { "Older lines" } }
            }
        }
    };
    Ok(Page { title: "Audit log".to_owned(), body, is_live: false, read: Reads::default() })
}

fn table(lines: &[(u64, String)]) -> Markup {
    html! {
        table.list aria-label="Audit log" {
            thead {
                tr {
                    th scope="col" { "Time" }
                    th scope="col" { "Event" }
                    th scope="col" { "Who" }
                    th scope="col" { "Details" }
                }
            }
            tbody {
                @for (n, line) in lines {
                    @let line: Value = taskbridge_sdk::from_json(line.as_bytes()).unwrap_or_default();
                    tr {
                        td {
                            @let time = text(&line["time"]);
                            time datetime=(time) data-absolute { (time) }
                            " " span.hint { (n) }
                        }
                        td {
                            code { (text(&line["event"])) }
                            @if line["outcome"] != "ok" { " " span.hint { (text(&line["outcome"])) } }
                        }
                        td {
                            bdi { (text(&line["who"]["name"])) }
                            @if let Some(by) = line["from"]["by"].as_str() { " " span.hint { "by " (pieces::clean(by)) } }
                        }
                        td { (details(&line)) }
                    }
                }
            }
        }
    }
}

/// Returns the task of a line, and its other details.
fn details(line: &Value) -> Markup {
    html! {
        @if line["tool"].is_string() { bdi { (text(&line["tool"])) } " " }
        @if line["task"]["id"].is_string() {
            "task " code { (text(&line["task"]["id"])) } " of " bdi { (text(&line["task"]["owner"])) } " "
        }
        @for (name, value) in line["detail"].as_object().into_iter().flatten() {
            span.hint { (pieces::one_line(name, 40)) ": " (text(value)) } " "
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => pieces::one_line(text, 200),
        other => pieces::one_line(&other.to_string(), 200),
    }
}
