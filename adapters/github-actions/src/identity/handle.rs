//! Handle of a run: `owner/name/release.yml@REPOSITORY/RUN/ATTEMPT`, followed by `/attached` if the run was
//! started elsewhere. REPOSITORY is the repository's id, which survives a rename; handles of earlier versions
//! have none. Workflow files and names of repositories contain no slash, and workflow files end in `.yml` or
//! `.yaml`. Pure.

use taskbridge_sdk::{GroupKey, JobHandle};

/// Run, with all that requests for it need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunHandle {
    /// `owner/name`.
    pub(crate) repository: String,
    /// Id of the repository, if known.
    pub(crate) repository_id: Option<u64>,
    /// File of the workflow.
    pub(crate) workflow: String,
    pub(crate) run: u64,
    /// A rerun keeps the run's number and is another attempt. A job is one attempt.
    pub(crate) attempt: u64,
    pub(crate) attached: bool,
}

impl RunHandle {
    pub(crate) fn parse(handle: &JobHandle) -> Option<Self> {
        let parts: Vec<&str> = handle.as_str().split('/').collect();
        let (owner, name, workflow, run, attempt, attached) = match parts[..] {
            [owner, name, workflow, run, attempt] => (owner, name, workflow, run, attempt, false),
            [owner, name, workflow, run, attempt, "attached"] => (owner, name, workflow, run, attempt, true),
            _ => return None,
        };
        let file_and_id = workflow.rsplit_once('@').and_then(|(file, id)| Some((file, id.parse().ok()?)));
        let (workflow, repository_id) = file_and_id.map_or((workflow, None), |(file, id)| (file, Some(id)));
        Some(Self {
            repository: format!("{owner}/{name}"),
            repository_id,
            workflow: workflow.to_owned(),
            run: run.parse().ok()?,
            attempt: attempt.parse().ok()?,
            attached,
        })
    }

    pub(crate) fn job_handle(&self) -> JobHandle {
        let suffix = if self.attached { "/attached" } else { "" };
        let id = self.repository_id.map(|id| format!("@{id}")).unwrap_or_default();
        let Self { repository, workflow, run, attempt, .. } = self;
        JobHandle::new(format!("{repository}/{workflow}{id}/{run}/{attempt}{suffix}"))
    }

    /// Groups runs by workflow: one list reports on all of them.
    pub(crate) fn group(&self) -> GroupKey {
        GroupKey::new(format!("{}/{}", self.repository, self.workflow))
    }

    /// Returns the path of the run in the API.
    pub(crate) fn path(&self) -> String {
        format!("/repos/{}/actions/runs/{}", self.repository, self.run)
    }

    /// Returns the path of the attempt in the API.
    pub(crate) fn attempt_path(&self) -> String {
        format!("{}/attempts/{}", self.path(), self.attempt)
    }
}

/// Returns the path of a page of the dispatched runs of a workflow, newest first.
pub(crate) fn runs_path(repository: &str, workflow: &str, page: usize) -> String {
    format!(
        "/repos/{repository}/actions/workflows/{workflow}/runs?event=workflow_dispatch&per_page=100&page={page}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handle with or without a repository id leads back to its run. Other text is rejected.
    #[test]
    fn handle_round_trips_to_run() {
        for text in [
            "octo-org/app/release.yml/30433642/1",
            "octo-org/app/release.yml/30433642/2/attached",
            "octo-org/app/release.yml@41/30433642/1",
            "octo-org/app/release.yml@41/30433642/2/attached",
        ] {
            let run_handle = RunHandle::parse(&JobHandle::new(text)).unwrap();
            assert_eq!(run_handle.job_handle().as_str(), text);
            assert_eq!(run_handle.group().as_str(), "octo-org/app/release.yml");
            assert_eq!(run_handle.repository_id, text.contains('@').then_some(41));
        }
        for text in ["", "a/b/c.yml/1", "a/b/c.yml/x/1", "a/b/c.yml/1/1/else", "a/b/c.yml/1/1/attached/1"] {
            assert_eq!(RunHandle::parse(&JobHandle::new(text)), None, "{text}");
        }
    }
}
