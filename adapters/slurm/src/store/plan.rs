//! The facts about a job that are needed after its start. They are written into its folder before the
//! submission, since the handle only identifies the job. They never change. Plain data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use crate::identity::handle::JobId;
use crate::identity::unix::UnixUser;
use crate::notation::indices;

/// The description of a job in its folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The tasks of an array, in Slurm's notation.
    pub(crate) array: Option<String>,
    /// The requested options, by their sbatch names.
    pub(crate) asked: BTreeMap<String, String>,
    /// The parameters that set those options.
    pub(crate) parameters: BTreeMap<String, String>,
    /// The folder in which the script runs.
    pub(crate) root: PathBuf,
    /// The result file, relative to that folder.
    pub(crate) result: Option<String>,
    /// The patterns of the artifacts.
    pub(crate) artifacts: Vec<String>,
    pub(crate) max_artifact_bytes: u64,
    pub(crate) requeue: bool,
    /// The question of the approval that the job needs before it begins.
    pub(crate) approval: Option<String>,
    /// The Unix user that the job runs as, if it is not our own user.
    #[serde(default)]
    pub(crate) user: Option<UnixUser>,
    /// The job that this one follows. It was submitted elsewhere.
    pub(crate) attached: Option<Attached>,
}

/// A job that was submitted elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) job: JobId,
    pub(crate) name: String,
    pub(crate) submitted: Option<Timestamp>,
}

impl Plan {
    /// Returns the tasks of the array, if it is one.
    pub(crate) fn tasks(&self) -> Option<Vec<u32>> {
        self.array.as_deref().and_then(indices::parse)
    }

    /// Returns true if it is the job of this user, or of our own user for `None`. The shared group does not
    /// matter.
    pub(crate) fn is_of(&self, user: Option<&UnixUser>) -> bool {
        let identity = |user: &UnixUser| (user.name.clone(), user.number);
        self.user.as_ref().map(identity) == user.map(identity)
    }

    pub(crate) fn time_limit(&self) -> Option<Duration> {
        crate::notation::amount::time(self.asked.get("time")?)
    }
}

/// Parses the content of the `ID` file.
pub(crate) fn read_id(bytes: &[u8]) -> Option<JobId> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job belongs to the same user after the group in `run_as` changes, and not to another user or id.
    #[test]
    fn job_ownership_survives_group_change() {
        let user = |name: &str, number, group| UnixUser { name: name.to_owned(), number, group };
        let plan = Plan { user: Some(user("asmith", 1001, 50)), ..Plan::default() };
        assert!(plan.is_of(Some(&user("asmith", 1001, 51))));
        for other in [Some(user("asmith", 1002, 50)), Some(user("bjones", 1001, 50)), None] {
            assert!(!plan.is_of(other.as_ref()), "{other:?}");
        }
        assert!(Plan::default().is_of(None) && !Plan::default().is_of(Some(&user("asmith", 1001, 50))));
    }
}
