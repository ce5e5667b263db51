//! The number of calls, their callers and their progress. Each faulty engine has its own lane of callers, so
//! that callers that wait for it do not delay the others. The healthy engines share one lane. It must not
//! make calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::callers::REST;
use super::faults::Sizes;
use super::plan::{EngineName, Plan};

/// A faulty engine's lane has one caller per this number of callers, and at least three.
const SHARE: usize = 8;

/// The first fraction (one in this number) of the quiet phase's calls is not measured, because caches are
/// cold.
const COLD: usize = 2;

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
    cold: usize,
    /// The first lane is that of the healthy engines, which measures progress.
    lanes: [Lane; 4],
    begun: watch::Sender<usize>,
    over: watch::Sender<usize>,
    allowed: watch::Sender<usize>,
    phase: watch::Sender<Phase>,
    /// The calls that have started and not ended.
    open: Mutex<BTreeMap<usize, Plan>>,
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
        let few = (callers / SHARE).max(3);
        let lanes = [
            lane(&[EngineName::Keyed, EngineName::Unkeyed], callers),
            lane(&[EngineName::Hanging], few),
            lane(&[EngineName::Crashing], few),
            lane(&[EngineName::Added], few),
        ];
        let [begun, over, allowed] = std::array::from_fn(|_| watch::Sender::new(0));
        Self {
            calls,
            callers,
            seed,
            cold: quiet / COLD,
            lanes,
            begun,
            over,
            allowed,
            phase: watch::Sender::new(Phase::Quiet),
            open: Mutex::default(),
        }
    }

    /// Returns the lane of each caller.
    pub(super) fn callers(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().flat_map(|lane| std::iter::repeat_n(lane, lane.callers))
    }

    /// Raises the number of calls that may be made in total.
    pub(super) fn allow(&self, calls: usize) {
        self.allowed.send_modify(|allowed| *allowed = calls.min(self.calls).max(*allowed));
    }

    /// Waits until those of the first `calls` calls that go to healthy engines have started.
    pub(super) async fn until(&self, calls: usize) {
        let healthy = self.healthy(calls);
        let reached = self.begun.subscribe().wait_for(|begun| *begun >= healthy).await.is_ok();
        assert!(reached);
    }

    /// Waits until those of the first `calls` calls that go to healthy engines have ended.
    pub(super) async fn until_over(&self, calls: usize) {
        let healthy = self.healthy(calls);
        let reached = self.over.subscribe().wait_for(|over| *over >= healthy).await.is_ok();
        assert!(reached);
    }

    /// Returns how many of the first `calls` calls go to healthy engines.
    fn healthy(&self, calls: usize) -> usize {
        self.lanes[0].numbers.partition_point(|number| *number < calls)
    }

    /// Returns the next call of a lane once it may be made.
    pub(super) async fn next(&self, lane: &Lane) -> Option<Plan> {
        let number = *lane.numbers.get(lane.next.fetch_add(1, Ordering::Relaxed))?;
        let allowed = self.allowed.subscribe().wait_for(|allowed| *allowed > number).await.is_ok();
        assert!(allowed);
        if lane.is_healthy {
            self.begun.send_modify(|begun| *begun += 1);
        }
        let plan = Plan::of(self.seed, number);
        self.open.lock().insert(number, plan);
        Some(plan)
    }

    /// Waits until all calls have ended.
    ///
    /// # Panics
    /// If none ends for a long time.
    pub(super) async fn until_all_over(&self) {
        let mut left = (usize::MAX, Instant::now());
        loop {
            let to_make: usize = self.lanes.iter().map(Lane::left).sum();
            let open = self.open.lock().len();
            if to_make + open == 0 {
                return;
            }
            if to_make + open != left.0 {
                left = (to_make + open, Instant::now());
            }
            let stuck = left.1.elapsed() > REST;
            assert!(!stuck, "no call ends any more, such as {:?}", self.open.lock().values().next());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Records that a call of a lane has ended.
    pub(super) fn ended(&self, lane: &Lane, plan: Plan) {
        self.open.lock().remove(&plan.number);
        if lane.is_healthy {
            self.over.send_modify(|over| *over += 1);
        }
    }

    /// Returns the phase if a call of this phase is measured.
    pub(super) fn phase(&self, plan: &Plan) -> Option<Phase> {
        (plan.number >= self.cold).then(|| *self.phase.borrow())
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }
}

impl Lane {
    /// Returns the number of calls that have not started.
    fn left(&self) -> usize {
        self.numbers.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }
}
