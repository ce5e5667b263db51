//! Existing runs: a run that was started elsewhere is followed, and an ended run is rerun. GitHub counts the
//! attempts of a run, and this count is the fence. A call that names the attempt to rerun gets one more
//! attempt, and never a second.

use taskbridge_sdk::{Error, ErrorKind, JobHandle, JobSpec, Result, Started, one_line};
use tokio::time::Instant;

use crate::config::Target;
use crate::core::Actions;
use crate::driver::error::{Failure, RetrySafety};
use crate::driver::wire::Run;
use crate::identity::handle::RunHandle;
use crate::submit::inputs::render;

/// Run that a caller named.
struct NamedRun {
    /// Contains the newest attempt.
    run_handle: RunHandle,
    run: Run,
    /// Attempt that the caller named, if any.
    attempt: Option<u64>,
}

impl Actions {
    /// Attaches to the newest attempt of a run that was started elsewhere.
    pub(crate) async fn attach(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
        template: &str,
    ) -> Result<Started> {
        let NamedRun { run_handle, run, .. } =
            self.resolve_run(job, target, repository, ("attach", template)).await?;
        Ok(self.build_started(&RunHandle { attached: true, ..run_handle }, Some(run)).await)
    }

    /// Reruns an ended run, as a new attempt.
    pub(crate) async fn rerun(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
        template: &str,
    ) -> Result<Started> {
        if job.may_exist {
            let found = self.find_rerun(job, target, repository, template).await?;
            return found.ok_or_else(|| Error::uncertain("the run has no newer attempt yet"));
        }
        let by = self.client_for_start(job)?;
        let NamedRun { mut run_handle, run, attempt } =
            self.resolve_run(job, target, repository, ("rerun", template)).await?;
        let (number, newest_attempt) = (run_handle.run, run_handle.attempt);
        if attempt.is_some_and(|attempt| attempt != newest_attempt) {
            return Err(Error::rejected(format!(
                "the run {number} has a newer attempt: name its newest attempt, {newest_attempt}"
            )));
        }
        if run.status.as_deref() != Some("completed") {
            return Err(Error::rejected(format!(
                "the run {number} still runs: wait until it ends, or cancel it"
            )));
        }
        if target.only_failed && run.conclusion.as_deref() == Some("success") {
            return Err(Error::rejected(format!("no job of the run {number} failed")));
        }
        let operation = if target.only_failed { "rerun-failed-jobs" } else { "rerun" };
        let path = format!("{}/{operation}", run_handle.path());
        self.api.post(by, operation, RetrySafety::Unsafe, &path, None).await.map_err(rerun_error)?;
        run_handle.attempt = newest_attempt + 1;
        self.list_cache.mark_changed(number, Instant::now());
        Ok(self.build_started(&run_handle, None).await)
    }

    /// Finds the attempt that an earlier call may have started: the one after the attempt that the caller
    /// named. If the caller named a run without its attempt, the new attempt cannot be identified, and the
    /// error is a final `Uncertain`.
    pub(crate) async fn find_rerun(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
        template: &str,
    ) -> Result<Option<Started>> {
        let named_run = match self.resolve_run(job, target, repository, ("rerun", template)).await {
            Err(error) if error.kind() == ErrorKind::Rejected => return Ok(None),
            result => result?,
        };
        let NamedRun { run_handle, run, attempt } = named_run;
        let Some(attempt) = attempt else {
            let address = run.html_url.as_deref().unwrap_or(&run_handle.repository);
            return Err(Error::uncertain(format!(
                "the call named run {} without its attempt, so the attempt that it started cannot be identified: see {address}",
                run_handle.run
            ))
            .into_final());
        };
        if attempt >= run_handle.attempt {
            return Ok(None);
        }
        let run_handle = RunHandle { attempt: attempt + 1, ..run_handle };
        Ok(Some(self.build_started(&run_handle, Some(run)).await))
    }

