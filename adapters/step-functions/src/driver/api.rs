//! Calls of Step Functions and CloudWatch Logs, one request each and within the rate limits. It must not
//! decide what a result means for a job.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use aws_sdk_cloudwatchlogs::operation::filter_log_events::FilterLogEventsOutput;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::config::http::HttpResponse;
use aws_sdk_sfn::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_sfn::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sfn::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use aws_sdk_sfn::operation::describe_state_machine::DescribeStateMachineOutput;
use aws_sdk_sfn::operation::get_activity_task::GetActivityTaskOutput;
use aws_sdk_sfn::operation::get_execution_history::GetExecutionHistoryOutput;
use aws_sdk_sfn::operation::list_executions::ListExecutionsOutput;
use aws_sdk_sfn::operation::list_state_machines::ListStateMachinesOutput;
use aws_sdk_sfn::operation::start_execution::StartExecutionOutput;
use aws_sdk_sfn::operation::start_sync_execution::StartSyncExecutionOutput;
use aws_sdk_sfn::types::ExecutionStatus;
use taskbridge_sdk::Secret;

use crate::driver::budget::{Budget, Operation};
use crate::driver::callers::Signer;
use crate::driver::client::timeouts;
use crate::driver::clock_skew::{ClockInterceptor, ClockReading};
use crate::driver::error::{Failure, Repeat};
use crate::driver::log_group::Window;

/// Timeout of a synchronous start: an Express execution runs for at most five minutes, plus time for the
/// response.
const SYNC_TIMEOUT: Duration = Duration::from_secs(310);

/// Timeout of a poll: Step Functions answers a poll of an activity within a minute, plus time for the
/// response.
const POLL_TIMEOUT: Duration = Duration::from_secs(70);

/// Maximum number of pages per read of a history. With [`PAGE_SIZE`] events each, they cover the longest
/// history that AWS allows (25,000 events). It also limits the pages of a list of state machines.
pub(crate) const MAX_PAGES: usize = 25;
/// Maximum number of events per page.
pub(crate) const PAGE_SIZE: i32 = 1000;

/// Result of a call.
pub(crate) type ApiResult<T> = std::result::Result<T, Failure>;

/// Client of Step Functions and of its logs.
pub(crate) struct Api {
    client: Client,
    logs: aws_sdk_cloudwatchlogs::Client,
    budget: Budget,
    /// True if the config sets the endpoint, so that AWS's host prefixes do not apply.
    custom_endpoint: bool,
}

/// Parameters of a start.
pub(crate) struct StartRequest<'a> {
    pub(crate) machine: &'a str,
    pub(crate) name: &'a str,
    pub(crate) input: &'a str,
    pub(crate) trace: Option<String>,
}

impl Api {
    pub(crate) fn new(
        client: Client,
        logs: aws_sdk_cloudwatchlogs::Client,
        budget: Budget,
        custom_endpoint: bool,
    ) -> Self {
        Self { client, logs, budget, custom_endpoint }
    }

    pub(crate) async fn start(
        &self,
        by: &Signer,
        request: &StartRequest<'_>,
        repeat: Repeat,
    ) -> ApiResult<StartExecutionOutput> {
        let call = self.client.start_execution().state_machine_arn(request.machine).name(request.name);
        let call = call.input(request.input).set_trace_header(request.trace.clone());
        self.send(Operation::Start, repeat, call.customize().config_override(by.config()).send()).await
    }

    /// Starts an Express execution and waits for its end.
    pub(crate) async fn start_sync(
        &self,
        by: &Signer,
        request: &StartRequest<'_>,
    ) -> ApiResult<StartSyncExecutionOutput> {
        let call = self.client.start_sync_execution().state_machine_arn(request.machine).name(request.name);
        let call = call.input(request.input).set_trace_header(request.trace.clone());
        let mut config = by.config().timeout_config(timeouts(SYNC_TIMEOUT));
        if self.custom_endpoint {
            config = config.interceptor(KeepEndpointHost);
        }
        let call = call.customize().config_override(config);
        self.send(Operation::StartSync, Repeat::Unsafe, call.send()).await
    }

    pub(crate) async fn describe(&self, arn: &str) -> ApiResult<DescribeExecutionOutput> {
        let call = self.client.describe_execution().execution_arn(arn);
        self.send(Operation::Describe, Repeat::Safe, call.send()).await
    }

    /// Returns a page of the running executions of a state machine.
    pub(crate) async fn list_running(
        &self,
        machine: &str,
        page: Option<String>,
    ) -> ApiResult<ListExecutionsOutput> {
        let call = self.client.list_executions().state_machine_arn(machine).max_results(1000);
        let call = call.status_filter(ExecutionStatus::Running).set_next_token(page);
        self.send(Operation::List, Repeat::Safe, call.send()).await
    }

    pub(crate) async fn stop(&self, by: &Signer, arn: &str, error: &str, cause: &str) -> ApiResult<()> {
        let call = self.client.stop_execution().execution_arn(arn).error(error).cause(cause);
        let call = call.customize().config_override(by.config());
        self.send(Operation::Stop, Repeat::Safe, call.send()).await.map(drop)
    }

