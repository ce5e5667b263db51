//! Calls of the SQS queue. It must not interpret messages.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::Message;

use crate::api::ApiResult;
use crate::client::timeouts;
use crate::failure::{Failure, Repeat};
use crate::tokens::Receipt;

/// How long a call waits for messages.
const PATIENCE: Duration = Duration::from_secs(20);

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
    /// delivered again after `hidden`, here or at another server, so no message is lost with a server.
    pub(crate) async fn receive(&self, hidden: Duration) -> ApiResult<Vec<Message>> {
        let seconds = |time: Duration| i32::try_from(time.as_secs().max(1)).unwrap_or(i32::MAX);
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(10);
        let call = call.visibility_timeout(seconds(hidden)).wait_time_seconds(seconds(PATIENCE));
        let config =
            aws_sdk_sqs::Config::builder().timeout_config(timeouts(PATIENCE + Duration::from_secs(10)));
        let sent = call.customize().config_override(config).send().await;
        let answer = sent.map_err(|e| Failure::of("ReceiveMessage", Repeat::Safe, e))?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// Checks that messages can be received. A received message stays visible to other receivers, but counts
    /// as one more receive for a dead-letter queue.
    pub(crate) async fn try_receive(&self) -> ApiResult<()> {
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(1);
        let sent = call.visibility_timeout(0).wait_time_seconds(0).send().await;
        sent.map(drop).map_err(|e| Failure::of("ReceiveMessage", Repeat::Safe, e))
    }

    /// Deletes a processed message. If that fails, the queue delivers it again, and the reader deletes it
    /// then.
    pub(crate) async fn delete(&self, receipt: &Receipt) -> ApiResult<()> {
        let sent = self.client.delete_message().queue_url(&self.url).receipt_handle(&receipt.0).send().await;
        sent.map(drop).map_err(|e| Failure::of("DeleteMessage", Repeat::Safe, e))
    }
}
