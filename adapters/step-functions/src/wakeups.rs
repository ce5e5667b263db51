//! Reader of the activities and the queue: it receives tokens of waiting steps, and events of changed
//! executions. All reads happen within [`Wakeups::next`], which the server always awaits. A result is only a
//! hint: the history determines the questions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::Message;
use futures_util::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;
use serde_json::Value;
use taskbridge_sdk::{JobHandle, Secret, Wakeups, async_trait};
use tokio::time::{Instant, sleep};

use crate::config::Config;
use crate::driver::api::Api;
use crate::driver::callers::Signer;
use crate::driver::client::origin;
use crate::driver::error::Failure;
use crate::driver::queue::Queue;
use crate::driver::queue::Receipt;
use crate::hooks::event_execution_arn;
use crate::identity::arn::is_name;
use crate::identity::handle::{ExecutionArn, attached_handle};
use crate::store::history::content::QuestionContent;
use crate::store::history::questions::BAD_QUESTION;
use crate::store::progress::ExecutionTracker;
use crate::store::tokens::{PendingToken, Tokens};

/// Delay after a failed read.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Key of the queue among the sources.
const QUEUE_SOURCE: &str = "the queue";

/// Sources, and what reading them needs.
pub(crate) struct Sources {
    pub(crate) api: Arc<Api>,
    pub(crate) queue: Option<Queue>,
    pub(crate) activities: Vec<String>,
    pub(crate) heartbeat: Duration,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) tracker: Arc<ExecutionTracker>,
    /// Last logged error of each source that cannot be read now.
    pub(crate) logged_errors: Mutex<HashMap<String, String>>,
}

/// Reader of all sources. It reads while the server awaits hints.
pub(crate) struct Reader {
    /// ARNs of changed executions. Locked while one is awaited. A cancelled wait loses nothing.
    changed_arns: tokio::sync::Mutex<BoxStream<'static, String>>,
    hints: Mutex<VecDeque<JobHandle>>,
}

impl Reader {
    pub(crate) fn new(sources: &Arc<Sources>) -> Self {
        let mut streams: Vec<BoxStream<'static, String>> = Vec::new();
        for activity in sources.activities.clone() {
            let state = (sources.clone(), activity);
            let reads = stream::unfold(state, |(sources, activity)| async move {
                let changed_arns = sources.poll(&activity).await;
                Some((stream::iter(changed_arns), (sources, activity)))
            });
            streams.push(reads.flatten().boxed());
        }
        if sources.queue.is_some() {
            let reads = stream::unfold(sources.clone(), |sources| async move {
                let changed_arns = sources.receive().await;
                Some((stream::iter(changed_arns), sources))
            });
            streams.push(reads.flatten().boxed());
        }
        let heartbeats = stream::unfold(sources.clone(), |sources| async move {
            sleep(sources.heartbeat).await;
            sources.send_heartbeats().await;
            Some((stream::empty(), sources))
        });
        streams.push(heartbeats.flatten().boxed());
        Self {
            changed_arns: tokio::sync::Mutex::new(stream::select_all(streams).boxed()),
            hints: Mutex::default(),
        }
    }
}

#[async_trait]
impl Wakeups for Reader {
    async fn next(&self) -> JobHandle {
        loop {
            if let Some(hint) = self.hints.lock().pop_front() {
                return hint;
            }
            match self.changed_arns.lock().await.next().await {
                // The execution may be watched as one that was started here, or as one that is only followed.
                Some(arn) => self.hints.lock().extend([JobHandle::new(arn.as_str()), attached_handle(&arn)]),
                None => std::future::pending::<()>().await,
            }
        }
    }
}

impl Sources {
    /// Waits for a task of an activity, and stores its token. Returns the execution if the token is new.
    async fn poll(&self, activity: &str) -> Option<String> {
        match self.api.activity_task(activity).await {
            Ok(response) => {
                self.logged_errors.lock().remove(activity);
                let token = response.task_token.filter(|token| !token.is_empty())?;
                let question = response.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
                self.store_token(Secret::from(&*token), &question.unwrap_or_default(), None).await
            }
            Err(failure) => {
                self.pause(activity, &failure).await;
                None
            }
        }
    }

    /// Waits for messages of the queue, and handles them. Returns the executions that changed.
    async fn receive(&self) -> Vec<String> {
        let Some(queue) = &self.queue else { return Vec::new() };
        let messages = match queue.receive(self.heartbeat).await {
            Ok(messages) => {
                self.logged_errors.lock().remove(QUEUE_SOURCE);
                messages
            }
            Err(failure) => {
                self.pause(QUEUE_SOURCE, &failure).await;
                return Vec::new();
            }
        };
        let mut changed_arns = Vec::new();
        for message in messages {
            changed_arns.extend(self.handle_message(queue, message).await);
        }
        changed_arns
    }

    async fn handle_message(&self, queue: &Queue, message: Message) -> Option<String> {
        let receipt = Receipt(message.receipt_handle?);
        let body: Value = serde_json::from_str(message.body.as_deref()?).ok()?;
        if let Some(token) = body["token"].as_str() {
            return self.store_token(Secret::from(token), &body, Some(receipt)).await;
        }
        // An event of EventBridge.
        let arn = event_execution_arn(&body)?.to_owned();
        if queue.delete(&receipt).await.is_err() {
            tracing::debug!("queue message cannot be deleted and will be delivered again");
        }
        self.tracker.record_hint(&arn);
        Some(arn)
    }

