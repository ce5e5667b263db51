//! The backends of the tools that the visitor may call, and whether their engines answer.

use std::collections::BTreeMap;

use maud::html;
use tokio::time::Instant;

use super::{Page, Request};
use crate::console::html::pieces;
use crate::mcp::features::authorization::Permit;
use crate::tasks::reconciler::Condition;

pub(super) fn page(request: &Request<'_>) -> Page {
    let (catalog, permit) = (request.context().catalog(), Permit::of(&request.visitor.principal));
    let mut tools: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in catalog.tools().filter(|tool| permit.may_call(tool)) {
        *tools.entry(tool.backend()).or_default() += 1;
    }
    let conditions: BTreeMap<String, Condition> =
        request.console.parts.engines.conditions().into_iter().collect();
    let now = Instant::now();
    let words = |condition: Option<&Condition>| match condition {
        Some(Condition::Available) => ("succeeded", "answers".to_owned()),
        Some(Condition::Failing { since }) => {
            ("failed", format!("fails for {}", pieces::rough(now.saturating_duration_since(*since))))
        }
        Some(Condition::Unconnected { since }) => {
            let time = pieces::rough(now.saturating_duration_since(*since));
            ("failed", format!("could not be connected for {time}"))
        }
        Some(Condition::Unknown) => ("queued", "not called yet".to_owned()),
        None => ("queued", "connected by another server only".to_owned()),
    };
    let body = html! {
        h1 { "Backends" }
        @if tools.is_empty() { p.empty { "There is no backend whose tools you may call." } } @else {
            table.list aria-label="Backends" {
                thead {
                    tr {
                        th scope="col" { "Backend" }
                        th scope="col" { "Engine" }
                        th scope="col" { "Abilities" }
                        th scope="col" { "Your tools" }
                    }
                }
                tbody {
                    @for (name, count) in &tools {
                        @let (class, text) = words(conditions.get(*name));
                        tr {
                            td { bdi { (name) } }
                            td { span class={ "state " (class) } { (text) } }
                            td { (abilities(request, name)) }
                            td { (count) }
                        }
                    }
                }
            }
        }
    };
    Page { title: "Backends".to_owned(), body, is_live: true }
}

/// Returns what the engine of a backend offers beyond running jobs.
fn abilities(request: &Request<'_>, name: &str) -> String {
    let Some(backend) = request.console.parts.bridge.reads.backend(name) else { return String::new() };
    let abilities = backend.abilities();
    let all = [
        (abilities.logs.is_some(), "logs"),
        (abilities.artifacts.is_some(), "artifacts"),
        (abilities.questions.is_some(), "questions"),
        (abilities.hooks.is_some(), "hooks"),
        (abilities.wakeups.is_some(), "hints"),
    ];
    all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect::<Vec<_>>().join(", ")
}
