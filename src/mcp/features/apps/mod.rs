//! MCP Apps (extension `io.modelcontextprotocol/ui`, 2026-01-26): the view of a task for clients that declare
//! the extension. [`read`] serves the view, one page that makes no request of its own. It reads the task by
//! the tool `task_view` ([`look()`]) through its host, and acts by `task_answer` and `task_cancel`, as a model
//! would.
//!
//! A tool for the view alone is hidden from the model by the host, not by this server, so nothing may rely on
//! that. Nothing of this module may reach a client that does not declare the extension.

mod look;
mod outcome;
mod questions;

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::companions::Companion;
use super::dialect::{Cache, Dialect};
use super::request::RequestExt as _;
use super::tools::result::ToolResult;
use crate::mcp::wire::jsonrpc::Outcome;
use crate::mcp::wire::types::{UI_EXTENSION, VIEW_MIME_TYPE};
use crate::recorder;
use crate::tasks::task::Task;

pub use self::look::look;

/// Address of the view.
pub const VIEW_URI: &str = "ui://taskbridge/task";

/// How long a plain call waits for its job if its client shows the view: only then the view learns which task
/// it shows. A job that ends in this time is answered with its result.
pub const VIEW_WAIT: Duration = Duration::from_secs(2);

/// What the answer with a handle adds for the model, because it need not wait for the result.
pub const HANDLE_NOTE: &str = "The user follows this task in a card, which updates without you and hands its result \
     to you when it ends. Wait for it only if you need the result now.";

/// The page changes with the server only.
const CACHE: Cache = Cache { ttl: Duration::from_secs(300), is_public: false };

/// The view. The style of the drawing is that of the console.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("view.html")
        .replace("/*style*/", &[include_str!("view.css"), recorder::STYLE].concat())
        .replace("/*script*/", include_str!("view.js"))
});

/// Returns true if the client of this request shows the view.
pub fn is_shown(request: &dyn Dialect) -> bool {
    request.is_offered(Companion::View)
}

/// Answers `resources/read` of the view; `None` for any other address, and for a client that does not show
/// it.
pub fn read(request: &dyn Dialect, params: &Value) -> Option<Outcome> {
    if params["uri"] != VIEW_URI || !is_shown(request) {
        return None;
    }
    // It needs no origin: the host's policy may be as strict as it can.
    let meta = json!({ "ui": { "prefersBorder": true } });
    let content = json!({ "uri": VIEW_URI, "mimeType": VIEW_MIME_TYPE, "text": &*PAGE, "_meta": meta });
    Some(Ok(request.result(json!({ "contents": [content] }), Some(CACHE))))
}

/// Returns the `_meta` of a tool that starts tasks.
pub fn tool_meta(request: &dyn Dialect) -> Option<Value> {
    is_shown(request).then(|| json!({ "ui": { "resourceUri": VIEW_URI } }))
}

/// Returns the `_meta` of a companion tool. Those that the model of this client would not have are for the
/// view.
pub fn companion_meta(request: &dyn Dialect, companion: Companion) -> Option<Value> {
    let is_for_view = is_shown(request) && !request.is_offered_to_model(companion);
    is_for_view.then(|| json!({ "ui": { "visibility": ["app"] } }))
}

/// Adds the task to a result about it, so that the view finds it, also in a conversation that is opened
/// again.
pub fn for_view(request: &dyn Dialect, task: &Task, result: ToolResult) -> ToolResult {
    ToolResult { shown_task: is_shown(request).then(|| task.id.clone()), ..result }
}

/// Adds the extension to the server's capabilities.
pub fn add_extension(is_shown: bool, capabilities: &mut Value) {
    if is_shown {
        capabilities["extensions"][UI_EXTENSION] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page is small, complete, and refers to nothing outside of itself.
    #[test]
    fn page_is_small_and_self_contained() {
        assert!(PAGE.len() < 40 * 1024, "{} bytes", PAGE.len());
        assert!(!PAGE.contains("/*style*/") && !PAGE.contains("/*script*/"));
        for outside in ["http://", "src=", "url(", "@import", "fetch(", "XMLHttpRequest", "eval(", "href="] {
            let found: Vec<_> = PAGE.lines().filter(|line| line.contains(outside)).collect();
            assert!(found.is_empty(), "{outside}: {found:?}");
        }
    }
}
