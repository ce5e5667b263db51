//! Executes reads and writes on pooled connections, and retries them after conflicts and network errors.
//!
//! - A read is one statement. It may be dropped at any point, and is retried if its connection was stale.
//! - A write is one transaction in a task of its own, so that it completes or fails as a whole even if its
//!   caller is dropped. Writes to one row run in the order in which they were started ([`RowLocks`]). If the
//!   connection breaks, it is unknown whether the write was committed. It is retried then, for up to
//!   [`SETTLE_WITHIN`]. Writes whose repetition would do harm detect that they are already done. Others
//!   accept it: a claim leases other rows, and a duration is recorded twice.
//! - Requests never use the last connections: those are reserved for the loops, which would otherwise
//!   block behind many clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use futures_util::join;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::FREE_WITHIN;
use super::connection_config::{ConnectionConfig, STATEMENT_WITHIN};
use super::fault::PostgresError;
use super::hints::HintQueue;
use super::row_locks::RowLocks;
use super::{StoreClock, column};
use crate::store::write_state::WriteState;
use crate::tasks::store::{Hint, Result, StoreError};

/// Maximum number of retries of a write after conflicts with other transactions.
const CLASHES: u32 = 20;

/// How long a write with an unknown outcome is retried.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);

/// Delays before the retries of a read whose connection was unusable. All pooled connections may be stale
/// at once.
const READ_AGAIN: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(50), Duration::from_millis(100)];

/// Timeout of a read, or of one attempt of a write, after which the connection is closed. The server's
/// statement timeout is shorter.
const ANSWER_WITHIN: Duration = STATEMENT_WITHIN.saturating_add(Duration::from_secs(5));

/// Returns the number of connections that are reserved for the loops.
fn reserve(connections: usize) -> usize {
    (connections / 4).clamp(1, 4)
}

/// The priority class of a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationPriority {
    /// A client's request: their number is unlimited.
    Request,
    /// The loops that act on tasks, or a change of a row; few of them run at once.
    Loops,
}

/// The connection pool, and the state shared by all reads and writes.
pub(super) struct PostgresExecutor {
    pool: Pool,
    requests: Arc<Semaphore>,
    turns: RowLocks,
    clock: StoreClock,
    schema: Arc<str>,
    pub(super) place: ConnectionConfig,
    /// Hints about writes, to be sent to other replicas.
    pub(super) wrote: HintQueue,
    /// The outcome of the last writes.
    pub(super) state: WriteState,
}

/// One write transaction.
#[async_trait]
pub(super) trait WriteTransaction: Send + Sync + 'static {
    type Done: Send + 'static;

    /// Executes the whole transaction. `again` is true if an earlier attempt has an unknown outcome.
    async fn write(&self, db: &Db, again: bool) -> Result<Self::Done, PostgresError>;

    /// Returns the hint for other replicas.
    fn hint(&self, _done: &Self::Done) -> Option<Hint> {
        None
    }
}

/// One connection during one operation.
pub(super) struct Db {
    client: Object,
    /// The current time, if it is not the database's own.
    pub(super) now: Option<i64>,
    schema: Arc<str>,
    /// True within a transaction of several statements.
    open: AtomicBool,
}

/// Advisory locks of a transaction. All transactions acquire locks in the same order, so that no two
/// deadlock.
#[derive(Default)]
pub(super) struct Locks(Vec<i64>);

impl Locks {
    fn and<'n>(mut self, schema: &str, kind: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.0.extend(names.into_iter().map(|name| column::lock(schema, kind, name)));
        self.0.sort_unstable();
        self.0.dedup();
        self
    }
}

/// Acquires locks in the order of the array.
const LOCK: &str = "SELECT pg_advisory_xact_lock(name) FROM unnest($1::bigint[]) AS name";

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

impl PostgresExecutor {
    pub(super) fn new(pool: Pool, place: ConnectionConfig, clock: StoreClock) -> Self {
        let for_requests = place.max_connections - reserve(place.max_connections);
        let requests = Arc::new(Semaphore::new(for_requests));
        let schema = Arc::from(place.schema.as_str());
        let (turns, wrote, state) = (RowLocks::new(), HintQueue::default(), WriteState::default());
        Self { pool, requests, turns, clock, schema, place, wrote, state }
    }

    /// Returns the rows of one read-only statement.
    pub(super) async fn read(
        &self,
        door: OperationPriority,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        let _permit = self.admit(door).await?;
        for pause in READ_AGAIN {
            match self.read_once(sql, params).await {
                Err(fault) if fault.is_lost() && !matches!(fault, PostgresError::Silent) => {
                    sleep(pause).await
                }
                done => return done.map_err(|fault| self.to_store_error(fault)),
            }
        }
        self.read_once(sql, params).await.map_err(|fault| self.to_store_error(fault))
    }

