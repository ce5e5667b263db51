//! The list of tools, page by page, for every generation: the companion tools that the caller is offered, then those of
//! the catalog that they may call, by name. Companions come first because many clients read the first page only, and a
//! handle sends them to `task_wait`. It must not know how a generation writes a tool.

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

/// A place in the list: after some of the companions, or after a tool of the catalog.
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
    // A cursor of another version can be of more companions than there are.
    let (skipped, after) = match &place {
        None => (0, None),
        Some(Place::Companions(count)) => ((*count).min(companions.len()), None),
        Some(Place::Tool(after)) => (companions.len(), Some(after.as_str())),
    };
    let reached = companions.len().min(skipped + size);
    let left = size - (reached - skipped);
    let mut tools = catalog.page(after, left + 1, listed);
    let more = reached < companions.len() || tools.len() > left;
    tools.truncate(left);
    let next = more.then(|| match tools.last() {
        Some(tool) => Place::Tool(tool.name.clone()),
        None => Place::Companions(reached),
    });
    let companions = companions.into_iter().take(reached).skip(skipped).map(Entry::Companion);
    let entries = companions.chain(tools.into_iter().map(|tool| Entry::Tool(Arc::clone(tool)))).collect();
    let next_cursor = next.map(|place| cursor::seal(&bridge.seal, LIST, &caller.owner, place));
    Some(Page { entries, next_cursor })
}
