//! The limits that a call can exceed. The store counts; this module must not.

use crate::tasks::task::slots::{GROUP_PREFIX, OWNER_PREFIX};

/// A limit that a call exceeds.
#[derive(Debug, thiserror::Error)]
pub enum LimitExceeded {
    /// A slot is full, or rows queue for it, and the tool refuses calls in this case.
    #[error("tool {tool} refuses calls while {}: try again when a running task has ended", why(slot.as_deref()))]
    Full {
        /// The tool.
        tool: String,
        /// The slot, if one is full.
        slot: Option<String>,
    },
    /// The owner's limit of running tasks is reached.
    #[error("your limit of running tasks{} is reached ({most}): call again when one of them has ended", of(tool.as_deref()))]
    Running {
        /// The limit.
        most: u32,
        /// The tool that the limit applies to; `None` for all tools.
        tool: Option<String>,
    },
    /// The owner's limit of stored tasks is reached.
    #[error(
        "your limit of kept tasks is reached ({most}): call again when some have expired, and request shorter lifetimes (ttl)"
    )]
    Kept {
        /// The limit.
        most: u32,
    },
    /// The call would exceed the owner's limit of stored bytes.
    #[error(
        "your tasks and their results take {kept} of {most} bytes (limits.owner.max_bytes), which leaves too few for this call: call \
         again when some have expired, and request shorter lifetimes (ttl)"
    )]
    Bytes {
        /// The bytes that are stored now.
        kept: u64,
        /// The limit.
        most: u64,
    },
}

impl LimitExceeded {
    /// Returns the name of the setting that defines the limit.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Full { slot: Some(slot), .. } if slot.starts_with(GROUP_PREFIX) => {
                "concurrency_groups.limit"
            }
            Self::Full { .. } => "max_running",
            Self::Running { tool: Some(_), .. } => "max_running_per_owner",
            Self::Running { tool: None, .. } => "limits.owner.max_running",
            Self::Kept { .. } => "limits.owner.max_kept",
            Self::Bytes { .. } => "limits.owner.max_bytes",
        }
    }

    /// Returns the error for a full slot of an owner, with its limit `most`. The error must not name the
    /// owner.
    pub(super) fn of_slot(slot: &str, most: u32, tool: &str) -> Self {
        let of_all = slot.starts_with(OWNER_PREFIX);
        Self::Running { most, tool: (!of_all).then(|| tool.to_owned()) }
    }
}

fn why(slot: Option<&str>) -> String {
    slot.map_or_else(|| "other calls are queued".to_owned(), |slot| format!("`{slot}` is full"))
}

fn of(tool: Option<&str>) -> String {
    tool.map_or_else(String::new, |tool| format!(" of tool {tool}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message names the field and the slot of the limit, and not the owner.
    #[test]
    fn limit_error_names_setting() {
        let full =
            |slot: Option<&str>| LimitExceeded::Full { tool: "x".to_owned(), slot: slot.map(str::to_owned) };
        for (error, setting, says) in [
            (full(Some("tool:x")), "max_running", "while `tool:x` is full"),
            (full(Some("group:db")), "concurrency_groups.limit", "while `group:db` is full"),
            (full(None), "max_running", "while other calls are queued"),
            (
                LimitExceeded::of_slot("owner:ann", 2, "x"),
                "limits.owner.max_running",
                "your limit of running tasks is reached (2)",
            ),
            (
                LimitExceeded::of_slot("tool:x/owner:ann", 2, "x"),
                "max_running_per_owner",
                "running tasks of tool x is reached",
            ),
            (
                LimitExceeded::Bytes { kept: 7, most: 9 },
                "limits.owner.max_bytes",
                "take 7 of 9 bytes (limits.owner.max_bytes)",
            ),
        ] {
            assert_eq!(error.setting(), setting);
            let message = error.to_string();
            assert!(message.contains(says) && !message.contains("ann"), "{message}");
        }
    }
}
