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
use taskbridge_sdk::{JobHandle, Wakeups, async_trait};
use tokio::time::{Instant, sleep};

use crate::api::Api;
use crate::arn::{ExecutionArn, attached};
use crate::caller_credentials::Signer;
use crate::content::QuestionContent;
use crate::failure::Failure;
use crate::hooks::execution;
use crate::progress::ExecutionTracker;
use crate::question_history::MISTAKEN;
use crate::queue::Queue;
use crate::tokens::{PendingToken, Receipt, Token, Tokens};

/// Delay after a failed read.
const PAUSE: Duration = Duration::from_secs(5);

/// Key of the queue among the sources.
const QUEUE: &str = "the queue";

/// Sources, and what reading them needs.
pub(crate) struct Sources {
    pub(crate) api: Arc<Api>,
    pub(crate) queue: Option<Queue>,
    pub(crate) activities: Vec<String>,
    pub(crate) heartbeat: Duration,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) watch: Arc<ExecutionTracker>,
    /// Last logged error of each source that cannot be read now.
    pub(crate) troubles: Mutex<HashMap<String, String>>,
}

/// Reader of all sources. It reads while the server awaits hints.
pub(crate) struct Reader {
    /// ARNs of changed executions. Locked while one is awaited. A cancelled wait loses nothing.
    changed: tokio::sync::Mutex<BoxStream<'static, String>>,
    hints: Mutex<VecDeque<JobHandle>>,
}

impl Reader {
    pub(crate) fn new(sources: &Arc<Sources>) -> Self {
        let mut all: Vec<BoxStream<'static, String>> = Vec::new();
        for activity in sources.activities.clone() {
            let of = (sources.clone(), activity);
            let reads = stream::unfold(of, |(sources, activity)| async move {
                let changed = sources.poll(&activity).await;
                Some((stream::iter(changed), (sources, activity)))
            });
            all.push(reads.flatten().boxed());
        }
        if sources.queue.is_some() {
            let reads = stream::unfold(sources.clone(), |sources| async move {
                let changed = sources.receive().await;
                Some((stream::iter(changed), sources))
            });
            all.push(reads.flatten().boxed());
        }
        let beats = stream::unfold(sources.clone(), |sources| async move {
            sleep(sources.heartbeat).await;
            sources.beat().await;
            Some((stream::empty(), sources))
        });
        all.push(beats.flatten().boxed());
        Self { changed: tokio::sync::Mutex::new(stream::select_all(all).boxed()), hints: Mutex::default() }
    }
}

#[async_trait]
impl Wakeups for Reader {
    async fn next(&self) -> JobHandle {
        loop {
            if let Some(hint) = self.hints.lock().pop_front() {
                return hint;
            }
            match self.changed.lock().await.next().await {
                // The execution may be watched as one that was started here, or as one that is only followed.
                Some(arn) => self.hints.lock().extend([JobHandle::new(arn.as_str()), attached(&arn)]),
                None => std::future::pending::<()>().await,
            }
        }
    }
}

impl Sources {
    /// Waits for a task of an activity, and stores its token. Returns the execution if the token is new.
    async fn poll(&self, activity: &str) -> Option<String> {
        match self.api.activity_task(activity).await {
            Ok(answer) => {
                self.troubles.lock().remove(activity);
                let token = answer.task_token.filter(|token| !token.is_empty()).map(Token::new)?;
                let said = answer.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
                self.take(token, &said.unwrap_or_default(), None).await
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
                self.troubles.lock().remove(QUEUE);
                messages
            }
            Err(failure) => {
                self.pause(QUEUE, &failure).await;
                return Vec::new();
            }
        };
        let mut changed = Vec::new();
        for message in messages {
            changed.extend(self.read(queue, message).await);
        }
        changed
    }

    async fn read(&self, queue: &Queue, message: Message) -> Option<String> {
        let receipt = Receipt(message.receipt_handle?);
        let said: Value = serde_json::from_str(message.body.as_deref()?).ok()?;
        if let Some(token) = said["token"].as_str() {
            return self.take(Token::new(token), &said, Some(receipt)).await;
        }
        // An event of EventBridge.
        let arn = execution(&said)?.to_owned();
        if queue.delete(&receipt).await.is_err() {
            tracing::debug!("a message of the queue could not be deleted, and comes again");
        }
        self.watch.has_news(&arn);
        Some(arn)
    }

    /// Stores a token for a later answer. Returns the execution if the token is new and a step waits for it.
    /// An invalid question is not stored: its step fails.
    async fn take(&self, token: Token, said: &Value, receipt: Option<Receipt>) -> Option<String> {
        let content = QuestionContent::of(said).and_then(|content| {
            let arn =
                said["execution"].as_str().filter(|arn| ExecutionArn::parse(&JobHandle::new(*arn)).is_some());
            let arn =
                arn.ok_or("it has no `execution`, which is the ARN of the execution (`$$.Execution.Id`)")?;
            Ok((arn.to_owned(), content))
        });
        let (arn, content) = match content {
            Ok(content) => content,
            Err(why) => {
                // The error appears in the execution, where the author of the state machine sees it.
                let cause = format!("taskbridge cannot ask this: {why}");
                let told = self.api.task_failure(&Signer::Own, &token, MISTAKEN, &cause).await;
                if let (Ok(()), Some(queue), Some(receipt)) = (told, &self.queue, &receipt) {
                    // If this fails, the message is delivered again, and its token proves to be settled.
                    let _ = queue.delete(receipt).await;
                }
                return None;
            }
        };
        let held = PendingToken { arn, token, content, receipt, since: Instant::now() };
        let is_news = self.tokens.keep(held.clone());
        // A message is delivered again until it is deleted, even if a server that no longer exists has
        // answered it.
        if !self.beats(&held).await || !is_news {
            return None;
        }
        self.watch.has_news(&held.arn);
        Some(held.arn)
    }

    /// Sends a heartbeat for each stored token of an execution that this server follows or that a server like
    /// it started.
    async fn beat(&self) {
        let ours = |held: &PendingToken| self.watch.follows(&held.arn) || is_started_here(&held.arn);
        let held: Vec<PendingToken> = self.tokens.all().into_iter().filter(ours).collect();
        stream::iter(&held).for_each_concurrent(8, |held| self.beats(held).map(drop)).await;
    }

    /// Sends a heartbeat. If no step waits for this token any more, drops the token and returns false.
    async fn beats(&self, held: &PendingToken) -> bool {
        let Err(failure) = self.api.task_heartbeat(&held.token).await else { return true };
        if !(failure.is("TaskTimedOut") || failure.is("TaskDoesNotExist")) {
            return true;
        }
        self.tokens.drop_one(held);
        self.watch.has_news(&held.arn);
        if let (Some(queue), Some(receipt)) = (&self.queue, &held.receipt) {
            // If this fails, the message is delivered again, and deleted then.
            let _ = queue.delete(receipt).await;
        }
        false
    }

    /// Waits after a failed read. Logs each new error once.
    async fn pause(&self, source: &str, failure: &Failure) {
        let why = failure.error.to_string();
        if self.troubles.lock().insert(source.to_owned(), why.clone()).as_ref() != Some(&why) {
            tracing::warn!(source, why, "what steps ask cannot be read; it is tried again");
        }
        sleep(PAUSE).await;
    }
}

/// Returns true if the execution has a name that a server like this one assigns.
fn is_started_here(arn: &str) -> bool {
    arn.rsplit(':').next().is_some_and(|name| name.starts_with("tb-"))
}
