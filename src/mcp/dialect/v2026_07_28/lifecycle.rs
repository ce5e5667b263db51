//! `server/discover`: the supported revisions, and what the server offers.

use serde_json::Value;

use super::{StatelessCall, to_wire, wire};
use crate::mcp::features::dialect::Dialect as _;
use crate::mcp::features::instructions;
use crate::mcp::features::tools::list::LIST_CACHE_TTL;
use crate::mcp::wire::revision;
use crate::mcp::wire::types;

/// `server/discover`.
pub(super) fn discover(call: &StatelessCall<'_>) -> Value {
    let capabilities = wire::ServerCapabilities {
        tools: types::ListCapability { list_changed: true },
        resources: types::ResourcesCapability { list_changed: true, subscribe: true },
        prompts: types::ListCapability { list_changed: true },
        completions: types::Empty {},
        logging: types::Empty {},
        extensions: wire::Extensions::default(),
    };
    let result = wire::DiscoverResult {
        supported_versions: revision::SUPPORTED.to_vec(),
        capabilities,
        instructions: instructions::for_caller(
            call.context(),
            &call.caller.principal,
            call.offers_companions(),
        ),
    };
    // The instructions depend on the caller and its client.
    to_wire::cacheable(result, LIST_CACHE_TTL, wire::CacheScope::Private)
}
