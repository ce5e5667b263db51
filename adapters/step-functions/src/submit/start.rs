//! Start of executions, including lost responses and "already exists". A Standard execution has the job's key
//! as its name, so a repeated start never runs a second one. An Express execution cannot be found again.

use std::sync::Arc;

use taskbridge_sdk::{Error, ErrorKind, JobHandle, JobSpec, Observation, Result, Started, one_line};

use crate::config::Target;
use crate::core::StepFunctions;
use crate::driver::api::StartRequest;
use crate::driver::callers::Signer;
use crate::driver::definition::Definition;
use crate::driver::error::{Failure, Repeat};
use crate::driver::execution::{ExecutionDescription, timestamp};
use crate::driver::machines::{Machine, is_gone};
use crate::identity::arn::{MachineArn, is_name};
use crate::identity::handle::{ExecutionArn, attached_handle, express_handle};
use crate::submit::bound::{self, UnboundedError};
use crate::submit::request;

impl StepFunctions {
    pub(crate) async fn start_job(&self, job: &JobSpec) -> Result<Started> {
        let target: Target = job.parse_target()?;
        if let Some(template) = &target.attach {
            return self.attach(job, &target, template).await?.map_err(Error::rejected);
        }
        let input = request::build(job, &target)?;
        let by = match self.signer(job.on_behalf_of.as_ref()).await {
            Ok(by) => by,
            Err(error) => return self.recover_without_signer(job, error).await,
        };
        let machine = match self.machines.resolve(&self.api, &self.region, &target.state_machine).await {
            Ok(machine) => machine,
            Err(error) => return self.recover_earlier_start(job, &target, error).await,
        };
        let request = StartRequest {
            machine: machine.arn.as_str(),
            name: job.key.as_str(),
            input: &input,
            trace: job.trace.as_ref().and_then(request::trace_header),
        };
        let result = match machine.express {
            true => self.start_express(&by, job, &machine, &target, &request).await,
            false => self.start_standard(&by, job, &machine, &request).await,
        };
        match self.check_signed_result(&by, result) {
            Ok(started) => Ok(started),
            Err(failure) => {
                if is_gone(&failure) || failure.is("StateMachineTypeNotSupported") {
                    self.machines.forget(&target.state_machine);
                }
                self.recover_earlier_start(job, &target, failure.into()).await
            }
        }
    }

    /// Handles a start without a signer. If an earlier attempt may have started an execution (`may_exist`),
    /// it searches for that one.
    async fn recover_without_signer(&self, job: &JobSpec, error: Error) -> Result<Started> {
        match job.may_exist {
            false if job.on_behalf_of.is_none() => Err(Error::rejected(error.to_string())),
            false => Err(error),
            true => match self.find_job(job).await? {
                Some(started) => Ok(started),
                None if error.kind().is_transient() => Err(error),
                None => Err(Error::uncertain(error.to_string())),
            },
        }
    }