    async fn read_once(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, PostgresError> {
        let db = self.connection().await?;
        let rows = within(db.all(sql, params)).await;
        if rows.as_ref().is_err_and(PostgresError::is_lost) {
            db.discard();
        }
        rows
    }

    /// Returns the current time for statements, the parameter of `moment`: `None` is the database's own.
    pub(super) fn now(&self) -> Option<i64> {
        self.clock.given()
    }

    /// Executes a write. A write of one row waits for earlier writes of that row by this process.
    pub(super) async fn write<W: WriteTransaction>(
        self: &Arc<Self>,
        door: OperationPriority,
        row: Option<&str>,
        work: W,
    ) -> Result<W::Done> {
        // In this order, so that a request that waits for a connection never blocks a row for the loops.
        let permit = self.admit(door).await?;
        let turn = match row {
            Some(row) => Some(self.turns.lock(row).await),
            None => None,
        };
        let desk = Arc::clone(self);
        let done = super::spawn(async move {
            let done = desk.carry_out(&work).await;
            drop((permit, turn));
            done
        });
        done.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable("the server is stopping: a write was given up".to_owned()))
        })
    }

    async fn admit(&self, door: OperationPriority) -> Result<Option<OwnedSemaphorePermit>> {
        if door == OperationPriority::Loops {
            return Ok(None);
        }
        let permit = timeout(FREE_WITHIN, Arc::clone(&self.requests).acquire_owned()).await;
        permit.map(|permit| permit.ok()).map_err(|_| self.to_store_error(PostgresError::Busy))
    }

    async fn connection(&self) -> Result<Db, PostgresError> {
        let client = self.pool.get().await?;
        Ok(Db { client, now: self.now(), schema: Arc::clone(&self.schema), open: AtomicBool::new(false) })
    }

    async fn carry_out<W: WriteTransaction>(&self, work: &W) -> Result<W::Done> {
        let since = Instant::now();
        // Set once an attempt was interrupted: from then on, something may have been written.
        let mut again = false;
        let mut clashes = 0;
        let mut pause = Duration::from_millis(20);
        loop {
            let fault = match self.attempt(work, again).await {
                Ok(done) => {
                    work.hint(&done).into_iter().for_each(|hint| self.wrote.put(hint));
                    self.state.succeeded();
                    return Ok(done);
                }
                Err(fault) => fault,
            };
            if fault.is_clash() && clashes < CLASHES {
                clashes += 1;
                continue;
            }
            again |= fault.is_lost();
            let may_come_back = fault.is_lost()
                || matches!(fault, PostgresError::Connect(_) | PostgresError::Unmade | PostgresError::Busy);
            if !again || !may_come_back || since.elapsed() > SETTLE_WITHIN {
                let reason = fault.stops_writes();
                let error = match self.to_store_error(fault) {
                    StoreError::Unavailable(why) if again => StoreError::Unavailable(format!(
                        "{why}; it is not known whether the last change was made"
                    )),
                    error => error,
                };
                if let Some(reason) = reason {
                    self.state.failed(reason, &error);
                }
                return Err(error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Executes one attempt. On failure the connection is closed, together with an open transaction.
    async fn attempt<W: WriteTransaction>(&self, work: &W, again: bool) -> Result<W::Done, PostgresError> {
        let db = self.connection().await?;
        let done = within(work.write(&db, again)).await;
        if done.is_err() || db.open.load(Ordering::Relaxed) {
            db.discard();
        }
        done
    }

    fn to_store_error(&self, fault: PostgresError) -> StoreError {
        fault.into_store_error(&self.place)
    }
}

async fn within<T>(work: impl Future<Output = Result<T, PostgresError>>) -> Result<T, PostgresError> {
    timeout(ANSWER_WITHIN, work).await.unwrap_or(Err(PostgresError::Silent))
}

impl Db {
    /// Returns the rows of a statement. It is prepared on its first use per connection.
    pub(super) async fn all(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, PostgresError> {
        let statement = self.client.prepare_cached(sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    /// Returns the first of the rows.
    pub(super) async fn first(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, PostgresError> {
        Ok(self.all(sql, params).await?.into_iter().next())
    }

    /// Returns how many rows a statement wrote.
    pub(super) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, PostgresError> {
        let statement = self.client.prepare_cached(sql).await?;
        Ok(self.client.execute(&statement, params).await?)
    }

    /// Begins a transaction under locks and runs a first query, all in one round trip.
    ///
    /// It waits until no other transaction has one of these locks, and keeps them until it ends. Everything
    /// that those transactions committed is visible from then on. At READ COMMITTED each statement sees
    /// what was committed before it began. This query begins after the locks are acquired, and a commit is
    /// visible before its locks are released.
    pub(super) async fn begin(
        &self,
        locks: Locks,
        look: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, PostgresError> {
        // Prepared before anything is sent, so that the three are sent in this order, which is that of
        // `join!`.
        let lock = self.client.prepare_cached(LOCK).await?;
        let look = self.client.prepare_cached(look).await?;
        self.open.store(true, Ordering::Relaxed);
        let params_of_lock: [Param<'_>; 1] = [&locks.0];
        let (begun, locked, rows) = join!(
            self.client.batch_execute("BEGIN"),
            self.client.query(&lock, &params_of_lock),
            self.client.query(&look, params),
        );
        begun?;
        locked?;
        Ok(rows?.into_iter().next())
    }

    /// Executes the last statement of a transaction and its commit, in one round trip, and returns the
    /// statement's rows. If the statement fails, nothing is committed.
    pub(super) async fn finish(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, PostgresError> {
        let statement = self.client.prepare_cached(sql).await?;
        let (rows, committed) =
            join!(self.client.query(&statement, params), self.client.batch_execute("COMMIT"));
        let rows = rows?;
        committed?;
        self.open.store(false, Ordering::Relaxed);
        Ok(rows)
    }

    /// Rolls back a transaction that wrote nothing.
    pub(super) async fn roll_back(&self) -> Result<(), PostgresError> {
        self.client.batch_execute("ROLLBACK").await?;
        self.open.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the name of the schema.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the locks for these names of a kind.
    pub(super) fn locks<'n>(&self, kind: &str, names: impl IntoIterator<Item = &'n str>) -> Locks {
        Locks::default().and(&self.schema, kind, names)
    }

    /// Adds the locks for more names.
    pub(super) fn more_locks<'n>(
        &self,
        locks: Locks,
        kind: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Locks {
        locks.and(&self.schema, kind, names)
    }

    /// Closes the connection instead of returning it to the pool.
    fn discard(self) {
        drop(Object::take(self.client));
    }
}
