//! The engines of a world, with faults beyond those of the simulated engine: it hangs, its adapter crashes,
//! its polls are stale. All processes share them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::sim::{Config, Mode, SimEngine};
use taskbridge_sdk::{JobKey, Observation, Timestamp};
use tokio::sync::Notify;

use super::plugins::PluginFaults;

/// The engine with all faults of the simulated engine.
pub(super) const SIM: &str = "sim";
/// The engine that hangs, and whose adapter crashes.
pub(super) const ROUGH: &str = "rough";
/// The engine without faults.
pub(super) const CALM: &str = "calm";

/// How long a stale poll may still list an answered question.
pub(super) const LIST_LAG: Duration = Duration::from_secs(10);

/// How long engines with a lag do not know a new job.
const LISTING_DELAY: Duration = Duration::from_secs(8);
/// The lag that the backends declare. It is longer than [`LISTING_DELAY`], because a poll can also repeat the
/// one before.
pub(super) const START_LAG: Duration = Duration::from_secs(20);

/// How long engines with short keys know a key.
const KEY_LIFETIME: Duration = Duration::from_secs(300);
/// The lifetime that their backends declare. A process can be frozen for two minutes before its call.
pub(super) const DECLARED_KEY_LIFETIME: Duration = Duration::from_secs(120);

/// One engine.
#[derive(Clone)]
pub(super) struct Engine {
    /// The backend's name in every config.
    pub(super) name: &'static str,
    /// The identity of the engine.
    pub(super) identity: Option<&'static str>,
    /// True if the engine starts no second job under a key.
    pub(super) is_keyed: bool,
    pub(super) sim: SimEngine,
    pub(super) faults: Arc<EngineFaults>,
}

impl Engine {
    pub(super) fn new(name: &'static str, identity: Option<&'static str>, mode: Mode) -> Self {
        Self::with_traits(name, identity, mode, false, false)
    }

    /// Creates an engine that lists new jobs late (`lags`), or forgets keys (`short_keys`).
    pub(super) fn with_traits(
        name: &'static str,
        identity: Option<&'static str>,
        mode: Mode,
        lags: bool,
        short_keys: bool,
    ) -> Self {
        let start_lag = if lags { LISTING_DELAY } else { Duration::ZERO };
        let key_lifetime = short_keys.then_some(KEY_LIFETIME);
        let config = Config { mode: Some(mode), start_lag, key_lifetime, ..Config::default() };
        let sim = SimEngine::from_config(&config);
        let faults = Arc::new(EngineFaults { lags, short_keys, ..EngineFaults::default() });
        Self { name, identity, is_keyed: mode == Mode::Keyed, sim, faults }
    }
}

/// The faults of the calls to one engine.
#[derive(Default)]
pub(super) struct EngineFaults {
    /// True if the engine does not know a job in its first seconds.
    pub(super) lags: bool,
    /// True if the engine forgets a key after [`KEY_LIFETIME`].
    pub(super) short_keys: bool,
    /// The faults of the plugins between the processes and the engine, in worlds that have them.
    pub(super) plugin: Arc<PluginFaults>,
    hangs: AtomicBool,
    /// Notifies waiting calls when the engine stops hanging.
    resumed: Notify,
    /// Number of upcoming calls that crash the adapter.
    crashing_calls: AtomicU64,
    /// Number of upcoming polls that leave out the job's questions.
    incomplete_polls: AtomicU64,
    /// Number of upcoming polls that repeat the result of the one before.
    stale_polls: AtomicU64,
    /// The jobs whose polls crash the adapter.
    poison: Mutex<HashSet<String>>,
    /// The result of the last poll of each job, and its time.
    last_observations: Mutex<HashMap<String, (Timestamp, Observation)>>,
    poll_count: AtomicU64,
}

impl EngineFaults {
    /// Stops answering all calls, or answers them again.
    pub(super) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
        if !hangs {
            self.resumed.notify_waiters();
        }
    }

    /// Makes the adapter crash at this number of upcoming calls.
    pub(super) fn crash(&self, calls: u64) {
        self.crashing_calls.store(calls, Ordering::Relaxed);
    }

    /// Makes these numbers of upcoming polls incomplete or stale.
    pub(super) fn degrade_polls(&self, incomplete_polls: u64, stale_polls: u64) {
        self.incomplete_polls.store(incomplete_polls, Ordering::Relaxed);
        self.stale_polls.store(stale_polls, Ordering::Relaxed);
    }

    /// Ends all faults except jobs whose polls crash the adapter.
    pub(super) fn clear(&self) {
        self.hang(false);
        self.crash(0);
        self.degrade_polls(0, 0);
        self.plugin.set_faulty(false);
    }

    /// Makes polls of this job crash the adapter.
    pub(super) fn poison(&self, key: &JobKey) {
        self.poison.lock().insert(key.as_str().to_owned());
    }

    /// Reports whether polls of this job crash the adapter.
    pub(super) fn is_poison(&self, key: &str) -> bool {
        self.poison.lock().contains(key)
    }

    /// Passes a call once the engine answers. Returns `false` if the adapter crashes.
    pub(super) async fn pass(&self) -> bool {
        while self.hangs.load(Ordering::Relaxed) {
            self.resumed.notified().await;
        }
        !take_one(&self.crashing_calls)
    }

    /// Returns the result of a poll for this response of the engine.
    pub(super) fn poll_result(&self, key: &str, now: Timestamp, mut observation: Observation) -> Observation {
        self.poll_count.fetch_add(1, Ordering::Relaxed);
        let previous = self.last_observations.lock().insert(key.to_owned(), (now, observation.clone()));
        if let Some((_, older)) = previous.filter(|(at, _)| now.since(*at) < LIST_LAG / 2)
            && take_one(&self.stale_polls)
        {
            observation = older;
        }
        if !observation.state.has_ended()
            && !observation.questions.is_empty()
            && take_one(&self.incomplete_polls)
        {
            observation.questions.clear();
        }
        observation
    }

    /// Records that a start or a search returned the job in this state.
    pub(super) fn record_observation(&self, key: &str, now: Timestamp, observation: &Observation) {
        self.last_observations.lock().insert(key.to_owned(), (now, observation.clone()));
    }

    /// Reports whether a call has shown that this job is over.
    pub(super) fn has_shown_end(&self, key: &JobKey) -> bool {
        self.last_observations
            .lock()
            .get(key.as_str())
            .is_some_and(|(_, observation)| observation.state.has_ended())
    }

    /// Returns the total number of poll results so far.
    pub(super) fn poll_count(&self) -> u64 {
        self.poll_count.load(Ordering::Relaxed)
    }
}

fn take_one(remaining: &AtomicU64) -> bool {
    remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(1)).is_ok()
}
