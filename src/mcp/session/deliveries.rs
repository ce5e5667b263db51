//! The claims of streams on the questions that they send, and the guard that holds one. When it is dropped,
//! the end of the stream is stored. A drop cannot write to a store, so the reconciler makes that write. This
//! module must not decide which question is sent.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::SessionState;
use crate::sessions::{DeliveredQuestion, Deliveries, Delivery, DeliveryChange};
use crate::tasks::service::{FrontEndWrite, Service};
use crate::tasks::store::Result;
use crate::tasks::task::{Task, TaskId, TaskQuestion};

/// A question that a stream has claimed.
#[derive(Clone, Debug)]
pub struct QuestionClaim {
    /// The task.
    pub task: TaskId,
    /// The question.
    pub question: TaskQuestion,
    /// The number of this message about the question.
    pub n: u32,
    /// Why the last answer to the question was refused, as text for the person who gave it.
    pub problem: Option<String>,
}

/// A stream that carries a question. On drop it reports that the stream broke, so that another stream may
/// carry the question. After [`DeliveryGuard::finish`] that has no effect.
#[must_use]
pub struct DeliveryGuard {
    claim: QuestionClaim,
    writer: DeliveryWriter,
    ended: bool,
}

/// Writes the deliveries of one question, and notifies the subscribers of its task in this process.
#[derive(Clone)]
struct DeliveryWriter {
    store: Arc<dyn Deliveries>,
    service: Service,
    question: DeliveredQuestion,
}

/// The end of a stream that carried message `n`, as it is written.
struct StreamBroken {
    writer: DeliveryWriter,
    n: u32,
}

impl SessionState {
    /// Claims a question for one stream, which counts as open for `lease`. `seen` is the newest delivery that
    /// the stream knows. The claim is committed on return, so only one stream carries a question at a time.
    /// Returns `None` if another stream was faster, or the task does not exist any more.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn claim_question(
        &self,
        service: &Service,
        (task, question): (&Task, &TaskQuestion),
        seen: Option<Delivery>,
        lease: Duration,
    ) -> Result<Option<(DeliveryGuard, Delivery)>> {
        let writer = self.delivery_writer(service, task, question);
        let problem = seen.as_ref().and_then(|seen| seen.problem.clone());
        let claimed = writer.write(DeliveryChange::Claim { seen, lease }).await?;
        Ok(claimed.map(|delivery| {
            let claim =
                QuestionClaim { task: task.id.clone(), question: question.clone(), n: delivery.n, problem };
            (DeliveryGuard { claim, writer, ended: false }, delivery)
        }))
    }

    /// Records that the client has handled message `n`, whatever its response. The question can be sent
    /// again, but not on the streams that are open now. If an answer was rejected, `problem` is the reason,
    /// written for the person who answered.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn end_delivery(
        &self,
        service: &Service,
        (task, question): (&Task, &TaskQuestion),
        n: u32,
        problem: Option<String>,
    ) -> Result<()> {
        let end = DeliveryChange::End { n, handled: true, problem };
        self.delivery_writer(service, task, question).write(end).await.map(drop)
    }

    fn delivery_writer(&self, service: &Service, task: &Task, question: &TaskQuestion) -> DeliveryWriter {
        let (store, service) = (Arc::clone(&self.deliveries), service.clone());
        DeliveryWriter { store, service, question: DeliveredQuestion::of(task, question) }
    }
}

impl DeliveryGuard {
    /// Returns the question that the stream carries.
    pub fn claim(&self) -> &QuestionClaim {
        &self.claim
    }

    /// Records that the stream stays open for another `lease`. Returns the delivery then; `None` if it has
    /// ended.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn renew(&self, lease: Duration) -> Result<Option<Delivery>> {
        self.writer.write(DeliveryChange::Renew { n: self.claim.n, lease }).await
    }

    /// Records that the client has handled the message, as [`SessionState::end_delivery`].
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn finish(mut self) -> Result<()> {
        self.writer.write(DeliveryChange::End { n: self.claim.n, handled: true, problem: None }).await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for DeliveryGuard {
    fn drop(&mut self) {
        // If the process ends before the write, the claim expires.
        if !self.ended {
            self.writer
                .service
                .defer(Box::new(StreamBroken { writer: self.writer.clone(), n: self.claim.n }));
        }
    }
}

#[async_trait]
impl FrontEndWrite for StreamBroken {
    async fn execute(&self) -> Result<()> {
        let end = DeliveryChange::End { n: self.n, handled: false, problem: None };
        self.writer.write(end).await.map(drop)
    }
}

impl DeliveryWriter {
    async fn write(&self, change: DeliveryChange) -> Result<Option<Delivery>> {
        let is_news = change.concerns_others();
        let changed = self.store.change_delivery(&self.question, change).await?;
        if is_news && changed.is_some() {
            self.service.task_changed(&self.question.task, self.question.channel.as_deref());
        }
        Ok(changed)
    }
}
