//! Start of runs, including lost responses and those that do not name the run. GitHub has no idempotency key
//! for a dispatch. If a workflow is marked, the job's key is an input that its runs show in their titles. If
//! the response does not name the run, only this title identifies it. It must not repeat a dispatch that
//! GitHub may have accepted.

use std::sync::atomic::Ordering;

use taskbridge_sdk::{Error, ErrorKind, JobSpec, Observation, Result, Started};
use tokio::time::Instant;

use crate::config::Target;
use crate::core::Actions;
use crate::driver::api::{ApiResult, parse_response};
use crate::driver::callers::AuthenticatedClient;
use crate::driver::error::{Failure, RetrySafety};
use crate::driver::wire::{DispatchResponse, Run, Runs};
use crate::driver::workflow::MARKER;
use crate::identity::handle::{RunHandle, runs_path};
use crate::submit::request::DispatchRequest;

/// Maximum number of pages that are searched for a key: GitHub lists at most a thousand runs.
const MAX_PAGES: usize = 10;

impl Actions {
    pub(crate) async fn start_job(&self, job: &JobSpec) -> Result<Started> {
        let target: Target = job.parse_target()?;
        let repository = self.repository_of(&target)?;
        if let Some(template) = &target.attach {
            return self.attach(job, &target, repository, template).await;
        }
        if let Some(template) = &target.rerun {
            return self.rerun(job, &target, repository, template).await;
        }
        if job.may_exist {
            let found = self.search_run(job, &target, repository).await?;
            return match found {
                Some(started) => Ok(started),
                None => Err(self.not_found_error(job, &target, repository).await),
            };
        }
        let by = self.client_for_start(job)?;
        let request = self.build_dispatch(job, &target, repository).await?;
        match self.dispatch(by, &request).await {
            Ok(Some(run)) => {
                self.list_cache.mark_changed(run, Instant::now());
                Ok(self.build_started(&request.run_handle(run), None).await)
            }
            // GitHub accepted the dispatch without returning the run id.
            Ok(None) => self.search_run(job, &target, repository).await.ok().flatten().ok_or_else(|| {
                Error::uncertain("GitHub accepted the dispatch but does not list the run yet")
            }),
            Err(failure) if failure.has_status(422) => {
                Err(self.dispatch_error(job, &target, repository, &request, failure).await)
            }
            Err(failure) if failure.error.kind() == ErrorKind::Uncertain && !request.marked => {
                Err(self.unmarked_error(&failure.error.to_string(), &request.repository, &request.workflow))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Returns the credential that starts a job. A person without a token is no fault of the backend, so the
    /// error is `Rejected`.
    pub(crate) fn client_for_start(&self, job: &JobSpec) -> Result<&AuthenticatedClient> {
        self.client_for(job.on_behalf_of.as_ref()).map_err(|error| Error::rejected(error.to_string()))
    }

    /// Sends the dispatch. Returns the run id if GitHub reports it. If this GitHub never does, a workflow
    /// that is not marked is not dispatched.
    async fn dispatch(&self, by: &AuthenticatedClient, request: &DispatchRequest) -> ApiResult<Option<u64>> {
        let label = format!("dispatch of {}", request.workflow);
        if !self.omits_run_details.load(Ordering::Relaxed) {
            match self
                .api
                .post(by, &label, RetrySafety::Unsafe, &request.path(), Some(&request.body(true)))
                .await
            {
                Ok((200, body)) => {
                    let response: DispatchResponse = parse_response(&label, RetrySafety::Unsafe, &body)?;
                    return Ok(Some(response.workflow_run_id));
                }
                Ok(_) => return Ok(None),
                // An older GitHub Enterprise Server does not know the key, and has started nothing.
                Err(failure)
                    if failure.has_status(422)
                        && failure.error.to_string().contains("return_run_details") =>
                {
                    self.omits_run_details.store(true, Ordering::Relaxed);
                }
                Err(failure) => return Err(failure),
            }
        }
        if !request.marked {
            let error = Error::config(format!(
                "this GitHub does not return the run id of a dispatch, so {} must carry a mark: declare the input `{MARKER}` \
                 and show it in `run-name`",
                request.workflow
            ));
            return Err(Failure { status: None, error });
        }
        let result =
            self.api.post(by, &label, RetrySafety::Unsafe, &request.path(), Some(&request.body(false))).await;
        result.map(|_| None)
    }

    /// Translates GitHub's refusal of a dispatch: nothing was started. If the file has changed since it was
    /// read, the error is `Unavailable`, so that the start is retried.
    async fn dispatch_error(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
        request: &DispatchRequest,
        failure: Failure,
    ) -> Error {
        let message = failure.error.to_string();
        // This is a fault of the deployment, not of the caller.
        if message.contains("disabled workflow") {
            return Error::config(format!("{message}: enable {} at GitHub", request.workflow));
        }
        match self.build_dispatch_uncached(job, target, repository).await {
            Ok(current) if current == *request => failure.into(),
            Ok(_) => {
                Error::unavailable(format!("{} has changed at GitHub: nothing was started", request.workflow))
            }
            Err(error) => error,
        }
    }

    /// Searches for the run of a job. It starts none.
    pub(crate) async fn find_job(&self, job: &JobSpec) -> Result<Option<Started>> {
        let target: Target = job.parse_target()?;
        let repository = self.repository_of(&target)?;
        if let Some(template) = &target.attach {
            return match self.attach(job, &target, repository, template).await {
                Err(error) if error.kind() == ErrorKind::Rejected => Ok(None),
                result => result.map(Some),
            };
        }
        if let Some(template) = &target.rerun {
            return self.find_rerun(job, &target, repository, template).await;
        }
        match self.search_run(job, &target, repository).await? {
            Some(started) => Ok(Some(started)),
            None if self.is_marked(job, &target, repository).await == Some(false) => {
                Err(self.not_found_error(job, &target, repository).await)
            }
            None => Ok(None),
        }
    }

    /// Returns the run that shows the job's key, if any of the thousand newest dispatched runs does. Two such
    /// runs on one page are an `Uncertain` error.
    async fn search_run(&self, job: &JobSpec, target: &Target, repository: &str) -> Result<Option<Started>> {
        for page in 1..=MAX_PAGES {
            let path = runs_path(repository, &target.workflow, page);
            let runs: Runs = self.api.get("the runs", &path).await?;
            let is_last_page = runs.workflow_runs.len() < 100;
            let shows_key = |run: &Run| {
                run.display_title.as_deref().is_some_and(|title| title.contains(job.key.as_str()))
            };
            let mut candidates = runs.workflow_runs.into_iter().filter(shows_key);
            if let Some(run) = candidates.next() {
                if let Some(other) = candidates.next() {
                    return Err(Error::uncertain(format!(
                        "two runs carry this job's key, {} and {}: check at GitHub which one is right",
                        run.id, other.id
                    )));
                }
                let (repository, repository_id) = self.current_name_and_id(repository);
                let run_handle = RunHandle {
                    repository,
                    repository_id,
                    workflow: target.workflow.clone(),
                    run: run.id,
                    attempt: 1,
                    attached: false,
                };
                return Ok(Some(self.build_started(&run_handle, Some(run)).await));
            }
            if is_last_page {
                break;
            }
        }
        Ok(None)
    }

    /// Returns a run as started. If `run` was read, its first observation is included; if that fails, a later
    /// poll replaces it.
    pub(crate) async fn build_started(&self, run_handle: &RunHandle, run: Option<Run>) -> Started {
        let first: Option<Observation> = match run {
            Some(run) => self.interpret_run(run_handle, run, true).await.ok(),
            None => None,
        };
        Started { handle: run_handle.job_handle(), first }
    }

    fn repository_of<'a>(&'a self, target: &'a Target) -> Result<&'a str> {
        let repository = target.repository.as_deref().or(self.repository.as_deref());
        repository.ok_or_else(|| Error::config("neither the target nor the backend names a `repository`"))
    }

    async fn not_found_error(&self, job: &JobSpec, target: &Target, repository: &str) -> Error {
        match self.is_marked(job, target, repository).await {
            Some(false) => {
                let (repository, _) = self.current_name_and_id(repository);
                self.unmarked_error("it is unknown whether a run was started", &repository, &target.workflow)
            }
            _ => Error::uncertain("it is unknown whether a run was started: no run carries this job's key"),
        }
    }

    /// Returns the final `Uncertain` error of an unanswered dispatch of a workflow whose runs show no key.
    fn unmarked_error(&self, reason: &str, repository: &str, workflow: &str) -> Error {
        let url = format!("{}/{repository}/actions/workflows/{workflow}", self.web_url);
        Error::uncertain(format!(
            "{reason}; the runs of {workflow} carry no mark, so the run cannot be found: see {url}"
        ))
        .into_final()
    }
}
