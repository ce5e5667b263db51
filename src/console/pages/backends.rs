//! The backends of the tools that the visitor may call: whether their engines answer, and for operators the
//! calls that the engines still allow, and a check-up as `taskbridge doctor` does it, on request.

use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};
use taskbridge_sdk::{Finding, ToolTarget, Verdict};
use tokio::time::Instant;

use super::{Page, Reads, Request, escape};
use crate::console::Result;
use crate::console::html::pieces;
use crate::console::request::count;
use crate::mcp::features::authorization::Permit;
use crate::tasks::reconciler::Condition;

/// Time limit of a check-up.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn page(request: &Request<'_>) -> Result<Page> {
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
    let is_operator = request.visitor.is_operator;
    let checked = request.head.query.text("check").filter(|name| is_operator && tools.contains_key(name));
    let findings = match checked {
        Some(name) => Some((name, check_up(request, name).await?)),
        None => None,
    };
    let body = html! {
        h1 { "Backends" }
        @if let Some((name, findings)) = &findings { (findings_section(name, findings)) }
        @if tools.is_empty() { p.empty { "There is no backend whose tools you may call." } } @else {
            table.list aria-label="Backends" {
                thead {
                    tr {
                        th scope="col" { "Backend" }
                        th scope="col" { "Engine" }
                        th scope="col" { "Abilities" }
                        th scope="col" { "Your tools" }
                        @if is_operator {
                            th scope="col" { "Calls left" }
                            th scope="col" { "Check-up" }
                        }
                    }
                }
                tbody {
                    @for (name, number) in &tools {
                        @let (class, text) = words(conditions.get(*name));
                        tr {
                            td { bdi { (name) } }
                            td { span class={ "state " (class) } { (text) } }
                            td { (abilities(request, name)) @if is_operator { (hook(request, name)) } }
                            td { (number) @if *number == 1 { " tool" } @else { " tools" } }
                            @if is_operator {
                                td { (budgets(request, name)) }
                                td {
                                    a href={ "/console/backends?check=" (escape(name)) } {
                                        "Check " bdi { (name) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    // An update would call the engine again.
    Ok(Page { title: "Backends".to_owned(), body, is_live: findings.is_none(), read: Reads::default() })
}

/// Lets a backend check itself and the targets of its tools. The call counts as an open request of the
/// visitor.
async fn check_up(request: &Request<'_>, name: &str) -> Result<Vec<Finding>> {
    let _permit = count(request.console, request.visitor)?;
    let Some(backend) = request.console.parts.bridge.reads.backend(name) else {
        let fix = "see the log of the server";
        return Ok(vec![Finding::fault("connection", "the backend is not connected here", fix)]);
    };
    let Some(checkup) = backend.abilities().checkup else {
        return Ok(vec![Finding::ok("connection", "connected; this kind of backend has no further checks")]);
    };
    let catalog = request.context().catalog();
    let of_backend = catalog.tools().filter(|tool| tool.backend() == name);
    let targets: Vec<ToolTarget> = of_backend
        .map(|tool| ToolTarget::new(&tool.name, tool.target().clone()).with_schema(&tool.input_schema))
        .collect();
    let fix = "see whether the engine is overloaded, and check again";
    Ok(tokio::time::timeout(CHECK_TIMEOUT, checkup.check_up(&targets))
        .await
        .unwrap_or_else(|_| vec![Finding::fault("check-up", "it timed out after 60 s", fix)]))
}

fn findings_section(name: &str, findings: &[Finding]) -> Markup {
    html! {
        section.card aria-labelledby="findings" {
            h2 #findings { "Check-up of " bdi { (name) } }
            ul.findings {
                @for finding in findings {
                    @let (class, verdict) = match finding.verdict {
                        Verdict::Ok => ("succeeded", "ok"),
                        Verdict::Warning => ("asks", "warning"),
                        Verdict::Fault => ("failed", "fault"),
                    };
                    li {
                        span class={ "state " (class) } { (verdict) }
                        " " strong { (pieces::one_line(&finding.what, 200)) } ": " (pieces::one_line(&finding.says, 1_000))
                        @if let Some(fix) = &finding.fix { pre { (pieces::clean(fix)) } }
                    }
                }
            }
        }
    }
}

/// Returns how many calls the engine still allows, as far as it says.
fn budgets(request: &Request<'_>, name: &str) -> Markup {
    let backend = request.console.parts.bridge.reads.backend(name);
    let budgets = backend.map(|backend| backend.budgets()).unwrap_or_default();
    html! {
        @if budgets.is_empty() { span.hint { "no limit known" } }
        @for budget in &budgets {
            div { (pieces::one_line(&budget.name, 100)) ": " (budget.remaining.floor()) " of " (budget.limit.floor()) }
        }
    }
}

/// Returns where a backend takes hooks, and when the last one came.
fn hook(request: &Request<'_>, name: &str) -> Markup {
    let parts = &request.console.parts;
    let has_hooks =
        parts.bridge.reads.backend(name).is_some_and(|backend| backend.abilities().hooks.is_some());
    html! {
        @if has_hooks {
            div.hint {
                "hooks at " code { "/hooks/" (name) } ": "
                @match (parts.since_last_hook)(name) {
                    Some(time) => { "the last came " (pieces::rough(time)) " ago" },
                    None => { "none since the start of this server" },
                }
            }
        }
    }
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
