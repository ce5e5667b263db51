//! [`Notifier`]: the loop that sends pending notices. Each receiver has its own loop with a few concurrent
//! POSTs. A failing receiver is paused with exponential backoff and then tried with one notice. So a receiver
//! that stays dead costs about one POST a minute, however many notices are pending.
//!
//! A process leases the notices that it sends, for longer than a POST can take. If it dies, another process
//! sends them again, under the same id. No state here is needed after a crash: pending notices and their due
//! times are in the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Receiver, Receivers, event, signature};
use crate::tasks::store::{Holder, LeasedNotice, ReceiverFilter};
use crate::tasks::task_writer::TaskWriter;

/// The maximum number of concurrent POSTs to one receiver.
const MAX_CONCURRENT: usize = 8;
/// How often the store is read without a hint. This finds notices whose retry is due, and those of a process
/// that died.
const TICK: Duration = Duration::from_secs(1);
/// The grace period for POSTs in progress at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// The interval between checks for notices to give up.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// The maximum pause of a failing receiver that sends no `Retry-After`.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The maximum backoff of one notice without `Retry-After`, before jitter.
const MAX_BACKOFF: Duration = Duration::from_secs(3600);
/// The maximum `Retry-After` that is honored, of a notice and of a receiver.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(86_400);
/// The retention of notices for receivers that are not in this process's config: a replica with another
/// config may have them. The notices of a receiver that a reload removes are dropped at once.
const UNKNOWN_RECEIVER_RETENTION: Duration = Duration::from_secs(7 * 86_400);

/// A request to post.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    /// The notice's id.
    pub id: String,
    /// The send time, in seconds since 1970.
    pub seconds: i64,
    /// The signature header.
    pub signature: String,
    /// The event.
    pub body: Vec<u8>,
}

/// The result of one POST to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// It accepted the notice.
    Accepted,
    /// It did not accept the notice, or could not be reached.
    Refused {
        /// The reason.
        why: String,
        /// The requested delay before a retry.
        after: Option<Duration>,
    },
    /// It answered 410 Gone, so it gets no more notices.
    Gone,
}

/// A transport to receivers.
#[async_trait]
pub trait WebhookTransport: Send + Sync + 'static {
    /// The client of one receiver, created once.
    type Client: Send + Sync;

    /// Creates the client of a receiver.
    ///
    /// # Errors
    /// If the receiver's config is invalid.
    fn client(&self, receiver: &Receiver) -> Result<Self::Client, String>;

    /// Sends one request.
    async fn send(
        &self,
        client: &Self::Client,
        receiver: &Receiver,
        request: WebhookRequest,
    ) -> DeliveryResult;
}

/// The sender of pending notices.
pub struct Notifier<C> {
    writer: TaskWriter,
    receivers: Receivers,
    holder: Holder,
    transport: C,
}

/// The backoff state of a receiver.
struct ReceiverBackoff {
    /// The number of failures since the last success.
    failures: u32,
    /// The end of its pause.
    until: Instant,
}

impl<C: WebhookTransport> Notifier<C> {
    /// Creates a notifier over a task writer, for a process that leases as `holder`.
    pub fn new(writer: TaskWriter, receivers: Receivers, holder: Holder, transport: C) -> Self {
        Self { writer, receivers, holder, transport }
    }

