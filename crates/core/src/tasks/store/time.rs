//! The store's time, cached between reads. One process writes the timestamps of a row, and other processes
//! and the store compare them. All must use one clock, and the clocks of machines differ. This module must
//! not read the machine's wall clock; only its monotonic clocks.
//!
//! The store's clock may be set. It is compared with the uptime (`CLOCK_BOOTTIME`), and after a leap nothing
//! is deleted for a while (`DELETION_HOLD`), because a wrong clock is often corrected soon.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Result, StoreError, Time};
use crate::clock::{Clock, Uptime};

/// The maximum round trip of a reading. A slower reply says too little about when it was made.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);
/// The minimum difference between the store's clock and the uptime that counts as a leap.
const MIN_JUMP: Duration = Duration::from_secs(10);
/// How long nothing is deleted after a leap.
const DELETION_HOLD: Duration = Duration::from_secs(600);
/// The maximum age of a reading that allows deletions.
const MAX_READING_AGE: Duration = Duration::from_secs(60);
/// How often the time is noted in the store.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
/// The maximum time without a note that is not a leap, if uptimes cannot be compared: another machine, or
/// another boot.
const MAX_NOTE_GAP: Duration = Duration::from_secs(300);
/// The name of the fact that stores the last [`Note`].
const NOTE_NAME: &str = "clock";

/// A clock that follows the store's clock: the last reading, plus the elapsed monotonic time.
pub struct StoreTime {
    store: Arc<dyn Time>,
    uptime: Arc<dyn Uptime>,
    state: Mutex<ClockState>,
}

/// The cached state of the store's clock.
#[derive(Clone, Copy)]
struct ClockState {
    reading: Reading,
    /// The uptime until which nothing is deleted.
    held_until: Option<Duration>,
    /// The uptime at which the time was last noted in the store.
    noted_at: Option<Duration>,
    /// True from a leap back until the leases are shortened.
    jumped_back: bool,
}

/// A reading of the store's time.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    uptime: Duration,
    time: Timestamp,
}

/// A reading of the store's time, for processes that start later.
#[derive(Serialize, Deserialize)]
struct Note {
    boot: String,
    uptime: Duration,
    time: Timestamp,
    held_until: Option<Duration>,
}

impl StoreTime {
    /// Creates the clock of this store.
    ///
    /// # Errors
    /// If the store is unavailable: without its time, nothing can be written that other processes can
    /// compare.
    pub async fn of(store: Arc<dyn Time>, uptime: Arc<dyn Uptime>) -> Result<Arc<Self>> {
        let (reading, _) = read_time(&*store, &*uptime).await?;
        let state = ClockState { reading, held_until: None, noted_at: None, jumped_back: false };
        Ok(Arc::new(Self { store, uptime, state: Mutex::new(state) }))
    }

    /// Compares the clock with the last note of any server over this store. Continues the hold of that note,
    /// and begins one if the clock has leapt since.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn compare(&self) -> Result<()> {
        let stored = self.store.fact(NOTE_NAME).await?;
        if let Some(note) = parse_note(stored.as_deref()) {
            self.state.lock().compare(&note, &self.uptime.boot_id());
        }
        Ok(())
    }

    /// Reads the store's time every `tick` until `stop`. While the store is unavailable, the clock continues
    /// from its last reading.
    ///
    /// A leap back would extend leases by its length. They are shortened to at most `lease` then.
    pub(in crate::tasks) async fn follow(&self, tick: Duration, lease: Duration, stop: &CancellationToken) {
        loop {
            if let Err(error) = self.write_note(lease).await {
                tracing::debug!(%error, "clock note cannot be written");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(tick) => {}
            }
            self.update().await;
        }
    }

    /// Reads the store's time, and adopts a reading that arrived in time.
    async fn update(&self) {
        match read_time(&*self.store, &*self.uptime).await {
            Ok((reading, took)) if took <= MAX_ROUND_TRIP => self.state.lock().adopt(reading),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the store's time cannot be read"),
        }
    }

    /// Writes the note, and shortens leases after a leap back.
    async fn write_note(&self, lease: Duration) -> Result<()> {
        let state = *self.state.lock();
        let uptime = self.uptime.uptime();
        if state.jumped_back {
            self.store.shorten_leases(lease).await?;
            self.state.lock().jumped_back = false;
        }
        if state.noted_at.is_some_and(|noted| uptime.saturating_sub(noted) < NOTE_INTERVAL) {
            return Ok(());
        }
        let stored = self.store.fact(NOTE_NAME).await?;
        let note = self.state.lock().note(self.uptime.boot_id(), parse_note(stored.as_deref()));
        if let Some(note) = note {
            let note = serde_json::to_string(&note).map_err(|error| StoreError::Broken(error.to_string()))?;
            if !self.store.replace_fact(NOTE_NAME, stored.as_deref(), &note).await? {
                // Another process noted the time meanwhile. The next tick reads its note.
                return Ok(());
            }
        }
        self.state.lock().noted_at = Some(uptime);
        Ok(())
    }
}

