//! What is to be known of a job after its start: written into its folder before it is submitted, since a handle says no more than
//! which job it is. Plain data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use crate::driver::JobId;
use crate::indices;
use crate::unix::UnixUser;

/// What a job's folder says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The tasks of an array, as Slurm writes them.
    pub(crate) array: Option<String>,
    /// What was asked of Slurm, by the names of sbatch's options.
    pub(crate) asked: BTreeMap<String, String>,
    /// The parameters that said so.
    pub(crate) parameters: BTreeMap<String, String>,
    /// The folder in which the script runs.
    pub(crate) root: PathBuf,
    /// The file of the result, within it.
    pub(crate) result: Option<String>,
    /// The patterns of the artifacts.
    pub(crate) artifacts: Vec<String>,
    pub(crate) max_artifact_bytes: u64,
    pub(crate) requeue: bool,
    /// What somebody must approve before the job begins.
    pub(crate) approval: Option<String>,
    /// The Unix user whose job it is, if it is not our own.
    #[serde(default)]
    pub(crate) user: Option<UnixUser>,
    /// The job that is followed and was submitted by somebody else.
    pub(crate) attached: Option<Attached>,
}

/// A job of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) job: JobId,
    pub(crate) name: String,
    pub(crate) submitted: Option<Timestamp>,
}

impl Plan {
    /// The tasks of the array, if it is one.
    pub(crate) fn tasks(&self) -> Option<Vec<u32>> {
        self.array.as_deref().and_then(indices::parse)
    }

    /// True if it is the job of this user, or without one our own. Who somebody is does not depend on the group that we share with
    /// them.
    pub(crate) fn is_of(&self, user: Option<&UnixUser>) -> bool {
        let who = |user: &UnixUser| (user.name.clone(), user.number);
        self.user.as_ref().map(who) == user.map(who)
    }

    pub(crate) fn time_limit(&self) -> Option<Duration> {
        crate::amount::time(self.asked.get("time")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_stays_its_users_as_the_group_that_is_shared_with_them_changes() {
        let user = |name: &str, number, group| UnixUser { name: name.to_owned(), number, group };
        let theirs = Plan { user: Some(user("asmith", 1001, 50)), ..Plan::default() };
        assert!(theirs.is_of(Some(&user("asmith", 1001, 51))));
        for other in [Some(user("asmith", 1002, 50)), Some(user("bjones", 1001, 50)), None] {
            assert!(!theirs.is_of(other.as_ref()), "{other:?}");
        }
        assert!(Plan::default().is_of(None) && !Plan::default().is_of(Some(&user("asmith", 1001, 50))));
    }
}
