//! The limits that a call can be over, and the names of the slots that count what belongs to one owner. What counts is the
//! store; it must not be done here.

/// What the name of a slot begins with that counts all jobs of an owner.
pub const OF_OWNER: &str = "owner:";
/// What the name of a slot has that counts the jobs of an owner by one tool, between the tool's and the owner's.
pub const OF_OWNER_BY_TOOL: &str = "/owner:";

/// True if a slot counts what belongs to one owner.
pub(super) fn is_of_owner(slot: &str) -> bool {
    slot.starts_with(OF_OWNER) || (slot.starts_with("tool:") && slot.contains(OF_OWNER_BY_TOOL))
}

/// A limit that a call is over.
#[derive(Debug, thiserror::Error)]
pub enum Over {
    /// A slot is taken up, and the tool refuses calls then.
    #[error("tool {tool} refuses calls while `{}` is taken up: try again when a running task has ended", slots.join("`, `"))]
    Full {
        /// The tool.
        tool: String,
        /// Its slots.
        slots: Vec<String>,
    },
    /// The caller runs as much as one owner may.
    #[error("as many {what} of yours run as may run at once ({most}): call again when one of them has ended")]
    Running {
        /// How many.
        most: u32,
        /// Of what.
        what: String,
    },
    /// The caller keeps as many tasks as one owner may.
    #[error(
        "you have {most} tasks that are kept, and may have no more: call again when some have expired, and ask for shorter lifetimes (ttl)"
    )]
    Kept {
        /// How many.
        most: u32,
    },
}

impl Over {
    /// The setting that says how much there may be.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Full { .. } => "max_running",
            Self::Running { .. } => "max_running of an owner",
            Self::Kept { .. } => "max_kept of an owner",
        }
    }

    /// The owner's slot of this name is taken up, of which there may be so many.
    pub(super) fn of_slot(slot: &str, most: u32, tool: &str) -> Self {
        let what =
            if slot.starts_with(OF_OWNER) { "tasks".to_owned() } else { format!("tasks of tool {tool}") };
        Self::Running { most, what }
    }
}
