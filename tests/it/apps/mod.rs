//! Tests for MCP Apps: what a client gets that declares the extension, and that others get what they got
//! without it. The view itself is tested in a browser (`tests/apps`).

mod look;
mod offer;
mod unchanged;

use serde_json::{Value, json};

/// Address of the view.
const VIEW: &str = "ui://taskbridge/task";

/// The extension as hosts declare it.
fn ui_extension() -> Value {
    json!({"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}})
}

/// Capabilities of a client that shows views.
fn with_views() -> Value {
    json!({ "extensions": ui_extension() })
}

/// Capabilities of a client that shows views and has the tasks extension.
fn with_views_and_tasks() -> Value {
    let mut extensions = ui_extension();
    extensions["io.modelcontextprotocol/tasks"] = json!({});
    json!({ "extensions": extensions })
}
