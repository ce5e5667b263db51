//! [`Notifier`]: the loop that sends what is owed. Each receiver has a small loop of its own, with a few places for POSTs
//! that are under way. One that fails is left alone for a while, longer each time, and then tried with one notice: that
//! costs a dead receiver a POST a minute, however much it is owed.
//!
//! A process leases what it sends, for longer than a POST can take; if it dies, another sends it again, under the same id.
//! Nothing here is needed after a crash: what is owed is in the store, and when it is due.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Receiver, Receivers, event, signature};
use crate::tasks::ledger::Ledger;
use crate::tasks::store::{Forget, Holder, Owed};

/// POSTs to one receiver at a time.
const PLACES: usize = 8;
/// How often the store is asked for what no hint told of: what another process owed and did not live to send.
const TICK: Duration = Duration::from_secs(1);
/// How long POSTs that are under way may take when the process is to end.
const MOMENT: Duration = Duration::from_secs(1);
/// How often it is looked whether something is to be given up.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// The longest that a receiver is left alone because it fails.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest that one notice is put off because it fails.
const LONGEST_BACKOFF: Duration = Duration::from_secs(3600);
/// The longest that a receiver is believed to want to be left alone.
const LONGEST_WISH: Duration = Duration::from_secs(86_400);
/// How long what is owed to a receiver that no process has in its config is kept: it may come back with the next config.
const STRANGERS_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// What is posted.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The notice's id.
    pub id: String,
    /// When it is sent, in seconds since 1970.
    pub seconds: i64,
    /// Who it is from.
    pub signature: String,
    /// The event.
    pub body: Vec<u8>,
}

/// What a receiver says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has it.
    Taken,
    /// It does not have it.
    Refused {
        /// Why, in words.
        why: String,
        /// When it wants to be asked again.
        after: Option<Duration>,
    },
    /// It wants nothing any more.
    Gone,
}

/// How letters get to receivers.
#[async_trait]
pub trait Carrier: Send + Sync + 'static {
    /// What is made once for a receiver.
    type Way: Send + Sync;

    /// The way to a receiver.
    ///
    /// # Errors
    /// What is wrong with it.
    fn way(&self, receiver: &Receiver) -> Result<Self::Way, String>;

    /// Takes one letter there.
    async fn carry(&self, way: &Self::Way, receiver: &Receiver, letter: Letter) -> Answer;
}

/// Sends what is owed.
pub struct Notifier<C> {
    ledger: Ledger,
    receivers: Receivers,
    holder: Holder,
    carrier: C,
}

/// How a receiver takes it.
struct Mood {
    /// Failures since the last success.
    failures: u32,
    /// Until when it is left alone.
    until: Instant,
}

impl<C: Carrier> Notifier<C> {
    /// A notifier over a ledger, for a process that leases as `holder`.
    pub fn new(ledger: Ledger, receivers: Receivers, holder: Holder, carrier: C) -> Self {
        Self { ledger, receivers, holder, carrier }
    }

    /// Sends until `stop`, then gives the POSTs that are under way a moment to end. What it has leased then is to be let
    /// go with the other leases of the process, and is sent again by another.
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
        // A receiver that is slow does not hold up the end of the process.
        let _ = tokio::time::timeout(MOMENT, end).await;
    }

    /// Sends to one receiver.
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
        let mut mood = Mood { failures: 0, until: Instant::now() };
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
                    Answer::Taken => mood.cheer(&place),
                    Answer::Refused { why, after } => mood.sour(&place, &why, after),
                    Answer::Gone => {
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

    /// Drops what a receiver is owed that wants nothing any more.
    async fn decline(&self, receiver: &Receiver, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.forget(receiver, "it wants nothing any more", None).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(FORGET_EVERY) => {}
            }
        }
    }

    /// Sends one notice, and notes what came of it.
    async fn send(&self, way: &C::Way, receiver: &Receiver, owed: Owed) -> Answer {
        let Owed { notice, attempts } = owed;
        let body = event::of(&notice, receiver);
        let seconds = self.ledger.now().as_millis().div_euclid(1000);
        let signature = signature::header(&receiver.keys, &notice.id, seconds, &body);
        let letter = Letter { id: notice.id.clone(), seconds, signature, body };
        let answer = self.carrier.carry(way, receiver, letter).await;
        let store = &self.ledger.store;
        let noted = match &answer {
            Answer::Taken | Answer::Gone => store.strike(&notice).await,
            Answer::Refused { after, .. } => {
                let wish = after.unwrap_or_default().min(LONGEST_WISH);
                let pause = backoff(&notice.id, attempts).max(wish);
                store.put_off(&notice, &self.holder, pause).await
            }
        };
        if let Err(error) = noted {
            tracing::warn!(%error, notice = notice.id, "what came of a notice cannot be noted; it is sent again");
        }
        answer
    }

    /// Drops what a receiver is owed, since before a moment or at all, and tells once how much that was.
    async fn forget(&self, receiver: &Receiver, why: &str, before: Option<Timestamp>) {
        let before = before.unwrap_or(Timestamp::from_millis(i64::MAX));
        match self.ledger.store.forget_notices(Forget::Of(&receiver.name()), before).await {
            Ok(0) => {}
            Ok(notices) => tracing::warn!(receiver = receiver.place(), notices, "notices are dropped: {why}"),
            Err(error) => tracing::warn!(%error, "notices cannot be dropped"),
        }
    }

    /// Drops, now and then, what is owed to receivers that nobody knows.
    async fn forget_strangers(&self) {
        tokio::time::sleep(FORGET_EVERY).await;
        // While the store's clock has lately leapt, nothing is deleted.
        let Some(now) = self.ledger.clock.settled() else { return };
        let names: Vec<String> = self.receivers.watch().borrow().iter().map(|r| r.name()).collect();
        match self.ledger.store.forget_notices(Forget::AllBut(&names), now - STRANGERS_KEPT).await {
            Ok(0) => {}
            Ok(notices) => tracing::warn!(notices, "notices are dropped: no config has their receivers"),
            Err(error) => tracing::warn!(%error, "notices cannot be dropped"),
        }
    }
}

impl Mood {
    /// How many notices may be begun with. One at a time while it is not known that anything gets through.
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
        // Those that were under way together fail together, and count once.
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

/// How long one notice is put off after so many attempts: a second, doubled each time, and up to a quarter more, so that
/// those that failed together do not come back together.
fn backoff(id: &str, attempts: u32) -> Duration {
    let spread =
        id.bytes().fold(attempts, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 256;
    let pause = doubled(attempts, LONGEST_BACKOFF);
    pause + pause * spread / 1024
}

/// A second, doubled with each time after the first.
fn doubled(times: u32, longest: Duration) -> Duration {
    Duration::from_secs(1_u64 << times.saturating_sub(1).min(20)).min(longest)
}
