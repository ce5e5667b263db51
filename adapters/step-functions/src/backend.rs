//! What the server calls. It must not keep anything: [`crate::core`] does.

use std::time::Duration;

use taskbridge_sdk::{
    Abilities, Backend, GroupKey, JobHandle, JobSpec, Observation, OnBehalfOf, Result, Started, Subject,
    async_trait,
};
use tokio::time::Instant;

use crate::core::{START_LAG, StepFunctions};
use crate::driver::execution::ExecutionDescription;
use crate::identity::handle::ExecutionArn;
use crate::observe::conclude::{STOPPED_CAUSE, STOPPED_ERROR};

#[async_trait]
impl Backend for StepFunctions {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.start_job(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.poll_execution(handle, true).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.cancel_for(handle, None).await
    }

    async fn cancel_for(&self, handle: &JobHandle, on_behalf_of: Option<&OnBehalfOf>) -> Result<()> {
        let stoppable = |arn: &ExecutionArn<'_>| !arn.is_express() && !arn.is_attached();
        let Some(arn) = ExecutionArn::parse(handle).filter(stoppable) else { return Ok(()) };
        let by = self.signer(on_behalf_of).await?;
        self.list_cache.mark_changed(arn.as_str(), Instant::now());
        let result = self.api.stop(&by, arn.as_str(), STOPPED_ERROR, STOPPED_CAUSE).await;
        match self.check_signed_result(&by, result) {
            Ok(()) => Ok(()),
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(()),
            // Step Functions may refuse to stop an execution that has ended.
            Err(failure) if failure.is("ValidationException") && self.has_ended(&arn).await => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    fn start_lag(&self) -> Duration {
        START_LAG
    }

    /// Groups executions by state machine: one list reports on all of them.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        GroupKey::new(ExecutionArn::parse(handle).map(|arn| arn.machine()).unwrap_or_default())
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.poll_group(group, jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: self.reader.as_ref().map(|_| self as _),
            logs: Some(self),
            discovery: Some(self),
            checkup: Some(self),
            hooks: self.hook.as_ref().map(|hook| hook as _),
            wakeups: self.reader.as_ref().map(|reader| reader as _),
            ..Abilities::default()
        }
    }

    fn identity(&self) -> Option<String> {
        self.account.identity()
    }

    fn budgets(&self) -> Vec<taskbridge_sdk::Budget> {
        self.api.budgets()
    }
}

impl StepFunctions {
    async fn has_ended(&self, arn: &ExecutionArn<'_>) -> bool {
        let result = self.api.describe(arn.as_str()).await;
        result.is_ok_and(|execution| ExecutionDescription::from(execution).has_ended())
    }
}