impl ClockState {
    /// Replaces the last reading by a newer one, and detects a leap.
    fn adopt(&mut self, reading: Reading) {
        let last = std::mem::replace(&mut self.reading, reading);
        let expected = last.time + reading.uptime.saturating_sub(last.uptime);
        if reading.time.since(expected) > MIN_JUMP || expected.since(reading.time) > MIN_JUMP {
            self.record_jump(expected);
        }
    }

    /// Returns the note to write, given the current note of any process; `None` if it needs no change. A
    /// process that was slow must not hide a leap that others have noted since. If the notes are comparable,
    /// the later time and the longer hold win.
    fn note(&mut self, boot: String, before: Option<Note>) -> Option<Note> {
        let before = before.filter(|before| before.boot == boot && !boot.is_empty());
        let held_until = self.held_until.max(before.as_ref().and_then(|before| before.held_until));
        self.held_until = held_until;
        let Reading { uptime, time, .. } = self.reading;
        let later = before.as_ref().filter(|before| before.uptime >= uptime);
        if later.is_some_and(|later| later.held_until == held_until) {
            return None;
        }
        let (uptime, time) = later.map_or((uptime, time), |later| (later.uptime, later.time));
        Some(Note { boot, uptime, time, held_until })
    }

    /// Compares the clock with the note of an earlier process.
    fn compare(&mut self, note: &Note, boot: &str) {
        let Reading { uptime, time: now, .. } = self.reading;
        let is_same_boot = note.boot == boot && !boot.is_empty() && note.uptime <= uptime;
        let (expected, slack) = match is_same_boot {
            true => (note.time + (uptime - note.uptime), MIN_JUMP),
            // No server may have run for a while, which looks like a leap.
            false => (note.time, MAX_NOTE_GAP),
        };
        let held_for = note.held_until.map_or(Duration::ZERO, |until| until.saturating_sub(note.uptime));
        if !held_for.is_zero() {
            self.held_until = Some(if is_same_boot { note.uptime } else { uptime } + held_for);
        }
        if now.since(expected) > slack || expected.since(now) > MIN_JUMP {
            self.record_jump(expected);
        }
    }

    fn record_jump(&mut self, expected: Timestamp) {
        let Reading { uptime, time, .. } = self.reading;
        let (by, direction) = match time > expected {
            true => (time.since(expected), "ahead"),
            false => (expected.since(time), "back"),
        };
        self.jumped_back |= time < expected;
        self.held_until = Some(uptime + DELETION_HOLD);
        // Processes that start later must learn of the leap.
        self.noted_at = None;
        tracing::warn!(
            seconds = by.as_secs(),
            direction,
            "the store's clock has leapt, or no server ran for a while: nothing that has expired is deleted for {} \
             minutes; if the clock is wrong, correct it before then",
            DELETION_HOLD.as_secs() / 60
        );
    }
}

