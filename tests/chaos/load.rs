//! How many calls are made, by whom, and how far they are: a lane of callers for each faulty engine, so that callers who
//! wait for it do not hold up the others, and one for the healthy engines. It must not make calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::callers::REST;
use super::faults::Sizes;
use super::plan::{EngineName, Plan};

/// For each lane of a faulty engine, one caller for so many of the others, and three at least.
const SHARE: usize = 8;

/// The first calls of the quiet phase, one part in so many, find everything cold and are not measured.
const COLD: usize = 2;

/// What goes wrong while a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nothing, but for what engines do by themselves.
    Quiet,
    /// One engine hangs and the adapter of another panics.
    EngineFaults,
    /// Everything.
    AllFaults,
}

/// All calls.
pub(super) struct Load {
    pub(super) calls: usize,
    /// How many calls to healthy engines are made at a time.
    pub(super) callers: usize,
    pub(super) seed: u64,
    /// Calls below this number are not measured.
    cold: usize,
    /// The first is the one of the healthy engines, by which progress is counted.
    lanes: [Lane; 4],
    begun: watch::Sender<usize>,
    over: watch::Sender<usize>,
    allowed: watch::Sender<usize>,
    phase: watch::Sender<Phase>,
    /// The calls that have begun and not ended.
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

    /// The lane of each caller.
    pub(super) fn callers(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().flat_map(|lane| std::iter::repeat_n(lane, lane.callers))
    }

    /// Lets this many calls be made in all.
    pub(super) fn allow(&self, calls: usize) {
        self.allowed.send_modify(|allowed| *allowed = calls.min(self.calls).max(*allowed));
    }

    /// Waits until of this many calls, those to healthy engines were begun.
    pub(super) async fn until(&self, calls: usize) {
        let healthy = self.healthy(calls);
        let reached = self.begun.subscribe().wait_for(|begun| *begun >= healthy).await.is_ok();
        assert!(reached);
    }

    /// Waits until of this many calls, those to healthy engines have ended.
    pub(super) async fn until_over(&self, calls: usize) {
        let healthy = self.healthy(calls);
        let reached = self.over.subscribe().wait_for(|over| *over >= healthy).await.is_ok();
        assert!(reached);
    }

    /// How many of this many calls are to healthy engines.
    fn healthy(&self, calls: usize) -> usize {
        self.lanes[0].numbers.partition_point(|number| *number < calls)
    }

    /// The next call of a lane, when it may be made.
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

    /// Notes that a call of a lane has ended.
    pub(super) fn ended(&self, lane: &Lane, plan: Plan) {
        self.open.lock().remove(&plan.number);
        if lane.is_healthy {
            self.over.send_modify(|over| *over += 1);
        }
    }

    /// The phase, if a call that is made in it is measured.
    pub(super) fn phase(&self, plan: &Plan) -> Option<Phase> {
        (plan.number >= self.cold).then(|| *self.phase.borrow())
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }
}

impl Lane {
    /// How many calls were not begun.
    fn left(&self) -> usize {
        self.numbers.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }
}
