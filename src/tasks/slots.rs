//! What the names of slots say of them. What counts them is the store.

/// What the name of a slot begins with that counts all jobs of an owner.
pub const OF_OWNER: &str = "owner:";
/// What the name of a slot has that counts the jobs of an owner by one tool, between the tool's and the owner's.
pub const OF_OWNER_BY_TOOL: &str = "/owner:";
/// What the name of a slot begins with that the tools of a group share.
pub const OF_GROUP: &str = "group:";

/// True if a slot counts what belongs to one owner. Its name says who that is: it is for nobody else's eyes.
pub(super) fn is_of_owner(slot: &str) -> bool {
    slot.starts_with(OF_OWNER) || (slot.starts_with("tool:") && slot.contains(OF_OWNER_BY_TOOL))
}