    /// Sends until `stop`, then waits briefly for POSTs in progress. Its remaining leases are released with
    /// the other leases of the process, and another process sends those notices.
    pub async fn run(self, stop: CancellationToken) {
        let mut watch = self.receivers.watch();
        let mut running = FuturesUnordered::new();
        let mut current: Vec<(Arc<Receiver>, CancellationToken)> = Vec::new();
        loop {
            let receivers = watch.borrow_and_update().clone();
            let removed =
                current.extract_if(.., |(known, _)| !receivers.iter().any(|one| Arc::ptr_eq(one, known)));
            for (receiver, cancellation) in removed.collect::<Vec<_>>() {
                cancellation.cancel();
                if !receivers.iter().any(|one| one.url == receiver.url) {
                    self.drop_notices(&receiver, "the receiver was removed from the config", None).await;
                }
            }
            for receiver in receivers.iter() {
                if !current.iter().any(|(known, _)| Arc::ptr_eq(receiver, known)) {
                    let cancellation = stop.child_token();
                    current.push((Arc::clone(receiver), cancellation.clone()));
                    running.push(self.serve(Arc::clone(receiver), cancellation));
                }
            }
            let changed = async {
                loop {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return false,
                        changed = watch.changed() => return changed.is_ok(),
                        Some(()) = running.next(), if !running.is_empty() => {}
                        () = self.drop_unknown_receivers() => {}
                    }
                }
            };
            if !changed.await {
                break;
            }
        }
        let end = async { while running.next().await.is_some() {} };
        // A slow receiver must not delay the shutdown.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, end).await;
    }

    /// Sends to one receiver until `stop`. After a 410 Gone, it sends nothing more and drops the receiver's
    /// notices until `stop`.
    async fn serve(&self, receiver: Arc<Receiver>, stop: CancellationToken) {
        let (name, origin) = (receiver.name(), receiver.origin());
        let client = match self.transport.client(&receiver) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(receiver = origin, %error, "notices cannot be sent; they are kept");
                return;
            }
        };
        let mut new_notices = self.writer.nudge.notices_pending.subscribe();
        let mut receiver_backoff = ReceiverBackoff { failures: 0, until: Instant::now() };
        let (mut has_more, mut next_poll, mut next_expiry) = (true, Instant::now(), Instant::now());
        let mut in_flight = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            if next_expiry <= now
                && let Some(store_now) = self.writer.clock.stable_now()
            {
                let since = store_now - receiver.give_up_after;
                self.drop_notices(&receiver, "their `give_up_after` has passed", Some(since)).await;
                next_expiry = now + EXPIRY_INTERVAL;
            }
            if next_poll <= now {
                (has_more, next_poll) = (true, now + TICK);
            }
            let capacity = receiver_backoff.capacity(in_flight.len(), now);
            if has_more && capacity > 0 {
                let lease = receiver.timeout * 2;
                match self.writer.store.take_notices(&name, &self.holder, lease, capacity).await {
                    Ok(notices) => {
                        has_more = notices.len() == capacity;
                        in_flight
                            .extend(notices.into_iter().map(|notice| self.send(&client, &receiver, notice)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, receiver = origin, "pending notices cannot be read");
                        has_more = false;
                    }
                }
            }
            let wake =
                if receiver_backoff.until > now { next_poll.max(receiver_backoff.until) } else { next_poll };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(result) = in_flight.next(), if !in_flight.is_empty() => match result {
                    DeliveryResult::Accepted => receiver_backoff.record_success(&origin),
                    DeliveryResult::Refused { why, after } => receiver_backoff.record_failure(&origin, &why, after),
                    DeliveryResult::Gone => {
                        tracing::error!(receiver = origin, "receiver answered 410 Gone; nothing is sent until its config changes or the server restarts");
                        break;
                    }
                },
                Ok(()) = new_notices.changed() => has_more = true,
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        let is_gone = !stop.is_cancelled();
        while in_flight.next().await.is_some() {}
        if is_gone {
            self.drop_until_stopped(&receiver, &stop).await;
        }
    }

    /// Drops the notices of a receiver that wants no more, every `EXPIRY_INTERVAL` until `stop`.
    async fn drop_until_stopped(&self, receiver: &Receiver, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.drop_notices(receiver, "the receiver answered 410 Gone", None).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(EXPIRY_INTERVAL) => {}
            }
        }
    }

    /// Sends one notice, and records the result.
    async fn send(&self, client: &C::Client, receiver: &Receiver, leased: LeasedNotice) -> DeliveryResult {
        let LeasedNotice { notice, attempts } = leased;
        let body = event::encode(&notice, receiver);
        let seconds = self.writer.now().as_millis().div_euclid(1000);
        let signature = signature::header(&receiver.keys, &notice.id, seconds, &body);
        let request = WebhookRequest { id: notice.id.clone(), seconds, signature, body };
        let result = self.transport.send(client, receiver, request).await;
        let store = &self.writer.store;
        let recorded = match &result {
            DeliveryResult::Accepted | DeliveryResult::Gone => store.ack_notice(&notice).await,
            DeliveryResult::Refused { after, .. } => {
                let retry_after = after.unwrap_or_default().min(MAX_RETRY_AFTER);
                let pause = backoff(&notice.id, attempts).max(retry_after);
                store.retry_notice_later(&notice, &self.holder, pause).await
            }
        };
        if let Err(error) = recorded {
            tracing::warn!(%error, notice = notice.id, "result of a notice cannot be recorded; it is sent again");
        }
        result
    }

    /// Drops the notices of a receiver, all or those pending since before a time, and logs their number.
    async fn drop_notices(&self, receiver: &Receiver, why: &str, before: Option<Timestamp>) {
        let before = before.unwrap_or(Timestamp::from_millis(i64::MAX));
        match self.writer.store.delete_notices(ReceiverFilter::Only(&receiver.name()), before).await {
            Ok(0) => {}
            Ok(notices) => {
                tracing::warn!(receiver = receiver.origin(), notices, "notices are dropped: {why}")
            }
            Err(error) => tracing::warn!(%error, "notices cannot be dropped"),
        }
    }

    /// Waits for `EXPIRY_INTERVAL`, then drops notices older than `UNKNOWN_RECEIVER_RETENTION` of receivers
    /// that this process's config does not have.
    async fn drop_unknown_receivers(&self) {
        tokio::time::sleep(EXPIRY_INTERVAL).await;
        // After a recent leap of the store's clock, nothing is deleted.
        let Some(now) = self.writer.clock.stable_now() else { return };
        let names: Vec<String> = self.receivers.watch().borrow().iter().map(|r| r.name()).collect();
        match self
            .writer
            .store
            .delete_notices(ReceiverFilter::AllExcept(&names), now - UNKNOWN_RECEIVER_RETENTION)
            .await
        {
            Ok(0) => {}
            Ok(notices) => {
                tracing::warn!(notices, "notices are dropped: their receivers are not in the config")
            }
            Err(error) => tracing::warn!(%error, "notices cannot be dropped"),
        }
    }
}

