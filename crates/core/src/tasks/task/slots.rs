//! The name formats of slots. The store counts the slots; this module must not.

/// Prefix of a slot that counts all jobs of an owner.
pub const OWNER_PREFIX: &str = "owner:";
/// Separator between tool and owner in the name of a slot that counts an owner's jobs of one tool.
pub const TOOL_OWNER_SEPARATOR: &str = "/owner:";
/// Prefix of a slot that the tools of a concurrency group of the config share.
pub const GROUP_PREFIX: &str = "group:";

/// Returns true if a slot counts the jobs of one owner (of all tools, or of one tool). Its name contains the
/// owner, so no other owner may see it.
pub(in crate::tasks) fn is_owner_slot(slot: &str) -> bool {
    slot.starts_with(OWNER_PREFIX) || (slot.starts_with("tool:") && slot.contains(TOOL_OWNER_SEPARATOR))
}
