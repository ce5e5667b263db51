//! The name formats of slots. The store counts the slots; this module must not.

/// Prefix of a slot that counts all jobs of an owner.
pub const OF_OWNER: &str = "owner:";
/// Separator between tool and owner in the name of a slot that counts an owner's jobs of one tool.
pub const OF_OWNER_BY_TOOL: &str = "/owner:";
/// Prefix of a slot that the tools of a concurrency group of the config share.
pub const OF_GROUP: &str = "group:";

/// Returns true if a slot counts the jobs of one owner (of all tools, or of one tool). Its name contains the
/// owner, so no other owner may see it.
pub(super) fn is_of_owner(slot: &str) -> bool {
    slot.starts_with(OF_OWNER) || (slot.starts_with("tool:") && slot.contains(OF_OWNER_BY_TOOL))
}
