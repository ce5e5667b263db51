//! The engines of a world, and what befalls each beside the faults that the simulated engine knows itself: it hangs, its
//! adapter crashes, its looks are out of date. All processes share them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::sim::{Config, Mode, SimEngine};
use taskbridge_sdk::{JobKey, Observation, Timestamp};
use tokio::sync::Notify;

/// The engine with all the faults that the simulated one knows.
pub(super) const SIM: &str = "sim";
/// The engine that hangs, and whose adapter crashes.
pub(super) const ROUGH: &str = "rough";
/// The engine that nothing befalls.
pub(super) const CALM: &str = "calm";

/// How long an answered question may still be listed by a look that is out of date.
pub(super) const LIST_LAG: Duration = Duration::from_secs(10);

/// How long the engines that lag do not know a new job.
const UNLISTED: Duration = Duration::from_secs(8);
/// How long the backends say that an engine may not know a new job: a poll can also show what the one before showed.
pub(super) const START_LAG: Duration = Duration::from_secs(20);

/// One engine.
#[derive(Clone)]
pub(super) struct Engine {
    /// The backend's name in every config.
    pub(super) name: &'static str,
    /// What it is connected to.
    pub(super) identity: Option<&'static str>,
    /// True if it starts no second job under a key.
    pub(super) is_keyed: bool,
    pub(super) sim: SimEngine,
    pub(super) faults: Arc<EngineFaults>,
}

impl Engine {
    pub(super) fn new(name: &'static str, identity: Option<&'static str>, mode: Mode, lags: bool) -> Self {
        let start_lag = if lags { UNLISTED } else { Duration::ZERO };
        let sim = SimEngine::from_config(&Config { mode: Some(mode), start_lag, ..Config::default() });
        let faults = Arc::new(EngineFaults { lags, ..EngineFaults::default() });
        Self { name, identity, is_keyed: mode == Mode::Keyed, sim, faults }
    }
}

/// What befalls the calls to one engine.
#[derive(Default)]
pub(super) struct EngineFaults {
    /// True if it does not know a job in its first seconds.
    pub(super) lags: bool,
    hangs: AtomicBool,
    /// Promise when it hangs no more.
    answers: Notify,
    /// So many of the next calls crash the adapter.
    crashes: AtomicU64,
    /// So many of the next looks leave out what the job asks.
    forgets: AtomicU64,
    /// So many of the next looks show what the one before showed.
    stale: AtomicU64,
    /// The jobs over which a look crashes the adapter.
    poison: Mutex<HashSet<String>>,
    /// What the last look at a job showed, and when.
    shown: Mutex<HashMap<String, (Timestamp, Observation)>>,
    looks: AtomicU64,
}

impl EngineFaults {
    /// From now on no call is answered, or all are.
    pub(super) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
        if !hangs {
            self.answers.notify_waiters();
        }
    }

    /// The adapter crashes at so many of the next calls.
    pub(super) fn crash(&self, calls: u64) {
        self.crashes.store(calls, Ordering::Relaxed);
    }

    /// So many of the next looks are not what they should be.
    pub(super) fn blur(&self, forgets: u64, stale: u64) {
        self.forgets.store(forgets, Ordering::Relaxed);
        self.stale.store(stale, Ordering::Relaxed);
    }

    /// No fault is left but the jobs that crash the adapter by themselves.
    pub(super) fn calm(&self) {
        self.hang(false);
        self.crash(0);
        self.blur(0, 0);
    }

    /// Looks at this job crash the adapter.
    pub(super) fn poison(&self, key: &JobKey) {
        self.poison.lock().insert(key.as_str().to_owned());
    }

    /// True if looks at the job of this key crash the adapter.
    pub(super) fn is_poison(&self, key: &str) -> bool {
        self.poison.lock().contains(key)
    }

    /// Passes a call, as soon as the engine answers. `false`: the adapter crashes.
    pub(super) async fn pass(&self) -> bool {
        while self.hangs.load(Ordering::Relaxed) {
            self.answers.notified().await;
        }
        !take_one(&self.crashes)
    }

    /// What a look shows that the engine has answered like this.
    pub(super) fn show(&self, key: &str, now: Timestamp, mut seen: Observation) -> Observation {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let before = self.shown.lock().insert(key.to_owned(), (now, seen.clone()));
        if let Some((_, older)) = before.filter(|(at, _)| now.since(*at) < LIST_LAG / 2)
            && take_one(&self.stale)
        {
            seen = older;
        }
        if !seen.state.has_ended() && !seen.questions.is_empty() && take_one(&self.forgets) {
            seen.questions.clear();
        }
        seen
    }

    /// A start or a search came back with the job, and with what it was just then.
    pub(super) fn found(&self, key: &str, now: Timestamp, seen: &Observation) {
        self.shown.lock().insert(key.to_owned(), (now, seen.clone()));
    }

    /// True if a call has shown that this job is over.
    pub(super) fn has_shown_over(&self, key: &JobKey) -> bool {
        self.shown.lock().get(key.as_str()).is_some_and(|(_, seen)| seen.state.has_ended())
    }

    /// How many jobs were shown so far, each time they were.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}
