//! The one connection that writes. What waits to be written is written together: one transaction, one flush to the
//! disk, and then everybody is told (group commit). While the disk is busy with one batch, the next one gathers; and
//! what need not be written at once is written with what must.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Db;
use super::fault::Fault;
use super::files::Files;
use super::turn::Turn;
use crate::clock::Clock;
use crate::store::write_state::WriteState;
use crate::tasks::store::{Result, StoreError};

/// The most operations in one transaction, so that the first of a burst is not kept waiting for the last.
const BATCH: usize = 512;

/// Takes work that writes, and answers when it is on the disk.
pub(super) enum Writer {
    /// A thread of its own has the connection.
    Thread(Thread),
    /// The caller's thread does the work at once.
    Inline(Mutex<Desk>),
}

/// The connection and what a transaction needs beside it.
pub(super) struct Desk {
    pub(super) db: Connection,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) path: PathBuf,
    pub(super) commits: Arc<AtomicU64>,
    pub(super) state: Arc<WriteState>,
    /// What has to be where it was opened; nothing in a simulation.
    pub(super) files: Option<Files>,
}

/// A running writer thread. Dropping it finishes what was handed in and closes the connection.
pub(super) struct Thread {
    // Unbounded, because everybody who hands something in waits for the answer.
    queue: Option<mpsc::Sender<Handed>>,
    patient: Arc<Patient>,
    thread: Option<JoinHandle<()>>,
}

/// Work to be done as soon as it can be; `None`: what can wait has waited long enough.
type Handed = Option<Box<dyn Operation>>;

/// What can wait, in the order in which it came. It is done with what comes next, and the thread is not woken for it.
type Patient = Mutex<Vec<Box<dyn Operation>>>;

/// The writer thread's end of the queue.
struct Waiting {
    queue: mpsc::Receiver<Handed>,
    patient: Arc<Patient>,
}

/// Somebody whose work can wait. When they go away before it was done, nobody else may come to wake the thread.
struct Waker<'t> {
    queue: &'t mpsc::Sender<Handed>,
    done: bool,
}

impl Drop for Waker<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A thread that has stopped has done all that was handed in.
            let _ = self.queue.send(None);
        }
    }
}

/// One piece of work, with whoever waits for it.
trait Operation: Send {
    /// Does the work inside a transaction. It is done again from the start if that transaction was rolled back.
    fn run(&mut self, db: &Db<'_>) -> Result<(), Fault>;
    /// Hands over what came of it.
    fn answer(self: Box<Self>, written: Result<(), StoreError>);
}

struct Awaited<T, F> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&Db<'_>) -> Result<T, Fault> + Send> Operation for Awaited<T, F> {
    fn run(&mut self, db: &Db<'_>) -> Result<(), Fault> {
        self.value = Some((self.work)(db)?);
        Ok(())
    }

    fn answer(self: Box<Self>, written: Result<(), StoreError>) {
        let Self { value, reply, .. } = *self;
        let value = written.map(|()| value.expect("work that was committed left its value"));
        // Whoever asked may have gone away; what was written stays.
        let _ = reply.send(value);
    }
}

/// Where a transaction failed.
enum Failed {
    /// It could not begin.
    Begin(Fault),
    /// The work failed, and the transaction was rolled back.
    Work(Fault),
    /// The commit failed. What was in the transaction counts as not written.
    Commit(Fault),
}

