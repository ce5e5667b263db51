//! The number of calls, their callers and their progress. Each faulty engine has its own lane of callers, so
//! that callers that wait for it do not delay the others. The healthy engines share one lane. It must not
//! make calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::callers::SETTLE_TIMEOUT;
use super::faults::Sizes;
use super::plan::{EngineName, Plan};

/// A faulty engine's lane has one caller per this number of callers, and at least three.
const FAULTY_LANE_DIVISOR: usize = 8;

/// The first fraction (one in this number) of the quiet phase's calls is not measured, because caches are
/// cold.
const WARMUP_DIVISOR: usize = 2;

/// The faults while a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// None, except faults of the engines themselves.
    Quiet,
    /// One engine hangs and the adapter of another panics.
    EngineFaults,
    /// All faults.
    AllFaults,
}

/// All calls.
pub(super) struct Load {
    pub(super) calls: usize,
    /// Number of concurrent calls to healthy engines.
    pub(super) callers: usize,
    pub(super) seed: u64,
    /// Calls below this number are not measured.
    warmup_calls: usize,
    /// The first lane is that of the healthy engines, which measures progress.
    lanes: [Lane; 4],
    started_calls: watch::Sender<usize>,
    ended_calls: watch::Sender<usize>,
    allowed_calls: watch::Sender<usize>,
    phase: watch::Sender<Phase>,
    /// The calls that have started and not ended.
    open_calls: Mutex<BTreeMap<usize, Plan>>,
}

/// The calls to some engines.
pub(super) struct Lane {
    is_healthy: bool,
    callers: usize,
    /// The numbers of the calls, in order.
    numbers: Vec<usize>,
    next: AtomicUsize,
}

impl Load {
    pub(super) fn new(sizes: &Sizes, seed: u64) -> Self {
        let &Sizes { calls, callers, quiet, .. } = sizes;
        let lane = |engines: &[EngineName], callers| {
            let numbers =
                (0..calls).filter(|number| engines.contains(&Plan::of(seed, *number).engine)).collect();
            Lane { is_healthy: engines[0].is_healthy(), callers, numbers, next: AtomicUsize::new(0) }
        };
        let faulty_callers = (callers / FAULTY_LANE_DIVISOR).max(3);
        let lanes = [
            lane(&[EngineName::Keyed, EngineName::Unkeyed], callers),
            lane(&[EngineName::Hanging], faulty_callers),
            lane(&[EngineName::Crashing], faulty_callers),
            lane(&[EngineName::Added], faulty_callers),
        ];
        let [started_calls, ended_calls, allowed_calls] = std::array::from_fn(|_| watch::Sender::new(0));
        Self {
            calls,
            callers,
            seed,
            warmup_calls: quiet / WARMUP_DIVISOR,
            lanes,
            started_calls,
            ended_calls,
            allowed_calls,
            phase: watch::Sender::new(Phase::Quiet),
            open_calls: Mutex::default(),
        }
    }

    /// Returns the lane of each caller.
    pub(super) fn callers(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().flat_map(|lane| std::iter::repeat_n(lane, lane.callers))
    }

    /// Raises the number of calls that may be made in total.
    pub(super) fn allow(&self, calls: usize) {
        self.allowed_calls.send_modify(|limit| *limit = calls.min(self.calls).max(*limit));
    }

    /// Waits until those of the first `calls` calls that go to healthy engines have started.
    pub(super) async fn wait_until_started(&self, calls: usize) {
        let healthy = self.healthy(calls);
        let reached = self.started_calls.subscribe().wait_for(|count| *count >= healthy).await.is_ok();
        assert!(reached);
    }

    /// Waits until those of the first `calls` calls that go to healthy engines have ended.
    pub(super) async fn wait_until_ended(&self, calls: usize) {
        let healthy = self.healthy(calls);
        let reached = self.ended_calls.subscribe().wait_for(|count| *count >= healthy).await.is_ok();
        assert!(reached);
    }

    /// Returns how many of the first `calls` calls go to healthy engines.
    fn healthy(&self, calls: usize) -> usize {
        self.lanes[0].numbers.partition_point(|number| *number < calls)
    }

    /// Returns the next call of a lane once it may be made.
    pub(super) async fn next(&self, lane: &Lane) -> Option<Plan> {
        let number = *lane.numbers.get(lane.next.fetch_add(1, Ordering::Relaxed))?;
        let reached = self.allowed_calls.subscribe().wait_for(|limit| *limit > number).await.is_ok();
        assert!(reached);
        if lane.is_healthy {
            self.started_calls.send_modify(|count| *count += 1);
        }
        let plan = Plan::of(self.seed, number);
        self.open_calls.lock().insert(number, plan);
        Some(plan)
    }

    /// Waits until all calls have ended.
    ///
    /// # Panics
    /// If none ends for a long time.
    pub(super) async fn wait_until_all_ended(&self) {
        let mut last_progress = (usize::MAX, Instant::now());
        loop {
            let to_make: usize = self.lanes.iter().map(Lane::remaining).sum();
            let open_count = self.open_calls.lock().len();
            if to_make + open_count == 0 {
                return;
            }
            if to_make + open_count != last_progress.0 {
                last_progress = (to_make + open_count, Instant::now());
            }
            let stuck = last_progress.1.elapsed() > SETTLE_TIMEOUT;
            assert!(!stuck, "no call ends any more, such as {:?}", self.open_calls.lock().values().next());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Records that a call of a lane has ended.
    pub(super) fn record_end(&self, lane: &Lane, plan: Plan) {
        self.open_calls.lock().remove(&plan.number);
        if lane.is_healthy {
            self.ended_calls.send_modify(|count| *count += 1);
        }
    }

    /// Returns the phase if a call of this phase is measured.
    pub(super) fn measured_phase(&self, plan: &Plan) -> Option<Phase> {
        (plan.number >= self.warmup_calls).then(|| *self.phase.borrow())
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }
}

impl Lane {
    /// Returns the number of calls that have not started.
    fn remaining(&self) -> usize {
        self.numbers.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }
}