    /// Returns a page of an execution's history, newest event first.
    pub(crate) async fn history(
        &self,
        arn: &str,
        max_events: i32,
        include_data: bool,
        page: Option<String>,
    ) -> ApiResult<GetExecutionHistoryOutput> {
        let call = self.client.get_execution_history().execution_arn(arn).reverse_order(true);
        let call = call.max_results(max_events).include_execution_data(include_data).set_next_token(page);
        self.send(Operation::History, Repeat::Safe, call.send()).await
    }

    /// Returns a page of the log lines that name an execution, newest first.
    pub(crate) async fn log_events(
        &self,
        group: &str,
        arn: &str,
        window: Window,
        page: Option<String>,
    ) -> ApiResult<FilterLogEventsOutput> {
        let call = self.logs.filter_log_events().log_group_name(group).filter_pattern(format!("\"{arn}\""));
        let call = call.start_time(window.since).set_end_time(window.until).start_from_head(false);
        self.send(Operation::LogEvents, Repeat::Safe, call.set_next_token(page).send()).await
    }

    pub(crate) async fn describe_machine(&self, arn: &str) -> ApiResult<DescribeStateMachineOutput> {
        let call = self.client.describe_state_machine().state_machine_arn(arn);
        self.send(Operation::DescribeMachine, Repeat::Safe, call.send()).await
    }

    /// Returns a page of all state machines in the region.
    pub(crate) async fn list_machines(&self, page: Option<String>) -> ApiResult<ListStateMachinesOutput> {
        let call = self.client.list_state_machines().max_results(1000).set_next_token(page);
        self.send(Operation::ListMachines, Repeat::Safe, call.send()).await
    }

    /// Lists one state machine, to check that AWS answers and to read its clock.
    pub(crate) async fn probe(&self) -> (ApiResult<()>, Option<ClockReading>) {
        let clock = ClockInterceptor::default();
        let config = aws_sdk_sfn::Config::builder().interceptor(clock.clone());
        let call = self.client.list_state_machines().max_results(1);
        let call = call.customize().config_override(config);
        let result = self.send(Operation::ListMachines, Repeat::Safe, call.send()).await;
        (result.map(drop), clock.last_reading())
    }

    pub(crate) async fn describe_activity(&self, arn: &str) -> ApiResult<()> {
        let call = self.client.describe_activity().activity_arn(arn);
        self.send(Operation::DescribeActivity, Repeat::Safe, call.send()).await.map(drop)
    }

    /// Returns the tags of a state machine.
    pub(crate) async fn tags(&self, arn: &str) -> ApiResult<BTreeMap<String, String>> {
        let call = self.client.list_tags_for_resource().resource_arn(arn);
        let response = self.send(Operation::ListTags, Repeat::Safe, call.send()).await?;
        let tags = response.tags.unwrap_or_default().into_iter();
        Ok(tags.filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default()))).collect())
    }

    /// Polls an activity for a task. The response has no token if there is no task.
    pub(crate) async fn activity_task(&self, activity: &str) -> ApiResult<GetActivityTaskOutput> {
        let config = aws_sdk_sfn::Config::builder().timeout_config(timeouts(POLL_TIMEOUT));
        let call = self.client.get_activity_task().activity_arn(activity).worker_name("taskbridge");
        let call = call.customize().config_override(config);
        self.send(Operation::ActivityTask, Repeat::Safe, call.send()).await
    }

    pub(crate) async fn task_success(&self, by: &Signer, token: &Secret, output: &str) -> ApiResult<()> {
        let call = self.client.send_task_success().task_token(token.reveal()).output(output);
        let call = call.customize().config_override(by.config());
        self.send(Operation::TaskSuccess, Repeat::Safe, call.send()).await.map(drop)
    }

    pub(crate) async fn task_failure(
        &self,
        by: &Signer,
        token: &Secret,
        error: &str,
        cause: &str,
    ) -> ApiResult<()> {
        let call = self.client.send_task_failure().task_token(token.reveal()).error(error).cause(cause);
        let call = call.customize().config_override(by.config());
        self.send(Operation::TaskFailure, Repeat::Safe, call.send()).await.map(drop)
    }

    pub(crate) async fn task_heartbeat(&self, token: &Secret) -> ApiResult<()> {
        let call = self.client.send_task_heartbeat().task_token(token.reveal());
        self.send(Operation::TaskHeartbeat, Repeat::Safe, call.send()).await.map(drop)
    }

    /// Returns the remaining calls of each operation.
    pub(crate) fn budgets(&self) -> Vec<taskbridge_sdk::Budget> {
        self.budget.remaining()
    }

    /// Sends a request, unless the rate limit of its operation is reached.
    async fn send<T, E>(
        &self,
        operation: Operation,
        repeat: Repeat,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> ApiResult<T>
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        self.budget.take(operation).map_err(|error| Failure { code: None, error })?;
        request.await.map_err(|error| Failure::of(operation.name(), repeat, error))
    }
}

/// Removes the `sync-` prefix that the AWS SDK adds to the host for `StartSyncExecution`. A configured
/// endpoint is used unchanged.
#[derive(Debug)]
struct KeepEndpointHost;

impl Intercept for KeepEndpointHost {
    fn name(&self) -> &'static str {
        "AddressAsGiven"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        let uri = request.uri().replacen("://sync-", "://", 1);
        request.set_uri(uri)?;
        Ok(())
    }
}
