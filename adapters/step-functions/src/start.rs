//! Start of executions, including lost responses and "already exists". A Standard execution has the job's key
//! as its name, so a repeated start never runs a second one. An Express execution cannot be found again.

use std::sync::Arc;

use serde::Deserialize;
use taskbridge_sdk::{Error, ErrorKind, JobHandle, JobSpec, Observation, Result, Started, one_line};

use crate::api::StartRequest;
use crate::arn::{ExecutionArn, MachineArn, attached, express, is_name};
use crate::backend::StepFunctions;
use crate::bound::{self, Unbounded};
use crate::caller_credentials::Signer;
use crate::config::Target;
use crate::definition::Definition;
use crate::failure::{Failure, Repeat};
use crate::history::timestamp;
use crate::input;
use crate::machines::{Machine, is_gone};
use crate::state::Facts;

impl StepFunctions {
    pub(crate) async fn begin(&self, job: &JobSpec) -> Result<Started> {
        let target = target(job)?;
        if let Some(template) = &target.attach {
            return self.attach(job, &target, template).await?.map_err(Error::rejected);
        }
        let input = input::of(job, &target)?;
        let by = match self.signer(job.on_behalf_of.as_ref()).await {
            Ok(by) => by,
            Err(error) => return self.unsigned(job, error).await,
        };
        let machine = match self.machines.named(&self.api, &self.region, &target.state_machine).await {
            Ok(machine) => machine,
            Err(error) => return self.orphan(job, &target, error).await,
        };
        let order = StartRequest {
            machine: machine.arn.as_str(),
            name: job.key.as_str(),
            input: &input,
            trace: job.trace.as_ref().and_then(input::trace_header),
        };
        let begun = match machine.express {
            true => self.begin_express(&by, job, &machine, &target, &order).await,
            false => self.begin_standard(&by, job, &machine, &order).await,
        };
        match self.signed(&by, begun) {
            Ok(started) => Ok(started),
            Err(failure) => {
                if is_gone(&failure) || failure.is("StateMachineTypeNotSupported") {
                    self.machines.forget(&target.state_machine);
                }
                self.orphan(job, &target, failure.into()).await
            }
        }
    }

