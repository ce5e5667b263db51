//! The kind of world that a seed determines: the processes over the store, the engines, and the faults. It
//! must not run the world.

use std::time::Duration;

use taskbridge_core::tasks::task::{OnExpiry, OnRefusal, TaskPolicy};
use taskbridge_sdk::sim::Mode;

use super::bugs::Bug;
use super::postgres::DatabaseKind;
use super::rng::Rng;

/// The processes that share the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// One process on the machine of the file.
    One,
    /// Two processes on that machine.
    Two,
    /// Three machines with their own clocks, whose connections to the store may be cut. The store has its
    /// own clock.
    Replicas,
}

impl Topology {
    /// Returns the number of processes.
    pub(super) fn count(self) -> usize {
        match self {
            Topology::One => 1,
            Topology::Two => 2,
            Topology::Replicas => 3,
        }
    }
}

/// The kind of a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The processes that share the store.
    pub(super) topology: Topology,
    /// Whether the engines `sim` and `rough` know idempotency keys.
    pub(super) mode: Mode,
    /// The store's clock is set ahead and back.
    pub(super) steps: bool,
    /// All processes, the store or an engine are down for longer than the deadlines.
    pub(super) long_outages: bool,
    /// One engine hangs, crashes its adapter, and returns stale polls.
    pub(super) rough: bool,
    /// Processes are connected to different backends, which change at run time.
    pub(super) skew: bool,
    /// Processes get hints of each other's writes, most of the time.
    pub(super) hints: bool,
    /// Two of the engines do not know a job in its first seconds.
    pub(super) lags: bool,
    /// The engines that know idempotency keys forget a key after a while.
    pub(super) short_keys: bool,
    /// Each process reaches its engines through plugins of its own.
    pub(super) plugins: bool,
    /// The database.
    pub(super) database_kind: DatabaseKind,
    /// The planted bug, if any.
    pub(super) bug: Option<Bug>,
}

impl Plan {
    /// Returns the plan of a seed.
    pub(super) fn of(seed: u64) -> Self {
        // A separate stream, so that one more choice here changes nothing in the world.
        let rng = Rng::new(!seed);
        let topologies = [
            Topology::One,
            Topology::Two,
            Topology::Two,
            Topology::Replicas,
            Topology::Replicas,
            Topology::Replicas,
        ];
        let plan = Self {
            topology: topologies[rng.below(6) as usize],
            mode: if rng.one_in(2) { Mode::Keyed } else { Mode::Unkeyed },
            steps: rng.one_in(3),
            long_outages: rng.one_in(3),
            rough: rng.one_in(2),
            skew: rng.one_in(3),
            hints: rng.one_in(2),
            lags: false,
            short_keys: false,
            plugins: false,
            database_kind: DatabaseKind::Sqlite,
            bug: None,
        };
        // A clock that is set ahead makes a new job look old.
        let lags = rng.one_in(3) && !plan.steps;
        // A clock that is set back makes an old key look new.
        Self { lags, short_keys: rng.one_in(3) && !plan.steps, ..plan }
    }

    /// Returns the plan of a seed, with plugins between the processes and the engines.
    pub(super) fn with_plugins(seed: u64) -> Self {
        Self { plugins: true, ..Self::of(seed) }
    }
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Returns deadlines that rarely expire within a world.
pub(super) fn terms() -> TaskPolicy {
    TaskPolicy {
        ttl: minutes(24 * 60),
        keep_result: minutes(24 * 60),
        max_runtime: minutes(30),
        max_wait: None,
        outcome_grace: minutes(15),
        on_expiry: OnExpiry::Cancel,
        start_within: minutes(20),
        settle_window: minutes(2),
        on_decline: OnRefusal::Tell,
        on_dismiss: OnRefusal::Tell,
        answer_within: None,
        four_eyes: false,
    }
}

/// Returns deadlines of all lengths.
pub(super) fn any_terms(rng: &Rng) -> TaskPolicy {
    let pick = |choices: [u64; 3]| minutes(choices[rng.below(3) as usize]);
    TaskPolicy {
        ttl: pick([10, 30, 24 * 60]),
        keep_result: pick([10, 30, 24 * 60]),
        max_runtime: pick([3, 12, 12]),
        max_wait: [None, Some(minutes(5)), Some(minutes(15))][rng.below(3) as usize],
        outcome_grace: pick([1, 5, 5]),
        on_expiry: if rng.one_in(3) { OnExpiry::Abandon } else { OnExpiry::Cancel },
        start_within: pick([5, 10, 10]),
        ..terms()
    }
}
