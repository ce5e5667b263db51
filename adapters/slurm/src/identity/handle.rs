//! A job's handle: `CLUSTER/NUMBER/KEY`, and for a job of another Unix user `CLUSTER/NUMBER/KEY/USER`. The
//! number alone is no proof, since Slurm may reuse it. The key is the name that the job must have, and the
//! name of its folder.

use taskbridge_sdk::{GroupKey, JobHandle};

/// The number of a job. Each task of an array has a number of its own, in addition to the array's. Slurm may
/// reuse a number after a crash, so the job's name must match as well.
pub(crate) type JobId = u32;

/// The parts of a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlurmHandle {
    pub(crate) cluster: String,
    pub(crate) job: JobId,
    pub(crate) key: String,
    /// The Unix user that the job runs as, if it is not our own user.
    pub(crate) user: Option<String>,
}

impl SlurmHandle {
    /// Parses a handle. Returns `None` if it is not one of this adapter.
    pub(crate) fn parse(handle: &JobHandle) -> Option<Self> {
        let mut parts = handle.as_str().split('/');
        let (cluster, job, key) = (parts.next()?, parts.next()?, parts.next()?);
        let user = parts.next();
        let is_valid =
            !cluster.is_empty() && is_key(key) && user.is_none_or(is_user) && parts.next().is_none();
        is_valid.then_some(Self {
            cluster: cluster.to_owned(),
            job: job.parse().ok()?,
            key: key.to_owned(),
            user: user.map(str::to_owned),
        })
    }

    pub(crate) fn to_job_handle(&self) -> JobHandle {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("/{user}"));
        JobHandle::new(format!("{}/{}/{}{user}", self.cluster, self.job, self.key))
    }

    /// Returns the group. One squeue call returns all jobs of a user on a cluster.
    pub(crate) fn group(&self) -> GroupKey {
        GroupKey::new(match &self.user {
            Some(user) => format!("{}/{user}", self.cluster),
            None => self.cluster.clone(),
        })
    }
}

/// Returns true for a valid Unix user name that no command can take for an option.
pub(crate) fn is_user(name: &str) -> bool {
    let is_first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let is_other = |b: u8| b.is_ascii_alphanumeric() || b"_.@-".contains(&b);
    name.len() <= 64 && name.bytes().next().is_some_and(is_first) && name.bytes().all(is_other)
}

/// Returns true for a valid key. It becomes a path and a job's name, so it must be one plain name.
pub(crate) fn is_key(text: &str) -> bool {
    text.starts_with("tb-") && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handle leads back to its cluster, number, key and user, and other texts are no handle.
    #[test]
    fn slurm_handle_round_trips() {
        let handle = SlurmHandle::parse(&JobHandle::new("lab/17/tb-abc")).unwrap();
        assert_eq!((handle.cluster.as_str(), handle.job, handle.key.as_str()), ("lab", 17, "tb-abc"));
        assert_eq!((handle.to_job_handle().as_str(), handle.group().as_str()), ("lab/17/tb-abc", "lab"));
        let handle = SlurmHandle::parse(&JobHandle::new("lab/17/tb-abc/asmith")).unwrap();
        assert_eq!(handle.user.as_deref(), Some("asmith"));
        assert_eq!(
            (handle.to_job_handle().as_str(), handle.group().as_str()),
            ("lab/17/tb-abc/asmith", "lab/asmith")
        );
        for text in [
            "",
            "lab/17",
            "lab/x/tb-a",
            "/1/tb-a",
            "lab/1/../x",
            "lab/1/tb-a/",
            "lab/1/tb-a/-x",
            "lab/1/tb-a/x/y",
            "lab/1/x",
            "lab/-1/tb-a",
        ] {
            assert_eq!(SlurmHandle::parse(&JobHandle::new(text)), None, "{text}");
        }
    }
}