    /// Stores a token for a later answer. Returns the execution if the token is new and a step waits for it.
    /// An invalid question is not stored: its step fails.
    async fn store_token(&self, token: Secret, question: &Value, receipt: Option<Receipt>) -> Option<String> {
        let content = QuestionContent::of(question).and_then(|content| {
            let arn = question["execution"]
                .as_str()
                .filter(|arn| ExecutionArn::parse(&JobHandle::new(*arn)).is_some());
            let arn = arn.ok_or("no `execution`, which is the ARN of the execution (`$$.Execution.Id`)")?;
            Ok((arn.to_owned(), content))
        });
        let (arn, content) = match content {
            Ok(content) => content,
            Err(reason) => {
                // The error appears in the execution, where the author of the state machine sees it.
                let cause = format!("invalid question: {reason}");
                let result = self.api.task_failure(&Signer::Bridge, &token, BAD_QUESTION, &cause).await;
                if let (Ok(()), Some(queue), Some(receipt)) = (result, &self.queue, &receipt) {
                    // If this fails, the message is delivered again, and its token proves to be settled.
                    let _ = queue.delete(receipt).await;
                }
                return None;
            }
        };
        let pending = PendingToken { arn, token, content, receipt, received_at: Instant::now() };
        let is_new = self.tokens.store(pending.clone());
        // A message is delivered again until it is deleted, even if a server that no longer exists has
        // answered it.
        if !self.send_heartbeat(&pending).await || !is_new {
            return None;
        }
        self.tracker.record_hint(&pending.arn);
        Some(pending.arn)
    }

    /// Sends a heartbeat for each stored token of an execution that this server follows or that a server like
    /// it started.
    async fn send_heartbeats(&self) {
        let is_ours =
            |pending: &PendingToken| self.tracker.is_tracked(&pending.arn) || is_started_here(&pending.arn);
        let pending_tokens: Vec<PendingToken> = self.tokens.all().into_iter().filter(is_ours).collect();
        stream::iter(&pending_tokens)
            .for_each_concurrent(8, |pending| self.send_heartbeat(pending).map(drop))
            .await;
    }

    /// Sends a heartbeat. If no step waits for this token any more, drops the token and returns false.
    async fn send_heartbeat(&self, pending: &PendingToken) -> bool {
        let Err(failure) = self.api.task_heartbeat(&pending.token).await else { return true };
        if !(failure.is("TaskTimedOut") || failure.is("TaskDoesNotExist")) {
            return true;
        }
        self.tokens.remove(pending);
        self.tracker.record_hint(&pending.arn);
        if let (Some(queue), Some(receipt)) = (&self.queue, &pending.receipt) {
            // If this fails, the message is delivered again, and deleted then.
            let _ = queue.delete(receipt).await;
        }
        false
    }

    /// Waits after a failed read. Logs each new error once.
    async fn pause(&self, source: &str, failure: &Failure) {
        let why = failure.error.to_string();
        if self.logged_errors.lock().insert(source.to_owned(), why.clone()).as_ref() != Some(&why) {
            tracing::warn!(source, why, "questions of steps cannot be read; retrying");
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Returns true if the execution has a name that a server like this one assigns.
fn is_started_here(arn: &str) -> bool {
    arn.rsplit(':').next().is_some_and(|name| name.starts_with("tb-"))
}

/// Returns an error message if the settings for questions are invalid.
pub(crate) fn check_settings(config: &Config, region: &str) -> Option<String> {
    for activity in &config.activities {
        let parts: Vec<&str> = activity.split(':').collect();
        let is_valid = matches!(parts[..], ["arn", _, "states", arn_region, account, "activity", name]
            if arn_region == region && !account.is_empty() && is_name(name));
        if !is_valid {
            return Some(format!(
                "activities: `{activity}` is not the ARN of an activity in `{region}`, such as \
                 `arn:aws:states:{region}:123456789012:activity:ask`"
            ));
        }
    }
    if let Some(queue) = config.queue.as_deref().filter(|queue| origin(queue).is_none()) {
        return Some(format!(
            "queue: `{queue}` is not the URL of a queue, such as `https://sqs.{region}.amazonaws.com/123456789012/questions`"
        ));
    }
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    (!range.contains(&config.heartbeat)).then(|| "heartbeat: give a time between 1s and 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An invalid activity, queue or heartbeat is reported with its field.
    #[test]
    fn invalid_question_config_names_its_field() {
        let (activity, queue) = ("arn:aws:states:r-1:1:activity:ask", "http://127.0.0.1:9/1/q");
        for (config, part) in [
            (json!({"activities": [activity], "queue": queue, "heartbeat": "1s"}), None),
            (json!({"activities": [activity, "ask"]}), Some("activities: `ask` is not the ARN")),
            (json!({"activities": [activity.replace("r-1", "r-2")]}), Some("in `r-1`")),
            (json!({"queue": "questions"}), Some("queue: `questions` is not the URL")),
            (json!({"queue": "https://sqs.r-1.amazonaws.com/q"}), Some("is not the URL")),
            (json!({"heartbeat": "0s"}), Some("heartbeat: give a time")),
        ] {
            let problem = check_settings(&serde_json::from_value(config.clone()).unwrap(), "r-1");
            assert_eq!(problem.is_some(), part.is_some(), "{config}: {problem:?}");
            assert!(
                part.is_none_or(|part| problem.is_some_and(|problem| problem.contains(part))),
                "{config}"
            );
        }
    }
}
