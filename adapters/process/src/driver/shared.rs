//! [`Shared`]: what callers and the driver of a program share: its settings, its state and its calls. It must
//! not start a program or wait for an answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Error, JobHandle, Result};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::log::Log;
use super::redact::Redactor;
use super::session::Session;
use crate::protocol::{InitializeParams, VERSION};

/// Lines that wait to be written.
pub(super) const MAX_LINES: usize = 64;
/// Hints that wait to be read. More are lost.
const MAX_HINTS: usize = 4096;

/// Settings of a link.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) limit: Duration,
    /// Limit of the first call of a run.
    pub(crate) opening_limit: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) redactor: Redactor,
    pub(crate) initialize: InitializeParams,
    /// Determines the random part of the times between starts, for a run that can be repeated.
    pub(crate) seed: Option<u64>,
}

impl Settings {
    /// Returns the settings of a program without config and secrets.
    pub(crate) fn new(name: &str, limit: Duration, max_in_flight: usize) -> Self {
        let initialize = InitializeParams {
            protocol: VERSION,
            name: name.to_owned(),
            config: serde_json::Map::new(),
            secrets: BTreeMap::new(),
            call_limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            state_dir: PathBuf::new(),
            config_dir: PathBuf::new(),
        };
        let (name, redactor) = (name.to_owned(), Redactor::default());
        Self { name, limit, opening_limit: limit, max_in_flight, redactor, initialize, seed: None }
    }
}

/// What callers and the program's driver share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) calls: Calls,
    pub(super) log: Log,
    pub(super) hints: mpsc::Sender<JobHandle>,
    pub(super) stop: CancellationToken,
    state: Mutex<State>,
    pub(super) in_flight: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    up: Option<Up>,
    /// What the program said last. It stays while the program is away.
    last: Option<Arc<Session>>,
    /// Why it is away.
    reason: String,
}

#[derive(Clone)]
pub(super) struct Up {
    pub(super) run: u64,
    pub(super) lines: mpsc::Sender<Vec<u8>>,
    pub(super) session: Arc<Session>,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> (Arc<Self>, mpsc::Receiver<JobHandle>) {
        let (hints, receiver) = mpsc::channel(MAX_HINTS);
        let shared = Self {
            calls: Calls::default(),
            log: Log::new(&settings.name, settings.redactor.clone()),
            hints,
            stop: CancellationToken::new(),
            state: Mutex::default(),
            in_flight: Arc::new(Semaphore::new(settings.max_in_flight)),
            settings,
        };
        (Arc::new(shared), receiver)
    }

    pub(super) fn up(&self) -> Result<Up> {
        let (up, reason) = {
            let state = self.state.lock();
            (state.up.clone(), state.reason.clone())
        };
        match up {
            Some(up) => Ok(up),
            None => Err(self.away_for(&reason)),
        }
    }

    pub(super) fn last(&self) -> Option<Arc<Session>> {
        self.state.lock().last.clone()
    }

    pub(super) fn away(&self) -> Error {
        let reason = self.state.lock().reason.clone();
        self.away_for(&reason)
    }

    fn away_for(&self, reason: &str) -> Error {
        let separator = if reason.is_empty() { "" } else { ": " };
        let name = &self.settings.name;
        Error::unavailable(format!("the program of backend `{name}` is not running{separator}{reason}"))
    }

    pub(super) fn set_up(&self, run: u64, lines: mpsc::Sender<Vec<u8>>, session: Session) {
        let session = Arc::new(session);
        let mut state = self.state.lock();
        state.last = Some(Arc::clone(&session));
        state.up = Some(Up { run, lines, session });
    }

    /// Ends all calls: the program is away for this reason.
    pub(super) fn set_away(&self, reason: &str) {
        {
            let mut state = self.state.lock();
            state.up = None;
            state.reason = reason.to_owned();
        }
        self.calls.close(reason);
    }
}