impl ReceiverBackoff {
    /// Returns how many more notices may be sent now: only one at a time after a failure.
    fn capacity(&self, in_flight: usize, now: Instant) -> usize {
        match self.failures {
            _ if self.until > now => 0,
            0 => MAX_CONCURRENT.saturating_sub(in_flight),
            _ => 1_usize.saturating_sub(in_flight),
        }
    }

    fn record_success(&mut self, origin: &str) {
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!(receiver = origin, "notices are accepted again");
        }
        self.until = Instant::now();
    }

    fn record_failure(&mut self, origin: &str, why: &str, after: Option<Duration>) {
        let now = Instant::now();
        // Concurrent POSTs that fail together count as one failure.
        if self.until <= now {
            if self.failures == 0 {
                tracing::warn!(receiver = origin, why, "notices are not accepted; retrying");
            }
            self.failures = self.failures.saturating_add(1);
            self.until = now + doubled(self.failures, MAX_PAUSE);
        }
        self.until = self.until.max(now + after.unwrap_or_default().min(MAX_RETRY_AFTER));
    }
}

/// Returns the backoff of a notice after this many attempts: a second, doubled each time. Up to a quarter is
/// added, so that notices that failed together are not retried together.
fn backoff(id: &str, attempts: u32) -> Duration {
    let jitter =
        id.bytes().fold(attempts, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 256;
    let pause = doubled(attempts, MAX_BACKOFF);
    pause + pause * jitter / 1024
}

/// Returns a second, doubled with each time after the first, up to `longest`.
fn doubled(times: u32, longest: Duration) -> Duration {
    Duration::from_secs(1_u64 << times.saturating_sub(1).min(20)).min(longest)
}