impl Writer {
    /// True if nobody is there to write any more.
    pub(super) fn has_stopped(&self) -> bool {
        let Writer::Thread(thread) = self else { return false };
        thread.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// A writer with a thread of its own.
    pub(super) fn threaded(mut desk: Desk) -> Result<Self> {
        let (queue, waiting) = mpsc::channel();
        let patient = Arc::new(Patient::default());
        let mut waiting = Waiting { queue: waiting, patient: Arc::clone(&patient) };
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                let mut turn = Turn::begin(Instant::now());
                while let Some(mut batch) = waiting.next() {
                    if turn.is_over(Instant::now()) {
                        std::thread::sleep(Turn::GAP);
                    }
                    waiting.fill(&mut batch);
                    desk.write_together(batch);
                    turn.wrote(Instant::now());
                }
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer thread: {error}")))?;
        Ok(Writer::Thread(Thread { queue: Some(queue), patient, thread: Some(thread) }))
    }

    /// Does work in a transaction, for which it may wait as long as `patience`; it is on the disk when this returns.
    /// Work that was handed in is done even if the future is dropped.
    pub(super) async fn write<T, F>(&self, patience: Duration, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Db<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let thread = match self {
            Writer::Inline(desk) => return desk.lock().write(&mut work),
            Writer::Thread(thread) => thread,
        };
        let (reply, mut answer) = oneshot::channel();
        let stopped = || StoreError::Broken("the writer thread has stopped; restart the server".to_owned());
        let queue = thread.queue.as_ref().expect("the queue is only closed when the writer is dropped");
        let operation: Box<dyn Operation> = Box::new(Awaited { work, value: None, reply });
        if patience.is_zero() {
            queue.send(Some(operation)).map_err(|_| stopped())?;
            return answer.await.map_err(|_| stopped())?;
        }
        let is_full = {
            let mut patient = thread.patient.lock();
            patient.push(operation);
            patient.len() >= BATCH
        };
        let mut waker = Waker { queue, done: false };
        if !is_full && let Ok(answer) = tokio::time::timeout(patience, &mut answer).await {
            waker.done = true;
            return answer.map_err(|_| stopped())?;
        }
        drop(waker);
        answer.await.map_err(|_| stopped())?
    }
}

impl Waiting {
    /// Waits until something must be written: it, after all that could wait. `None` once nothing will come any more.
    fn next(&mut self) -> Option<Vec<Box<dyn Operation>>> {
        loop {
            let handed = self.queue.recv();
            let mut batch = std::mem::take(&mut *self.patient.lock());
            match handed {
                Ok(handed) => batch.extend(handed),
                Err(mpsc::RecvError) if batch.is_empty() => return None,
                Err(mpsc::RecvError) => {}
            }
            // It may have been done with something else meanwhile.
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Adds what is there by now.
    fn fill(&mut self, batch: &mut Vec<Box<dyn Operation>>) {
        while batch.len() < BATCH
            && let Ok(handed) = self.queue.try_recv()
        {
            batch.append(&mut self.patient.lock());
            batch.extend(handed);
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// One transaction for all. If one operation fails, each gets a transaction of its own, so that a failing one
    /// harms no other; that is rare, and the common case is spared a savepoint for each.
    fn write_together(&mut self, mut batch: Vec<Box<dyn Operation>>) {
        let outcome = self.transact(|db| batch.iter_mut().try_for_each(|operation| operation.run(db)));
        match outcome {
            Ok(()) => batch.into_iter().for_each(|operation| operation.answer(Ok(()))),
            Err(Failed::Work(_)) if batch.len() > 1 => {
                for mut operation in batch {
                    let alone = self.transact(|db| operation.run(db));
                    operation.answer(alone.map_err(|failed| self.report(failed)));
                }
            }
            Err(failed) => {
                let error = self.report(failed);
                batch.into_iter().for_each(|operation| operation.answer(Err(error.clone())));
            }
        }
    }

    /// One transaction for one operation, now.
    pub(super) fn write<T>(&mut self, work: &mut dyn FnMut(&Db<'_>) -> Result<T, Fault>) -> Result<T> {
        self.transact(work).map_err(|failed| self.report(failed))
    }

    fn transact<T>(&mut self, work: impl FnOnce(&Db<'_>) -> Result<T, Fault>) -> Result<T, Failed> {
        let before = self.db.total_changes();
        tracing::trace!(target: "calls", "to the store, a write");
        let begun =
            self.files.as_ref().map_or(Ok(()), Files::check).and_then(|()| self.execute("BEGIN IMMEDIATE"));
        let done = begun.map_err(Failed::Begin).and_then(|()| {
            // A panic is a failure of the work in which it happens, and the thread goes on.
            let done = catch_unwind(AssertUnwindSafe(|| work(&Db::new(&self.db, &*self.clock))));
            let value = done.unwrap_or(Err(Fault::Panic)).map_err(Failed::Work)?;
            self.execute("COMMIT").map(|()| value).map_err(Failed::Commit)
        });
        match &done {
            Ok(_) if self.db.total_changes() != before => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.state.succeeded();
            }
            Ok(_) => {}
            Err(_) => self.roll_back(),
        }
        done
    }

    fn roll_back(&self) {
        // Some failures (a full disk) roll back by themselves.
        if !self.db.is_autocommit()
            && let Err(fault) = self.execute("ROLLBACK")
        {
            tracing::error!(path = %self.path.display(), ?fault, "a transaction could not be rolled back");
        }
    }

    fn execute(&self, statement: &str) -> Result<(), Fault> {
        self.db.prepare_cached(statement)?.execute([])?;
        Ok(())
    }

    /// The error of a failed transaction. What stops other writes as well is noted.
    fn report(&self, failed: Failed) -> StoreError {
        let (Failed::Begin(fault) | Failed::Work(fault) | Failed::Commit(fault)) = failed;
        let reason = fault.stops_writes();
        let error = fault.at(&self.path);
        if let Some(reason) = reason {
            self.state.failed(reason, &error);
        }
        error
    }
}
