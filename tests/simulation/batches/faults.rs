//! Faults of single writes and of the whole file, made from outside of the store: a lock by another connection, a clock
//! that panics on the writer thread, and ids that repeat.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use taskbridge::clock::{Clock, Entropy, System};
use taskbridge_sdk::Timestamp;

use super::super::rng::Rng;

/// The bytes of a task's id. Nothing else that a node draws has so many.
const ID: usize = 20;

/// The write lock of a file. It is released when this is dropped.
pub(super) struct WriteLock(Connection);

impl WriteLock {
    /// Waits for the lock, away from the threads of the runtime.
    pub(super) async fn take(file: &Path) -> Self {
        let file = file.to_owned();
        let taken = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(file).unwrap();
            connection.busy_timeout(Duration::from_secs(60)).unwrap();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            Self(connection)
        });
        taken.await.unwrap()
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        self.0.execute_batch("COMMIT").unwrap();
    }
}

/// At which of the next events something is due.
#[derive(Default)]
struct Countdown(Mutex<Vec<u64>>);

impl Countdown {
    fn set(&self, events: &[u64]) {
        *self.0.lock() = events.to_vec();
    }

    /// Counts one event.
    fn is_now(&self) -> bool {
        let mut left = self.0.lock();
        let before = left.len();
        left.iter_mut().for_each(|events| *events -= 1);
        left.retain(|events| *events > 0);
        left.len() < before
    }
}

/// The machine's clock, which panics in chosen transactions. The store reads the clock once in each, on its writer thread,
/// and no two transactions read the same time: what has the same time was in the same batch.
#[derive(Default)]
pub(super) struct PanickingClock {
    due: Countdown,
    latest: AtomicI64,
    panicked: AtomicU64,
}

impl PanickingClock {
    /// Counts the transactions from now on, from 1.
    pub(super) fn panic_in(&self, transactions: &[u64]) {
        self.due.set(transactions);
    }

    /// How often it did.
    pub(super) fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::SeqCst)
    }
}

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        if std::thread::current().name() != Some("sqlite-writer") {
            return System.now();
        }
        if self.due.is_now() {
            self.panicked.fetch_add(1, Ordering::SeqCst);
            panic!("planted by a test: the clock panics");
        }
        // Only the writer thread comes here.
        let now = System.now().as_millis().max(self.latest.load(Ordering::SeqCst) + 1);
        self.latest.store(now, Ordering::SeqCst);
        Timestamp::from_millis(now)
    }
}

/// Random bytes, in which chosen ids are those that were drawn before them.
pub(super) struct RepeatingIds {
    rng: Arc<Rng>,
    last: Mutex<[u8; ID]>,
    due: Countdown,
}

impl RepeatingIds {
    pub(super) fn new(rng: Arc<Rng>) -> Self {
        Self { rng, last: Mutex::default(), due: Countdown::default() }
    }

    /// Counts the ids from now on, from 1.
    pub(super) fn repeat_in(&self, ids: &[u64]) {
        self.due.set(ids);
    }
}

impl Entropy for RepeatingIds {
    fn fill(&self, bytes: &mut [u8]) {
        self.rng.fill(bytes);
        if bytes.len() != ID {
            return;
        }
        let mut last = self.last.lock();
        match self.due.is_now() {
            true => bytes.copy_from_slice(&*last),
            false => last.copy_from_slice(bytes),
        }
    }
}
