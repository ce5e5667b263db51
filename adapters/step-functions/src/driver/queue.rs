//! Calls of the SQS queue. It must not interpret messages.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::Message;

use crate::driver::api::ApiResult;
use crate::driver::client::timeouts;
use crate::driver::error::{Failure, Repeat};

/// How long a call waits for messages.
const RECEIVE_WAIT: Duration = Duration::from_secs(20);

/// Receipt of a message, with which the message can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receipt(pub(crate) String);

/// SQS queue.
pub(crate) struct Queue {
    client: Client,
    url: String,
}

impl Queue {
    pub(crate) fn new(client: Client, url: String) -> Self {
        Self { client, url }
    }

    /// Waits for the next messages, or returns none after a timeout. A message that is not deleted is
    /// delivered again after `visibility_timeout`, here or at another server, so no message is lost with a
    /// server.
    pub(crate) async fn receive(&self, visibility_timeout: Duration) -> ApiResult<Vec<Message>> {
        let seconds = |time: Duration| i32::try_from(time.as_secs().max(1)).unwrap_or(i32::MAX);
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(10);
        let call =
            call.visibility_timeout(seconds(visibility_timeout)).wait_time_seconds(seconds(RECEIVE_WAIT));
        let config =
            aws_sdk_sqs::Config::builder().timeout_config(timeouts(RECEIVE_WAIT + Duration::from_secs(10)));
        let result = call.customize().config_override(config).send().await;
        let response = result.map_err(|e| Failure::of("ReceiveMessage", Repeat::Safe, e))?;
        Ok(response.messages.unwrap_or_default())
    }

    /// Checks that messages can be received. A received message stays visible to other receivers, but counts
    /// as one more receive for a dead-letter queue.
    pub(crate) async fn try_receive(&self) -> ApiResult<()> {
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(1);
        let result = call.visibility_timeout(0).wait_time_seconds(0).send().await;
        result.map(drop).map_err(|e| Failure::of("ReceiveMessage", Repeat::Safe, e))
    }

    /// Deletes a processed message. If that fails, the queue delivers it again, and the reader deletes it
    /// then.
    pub(crate) async fn delete(&self, receipt: &Receipt) -> ApiResult<()> {
        let result =
            self.client.delete_message().queue_url(&self.url).receipt_handle(&receipt.0).send().await;
        result.map(drop).map_err(|e| Failure::of("DeleteMessage", Repeat::Safe, e))
    }
}
