//! The calls that this adapter makes of its SQS queue. It must not know what a message says.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::Message;

use crate::api::Answer;
use crate::client::timeouts;
use crate::failure::{Failure, Repeat};
use crate::tokens::Receipt;

/// For how long a call waits for messages.
const PATIENCE: Duration = Duration::from_secs(20);

/// A queue.
pub(crate) struct Queue {
    client: Client,
    url: String,
}

impl Queue {
    pub(crate) fn new(client: Client, url: String) -> Self {
        Self { client, url }
    }

    /// The next messages, once there are any, or none after a while. One that is not deleted comes again when it was
    /// `hidden` for so long, here or at another server: so none is lost with a server.
    pub(crate) async fn receive(&self, hidden: Duration) -> Answer<Vec<Message>> {
        let seconds = |time: Duration| i32::try_from(time.as_secs().max(1)).unwrap_or(i32::MAX);
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(10);
        let call = call.visibility_timeout(seconds(hidden)).wait_time_seconds(seconds(PATIENCE));
        let config =
            aws_sdk_sqs::Config::builder().timeout_config(timeouts(PATIENCE + Duration::from_secs(10)));
        let sent = call.customize().config_override(config).send().await;
        let answer = sent.map_err(|e| Failure::of("ReceiveMessage", Repeat::Safe, e))?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// Whether messages may be received: one that is there can be received again at once.
    pub(crate) async fn try_receive(&self) -> Answer<()> {
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(1);
        let sent = call.visibility_timeout(0).wait_time_seconds(0).send().await;
        sent.map(drop).map_err(|e| Failure::of("ReceiveMessage", Repeat::Safe, e))
    }

    /// Deletes a message that is done with. If that fails, it comes again, and is deleted then.
    pub(crate) async fn delete(&self, receipt: &Receipt) -> Answer<()> {
        let sent = self.client.delete_message().queue_url(&self.url).receipt_handle(&receipt.0).send().await;
        sent.map(drop).map_err(|e| Failure::of("DeleteMessage", Repeat::Safe, e))
    }
}
