//! An execution as AWS describes it. It must not decide what a status means for a task.

use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use aws_sdk_sfn::operation::start_sync_execution::StartSyncExecutionOutput;
use aws_sdk_sfn::primitives::DateTime;
use taskbridge_sdk::Timestamp;

/// Description of an execution by AWS.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExecutionDescription {
    pub(crate) arn: String,
    /// Status as AWS names it, such as `TIMED_OUT`.
    pub(crate) status: String,
    /// Time of the last redrive, if the execution was redriven.
    pub(crate) started: Option<Timestamp>,
    pub(crate) stopped: Option<Timestamp>,
    pub(crate) output: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) cause: Option<String>,
}

impl From<DescribeExecutionOutput> for ExecutionDescription {
    fn from(response: DescribeExecutionOutput) -> Self {
        Self {
            status: response.status.as_str().to_owned(),
            started: timestamp(response.redrive_date.as_ref().unwrap_or(&response.start_date)),
            stopped: response.stop_date.as_ref().and_then(timestamp),
            arn: response.execution_arn,
            output: response.output,
            error: response.error,
            cause: response.cause,
        }
    }
}

impl From<StartSyncExecutionOutput> for ExecutionDescription {
    fn from(response: StartSyncExecutionOutput) -> Self {
        Self {
            status: response.status.as_str().to_owned(),
            started: timestamp(&response.start_date),
            stopped: timestamp(&response.stop_date),
            arn: response.execution_arn,
            output: response.output,
            error: response.error,
            cause: response.cause,
        }
    }
}

/// Converts a time of AWS.
pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    time.to_millis().ok().map(Timestamp::from_millis)
}
