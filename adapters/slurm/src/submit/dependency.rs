//! Dependencies: a job that begins after another job of this backend. If the end of that job is stored, it
//! decides. If a part of that job is still pending or running, Slurm waits for it. A job number alone is
//! never trusted: the folder of the job must contain the same number.

use serde_json::Value;
use taskbridge_sdk::{Error, JobHandle, JobSpec, JobState, Observation, Result, TemplateContext, Templates};

use crate::config::{After, When};
use crate::core::Slurm;
use crate::identity::handle::{self, JobId, SlurmHandle};
use crate::store::folder::{FINAL_OBSERVATION, ID, PLAN, read_error};
use crate::store::plan::{Plan, read_id};

/// A job that a caller refers to, by the handle of its task or by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobReference {
    pub(crate) job: JobId,
    /// The name that the job must have, if the caller gave the handle of a task.
    pub(crate) key: Option<String>,
}

/// Renders the template and parses the result. Returns `None` if the template refers only to a parameter that
/// was not given.
pub(crate) fn parse_reference(job: &JobSpec, field: &str, template: &str) -> Result<Option<JobReference>> {
    let arguments = job.arguments.as_object().cloned().unwrap_or_default();
    let context = TemplateContext::new(&arguments, Value::Null, Value::Null);
    if !context.has_value(template) {
        return Ok(None);
    }
    let text = Templates::new().render_text(field, template, &context)?;
    if let Some(slurm_handle) = SlurmHandle::parse(&JobHandle::new(text.trim())) {
        return Ok(Some(JobReference { job: slurm_handle.job, key: Some(slurm_handle.key) }));
    }
    let invalid = |_| Error::rejected(format!("`{field}` must be the number of a job, or a task"));
    text.trim().parse().map(|job| Some(JobReference { job, key: None })).map_err(invalid)
}

impl Slurm {
    /// Returns the value for sbatch's `--dependency`, if the job must wait.
    pub(crate) async fn dependency(&self, job: &JobSpec, after: &After) -> Result<Option<String>> {
        let Some(reference) = parse_reference(job, "after.job", &after.job)? else { return Ok(None) };
        let number = reference.job;
        let unknown_job =
            || Error::rejected(format!("{number} is not a job of this backend, so no job can depend on it"));
        let rows = self.driver.job(number).await?;
        let key = match reference.key {
            Some(key) => key,
            None => rows
                .iter()
                .filter(|row| handle::is_key(&row.name))
                .min_by_key(|row| row.state.has_ended())
                .map(|row| row.name.clone())
                .ok_or_else(unknown_job)?,
        };
        if !self.is_ours(&key).await? {
            return Err(unknown_job());
        }
        let folder = self.folder(&key);
        let (stored_id, stored_end) = self
            .disks
            .jobs
            .run(move || {
                let read = || Ok((folder.read(ID)?, folder.read_json::<Observation>(FINAL_OBSERVATION)?));
                read().map_err(|e| read_error(&folder, e))
            })
            .await??;
        if stored_id.as_deref().and_then(read_id) != Some(number) {
            return Err(unknown_job());
        }
        if let Some(stored_end) = stored_end {
            return match after.when.is_met(&stored_end.state) {
                true => Ok(None),
                false => Err(Error::rejected(format!(
                    "job {number}, on which this job depends, did not end as required; run that job again, and pass its new task"
                ))),
            };
        }
        // No end is stored. Slurm waits only for a job that it still shows as pending or running. Otherwise a
        // poll must first store how it ended.
        match rows.iter().any(|row| row.name == key && !row.state.has_ended()) {
            true => Ok(Some(format!("{}:{number}", after.when.option()))),
            false => Err(Error::unavailable(format!("the outcome of job {number} is not known yet"))),
        }
    }
}

impl Slurm {
    /// Returns true if the job of this key was submitted here, as this user.
    pub(crate) async fn is_ours(&self, key: &str) -> Result<bool> {
        let (folder, user) = (self.folder(key), self.setup.user.clone());
        self.disks
            .jobs
            .run(move || {
                let plan = folder.read_json::<Plan>(PLAN).map_err(|e| read_error(&folder, e))?;
                Ok(plan.is_some_and(|plan| plan.is_of(user.as_ref())))
            })
            .await?
    }
}

impl When {
    fn option(self) -> &'static str {
        match self {
            When::Succeeded => "afterok",
            When::Failed => "afternotok",
            When::Ended => "afterany",
        }
    }

    fn is_met(self, state: &JobState) -> bool {
        let succeeded = matches!(state, JobState::Succeeded(_));
        match self {
            When::Succeeded => succeeded,
            When::Failed => !succeeded && *state != JobState::Gone,
            When::Ended => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::Output;
    use taskbridge_sdk::suite::job;

    use super::*;

    /// `after.job` takes the handle of a task's job or a plain job number.
    #[test]
    fn dependency_is_task_or_job_number() {
        let parse =
            |value| parse_reference(&job(json!({}), json!({"before": value})), "after.job", "{{ before }}");
        assert_eq!(
            parse(json!("lab/17/tb-a")).unwrap(),
            Some(JobReference { job: 17, key: Some("tb-a".to_owned()) })
        );
        assert_eq!(parse(json!(17)).unwrap(), Some(JobReference { job: 17, key: None }));
        assert_eq!(parse(json!(null)).unwrap(), None);
        for invalid in [json!("17:afterany"), json!("lab/17/../x"), json!(-1), json!("")] {
            assert!(
                parse(invalid.clone()).is_err_and(|e| e.to_string().contains("`after.job`")),
                "{invalid}"
            );
        }
    }

    /// An ended job meets `succeeded`, `failed` or `ended` by its outcome.
    #[test]
    fn dependency_condition_follows_outcome() {
        let (good, bad) = (JobState::Succeeded(Output::default()), JobState::Failed(Output::default()));
        assert!(When::Succeeded.is_met(&good) && !When::Succeeded.is_met(&bad));
        assert!(
            When::Failed.is_met(&bad) && !When::Failed.is_met(&good) && !When::Failed.is_met(&JobState::Gone)
        );
        assert!(When::Ended.is_met(&bad) && When::Ended.is_met(&JobState::Gone));
    }
}
