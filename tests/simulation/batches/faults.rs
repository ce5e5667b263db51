//! Faults of single writes and of the whole file, injected from outside of the store: a lock by another
//! connection, a clock that panics on the writer thread, and repeated ids.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use taskbridge_core::clock::{Clock, Entropy, System};
use taskbridge_sdk::Timestamp;

use super::super::rng::Rng;

/// The length of a task id in bytes. A node draws nothing else of this length.
const ID_BYTES: usize = 20;

/// The write lock of a file, released on drop.
pub(super) struct WriteLock(Connection);

impl WriteLock {
    /// Waits for the lock, outside of the runtime's threads.
    pub(super) async fn take(file: &Path) -> Self {
        let file = file.to_owned();
        tokio::task::spawn_blocking(move || Self::take_blocking(&file)).await.unwrap()
    }

    /// Waits for the lock on this thread. The caller holds it before anything else runs here: the writer waits
    /// only for 5 s.
    pub(super) fn take_blocking(file: &Path) -> Self {
        let connection = Connection::open(file).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        self.0.execute_batch("COMMIT").unwrap();
    }
}

/// The distances to the upcoming events at which the fault happens.
#[derive(Default)]
struct Countdown(Mutex<Vec<u64>>);

impl Countdown {
    fn set(&self, events: &[u64]) {
        *self.0.lock() = events.to_vec();
    }

    /// Counts one event, and reports whether the fault happens now.
    fn count_event(&self) -> bool {
        let mut remaining = self.0.lock();
        let count_before = remaining.len();
        remaining.iter_mut().for_each(|events| *events -= 1);
        remaining.retain(|events| *events > 0);
        remaining.len() < count_before
    }
}

/// The machine's clock, which panics in chosen transactions. The store reads the clock once per transaction,
/// on its writer thread, and no two transactions read the same time. So rows with the same time were in the
/// same batch.
#[derive(Default)]
pub(super) struct PanickingClock {
    due: Countdown,
    latest: AtomicI64,
    panicked: AtomicU64,
}

impl PanickingClock {
    /// Sets the transactions that panic, counted from now on, starting with 1.
    pub(super) fn panic_in(&self, transactions: &[u64]) {
        self.due.set(transactions);
    }

    /// Returns the number of panics.
    pub(super) fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::SeqCst)
    }
}

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        if std::thread::current().name() != Some("sqlite-writer") {
            return System.now();
        }
        if self.due.count_event() {
            self.panicked.fetch_add(1, Ordering::SeqCst);
            panic!("planted by a test: the clock panics");
        }
        // Only the writer thread reaches this.
        let now = System.now().as_millis().max(self.latest.load(Ordering::SeqCst) + 1);
        self.latest.store(now, Ordering::SeqCst);
        Timestamp::from_millis(now)
    }
}

/// Random bytes, in which chosen ids repeat the id before them.
pub(super) struct RepeatingIds {
    rng: Arc<Rng>,
    last: Mutex<[u8; ID_BYTES]>,
    due: Countdown,
}

impl RepeatingIds {
    pub(super) fn new(rng: Arc<Rng>) -> Self {
        Self { rng, last: Mutex::default(), due: Countdown::default() }
    }

    /// Sets the ids that repeat, counted from now on, starting with 1.
    pub(super) fn repeat_in(&self, ids: &[u64]) {
        self.due.set(ids);
    }
}

impl Entropy for RepeatingIds {
    fn fill(&self, bytes: &mut [u8]) {
        self.rng.fill(bytes);
        if bytes.len() != ID_BYTES {
            return;
        }
        let mut last = self.last.lock();
        match self.due.count_event() {
            true => bytes.copy_from_slice(&*last),
            false => last.copy_from_slice(bytes),
        }
    }
}
