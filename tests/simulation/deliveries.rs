//! Streams of two processes claim one question, while replies of the store are lost or late, and streams
//! break without a word. No number is granted twice, and no claim begins before the one before it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use taskbridge_core::clock::Clock as _;
use taskbridge_core::sessions::{DeliveredQuestion, Deliveries as _, Delivery, DeliveryChange};
use taskbridge_sdk::Timestamp;
use taskbridge_store::suite::{Bench, ManualClock};

use super::fixture::Fixture;
use super::rng::Rng;
use super::store::PointedStore;
use super::store_faults::StoreFaults;

const SEEDS: u64 = 100;
const STREAMS_PER_PROCESS: usize = 3;
const LEASE: Duration = Duration::from_secs(30);
const DURATION: Duration = Duration::from_secs(1_200);
const KEY: &str = "q1";

/// The time of a granted claim, by the store's clock.
#[derive(Debug)]
struct Span {
    since: Timestamp,
    /// The earliest possible end of the claim.
    until: Timestamp,
}

/// The claims of one question.
struct Claims {
    fixture: Fixture,
    question: DeliveredQuestion,
    rng: Rng,
    spans: Mutex<BTreeMap<u32, Span>>,
}

impl Claims {
    async fn new(seed: u64) -> Self {
        let fixture = Fixture::new();
        let bench = Bench::new(Arc::new(fixture.store()), ManualClock::at(fixture.clock.now()));
        let task = bench.add(bench.task()).await;
        let (key, recorded) = (KEY.to_owned(), None);
        let question = DeliveredQuestion { task: task.id, channel: None, key, recorded };
        Self { fixture, question, rng: Rng::new(seed), spans: Mutex::default() }
    }

    /// Runs the streams of one process.
    async fn run_process(&self, name: &str) {
        let faults = Arc::new(StoreFaults::default());
        let store = self.fixture.pointed_store(name, &faults, Rng::new(self.rng.next()));
        join_all((0..STREAMS_PER_PROCESS).map(|_| self.run_stream(&store, &faults))).await;
    }

    /// Claims the question again and again, and holds each claim for a while.
    async fn run_stream(&self, store: &PointedStore, faults: &StoreFaults) {
        let end = self.fixture.clock.now() + DURATION;
        while self.fixture.clock.now() < end {
            self.pause(10_000).await;
            match self.rng.below(8) {
                0 => faults.lose_replies(&self.rng),
                1 => faults.delay_reply(&self.rng),
                2 => faults.cut(&self.rng),
                3 => faults.clear_all(),
                _ => {}
            }
            let Ok(mut deliveries) = store.deliveries(&self.question.task).await else { continue };
            let seen = deliveries.remove(KEY);
            if seen.as_ref().is_some_and(|seen| seen.is_open(self.fixture.clock.now())) {
                continue;
            }
            let claim = DeliveryChange::Claim { seen, lease: LEASE };
            if let Ok(Some(claimed)) = store.change_delivery(&self.question, claim).await {
                self.add(&claimed);
                self.hold(store, claimed.n).await;
            }
        }
    }

    /// Renews a claim, until the stream ends or breaks without a word.
    async fn hold(&self, store: &PointedStore, n: u32) {
        while !self.rng.one_in(4) {
            self.pause(20_000).await;
            let renewal = DeliveryChange::Renew { n, lease: LEASE };
            match store.change_delivery(&self.question, renewal).await {
                Ok(Some(renewed)) => self.update(n, |_| renewed.until),
                Ok(None) => return,
                Err(_) => {}
            }
        }
        if self.rng.one_in(2) {
            // Recorded before, because the reply may be lost. The claim may have expired.
            let now = self.fixture.clock.now();
            self.update(n, |until| until.min(now));
            let end = DeliveryChange::End { n, handled: self.rng.one_in(2), problem: None };
            let _ = store.change_delivery(&self.question, end).await;
        }
    }

    fn add(&self, claimed: &Delivery) {
        let span = Span { since: claimed.until - LEASE, until: claimed.until };
        let previous = self.spans.lock().insert(claimed.n, span);
        assert!(previous.is_none(), "two streams have message {}", claimed.n);
    }

    fn update(&self, n: u32, until: impl FnOnce(Timestamp) -> Timestamp) {
        let mut spans = self.spans.lock();
        let span = spans.get_mut(&n).expect("it was claimed");
        span.until = until(span.until);
    }

    async fn pause(&self, max_ms: u64) {
        tokio::time::sleep(Duration::from_millis(1 + self.rng.below(max_ms))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn question_is_on_one_stream() {
    let mut granted = 0;
    for seed in 0..SEEDS {
        let claims = Claims::new(seed).await;
        tokio::join!(claims.run_process("one"), claims.run_process("two"));
        let spans = claims.spans.into_inner();
        for ((n, span), (next_n, next)) in spans.iter().zip(spans.iter().skip(1)) {
            assert!(span.until <= next.since, "seed {seed}: {n} {span:?} overlaps {next_n} {next:?}");
        }
        granted += spans.len();
    }
    assert!(granted as u64 > 10 * SEEDS, "the question was claimed {granted} times only");
}
