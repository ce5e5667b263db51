//! Log of an execution: one line per event of its history. For an Express execution, and if access to the
//! history is denied, the events come from CloudWatch Logs. The output of its steps is stored elsewhere and
//! is not included.

use taskbridge_sdk::{ErrorKind, JobHandle, LogRequest, LogText, Logs, Result, async_trait};

use crate::core::StepFunctions;
use crate::driver::api::{Api, ApiResult, MAX_PAGES, PAGE_SIZE};
use crate::driver::execution::ExecutionDescription;
use crate::driver::log_group::Window;
use crate::identity::handle::ExecutionArn;
use crate::store::history::log_lines::Tail;
use crate::store::history::{ExecutionEvent, cloudwatch};

#[async_trait]
impl Logs for StepFunctions {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let Some(arn) = ExecutionArn::parse(handle) else { return Ok(LogText::default()) };
        if arn.is_express() {
            let log = self.read_cloudwatch(&arn, Window::of_express(arn.started_at()), request).await?;
            return Ok(log.unwrap_or_default());
        }
        match read_history(&self.api, arn.as_str(), request).await {
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(LogText::default()),
            // Without permission to read histories, the log of the state machine may still be readable.
            Err(failure) if failure.error.kind() == ErrorKind::Denied => {
                let execution = ExecutionDescription::from(self.api.describe(arn.as_str()).await?);
                let log = self
                    .read_cloudwatch(&arn, Window::of(execution.started, execution.stopped), request)
                    .await?;
                log.ok_or(failure.error)
            }
            result => Ok(result?),
        }
    }
}

impl StepFunctions {
    /// Reads the end of an execution's log. `None` if its state machine does not log.
    async fn read_cloudwatch(
        &self,
        arn: &ExecutionArn<'_>,
        window: Window,
        request: &LogRequest,
    ) -> Result<Option<LogText>> {
        match self.machines.log_group(&self.api, &arn.machine()).await? {
            Some(group) => cloudwatch::tail(&self.api, &group, arn.as_str(), window, request).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Reads the end of a history as a log.
async fn read_history(api: &Api, arn: &str, request: &LogRequest) -> ApiResult<LogText> {
    let (mut tail, mut page) = (Tail::new(request), None);
    for _ in 0..MAX_PAGES {
        let response = api.history(arn, PAGE_SIZE, true, page).await?;
        response.events.iter().for_each(|event| tail.push(&ExecutionEvent::from(event)));
        page = response.next_token;
        if page.is_none() || tail.is_full() {
            break;
        }
    }
    Ok(tail.text(page.is_some()))
}