    /// Handles a start without a signer. If an earlier attempt may have started an execution (`may_exist`),
    /// it searches for that one.
    async fn unsigned(&self, job: &JobSpec, error: Error) -> Result<Started> {
        let passes = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Limited { .. });
        match job.may_exist {
            false if job.on_behalf_of.is_none() => Err(Error::rejected(error.to_string())),
            false => Err(error),
            true => match self.find_job(job).await? {
                Some(started) => Ok(started),
                None if passes => Err(error),
                None => Err(Error::uncertain(error.to_string())),
            },
        }
    }

    /// Returns the execution that an earlier attempt may have started: executions outlive their state
    /// machine. It searches only if `may_exist`, the error is of the kind `Config` (such as a deleted state
    /// machine), and the target is an ARN. Returns the error in all other cases, and if there is no such
    /// execution; `Unavailable` if a new execution may still be unknown to AWS.
    async fn orphan(&self, job: &JobSpec, target: &Target, error: Error) -> Result<Started> {
        let machine = MachineArn::parse(&target.state_machine);
        let Some(machine) = machine.filter(|_| job.may_exist && error.kind() == ErrorKind::Config) else {
            return Err(error);
        };
        let arn = machine.execution(job.key.as_str());
        match self.api.describe(&arn).await {
            Ok(seen) => Ok(self.started(JobHandle::new(arn), seen.into()).await),
            Err(failure) if failure.is("ExecutionDoesNotExist") && !self.is_young(&arn) => Err(error),
            Err(failure) if failure.error.kind() == ErrorKind::Rejected => {
                Err(Error::unavailable("DescribeExecution: the execution is not known yet"))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn begin_standard(
        &self,
        by: &Signer,
        job: &JobSpec,
        machine: &Machine,
        order: &StartRequest<'_>,
    ) -> Result<Started, Failure> {
        let repeat = if job.may_exist { Repeat::Safe } else { Repeat::Unsafe };
        let arn = machine.arn.execution(order.name);
        // Recorded before the request: the response may be lost.
        self.note_start(&arn);
        match self.api.start(by, order, repeat).await {
            Ok(started) => {
                self.account.learn_of(&started.execution_arn);
                Ok(Started { handle: JobHandle::new(started.execution_arn), first: None })
            }
            Err(failure) if failure.is("ExecutionAlreadyExists") => {
                self.take_existing(&arn, order, repeat).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// Handles an execution that already has this name. The name is the job's key, which only servers over
    /// this store know. So the execution is the job, unless its input differs.
    async fn take_existing(
        &self,
        arn: &str,
        order: &StartRequest<'_>,
        repeat: Repeat,
    ) -> Result<Started, Failure> {
        let uncertain = |message: String| match repeat {
            Repeat::Safe => Error::unavailable(message),
            Repeat::Unsafe => Error::uncertain(message),
        };
        let seen = self.api.describe(arn).await.map_err(|failure| Failure {
            error: uncertain(format!(
                "the execution {arn} exists and cannot be looked at: {}",
                failure.error
            )),
            code: failure.code,
        })?;
        if seen.input.as_deref().is_some_and(|input| !input::are_equal(input, order.input)) {
            let message = format!("the execution {arn} exists and was given another input");
            return Err(Failure { code: None, error: Error::uncertain(message) });
        }
        Ok(self.started(JobHandle::new(arn), seen.into()).await)
    }

    /// Returns a found execution with its first observation. If that observation fails, a later poll replaces
    /// it.
    async fn started(&self, handle: JobHandle, facts: Facts) -> Started {
        let first: Option<Observation> = match ExecutionArn::parse(&handle) {
            Some(arn) => self.judge(&arn, facts, true).await.ok(),
            None => None,
        };
        Started { handle, first }
    }

    /// Starts an Express execution and waits for it in one call. If an earlier attempt may have started one
    /// (`may_exist`), it starts nothing and returns a final error, because AWS cannot find that one.
    async fn begin_express(
        &self,
        by: &Signer,
        job: &JobSpec,
        machine: &Machine,
        target: &Target,
        order: &StartRequest<'_>,
    ) -> Result<Started, Failure> {
        let lost = |why: &str| Failure { code: None, error: cannot_be_found(machine, order.name, why) };
        if job.may_exist {
            return Err(lost("an earlier attempt to start it was not answered"));
        }
        if !target.unbounded {
            self.must_end_in_time(machine.arn.versioned()).await?;
        }
        let ended = self.api.start_sync(by, order).await.map_err(|failure| match failure.error.kind() {
            ErrorKind::Uncertain => lost(&failure.error.to_string()),
            _ => failure,
        })?;
        let handle = express(&ended.execution_arn, timestamp(&ended.start_date));
        Ok(Started { handle, first: Some(Facts::from(ended).observation(None)) })
    }

    /// Refuses to start an execution that may still run when the server no longer waits for it.
    async fn must_end_in_time(&self, machine: &str) -> Result<(), Failure> {
        let bounded = |definition: Arc<Definition>| bound::check(definition.timeout_seconds, self.call_limit);
        if bounded(self.machines.definition(&self.api, machine).await).is_ok() {
            return Ok(());
        }
        // The cached definition may be outdated, and the author may have fixed it.
        let definition = self.machines.definition_now(&self.api, machine).await?;
        bounded(definition).map_err(|Unbounded { says, fix }| Failure {
            code: None,
            error: Error::config(format!("nothing was started of `{machine}`: {says}; {fix}")),
        })
    }

    /// Searches for the execution of a job. It starts none.
    pub(crate) async fn find_job(&self, job: &JobSpec) -> Result<Option<Started>> {
        let target = target(job)?;
        if let Some(template) = &target.attach {
            return Ok(self.attach(job, &target, template).await?.ok());
        }
        let named = self.machines.named(&self.api, &self.region, &target.state_machine).await;
        let machine = match (named, MachineArn::parse(&target.state_machine)) {
            (Ok(machine), _) if machine.express => {
                let why = "whether an execution was started is not known";
                return Err(cannot_be_found(&machine, job.key.as_str(), why));
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
            Ok(seen) => Ok(Some(self.started(JobHandle::new(arn), seen.into()).await)),
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
        let named = input::text(job, "attach", template)?;
        let machine = self.machines.named(&self.api, &self.region, &target.state_machine).await?;
        if machine.express {
            return Ok(Err("an execution of an Express state machine cannot be followed".to_owned()));
        }
        let whole = JobHandle::new(named.as_str());
        let arn = match ExecutionArn::parse(&whole) {
            Some(arn) if arn.machine() == machine.arn.base() && !arn.is_attached() => named,
            None if is_name(&named) => machine.arn.execution(&named),
            _ => {
                let (named, base) = (one_line(&named), machine.arn.base());
                return Ok(Err(format!("`{named}` is no execution of the state machine `{base}`")));
            }
        };
        match self.api.describe(&arn).await {
            Ok(seen) => Ok(Ok(self.started(attached(&arn), seen.into()).await)),
            Err(failure) if failure.is("ExecutionDoesNotExist") => {
                Ok(Err(format!("there is no execution `{arn}`: they are kept for 90 days after their end")))
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Returns the error for an Express execution that cannot be found. AWS has no call that finds it, so the
/// message points the user to the state machine and its log.
fn cannot_be_found(machine: &Machine, name: &str, why: &str) -> Error {
    Error::uncertain(format!(
        "{why}. AWS has no call that finds an Express execution; look for the name `{name}` in the log of its state machine: {}",
        machine.arn.console()
    ))
    .for_good()
}

fn target(job: &JobSpec) -> Result<Target> {
    Target::deserialize(&job.target)
        .map_err(|e| Error::config(format!("the tool's target is not understood: {e}")))
}
