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
use crate::tasks::store::{Forget, Holder, LeasedNotice};
use crate::tasks::task_writer::TaskWriter;

/// The maximum number of concurrent POSTs to one receiver.
const PLACES: usize = 8;
/// How often the store is read without a hint. This finds notices whose retry is due, and those of a process
/// that died.
const TICK: Duration = Duration::from_secs(1);
/// The grace period for POSTs in progress at shutdown.
const MOMENT: Duration = Duration::from_secs(1);
/// The interval between checks for notices to give up.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// The maximum pause of a failing receiver that sends no `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The maximum backoff of one notice without `Retry-After`, before jitter.
const LONGEST_BACKOFF: Duration = Duration::from_secs(3600);
/// The maximum `Retry-After` that is honored, of a notice and of a receiver.
const LONGEST_WISH: Duration = Duration::from_secs(86_400);
/// The retention of notices for receivers that are not in this process's config: a replica with another
/// config may have them. The notices of a receiver that a reload removes are dropped at once.
const STRANGERS_KEPT: Duration = Duration::from_secs(7 * 86_400);

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
    Taken,
    /// It did not accept the notice, or could not be reached.
    Refused {
        /// The reason.
        why: String,
        /// The requested delay before a retry.
        after: Option<Duration>,
    },
    /// It wants no more notices.
    Gone,
}

/// A transport to receivers.
#[async_trait]
pub trait WebhookTransport: Send + Sync + 'static {
    /// The client of one receiver, created once.
    type Way: Send + Sync;

    /// Creates the client of a receiver.
    ///
    /// # Errors
    /// If the receiver's config is invalid.
    fn way(&self, receiver: &Receiver) -> Result<Self::Way, String>;

    /// Sends one request.
    async fn carry(&self, way: &Self::Way, receiver: &Receiver, letter: WebhookRequest) -> DeliveryResult;
}

/// The sender of pending notices.
pub struct Notifier<C> {
    ledger: TaskWriter,
    receivers: Receivers,
    holder: Holder,
    carrier: C,
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
    pub fn new(ledger: TaskWriter, receivers: Receivers, holder: Holder, carrier: C) -> Self {
        Self { ledger, receivers, holder, carrier }
    }