    /// Returns the run that a template of the target names.
    async fn resolve_run(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
        (field, template): (&str, &str),
    ) -> Result<NamedRun> {
        let reference = render(job, field, template)?
            .ok_or_else(|| Error::rejected(format!("`{field}` needs a parameter that was not given")))?;
        let (name, repository_id) = self.current_name_and_id(repository);
        let (number, attempt) =
            run_and_attempt(&reference, &[repository, &name], repository_id).ok_or_else(|| {
                let reference = one_line(&reference);
                Error::rejected(format!(
                    "`{reference}` is neither the number nor the address of a run of {repository}"
                ))
            })?;
        let mut run_handle = RunHandle {
            repository: name,
            repository_id,
            workflow: target.workflow.clone(),
            run: number,
            attempt: 1,
            attached: false,
        };
        let run: Run = match self.api.get("the run", &run_handle.path()).await {
            Ok(run) => run,
            Err(failure) if failure.has_status(404) => {
                return Err(Error::rejected(format!("{repository} has no run {number}")));
            }
            Err(failure) => return Err(failure.into()),
        };
        let file = run.path.as_deref().and_then(|path| path.split('@').next()?.rsplit('/').next());
        if file != Some(target.workflow.as_str()) {
            return Err(Error::rejected(format!("the run {number} is not a run of {}", target.workflow)));
        }
        run_handle.attempt = run.run_attempt.unwrap_or(1);
        Ok(NamedRun { run_handle, run, attempt })
    }
}

/// Translates the failure of a rerun. GitHub rejects a run that cannot be rerun with the same status as
/// missing permissions, so its text decides.
fn rerun_error(failure: Failure) -> Error {
    let message = failure.error.to_string();
    let rerun_rejections = ["already running", "cannot be rerun", "cannot be retried"];
    if failure.has_status(403) && rerun_rejections.iter().any(|part| message.contains(part)) {
        return Error::rejected(message);
    }
    failure.into()
}

/// Parses the number of a run and, if present, of its attempt. The repository must have one of these names,
/// or this id.
///
/// `reference` is a number, an address with `owner/name/actions/runs/NUMBER` and optionally
/// `/attempts/NUMBER`, or, if a caller named a task, the handle of its job.
fn run_and_attempt(reference: &str, names: &[&str], id: Option<u64>) -> Option<(u64, Option<u64>)> {
    let is_in_repository = |run_handle: &RunHandle| {
        names.contains(&run_handle.repository.as_str()) || (id.is_some() && run_handle.repository_id == id)
    };
    if let Some(run_handle) = RunHandle::parse(&JobHandle::new(reference)).filter(is_in_repository) {
        return Some((run_handle.run, Some(run_handle.attempt)));
    }
    let number = |text: &str| -> Option<u64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let reference = reference.trim();
    let mut splits = names.iter().filter_map(|name| reference.split_once(&format!("/{name}/actions/runs/")));
    let Some((_, rest)) = splits.next() else {
        return Some((number(reference)?, None));
    };
    let mut parts = rest.split(['/', '?', '#']);
    let run = number(parts.next()?)?;
    let attempt = match (parts.next(), parts.next()) {
        (Some("attempts"), Some(attempt)) => Some(number(attempt)?),
        _ => None,
    };
    Some((run, attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run is named by its number, its URL or its handle, and must belong to the repository.
    #[test]
    fn run_number_or_url_is_parsed() {
        for (reference, expected) in [
            ("30433642", Some((30_433_642, None))),
            (" https://github.com/octo-org/app/actions/runs/30433642 ", Some((30_433_642, None))),
            ("https://github.com/octo-org/app/actions/runs/30433642/job/5?pr=1", Some((30_433_642, None))),
            ("https://github.com/octo-org/app/actions/runs/30433642/attempts/2", Some((30_433_642, Some(2)))),
            ("https://github.com/octo-org/app/actions/runs/30433642/attempts/x", None),
            ("https://github.com/octo-org/other/actions/runs/30433642", None),
            ("octo-org/app/release.yml/30433642/2", Some((30_433_642, Some(2)))),
            ("octo-org/other/release.yml/30433642/2", None),
            ("octo-org/before/release.yml@41/30433642/2", Some((30_433_642, Some(2)))),
            ("octo-org/before/release.yml@42/30433642/2", None),
            ("https://github.com/octo-org/newer/actions/runs/30433642", Some((30_433_642, None))),
            ("latest", None),
            ("-1", None),
            ("", None),
        ] {
            let names = ["octo-org/app", "octo-org/newer"];
            assert_eq!(run_and_attempt(reference, &names, Some(41)), expected, "{reference}");
        }
    }
}