impl Clock for StoreTime {
    fn now(&self) -> Timestamp {
        let Reading { at, time, .. } = self.state.lock().reading;
        time + at.elapsed()
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.update())
    }

    fn stable_now(&self) -> Option<Timestamp> {
        let ClockState { reading, held_until, .. } = *self.state.lock();
        let uptime = self.uptime.uptime();
        let is_held = held_until.is_some_and(|until| uptime < until);
        // A suspended process may have missed that the clock was set.
        let is_fresh = uptime.saturating_sub(reading.uptime) <= MAX_READING_AGE;
        (is_fresh && !is_held).then(|| reading.time + reading.at.elapsed())
    }
}

/// Parses a note. Without a note there is nothing to compare, which is not an error.
fn parse_note(stored: Option<&str>) -> Option<Note> {
    stored.and_then(|note| serde_json::from_str(note).ok())
}

/// Reads the store's time. Returns the reading, placed halfway between request and reply, and the round-trip
/// time.
async fn read_time(store: &dyn Time, uptime: &dyn Uptime) -> Result<(Reading, Duration)> {
    let (started, started_uptime) = (Instant::now(), uptime.uptime());
    let time = store.now().await?;
    let (took, took_uptime) = (started.elapsed(), uptime.uptime().saturating_sub(started_uptime));
    let reading = Reading { at: started + took / 2, uptime: started_uptime + took_uptime / 2, time };
    Ok((reading, took.max(took_uptime)))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::tasks::store::Facts;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);

    /// A scripted store: its time and reply delay, its note, and the lease limits that it received.
    #[derive(Default)]
    struct ScriptedStore {
        time: Mutex<(Option<Timestamp>, Duration)>,
        note: Mutex<Option<String>>,
        shortened: Mutex<Vec<Duration>>,
    }

    #[async_trait]
    impl Time for ScriptedStore {
        async fn now(&self) -> Result<Timestamp> {
            let (answer, delay) = *self.time.lock();
            tokio::time::sleep(delay).await;
            answer.ok_or_else(|| StoreError::Unavailable("away".to_owned()))
        }

        async fn shorten_leases(&self, longest: Duration) -> Result<()> {
            self.shortened.lock().push(longest);
            Ok(())
        }
    }

    #[async_trait]
    impl Facts for ScriptedStore {
        async fn fact(&self, _: &str) -> Result<Option<String>> {
            Ok(self.note.lock().clone())
        }

        async fn set_fact(&self, _: &str, value: &str) -> Result<()> {
            *self.note.lock() = Some(value.to_owned());
            Ok(())
        }

        async fn replace_fact(&self, _: &str, before: Option<&str>, value: &str) -> Result<bool> {
            let mut note = self.note.lock();
            let same = note.as_deref() == before;
            if same {
                *note = Some(value.to_owned());
            }
            Ok(same)
        }
    }

    /// A machine that started at this moment, and may have been suspended since.
    struct Machine(Instant, Mutex<Duration>, &'static str);

    impl Machine {
        fn started(boot: &'static str) -> Arc<Self> {
            Arc::new(Self(Instant::now(), Mutex::default(), boot))
        }
    }

    impl Uptime for Machine {
        fn uptime(&self) -> Duration {
            self.0.elapsed() + *self.1.lock()
        }

        fn boot_id(&self) -> String {
            self.2.to_owned()
        }
    }

    fn start_time() -> Timestamp {
        Timestamp::from_millis(1_764_072_600_000)
    }

    /// A store whose clock is correct until it is set.
    struct SettableStore(ScriptedStore, Mutex<(Timestamp, Instant)>);

    impl SettableStore {
        fn new() -> Arc<Self> {
            Arc::new(Self(ScriptedStore::default(), Mutex::new((start_time(), Instant::now()))))
        }

        /// Returns the clock's time.
        fn clock_time(&self) -> Timestamp {
            let (time, at) = *self.1.lock();
            time + at.elapsed()
        }

        fn set(&self, time: Timestamp) {
            *self.1.lock() = (time, Instant::now());
        }
    }

    #[async_trait]
    impl Time for SettableStore {
        async fn now(&self) -> Result<Timestamp> {
            Ok(self.clock_time())
        }

        async fn shorten_leases(&self, longest: Duration) -> Result<()> {
            self.0.shorten_leases(longest).await
        }
    }

    #[async_trait]
    impl Facts for SettableStore {
        async fn fact(&self, name: &str) -> Result<Option<String>> {
            self.0.fact(name).await
        }

        async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
            self.0.set_fact(name, value).await
        }

        async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool> {
            self.0.replace_fact(name, before, value).await
        }
    }

    /// Follows the store's clock while `work` runs.
    async fn run_following(time: &StoreTime, work: impl Future<Output = ()>) {
        let stop = CancellationToken::new();
        let work = async {
            work.await;
            stop.cancel();
        };
        tokio::join!(time.follow(SECOND, 30 * SECOND, &stop), work);
    }

    async fn wait(seconds: u32) {
        tokio::time::sleep(seconds * SECOND).await;
    }

    /// The clock continues on its own during an outage of the store, and is adjusted by its readings.
    #[tokio::test(start_paused = true)]
    async fn store_time_advances_between_readings() {
        let start = start_time();
        let store = Arc::new(ScriptedStore::default());
        *store.time.lock() = (Some(start), Duration::ZERO);
        let time = StoreTime::of(store.clone(), Machine::started("a")).await.unwrap();
        let stop = CancellationToken::new();
        let checks = async {
            wait(3).await;
            assert_eq!(time.now(), start + 3 * SECOND, "no reading in between");
            *store.time.lock() = (Some(start + 100 * SECOND), SECOND / 2);
            wait(4).await;
            assert_eq!(
                time.now(),
                start + 101 * SECOND + SECOND * 3 / 4,
                "the reading is from halfway through the request"
            );
            *store.time.lock() = (Some(start), 2 * SECOND);
            wait(10).await;
            assert_eq!(time.now(), start + 111 * SECOND + SECOND * 3 / 4, "a late reply is ignored");
            *store.time.lock() = (None, Duration::ZERO);
            wait(10).await;
            assert_eq!(time.now(), start + 121 * SECOND + SECOND * 3 / 4, "the store is unavailable");
            stop.cancel();
        };
        tokio::join!(time.follow(5 * SECOND, SECOND, &stop), checks);
    }

    /// The clock is set ahead by three days for five seconds, and back.
    #[tokio::test(start_paused = true)]
    async fn leap_holds_deletions_for_minutes() {
        let store = SettableStore::new();
        let time = StoreTime::of(store.clone(), Machine::started("a")).await.unwrap();
        let work = async {
            wait(100).await;
            store.set(store.clock_time() + 3 * DAY);
            // A deletion before the leap is detected uses the time before it.
            assert_eq!(time.stable_now(), Some(start_time() + 100 * SECOND));
            wait(5).await;
            assert_eq!(time.now(), start_time() + 3 * DAY + 105 * SECOND);
            assert_eq!(time.stable_now(), None);
            store.set(store.clock_time() - 3 * DAY);
            wait(590).await;
            assert_eq!((time.stable_now(), time.now()), (None, start_time() + 695 * SECOND));
            wait(20).await;
            assert_eq!(time.stable_now(), Some(start_time() + 715 * SECOND));
        };
        run_following(&time, work).await;
        assert_eq!(*store.0.shortened.lock(), [30 * SECOND], "once, when it was set back");
    }

    /// A process that was suspended while the clock was set back must not delete by the clock's earlier
    /// time.
    #[tokio::test(start_paused = true)]
    async fn stale_reading_deletes_nothing() {
        let store = SettableStore::new();
        let time = StoreTime::of(store.clone(), Machine::started("a")).await.unwrap();
        store.set(store.clock_time() + DAY);
        run_following(&time, async { wait(5).await }).await;
        store.set(store.clock_time() - DAY);
        wait(700).await;
        assert_eq!(time.stable_now(), None, "the hold of ten minutes is over, and the time is a day ahead");
        run_following(&time, async { wait(5).await }).await;
        assert_eq!(time.stable_now(), None, "it has noticed the step, and holds for ten minutes more");
        run_following(&time, async { wait(700).await }).await;
        assert_eq!(time.stable_now(), Some(time.now()));
    }

    /// A process that was stopped since before the leap notes its own time. Processes that start later still
    /// detect the leap.
    #[tokio::test(start_paused = true)]
    async fn slow_process_hides_no_leap() {
        let (store, machine) = (SettableStore::new(), Machine::started("a"));
        let slow = StoreTime::of(store.clone(), machine.clone()).await.unwrap();
        let quick = StoreTime::of(store.clone(), machine.clone()).await.unwrap();
        wait(100).await;
        store.set(store.clock_time() + DAY);
        run_following(&quick, async { wait(10).await }).await;
        assert_eq!(quick.stable_now(), None);
        store.set(store.clock_time() - DAY);
        slow.write_note(SECOND).await.unwrap();
        assert_eq!(slow.stable_now(), None, "it has read the note");
        let late = StoreTime::of(store.clone(), machine).await.unwrap();
        late.compare().await.unwrap();
        assert_eq!(late.stable_now(), None);
    }

    /// Its uptime advances as its clock does.
    #[tokio::test(start_paused = true)]
    async fn suspended_machine_is_no_leap() {
        let (store, machine) = (SettableStore::new(), Machine::started("a"));
        let time = StoreTime::of(store.clone(), machine.clone()).await.unwrap();
        let work = async {
            wait(10).await;
            *machine.1.lock() = DAY;
            store.set(store.clock_time() + DAY);
            wait(2).await;
            assert_eq!(time.stable_now(), Some(start_time() + DAY + 12 * SECOND));
        };
        run_following(&time, work).await;
    }

    /// Returns the time of a process that starts on the machine `boot` with the uptime `up`, when the clock
    /// shows `clock_time`.
    async fn restarted(
        boot: &'static str,
        up: Duration,
        clock_time: Timestamp,
    ) -> (Arc<StoreTime>, Arc<SettableStore>) {
        let store = SettableStore::new();
        let first = StoreTime::of(store.clone(), Machine::started("a")).await.unwrap();
        run_following(&first, async { wait(1).await }).await;
        let machine = Machine::started(boot);
        *machine.1.lock() = up;
        store.set(clock_time);
        let time = StoreTime::of(store.clone(), machine).await.unwrap();
        time.compare().await.unwrap();
        (time, store)
    }

    #[tokio::test(start_paused = true)]
    async fn restart_compares_with_last_time() {
        // The clock advanced as the machine did, for however long.
        let (time, _) = restarted("a", DAY, start_time() + DAY).await;
        assert!(time.stable_now().is_some());
        let (time, _) = restarted("a", DAY, start_time() + 4 * DAY).await;
        assert!(time.stable_now().is_none());
        let (time, store) = restarted("a", 2 * DAY, start_time() + DAY).await;
        assert!(time.stable_now().is_none());
        run_following(&time, async { wait(1).await }).await;
        assert_eq!(store.0.shortened.lock().len(), 1, "leases of dead processes do not last for a day");
        // Another machine, or another boot.
        let (time, _) = restarted("b", Duration::ZERO, start_time() + 100 * SECOND).await;
        assert!(time.stable_now().is_some());
        for clock_time in [start_time() + DAY, start_time() - DAY] {
            let (time, _) = restarted("b", Duration::ZERO, clock_time).await;
            assert!(time.stable_now().is_none());
        }
    }

    /// A server that restarts soon after a leap continues the hold.
    #[tokio::test(start_paused = true)]
    async fn hold_survives_restart() {
        let (store, machine) = (SettableStore::new(), Machine::started("a"));
        let first = StoreTime::of(store.clone(), machine.clone()).await.unwrap();
        let work = async {
            store.set(store.clock_time() + DAY);
            wait(5).await;
        };
        run_following(&first, work).await;
        for machine in [machine, Machine::started("b")] {
            let second = StoreTime::of(store.clone(), machine).await.unwrap();
            second.compare().await.unwrap();
            assert!(second.stable_now().is_none());
            wait(300).await;
            assert!(second.stable_now().is_none());
        }
    }
}
