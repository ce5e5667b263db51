//! The tools that the visitor may call.

use maud::html;

use super::{Page, Reads, Request, tool_address};
use crate::console::html::{layout, pieces};
use crate::mcp::features::authorization::Permit;

/// Tools on a page.
const PAGE_SIZE: usize = 100;

pub(super) fn page(request: &Request<'_>) -> Page {
    let (catalog, permit) = (request.context().catalog(), Permit::of(&request.visitor.principal));
    // The position is only a name, and the list shows what the visitor may call.
    let after = request.head.query.text("cursor");
    let mut tools = catalog.page(after, PAGE_SIZE + 1, |tool| permit.may_call(tool));
    let has_more = tools.len() > PAGE_SIZE;
    tools.truncate(PAGE_SIZE);
    let next = tools.last().filter(|_| has_more).map(|tool| tool.name.as_str());
    let body = html! {
        h1 { "Tools" }
        @if tools.is_empty() { p.empty { "There is no tool that you may call." } } @else {
            table.list aria-label="Tools" {
                thead { tr { th scope="col" { "Tool" } th scope="col" { "Backend" } } }
                tbody {
                    @for tool in &tools {
                        tr {
                            td {
                                a href=(tool_address(&tool.name)) { bdi { (pieces::one_line(&tool.name, 100)) } }
                                @if let Some(title) = &tool.title { " " (pieces::one_line(title, 100)) }
                                @if let Some(text) = &tool.description { div.message { (pieces::one_line(text, 200)) } }
                            }
                            td.short { bdi { (tool.backend()) } }
                        }
                    }
                }
            }
        }
        (layout::pager(&request.head.query, "/console/tools", next))
    };
    Page { title: "Tools".to_owned(), body, is_live: false, read: Reads::default() }
}