    /// Sends until `stop`, then waits briefly for POSTs in progress. Its remaining leases are released with
    /// the other leases of the process, and another process sends those notices.
    pub async fn run(self, stop: CancellationToken) {
        let mut watch = self.receivers.watch();
        let mut running = FuturesUnordered::new();
        let mut current: Vec<(Arc<Receiver>, CancellationToken)> = Vec::new();
        loop {
            let wanted = watch.borrow_and_update().clone();
            let left = current.extract_if(.., |(known, _)| !wanted.iter().any(|one| Arc::ptr_eq(one, known)));
            for (receiver, ends) in left.collect::<Vec<_>>() {
                ends.cancel();
                if !wanted.iter().any(|one| one.url == receiver.url) {
                    self.forget(&receiver, "the config does not have it any more", None).await;
                }
            }
            for receiver in wanted.iter() {
                if !current.iter().any(|(known, _)| Arc::ptr_eq(receiver, known)) {
                    let ends = stop.child_token();
                    current.push((Arc::clone(receiver), ends.clone()));
                    running.push(self.serve(Arc::clone(receiver), ends));
                }
            }
            let changed = async {
                loop {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return false,
                        changed = watch.changed() => return changed.is_ok(),
                        Some(()) = running.next(), if !running.is_empty() => {}
                        () = self.forget_strangers() => {}
                    }
                }
            };
            if !changed.await {
                break;
            }
        }
        let end = async { while running.next().await.is_some() {} };
        // A slow receiver must not delay the shutdown.
        let _ = tokio::time::timeout(MOMENT, end).await;
    }

    /// Sends to one receiver until `stop`. After a 410 Gone, it sends nothing more and drops the receiver's
    /// notices until `stop`.
    async fn serve(&self, receiver: Arc<Receiver>, stop: CancellationToken) {
        let (name, place) = (receiver.name(), receiver.place());
        let way = match self.carrier.way(&receiver) {
            Ok(way) => way,
            Err(error) => {
                tracing::error!(receiver = place, %error, "notices cannot be sent; they are kept");
                return;
            }
        };
        let mut owing = self.ledger.nudge.owing.subscribe();
        let mut mood = ReceiverBackoff { failures: 0, until: Instant::now() };
        let (mut more, mut look, mut forget_at) = (true, Instant::now(), Instant::now());
        let mut under_way = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            if forget_at <= now
                && let Some(settled) = self.ledger.clock.settled()
            {
                let since = settled - receiver.give_up_after;
                self.forget(&receiver, "it was tried for too long", Some(since)).await;
                forget_at = now + FORGET_EVERY;
            }
            if look <= now {
                (more, look) = (true, now + TICK);
            }
            let room = mood.room(under_way.len(), now);
            if more && room > 0 {
                let lease = receiver.timeout * 2;
                match self.ledger.store.take_notices(&name, &self.holder, lease, room).await {
                    Ok(owed) => {
                        more = owed.len() == room;
                        under_way.extend(owed.into_iter().map(|owed| self.send(&way, &receiver, owed)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, receiver = place, "what is owed cannot be read");
                        more = false;
                    }
                }
            }
            let wake = if mood.until > now { look.max(mood.until) } else { look };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(answer) = under_way.next(), if !under_way.is_empty() => match answer {
                    DeliveryResult::Taken => mood.cheer(&place),
                    DeliveryResult::Refused { why, after } => mood.sour(&place, &why, after),
                    DeliveryResult::Gone => {
                        tracing::error!(receiver = place, "it answers 410 Gone: it is told nothing until the config says something else of it, or the server starts again");
                        break;
                    }
                },
                Ok(()) = owing.changed() => more = true,
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        let is_gone = !stop.is_cancelled();
        while under_way.next().await.is_some() {}
        if is_gone {
            self.decline(&receiver, &stop).await;
        }
    }

    /// Drops the notices of a receiver that wants no more, every `FORGET_EVERY` until `stop`.
    async fn decline(&self, receiver: &Receiver, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.forget(receiver, "it wants nothing any more", None).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(FORGET_EVERY) => {}
            }
        }
    }

    /// Sends one notice, and records the result.
    async fn send(&self, way: &C::Way, receiver: &Receiver, owed: LeasedNotice) -> DeliveryResult {
        let LeasedNotice { notice, attempts } = owed;
        let body = event::of(&notice, receiver);
        let seconds = self.ledger.now().as_millis().div_euclid(1000);
        let signature = signature::header(&receiver.keys, &notice.id, seconds, &body);
        let letter = WebhookRequest { id: notice.id.clone(), seconds, signature, body };
        let answer = self.carrier.carry(way, receiver, letter).await;
        let store = &self.ledger.store;
        let noted = match &answer {
            DeliveryResult::Taken | DeliveryResult::Gone => store.ack_notice(&notice).await,
            DeliveryResult::Refused { after, .. } => {
                let wish = after.unwrap_or_default().min(LONGEST_WISH);
                let pause = backoff(&notice.id, attempts).max(wish);
                store.retry_notice_later(&notice, &self.holder, pause).await
            }
        };
        if let Err(error) = noted {
            tracing::warn!(%error, notice = notice.id, "what came of a notice cannot be noted; it is sent again");
        }
        answer
    }

    /// Drops the notices of a receiver, all or those pending since before a time, and logs their number.
    async fn forget(&self, receiver: &Receiver, why: &str, before: Option<Timestamp>) {
        let before = before.unwrap_or(Timestamp::from_millis(i64::MAX));
        match self.ledger.store.forget_notices(Forget::Of(&receiver.name()), before).await {
            Ok(0) => {}
            Ok(notices) => tracing::warn!(receiver = receiver.place(), notices, "notices are dropped: {why}"),
            Err(error) => tracing::warn!(%error, "notices cannot be dropped"),
        }
    }

    /// Waits for `FORGET_EVERY`, then drops notices older than `STRANGERS_KEPT` of receivers that this
    /// process's config does not have.
    async fn forget_strangers(&self) {
        tokio::time::sleep(FORGET_EVERY).await;
        // After a recent leap of the store's clock, nothing is deleted.
        let Some(now) = self.ledger.clock.settled() else { return };
        let names: Vec<String> = self.receivers.watch().borrow().iter().map(|r| r.name()).collect();
        match self.ledger.store.forget_notices(Forget::AllBut(&names), now - STRANGERS_KEPT).await {
            Ok(0) => {}
            Ok(notices) => tracing::warn!(notices, "notices are dropped: no config has their receivers"),
            Err(error) => tracing::warn!(%error, "notices cannot be dropped"),
        }
    }
}

impl ReceiverBackoff {
    /// Returns how many more notices may be sent now: only one at a time after a failure.
    fn room(&self, under_way: usize, now: Instant) -> usize {
        match self.failures {
            _ if self.until > now => 0,
            0 => PLACES.saturating_sub(under_way),
            _ => 1_usize.saturating_sub(under_way),
        }
    }

    fn cheer(&mut self, place: &str) {
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!(receiver = place, "notices are taken again");
        }
        self.until = Instant::now();
    }

    fn sour(&mut self, place: &str, why: &str, after: Option<Duration>) {
        let now = Instant::now();
        // Concurrent POSTs that fail together count as one failure.
        if self.until <= now {
            if self.failures == 0 {
                tracing::warn!(receiver = place, why, "notices are not taken; they are kept and sent again");
            }
            self.failures = self.failures.saturating_add(1);
            self.until = now + doubled(self.failures, LONGEST_PAUSE);
        }
        self.until = self.until.max(now + after.unwrap_or_default().min(LONGEST_WISH));
    }
}

/// Returns the backoff of a notice after this many attempts: a second, doubled each time. Up to a quarter is
/// added, so that notices that failed together are not retried together.
fn backoff(id: &str, attempts: u32) -> Duration {
    let spread =
        id.bytes().fold(attempts, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 256;
    let pause = doubled(attempts, LONGEST_BACKOFF);
    pause + pause * spread / 1024
}

/// Returns a second, doubled with each time after the first, up to `longest`.
fn doubled(times: u32, longest: Duration) -> Duration {
    Duration::from_secs(1_u64 << times.saturating_sub(1).min(20)).min(longest)
}
