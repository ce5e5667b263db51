//! `server/discover`: the supported revisions, and what the server offers.

use std::time::Duration;

use serde_json::Value;

use super::{StatelessCall, to_wire, wire};
use crate::mcp::features::instructions;
use crate::mcp::wire::revision;

/// How long a list or a discovery result may be cached. A client that needs changes earlier subscribes.
pub(super) const LIST_CACHE_TTL: Duration = Duration::from_secs(300);

/// `server/discover`.
pub(super) fn discover(call: &StatelessCall<'_>) -> Value {
    let capabilities = wire::ServerCapabilities {
        tools: wire::ListCapability { list_changed: true },
        resources: wire::ResourcesCapability { list_changed: true, subscribe: true },
        prompts: wire::ListCapability { list_changed: true },
        completions: wire::Empty {},
        logging: wire::Empty {},
        extensions: wire::Extensions::default(),
    };
    let result = wire::DiscoverResult {
        supported_versions: revision::SUPPORTED.to_vec(),
        capabilities,
        instructions: instructions::for_caller(call.bridge, &call.caller.principal, call.offers_companions()),
    };
    // The instructions depend on the caller and its client.
    to_wire::cacheable(result, LIST_CACHE_TTL, wire::CacheScope::Private)
}
