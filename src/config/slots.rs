//! Slots: the counted places that a tool's jobs take while they may run. Every limit of the config is one slot.

use std::collections::BTreeMap;

use super::Backend;
use super::shape::ConcurrencyGroup;
use super::tool_shape::Tool;

/// The slots of a tool's jobs, and the most jobs that may hold each of them.
pub(super) fn of(
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
