//! The only writing connection of this process, with group commit: pending operations are written in one
//! transaction with one flush to disk, and then every caller gets its answer. While the disk is busy with one
//! batch, the next one accumulates. Operations that can wait are written together with urgent ones.

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

use super::db::Db;
use super::fair_yield::FairYield;
use super::fault::SqliteError;
use super::files::Files;
use crate::write_state::WriteState;
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{Result, StoreError};

/// Number of operations at which a transaction takes no more, so that the first of a burst does not wait for
/// the last. Deferred ones are taken all at once, so there may be more of them. As many deferred operations
/// also wake the thread before their deadline.
const BATCH: usize = 512;

/// Executes writes, and answers when they are on disk.
pub(in crate::sqlite) enum Writer {
    /// A dedicated thread owns the connection.
    Thread(Thread),
    /// The caller's thread does the work immediately.
    Inline(Mutex<WriterConnection>),
}

/// The connection and the other state of a transaction.
pub(in crate::sqlite) struct WriterConnection {
    pub(in crate::sqlite) db: Connection,
    pub(in crate::sqlite) clock: Arc<dyn Clock>,
    pub(in crate::sqlite) path: PathBuf,
    pub(in crate::sqlite) commits: Arc<AtomicU64>,
    pub(in crate::sqlite) write_state: Arc<WriteState>,
    /// The files that must still exist at their paths; `None` in a simulation.
    pub(in crate::sqlite) files: Option<Files>,
}

/// A running writer thread. Dropping it finishes the submitted work and closes the connection.
pub(in crate::sqlite) struct Thread {
    // Unbounded, because every caller waits for its answer.
    queue: Option<mpsc::Sender<QueueItem>>,
    deferred: Arc<DeferredOperations>,
    thread: Option<JoinHandle<()>>,
}

/// An urgent operation; or `None` to write the deferred ones now.
type QueueItem = Option<Box<dyn Operation>>;

/// Deferred operations in order of arrival. They are written with the next batch, and do not wake the
/// thread.
type DeferredOperations = Mutex<Vec<Box<dyn Operation>>>;

/// The writer thread's end of the queue.
struct OperationQueue {
    queue: mpsc::Receiver<QueueItem>,
    deferred: Arc<DeferredOperations>,
}

/// The caller of a deferred operation. If it is dropped before the operation is `done`, it wakes the thread,
/// because no other caller may do so: at the deadline, when [`BATCH`] operations are deferred, or when the
/// caller is dropped.
struct Waker<'t> {
    queue: &'t mpsc::Sender<QueueItem>,
    done: bool,
}

impl Drop for Waker<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A thread that has stopped has finished all submitted work.
            let _ = self.queue.send(None);
        }
    }
}

/// One operation, with its waiting caller.
trait Operation: Send {
    /// Does the work inside a transaction. It is repeated from the start if that transaction was rolled
    /// back.
    fn run(&mut self, db: &Db<'_>) -> Result<(), SqliteError>;
    /// Sends the result to the caller.
    fn complete(self: Box<Self>, commit_result: Result<(), StoreError>);
}

struct PendingOperation<T, F> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&Db<'_>) -> Result<T, SqliteError> + Send> Operation for PendingOperation<T, F> {
    fn run(&mut self, db: &Db<'_>) -> Result<(), SqliteError> {
        self.value = Some((self.work)(db)?);
        Ok(())
    }

    fn complete(self: Box<Self>, commit_result: Result<(), StoreError>) {
        let Self { value, reply, .. } = *self;
        let value = commit_result.map(|()| value.expect("work that was committed left its value"));
        // The caller may be gone; the write remains.
        let _ = reply.send(value);
    }
}

/// The stage at which a transaction failed.
enum TransactionError {
    /// It could not begin.
    Begin(SqliteError),
    /// The work failed, and the transaction was rolled back.
    Work(SqliteError),
    /// The commit failed. Everything in the transaction counts as not written.
    Commit(SqliteError),
}

