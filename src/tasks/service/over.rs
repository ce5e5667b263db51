//! The limits that a call can be over. What counts is the store; it must not be done here.

use crate::tasks::slots::{OF_GROUP, OF_OWNER};

/// A limit that a call is over.
#[derive(Debug, thiserror::Error)]
pub enum Over {
    /// A slot is taken up, or others wait for it, and the tool refuses calls then.
    #[error("tool {tool} refuses calls while {}: try again when a running task has ended", why(slot.as_deref()))]
    Full {
        /// The tool.
        tool: String,
        /// The slot, if one is taken up.
        slot: Option<String>,
    },
    /// The caller runs as much as one owner may.
    #[error("as many tasks{} of yours run as may run at once ({most}): call again when one of them has ended", of(tool.as_deref()))]
    Running {
        /// How many.
        most: u32,
        /// Of this tool; without it, of all.
        tool: Option<String>,
    },
    /// The caller keeps as many tasks as one owner may.
    #[error(
        "you have {most} tasks that are kept, and may have no more: call again when some have expired, and ask for shorter lifetimes (ttl)"
    )]
    Kept {
        /// How many.
        most: u32,
    },
    /// The caller keeps as many bytes as one owner may, or the call needs more than are left.
    #[error(
        "your tasks and their results take {kept} of {most} bytes (limits.owner.max_bytes), which leaves too few for this call: call \
         again when some have expired, and ask for shorter lifetimes (ttl)"
    )]
    Bytes {
        /// How many are kept.
        kept: u64,
        /// How many may be.
        most: u64,
    },
}

impl Over {
    /// The setting that says how much there may be.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Full { slot: Some(slot), .. } if slot.starts_with(OF_GROUP) => "concurrency_groups.limit",
            Self::Full { .. } => "max_running",
            Self::Running { tool: Some(_), .. } => "max_running_per_owner",
            Self::Running { tool: None, .. } => "limits.owner.max_running",
            Self::Kept { .. } => "limits.owner.max_kept",
            Self::Bytes { .. } => "limits.owner.max_bytes",
        }
    }

    /// The owner's slot of this name is taken up, of which there may be so many.
    pub(super) fn of_slot(slot: &str, most: u32, tool: &str) -> Self {
        let of_all = slot.starts_with(OF_OWNER);
        Self::Running { most, tool: (!of_all).then(|| tool.to_owned()) }
    }
}

fn why(slot: Option<&str>) -> String {
    slot.map_or_else(|| "others wait in line".to_owned(), |slot| format!("`{slot}` is taken up"))
}

fn of(tool: Option<&str>) -> String {
    tool.map_or_else(String::new, |tool| format!(" of tool {tool}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_named_by_its_field_and_its_slot() {
        let full = |slot: Option<&str>| Over::Full { tool: "x".to_owned(), slot: slot.map(str::to_owned) };
        for (over, setting, says) in [
            (full(Some("tool:x")), "max_running", "while `tool:x` is taken up"),
            (full(Some("group:db")), "concurrency_groups.limit", "while `group:db` is taken up"),
            (full(None), "max_running", "while others wait in line"),
            (Over::of_slot("owner:ann", 2, "x"), "limits.owner.max_running", "as many tasks of yours run"),
            (Over::of_slot("tool:x/owner:ann", 2, "x"), "max_running_per_owner", "tasks of tool x of yours"),
            (
                Over::Bytes { kept: 7, most: 9 },
                "limits.owner.max_bytes",
                "take 7 of 9 bytes (limits.owner.max_bytes)",
            ),
        ] {
            assert_eq!(over.setting(), setting);
            let words = over.to_string();
            assert!(words.contains(says) && !words.contains("ann"), "{words}");
        }
    }
}
