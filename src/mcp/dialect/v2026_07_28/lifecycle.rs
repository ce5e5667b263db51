//! `server/discover`: the supported revisions, and what the server offers.

use serde_json::{Value, json};

use super::wire::TASKS_EXTENSION;
use super::{StatelessCall, to_wire};
use crate::mcp::features::dialect::Dialect as _;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::tools::list::LIST_CACHE_TTL;
use crate::mcp::features::{apps, instructions};
use crate::mcp::wire::revision;

/// `server/discover`.
pub(super) fn discover(call: &StatelessCall<'_>) -> Value {
    let instructions = instructions::for_caller(call.context(), &call.caller.principal, call.tool_offer());
    let mut capabilities = json!({
        "tools": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
        "extensions": { TASKS_EXTENSION: {} },
    });
    apps::add_extension(apps::is_shown(call), &mut capabilities);
    let result = json!({
        "supportedVersions": revision::SUPPORTED,
        "capabilities": capabilities,
        "instructions": instructions,
    });
    // The instructions depend on the caller and its client.
    to_wire::cacheable(result, LIST_CACHE_TTL, false)
}