    /// Returns the execution that an earlier attempt may have started: executions outlive their state
    /// machine. It searches only if `may_exist`, the error is of the kind `Config` (such as a deleted state
    /// machine), and the target is an ARN. Returns the error in all other cases, and if there is no such
    /// execution; `Unavailable` if a new execution may still be unknown to AWS.
    async fn recover_earlier_start(&self, job: &JobSpec, target: &Target, error: Error) -> Result<Started> {
        let machine = MachineArn::parse(&target.state_machine);
        let Some(machine) = machine.filter(|_| job.may_exist && error.kind() == ErrorKind::Config) else {
            return Err(error);
        };
        let arn = machine.execution(job.key.as_str());
        match self.api.describe(&arn).await {
            Ok(execution) => Ok(self.observe_started(JobHandle::new(arn), execution.into()).await),
            Err(failure) if failure.is("ExecutionDoesNotExist") && !self.is_recent_start(&arn) => Err(error),
            Err(failure) if failure.error.kind() == ErrorKind::Rejected => {
                Err(Error::unavailable("DescribeExecution: the execution is not visible yet"))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn start_standard(
        &self,
        by: &Signer,
        job: &JobSpec,
        machine: &Machine,
        request: &StartRequest<'_>,
    ) -> Result<Started, Failure> {
        let repeat = if job.may_exist { Repeat::Safe } else { Repeat::Unsafe };
        let arn = machine.arn.execution(request.name);
        // Recorded before the request: the response may be lost.
        self.record_start(&arn);
        match self.api.start(by, request, repeat).await {
            Ok(started) => {
                self.account.learn_from_arn(&started.execution_arn);
                Ok(Started { handle: JobHandle::new(started.execution_arn), first: None })
            }
            Err(failure) if failure.is("ExecutionAlreadyExists") => {
                self.adopt_existing(&arn, request, repeat).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// Handles an execution that already has this name. The name is the job's key, which only servers over
    /// this store know. So the execution is the job, unless its input differs.
    async fn adopt_existing(
        &self,
        arn: &str,
        request: &StartRequest<'_>,
        repeat: Repeat,
    ) -> Result<Started, Failure> {
        let uncertain = |message: String| match repeat {
            Repeat::Safe => Error::unavailable(message),
            Repeat::Unsafe => Error::uncertain(message),
        };
        let execution = self.api.describe(arn).await.map_err(|failure| Failure {
            error: uncertain(format!(
                "the execution {arn} exists, but cannot be described: {}",
                failure.error
            )),
            code: failure.code,
        })?;
        if execution.input.as_deref().is_some_and(|input| !request::are_equal(input, request.input)) {
            let message = format!("the execution {arn} exists with another input");
            return Err(Failure { code: None, error: Error::uncertain(message) });
        }
        Ok(self.observe_started(JobHandle::new(arn), execution.into()).await)
    }

    /// Returns a found execution with its first observation. If that observation fails, a later poll replaces
    /// it.
    async fn observe_started(&self, handle: JobHandle, description: ExecutionDescription) -> Started {
        let first: Option<Observation> = match ExecutionArn::parse(&handle) {
            Some(arn) => self.build_observation(&arn, description, true).await.ok(),
            None => None,
        };
        Started { handle, first }
    }

    /// Starts an Express execution and waits for it in one call. If an earlier attempt may have started one
    /// (`may_exist`), it starts nothing and returns a final error, because AWS cannot find that one.
    async fn start_express(
        &self,
        by: &Signer,
        job: &JobSpec,
        machine: &Machine,
        target: &Target,
        request: &StartRequest<'_>,
    ) -> Result<Started, Failure> {
        let lost_error =
            |reason: &str| Failure { code: None, error: lost_execution_error(machine, request.name, reason) };
        if job.may_exist {
            return Err(lost_error("an earlier start request got no response"));
        }
        if !target.unbounded {
            self.check_duration(machine.arn.versioned()).await?;
        }
        let execution =
            self.api.start_sync(by, request).await.map_err(|failure| match failure.error.kind() {
                ErrorKind::Uncertain => lost_error(&failure.error.to_string()),
                _ => failure,
            })?;
        let handle = express_handle(&execution.execution_arn, timestamp(&execution.start_date));
        Ok(Started { handle, first: Some(ExecutionDescription::from(execution).observation(None)) })
    }

    /// Refuses to start an execution that may still run when the server no longer waits for it.
    async fn check_duration(&self, machine: &str) -> Result<(), Failure> {
        let check = |definition: Arc<Definition>| bound::check(definition.timeout_seconds, self.call_limit);
        if check(self.machines.definition(&self.api, machine).await).is_ok() {
            return Ok(());
        }
        // The cached definition may be outdated, and the author may have fixed it.
        let definition = self.machines.definition_now(&self.api, machine).await?;
        check(definition).map_err(|UnboundedError { reason, fix }| Failure {
            code: None,
            error: Error::config(format!("`{machine}` was not started: {reason}; {fix}")),
        })
    }

    /// Searches for the execution of a job. It starts none.
    pub(crate) async fn find_job(&self, job: &JobSpec) -> Result<Option<Started>> {
        let target: Target = job.parse_target()?;
        if let Some(template) = &target.attach {
            return Ok(self.attach(job, &target, template).await?.ok());
        }
        let resolved = self.machines.resolve(&self.api, &self.region, &target.state_machine).await;
        let machine = match (resolved, MachineArn::parse(&target.state_machine)) {
            (Ok(machine), _) if machine.express => {
                let reason = "it is unknown whether an execution was started";
                return Err(lost_execution_error(&machine, job.key.as_str(), reason));
            }
            (Ok(machine), _) => machine.arn,
            // Executions remain after their state machine is deleted.
            (Err(error), Some(arn)) if error.kind() == ErrorKind::Config && arn.region() == self.region => {
                arn
            }
            (Err(error), _) => return Err(error),
        };
        let arn = machine.execution(job.key.as_str());
        match self.api.describe(&arn).await {
            Ok(execution) => Ok(Some(self.observe_started(JobHandle::new(arn), execution.into()).await)),
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Attaches to an execution that was started elsewhere. The inner error is the reason why the named
    /// execution cannot be followed; the outer one is a failure to find out.
    async fn attach(
        &self,
        job: &JobSpec,
        target: &Target,
        template: &str,
    ) -> Result<Result<Started, String>> {
        let reference = request::text(job, "attach", template)?;
        let machine = self.machines.resolve(&self.api, &self.region, &target.state_machine).await?;
        if machine.express {
            return Ok(Err("an execution of an Express state machine cannot be followed".to_owned()));
        }
        let handle = JobHandle::new(reference.as_str());
        let arn = match ExecutionArn::parse(&handle) {
            Some(arn) if arn.machine() == machine.arn.base() && !arn.is_attached() => reference,
            None if is_name(&reference) => machine.arn.execution(&reference),
            _ => {
                let (reference, base) = (one_line(&reference), machine.arn.base());
                return Ok(Err(format!("`{reference}` is no execution of the state machine `{base}`")));
            }
        };
        match self.api.describe(&arn).await {
            Ok(execution) => Ok(Ok(self.observe_started(attached_handle(&arn), execution.into()).await)),
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(Err(format!(
                "there is no execution `{arn}`: executions are kept for 90 days after their end"
            ))),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Returns the error for an Express execution that cannot be found. AWS has no call that finds it, so the
/// message points the user to the state machine and its log.
fn lost_execution_error(machine: &Machine, name: &str, reason: &str) -> Error {
    Error::uncertain(format!(
        "{reason}. AWS has no call that finds an Express execution; look for the name `{name}` in the log of its state machine: {}",
        machine.arn.console()
    ))
    .into_final()
}
