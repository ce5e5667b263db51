//! List of tools, page by page, for every generation: the companion tools that the caller is offered, then
//! the tools of the catalog that they may call, by name. Companions come first because many clients only read
//! the first page, and a handle refers them to `task_wait`. A page is written once for all callers with the
//! same view.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::list_cache::{CachedPage, PageKey};
use crate::auth::Principal;
use crate::catalog::{Catalog, TaskSupport, Tool};
use crate::mcp::features::apps;
use crate::mcp::features::authorization::Permit;
use crate::mcp::features::companions::{Companion, ToolOffer};
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::dialect::{Cache, Dialect};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::tools::handle;
use crate::mcp::wire::cursor;
use crate::mcp::wire::jsonrpc::{Outcome, SharedText};
use crate::mcp::wire::{params, types};

/// Name of this list in its cursors.
const LIST: &str = "tools/list";

/// How long a list may be cached. A client that needs changes earlier subscribes.
pub const LIST_CACHE_TTL: Duration = Duration::from_secs(300);

/// Entry of a page.
enum ToolEntry {
    /// A tool of the catalog.
    Tool(Arc<Tool>),
    /// A companion tool.
    Companion(Companion),
}

/// Position in the list: after some of the companions, or after a tool of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ToolPosition {
    Tool(String),
    Companions(usize),
}

/// `tools/list`: the companion tools, then the catalog by name.
///
/// # Errors
/// If the cursor is invalid.
pub fn serve(request: &dyn Dialect, params: &Value) -> Outcome<SharedText> {
    let (cursor, view) = (params::cursor(params)?, (request.revision(), request.tool_offer()));
    let page = page(request.context(), request.principal(), view, cursor, |entries| {
        let tools = entries.iter().map(|entry| match entry {
            ToolEntry::Tool(tool) => write_tool(request, tool),
            ToolEntry::Companion(companion) => write_companion(request, *companion),
        });
        let body = types::page("tools", tools.collect(), None);
        // Which companion tools are listed depends on the caller and its client.
        request.result(body, Some(Cache { ttl: LIST_CACHE_TTL, is_public: false }))
    });
    page.ok_or_else(params::invalid_cursor)
}

fn write_tool(request: &dyn Dialect, tool: &Tool) -> Value {
    let output_schema = tool.output_schema.as_ref();
    let entry = types::Tool {
        name: &tool.name,
        title: tool.title.as_deref(),
        description: tool.description.as_deref(),
        input_schema: &tool.input_schema,
        output_schema: output_schema.map(|declared| handle::output_schema(declared, tool.task_support)),
        annotations: Some(&tool.annotations).filter(|annotations| annotations.is_object()),
        execution: None,
        meta: apps::tool_meta(request),
    };
    request.tool(entry, tool.task_support)
}

fn write_companion(request: &dyn Dialect, companion: Companion) -> Value {
    let definition = companion.definition(&request.context().settings());
    let entry = types::Tool {
        name: definition.name,
        title: Some(definition.title),
        description: Some(&definition.description),
        input_schema: &definition.input_schema,
        output_schema: definition.output_schema,
        annotations: Some(&definition.annotations),
        execution: None,
        meta: apps::companion_meta(request, companion),
    };
    request.tool(entry, TaskSupport::Forbidden)
}

/// Returns the page at a cursor, or the first: a JSON object that `write` returns for this revision, with the
/// next cursor added. `offer` is as in [`Companion::is_offered`]. Returns `None` if the cursor does not
/// belong to this list and this caller.
fn page(
    context: &FeatureContext,
    caller: &Principal,
    (revision, offer): (&'static str, ToolOffer),
    cursor: Option<&str>,
    write: impl FnOnce(&[ToolEntry]) -> Value,
) -> Option<SharedText> {
    let start = match cursor {
        None => None,
        Some(text) => Some(cursor::open(&context.seal, LIST, &caller.owner, text)?),
    };
    let mut pages = context.offers.tool_pages.lock();
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    let companions: Vec<Companion> =
        Companion::ALL.into_iter().filter(|companion| companion.is_offered(context, caller, offer)).collect();
    let callable = (!catalog.is_open()).then(|| catalog.tools().map(|tool| permit.may_call(tool)).collect());
    let size = context.settings().page_size;
    let key = PageKey { revision, companions: companions.clone(), callable, start: start.clone() };
    let CachedPage { text, next } = pages.get_or_write(key, || {
        let (entries, next) = entries(&catalog, companions, start, size, |tool| permit.may_call(tool));
        let text = write(&entries).to_string();
        tracing::debug!(revision, entries = entries.len(), bytes = text.len(), "wrote a page of tools/list");
        CachedPage { text: text.into(), next }
    });
    drop(pages);
    let text = SharedText::new(text);
    Some(match next {
        None => text,
        Some(position) => {
            text.with("nextCursor", &cursor::seal(&context.seal, LIST, &caller.owner, position).into())
        }
    })
}

/// Returns up to `size` entries, and the start of the next page, if there is one.
fn entries(
    catalog: &Catalog,
    companions: Vec<Companion>,
    start: Option<ToolPosition>,
    size: usize,
    is_listed: impl Fn(&Tool) -> bool,
) -> (Vec<ToolEntry>, Option<ToolPosition>) {
    // A cursor from another version can count more companions than there are.
    let (skipped, after) = match &start {
        None => (0, None),
        Some(ToolPosition::Companions(count)) => ((*count).min(companions.len()), None),
        Some(ToolPosition::Tool(after)) => (companions.len(), Some(after.as_str())),
    };
    let end = companions.len().min(skipped + size);
    let remaining = size - (end - skipped);
    let mut tools = catalog.page(after, remaining + 1, is_listed);
    let has_more = end < companions.len() || tools.len() > remaining;
    tools.truncate(remaining);
    let next = has_more.then(|| match tools.last() {
        Some(tool) => ToolPosition::Tool(tool.name.clone()),
        None => ToolPosition::Companions(end),
    });
    let companions = companions.into_iter().take(end).skip(skipped).map(ToolEntry::Companion);
    let tools = tools.into_iter().map(|tool| ToolEntry::Tool(Arc::clone(tool)));
    (companions.chain(tools).collect(), next)
}
