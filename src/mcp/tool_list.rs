//! The list of tools, page by page, for every generation: of the catalog those that the caller may call, by name, then
//! the companion tools that they are offered. It must not know how a generation writes a tool.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::companions::Companion;
use super::permit::Permit;
use super::{Bridge, cursor};
use crate::auth::Principal;
use crate::catalog::Tool;

/// The list that its cursors are for.
const LIST: &str = "tools/list";

/// A page of the list.
pub struct Page {
    /// What is on it, in order.
    pub entries: Vec<Entry>,
    /// Where the next one begins, if there is one.
    pub next_cursor: Option<String>,
}

/// Something on a page.
pub enum Entry {
    /// A tool of the catalog.
    Tool(Arc<Tool>),
    /// One of the server's own.
    Companion(Companion),
}

/// A place in the list: after a tool of the catalog, or after some of the companions.
#[derive(Serialize, Deserialize)]
enum Place {
    Tool(String),
    Companions(usize),
}

/// The page at a cursor, or the first. `automatic` is as in [`Companion::is_offered`]. `None` if the cursor is not one
/// of this list and this caller.
pub fn page(bridge: &Bridge, caller: &Principal, automatic: bool, at: Option<&str>) -> Option<Page> {
    let place = match at {
        None => None,
        Some(text) => Some(cursor::open(&bridge.seal, LIST, &caller.owner, text)?),
    };
    let companions: Vec<Companion> = Companion::ALL
        .into_iter()
        .filter(|companion| companion.is_offered(bridge, caller, automatic))
        .collect();
    let size = bridge.settings().page_size;
    let (catalog, permit) = (bridge.catalog(), Permit::of(caller));
    let listed = |tool: &Tool| permit.may_call(tool);
    let (mut tools, skipped) = match &place {
        None => (catalog.page(None, size + 1, listed), 0),
        Some(Place::Tool(after)) => (catalog.page(Some(after), size + 1, listed), 0),
        Some(Place::Companions(count)) => (Vec::new(), *count),
    };
    let more_tools = tools.len() > size;
    tools.truncate(size);
    let taken = if more_tools { 0 } else { size - tools.len() };
    // A cursor of another version can be of more companions than there are.
    let reached = skipped.saturating_add(taken).min(companions.len());
    let next = if more_tools {
        tools.last().map(|tool| Place::Tool(tool.name.clone()))
    } else {
        (reached < companions.len()).then_some(Place::Companions(reached))
    };
    let mut entries: Vec<Entry> = tools.into_iter().map(|tool| Entry::Tool(Arc::clone(tool))).collect();
    entries.extend(companions.into_iter().skip(skipped).take(taken).map(Entry::Companion));
    let next_cursor = next.map(|place| cursor::seal(&bridge.seal, LIST, &caller.owner, place));
    Some(Page { entries, next_cursor })
}
