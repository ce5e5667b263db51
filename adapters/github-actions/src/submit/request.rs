//! Content of a dispatch, built from the job and the workflow's file. Recent data of GitHub is reused, so
//! that a start usually consists of the dispatch alone. The server records in the task's row that it begins
//! to start, before it calls the adapter. A process that is killed between this record and the dispatch
//! leaves an uncertain task, so this time must be short. It must not dispatch anything.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, JobSpec, Result, one_line};
use tokio::time::{Instant, timeout};

use crate::check::target::allows;
use crate::config::Target;
use crate::core::Actions;
use crate::driver::workflow::{self, Workflow};
use crate::identity::handle::RunHandle;
use crate::submit::inputs::{self, render};

/// How long a workflow's file and a repository's default branch are cached.
const CACHE_TTL: Duration = Duration::from_secs(300);
/// Age at which they are refreshed if runs of the workflow are polled.
const REFRESH_AFTER: Duration = Duration::from_secs(150);
/// Maximum number of branches and tags of one workflow whose files are refreshed.
const MAX_REFS: usize = 4;

/// Dispatch to send.
#[derive(Debug, PartialEq)]
pub(crate) struct DispatchRequest {
    pub(crate) repository: String,
    repository_id: Option<u64>,
    pub(crate) workflow: String,
    git_ref: String,
    inputs: Map<String, Value>,
    /// True if the run will show the job's key.
    pub(crate) marked: bool,
}

impl DispatchRequest {
    pub(crate) fn path(&self) -> String {
        format!("/repos/{}/actions/workflows/{}/dispatches", self.repository, self.workflow)
    }

    pub(crate) fn body(&self, with_details: bool) -> Value {
        let mut body = json!({"ref": self.git_ref, "inputs": self.inputs});
        if with_details {
            body["return_run_details"] = true.into();
        }
        body
    }

    pub(crate) fn run_handle(&self, run: u64) -> RunHandle {
        RunHandle {
            repository: self.repository.clone(),
            repository_id: self.repository_id,
            workflow: self.workflow.clone(),
            run,
            attempt: 1,
            attached: false,
        }
    }
}

impl Actions {
    /// Builds the dispatch for a job, within half of `call_timeout`. If this fails, nothing was sent.
    pub(crate) async fn build_dispatch(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
    ) -> Result<DispatchRequest> {
        let build = async {
            match self.build_dispatch_cached(CACHE_TTL, job, target, repository).await {
                // Cached data may be the cause.
                Err(error) if matches!(error.kind(), ErrorKind::Rejected | ErrorKind::Config) => {
                    self.build_dispatch_uncached(job, target, repository).await
                }
                result => result,
            }
        };
        // The dispatch needs time as well: the caller's timeout covers the whole start.
        let timeout_error = || Err(Error::unavailable("GitHub answers slowly, so nothing was dispatched"));
        timeout(self.call_timeout / 2, build).await.unwrap_or_else(|_| timeout_error())
    }

    /// Builds the dispatch from current data of GitHub.
    pub(crate) async fn build_dispatch_uncached(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
    ) -> Result<DispatchRequest> {
        self.build_dispatch_cached(Duration::ZERO, job, target, repository).await
    }

    async fn build_dispatch_cached(
        &self,
        max_age: Duration,
        job: &JobSpec,
        target: &Target,
        repository: &str,
    ) -> Result<DispatchRequest> {
        let git_ref = self.resolve_ref(max_age, job, target, repository).await?;
        let definition = self.read_workflow(max_age, target, repository, &git_ref).await?;
        if self.known_repository(repository).is_none() {
            self.default_branch(Duration::MAX, repository).await?;
        }
        let (repository, repository_id) = self.current_name_and_id(repository);
        Ok(DispatchRequest {
            repository,
            repository_id,
            workflow: target.workflow.clone(),
            git_ref,
            inputs: inputs::build(job, target, &definition)?,
            marked: definition.marked,
        })
    }

    /// Returns whether the runs of a job show its key, by a cached response of any age if there is one.
    /// `None` if that is unknown.
    pub(crate) async fn is_marked(&self, job: &JobSpec, target: &Target, repository: &str) -> Option<bool> {
        let git_ref = self.resolve_ref(Duration::MAX, job, target, repository).await.ok()?;
        let definition = self.read_workflow(Duration::MAX, target, repository, &git_ref).await.ok()?;
        Some(definition.marked)
    }

    async fn resolve_ref(
        &self,
        max_age: Duration,
        job: &JobSpec,
        target: &Target,
        repository: &str,
    ) -> Result<String> {
        let rendered = match &target.git_ref {
            Some(template) => render(job, "ref", template)?,
            None => None,
        };
        let Some(git_ref) = rendered else {
            return self.default_branch(max_age, repository).await;
        };
        if !allows(target.allowed_refs.as_deref(), &git_ref) {
            let allowed_refs = target.allowed_refs.as_deref().unwrap_or_default().join("`, `");
            return Err(Error::rejected(format!(
                "`{}` is not among the allowed refs: `{allowed_refs}`",
                one_line(&git_ref)
            )));
        }
        Ok(git_ref)
    }

    /// Reads the workflow's file. If the caller chose the branch, a missing file is the caller's error.
    async fn read_workflow(
        &self,
        max_age: Duration,
        target: &Target,
        repository: &str,
        git_ref: &str,
    ) -> Result<Workflow> {
        let result = workflow::fetch(&self.api, max_age, repository, &target.workflow, git_ref).await;
        let is_chosen_by_caller = target.git_ref.as_deref().is_some_and(|template| template.contains("{{"));
        result.map_err(|error| match error.kind() {
            ErrorKind::Config if is_chosen_by_caller => Error::rejected(error.to_string()),
            _ => error,
        })
    }

    /// Refreshes the data that starts of a workflow need before it expires: its file at the default branch
    /// and at the branches of recent runs, up to `MAX_REFS`. Does nothing if the hourly limit is scarce.
    pub(crate) async fn prefetch(&self, group: &GroupKey, recent_refs: BTreeSet<String>) {
        let Some((repository, file)) = group.as_str().rsplit_once('/') else { return };
        if !self.api.own_client.limits.has_spare_quota() || !self.is_prefetch_due(group) {
            return;
        }
        let refresh = async {
            let mut refs = recent_refs;
            refs.extend(self.default_branch(REFRESH_AFTER, repository).await);
            for git_ref in refs.iter().take(MAX_REFS) {
                // A start reports an invalid file.
                drop(workflow::fetch_text(&self.api, REFRESH_AFTER, repository, file, git_ref).await);
            }
        };
        // It must not delay the polls.
        drop(timeout(self.call_timeout / 4, refresh).await);
    }

    /// Returns true once per interval for each workflow.
    fn is_prefetch_due(&self, group: &GroupKey) -> bool {
        let (mut prefetched_at, now) = (self.prefetched_at.lock(), Instant::now());
        prefetched_at.retain(|_, at| now - *at < REFRESH_AFTER);
        let is_due = !prefetched_at.contains_key(group);
        if is_due {
            prefetched_at.insert(group.clone(), now);
        }
        is_due
    }
}
