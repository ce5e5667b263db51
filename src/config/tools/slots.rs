//! Slots: the concurrency limits that a tool's jobs count against. Every limit of the config is one slot,
//! with the name of the object that has the limit.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::backends::Backend;
use super::shape::Tool;
use crate::config::server::owner_limits::OwnerLimits;
use crate::config::server::shape::ConcurrencyGroup;
use crate::tasks::task::slots::{OWNER_PREFIX, TOOL_OWNER_SEPARATOR};

/// Returns the slots of a tool's jobs with their limits.
pub(super) fn tool_slots(
    name: &str,
    tool: &Tool,
    backends: &BTreeMap<String, Backend>,
    groups: &BTreeMap<String, ConcurrencyGroup>,
) -> Vec<(String, u32)> {
    let mut slots = Vec::new();
    if let Some(limit) = tool.max_running {
        slots.push((format!("tool:{name}"), limit.get()));
    }
    if let Some(limit) = backends.get(&tool.backend).and_then(|backend| backend.max_running) {
        slots.push((format!("backend:{}", tool.backend), limit.get()));
    }
    if let Some(group) = &tool.concurrency_group {
        let limit = groups.get(group).cloned().unwrap_or_default().limit;
        slots.push((format!("group:{group}"), limit.get()));
    }
    slots
}

/// Returns the slots of a tool's jobs per owner, without the owner's name, with their limits.
pub(super) fn owner_slots(name: &str, tool: &Tool, owner: &OwnerLimits) -> Vec<(String, u32)> {
    let by_tool =
        tool.max_running_per_owner.map(|limit| (format!("tool:{name}{TOOL_OWNER_SEPARATOR}"), limit.get()));
    std::iter::once((OWNER_PREFIX.to_owned(), owner.max_running.get())).chain(by_tool).collect()
}

/// Returns the limits of all possible slots, used or not: a task may still occupy or wait for a slot that its
/// tool no longer has. `None` is unlimited.
pub(in crate::config) fn limits<'a>(
    used: impl IntoIterator<Item = (String, u32)>,
    tools: impl IntoIterator<Item = &'a str>,
    backends: &BTreeMap<String, Backend>,
    groups: &BTreeMap<String, ConcurrencyGroup>,
) -> BTreeMap<String, Option<u32>> {
    let tools = tools.into_iter().map(|name| (format!("tool:{name}"), None));
    let backends = backends
        .iter()
        .map(|(name, backend)| (format!("backend:{name}"), backend.max_running.map(NonZeroU32::get)));
    let groups = groups.iter().map(|(name, group)| (format!("group:{name}"), Some(group.limit.get())));
    let used = used.into_iter().map(|(slot, limit)| (slot, Some(limit)));
    tools.chain(backends).chain(groups).chain(used).collect()
}