impl Writer {
    /// Returns true if the writer thread has ended.
    pub(in crate::sqlite) fn has_stopped(&self) -> bool {
        let Writer::Thread(thread) = self else { return false };
        thread.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Starts a writer with a dedicated thread.
    pub(in crate::sqlite) fn threaded(mut connection: WriterConnection) -> Result<Self> {
        let (queue, receiver) = mpsc::channel();
        let deferred = Arc::new(DeferredOperations::default());
        let mut operations = OperationQueue { queue: receiver, deferred: Arc::clone(&deferred) };
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                let mut fair_yield = FairYield::begin(Instant::now());
                while let Some(mut batch) = operations.next() {
                    if fair_yield.must_yield(Instant::now()) {
                        std::thread::sleep(FairYield::GAP);
                    }
                    operations.fill(&mut batch);
                    connection.write_batch(batch);
                    fair_yield.record_write(Instant::now());
                }
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer thread: {error}")))?;
        Ok(Writer::Thread(Thread { queue: Some(queue), deferred, thread: Some(thread) }))
    }

    /// Does work in a transaction; it is on disk when this returns. It waits up to `batch_delay` for other
    /// work to share the transaction with (not inline). Submitted work is done even if the future is dropped.
    pub(in crate::sqlite) async fn write<T, F>(&self, batch_delay: Duration, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Db<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        let thread = match self {
            Writer::Inline(connection) => return connection.lock().write(&mut work),
            Writer::Thread(thread) => thread,
        };
        let (reply, mut response) = oneshot::channel();
        let stopped = || StoreError::Broken("the writer thread has stopped; restart the server".to_owned());
        let queue = thread.queue.as_ref().expect("the queue is only closed when the writer is dropped");
        let operation: Box<dyn Operation> = Box::new(PendingOperation { work, value: None, reply });
        if batch_delay.is_zero() {
            queue.send(Some(operation)).map_err(|_| stopped())?;
            return response.await.map_err(|_| stopped())?;
        }
        let is_full = {
            let mut deferred = thread.deferred.lock();
            deferred.push(operation);
            deferred.len() >= BATCH
        };
        let mut waker = Waker { queue, done: false };
        if !is_full && let Ok(result) = tokio::time::timeout(batch_delay, &mut response).await {
            waker.done = true;
            return result.map_err(|_| stopped())?;
        }
        drop(waker);
        response.await.map_err(|_| stopped())?
    }
}

impl OperationQueue {
    /// Waits for an urgent operation or a wake-up. Returns the deferred operations, followed by the urgent
    /// one, if any. `None` once the queue is closed and empty.
    fn next(&mut self) -> Option<Vec<Box<dyn Operation>>> {
        loop {
            let received = self.queue.recv();
            let mut batch = std::mem::take(&mut *self.deferred.lock());
            match received {
                Ok(item) => batch.extend(item),
                Err(mpsc::RecvError) if batch.is_empty() => return None,
                Err(mpsc::RecvError) => {}
            }
            // Another batch may already have included them.
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Adds the urgent operations that have arrived in the meantime, and with the first of them the deferred
    /// ones, until there are [`BATCH`].
    fn fill(&mut self, batch: &mut Vec<Box<dyn Operation>>) {
        while batch.len() < BATCH
            && let Ok(item) = self.queue.try_recv()
        {
            batch.append(&mut self.deferred.lock());
            batch.extend(item);
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

impl WriterConnection {
    /// Writes all operations in one transaction. If one of several fails, each is repeated in a transaction
    /// of its own, so that it affects no other. That is rare, and the common case needs no savepoint per
    /// operation. If the transaction cannot begin or commit, all get that error.
    fn write_batch(&mut self, mut batch: Vec<Box<dyn Operation>>) {
        let outcome = self.transact(|db| batch.iter_mut().try_for_each(|operation| operation.run(db)));
        match outcome {
            Ok(()) => batch.into_iter().for_each(|operation| operation.complete(Ok(()))),
            Err(TransactionError::Work(_)) if batch.len() > 1 => {
                for mut operation in batch {
                    let result = self.transact(|db| operation.run(db));
                    operation.complete(result.map_err(|failure| self.report(failure)));
                }
            }
            Err(failure) => {
                let error = self.report(failure);
                batch.into_iter().for_each(|operation| operation.complete(Err(error.clone())));
            }
        }
    }

    /// Writes one operation in one transaction, immediately.
    pub(super) fn write<T>(&mut self, work: &mut dyn FnMut(&Db<'_>) -> Result<T, SqliteError>) -> Result<T> {
        self.transact(work).map_err(|failure| self.report(failure))
    }

    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Db<'_>) -> Result<T, SqliteError>,
    ) -> Result<T, TransactionError> {
        let before = self.db.total_changes();
        tracing::trace!(target: "calls", "to the store, a write");
        let begin =
            self.files.as_ref().map_or(Ok(()), Files::check).and_then(|()| self.execute("BEGIN IMMEDIATE"));
        let outcome = begin.map_err(TransactionError::Begin).and_then(|()| {
            // A panic counts as a failure of its own operation, and the thread continues.
            let result = catch_unwind(AssertUnwindSafe(|| work(&Db::new(&self.db, &*self.clock))));
            let value = result.unwrap_or(Err(SqliteError::Panic)).map_err(TransactionError::Work)?;
            self.execute("COMMIT").map(|()| value).map_err(TransactionError::Commit)
        });
        match &outcome {
            Ok(_) if self.db.total_changes() != before => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.write_state.record_success();
            }
            Ok(_) => {}
            Err(_) => self.roll_back(),
        }
        outcome
    }

    fn roll_back(&self) {
        // Some failures (a full disk) roll back automatically.
        if !self.db.is_autocommit()
            && let Err(fault) = self.execute("ROLLBACK")
        {
            tracing::error!(path = %self.path.display(), ?fault, "a transaction could not be rolled back");
        }
    }

    fn execute(&self, statement: &str) -> Result<(), SqliteError> {
        self.db.prepare_cached(statement)?.execute([])?;
        Ok(())
    }

    /// Returns the error of a failed transaction. A failure that affects other writes is recorded.
    fn report(&self, failure: TransactionError) -> StoreError {
        let (TransactionError::Begin(fault)
        | TransactionError::Work(fault)
        | TransactionError::Commit(fault)) = failure;
        let reason = fault.outage_reason();
        let error = fault.into_store_error(&self.path);
        if let Some(reason) = reason {
            self.write_state.record_failure(reason, &error);
        }
        error
    }
}
