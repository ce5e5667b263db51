//! Executes reads and writes on pooled connections, and retries them after conflicts and network errors.
//!
//! - A read is one statement. It may be dropped at any point, and is retried if its connection was stale.
//! - A write is one transaction in a task of its own, so that it completes or fails as a whole even if its
//!   caller is dropped. Writes to one row run in the order in which they were started ([`RowLocks`]). If the
//!   connection breaks, it is unknown whether the write was committed. It is retried then, for up to
//!   [`RETRY_TIMEOUT`]. Writes whose repetition would do harm detect that they are already done. Others
//!   accept it: a claim leases other rows, and a duration is recorded twice.
//! - Requests never use the last connections: those are reserved for the loops, which would otherwise
//!   block behind many clients.
//!
//! It must not know what a transaction does, or which locks it takes: see [`Db`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;

use super::connect::ACQUIRE_TIMEOUT;
use super::connection_config::{ConnectionConfig, STATEMENT_TIMEOUT};
use super::db::Db;
use super::fault::PostgresError;
use super::hints::HintQueue;
use super::named::{NamedParam, OwnedParams, Param, Params};
use super::row_locks::RowLocks;
use crate::postgres::{self, StoreClock};
use crate::write_state::WriteState;
use taskbridge_core::tasks::store::{Hint, Result, StoreError};

/// Maximum number of retries of a write after conflicts with other transactions.
const MAX_CONFLICT_RETRIES: u32 = 20;

/// How long a write with an unknown outcome is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Delays before the retries of a read whose connection was unusable. All pooled connections may be stale
/// at once.
const READ_RETRY_DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(50), Duration::from_millis(100)];

/// Timeout of a read, or of one attempt of a write, after which the connection is closed. The server's
/// statement timeout is shorter.
const RESPONSE_TIMEOUT: Duration = STATEMENT_TIMEOUT.saturating_add(Duration::from_secs(5));

/// Returns the number of connections that are reserved for the loops.
fn reserved_connections(connections: usize) -> usize {
    (connections / 4).clamp(1, 4)
}

/// The priority class of a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum OperationPriority {
    /// A client's request: their number is unlimited.
    Request,
    /// The loops that act on tasks, or a change of a row; few of them run at once.
    Loops,
}

/// The connection pool, and the state shared by all reads and writes.
pub(in crate::postgres) struct PostgresExecutor {
    pool: Pool,
    request_permits: Arc<Semaphore>,
    row_locks: RowLocks,
    clock: StoreClock,
    schema: Arc<str>,
    pub(in crate::postgres) config: ConnectionConfig,
    /// Hints about writes, to be sent to other replicas.
    pub(super) outgoing_hints: HintQueue,
    /// The outcome of the last writes.
    pub(in crate::postgres) write_state: WriteState,
}

/// One write transaction.
#[async_trait]
pub(in crate::postgres) trait WriteTransaction: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Executes the whole transaction. `again` is true if an earlier attempt has an unknown outcome.
    async fn write(&self, db: &Db, again: bool) -> Result<Self::Output, PostgresError>;

    /// Returns the hint for other replicas.
    fn hint(&self, _done: &Self::Output) -> Option<Hint> {
        None
    }
}

/// A write of one statement.
struct StatementWrite {
    sql: &'static str,
    params: OwnedParams,
}

#[async_trait]
impl WriteTransaction for StatementWrite {
    type Output = usize;

    async fn write(&self, db: &Db, _again: bool) -> Result<usize, PostgresError> {
        let params: Vec<NamedParam<'_>> =
            self.params.iter().map(|(name, value)| (*name, &**value as Param<'_>)).collect();
        let written = db.execute(self.sql, &params).await?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}

impl PostgresExecutor {
    pub(in crate::postgres) fn new(pool: Pool, config: ConnectionConfig, clock: StoreClock) -> Self {
        let request_limit = config.max_connections - reserved_connections(config.max_connections);
        let request_permits = Arc::new(Semaphore::new(request_limit));
        let schema = Arc::from(config.schema.as_str());
        let (row_locks, outgoing_hints, write_state) =
            (RowLocks::new(), HintQueue::default(), WriteState::default());
        Self { pool, request_permits, row_locks, clock, schema, config, outgoing_hints, write_state }
    }

    /// Returns the rows of one read-only statement.
    pub(in crate::postgres) async fn read(
        &self,
        priority: OperationPriority,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let _permit = self.acquire_permit(priority).await?;
        for pause in READ_RETRY_DELAYS {
            match self.read_once(sql, params).await {
                Err(fault)
                    if fault.is_connection_lost() && !matches!(fault, PostgresError::ResponseTimeout) =>
                {
                    sleep(pause).await
                }
                result => return result.map_err(|fault| self.to_store_error(fault)),
            }
        }
        self.read_once(sql, params).await.map_err(|fault| self.to_store_error(fault))
    }

    /// Returns what `parse` makes of the rows of one read-only statement.
    pub(in crate::postgres) async fn query<T>(
        &self,
        priority: OperationPriority,
        sql: &str,
        params: Params<'_>,
        parse: impl FnOnce(&[Row]) -> Result<T, PostgresError>,
    ) -> Result<T> {
        let rows = self.read(priority, sql, params).await?;
        parse(&rows).map_err(|fault| self.to_store_error(fault))
    }

    async fn read_once(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, PostgresError> {
        let db = self.connection().await?;
        let rows = with_timeout(db.all(sql, params)).await;
        if rows.as_ref().is_err_and(PostgresError::is_connection_lost) {
            db.discard();
        }
        rows
    }

    /// Returns the current time for statements, the parameter of `moment`: `None` is the database's own.
    pub(in crate::postgres) fn now(&self) -> Option<i64> {
        self.clock.now_override()
    }

    /// Executes a write. A write of one row waits for earlier writes of that row by this process.
    pub(in crate::postgres) async fn write<W: WriteTransaction>(
        self: &Arc<Self>,
        priority: OperationPriority,
        row: Option<&str>,
        transaction: W,
    ) -> Result<W::Output> {
        // In this order, so that a request that waits for a connection never blocks a row for the loops.
        let permit = self.acquire_permit(priority).await?;
        let row_lock = match row {
            Some(row) => Some(self.row_locks.lock(row).await),
            None => None,
        };
        let executor = Arc::clone(self);
        let handle = postgres::spawn(async move {
            let result = executor.run_with_retries(&transaction).await;
            drop((permit, row_lock));
            result
        });
        handle.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable("the server is stopping: a write was given up".to_owned()))
        })
    }

    /// Executes one statement as a write of the loops. Returns how many rows it wrote.
    pub(in crate::postgres) async fn execute(
        self: &Arc<Self>,
        sql: &'static str,
        params: OwnedParams,
    ) -> Result<usize> {
        self.write(OperationPriority::Loops, None, StatementWrite { sql, params }).await
    }

    async fn acquire_permit(&self, priority: OperationPriority) -> Result<Option<OwnedSemaphorePermit>> {
        if priority == OperationPriority::Loops {
            return Ok(None);
        }
        let permit = timeout(ACQUIRE_TIMEOUT, Arc::clone(&self.request_permits).acquire_owned()).await;
        permit.map(|permit| permit.ok()).map_err(|_| self.to_store_error(PostgresError::Busy))
    }

    async fn connection(&self) -> Result<Db, PostgresError> {
        let client = self.pool.get().await?;
        Ok(Db::new(client, self.now(), Arc::clone(&self.schema)))
    }

    async fn run_with_retries<W: WriteTransaction>(&self, transaction: &W) -> Result<W::Output> {
        let since = Instant::now();
        // Set once an attempt was interrupted: from then on, something may have been written.
        let mut again = false;
        let mut conflicts = 0;
        let mut pause = Duration::from_millis(20);
        loop {
            let fault = match self.attempt(transaction, again).await {
                Ok(output) => {
                    transaction.hint(&output).into_iter().for_each(|hint| self.outgoing_hints.push(hint));
                    self.write_state.record_success();
                    return Ok(output);
                }
                Err(fault) => fault,
            };
            if fault.is_conflict() && conflicts < MAX_CONFLICT_RETRIES {
                conflicts += 1;
                continue;
            }
            again |= fault.is_connection_lost();
            let is_retryable = fault.is_connection_lost()
                || matches!(
                    fault,
                    PostgresError::Connect(_) | PostgresError::ConnectTimeout | PostgresError::Busy
                );
            if !again || !is_retryable || since.elapsed() > RETRY_TIMEOUT {
                let reason = fault.outage_reason();
                let error = match self.to_store_error(fault) {
                    StoreError::Unavailable(why) if again => StoreError::Unavailable(format!(
                        "{why}; it is not known whether the last change was made"
                    )),
                    error => error,
                };
                if let Some(reason) = reason {
                    self.write_state.record_failure(reason, &error);
                }
                return Err(error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Executes one attempt. On failure the connection is closed, together with an open transaction.
    async fn attempt<W: WriteTransaction>(
        &self,
        transaction: &W,
        again: bool,
    ) -> Result<W::Output, PostgresError> {
        let db = self.connection().await?;
        let result = with_timeout(transaction.write(&db, again)).await;
        if result.is_err() || db.is_in_transaction() {
            db.discard();
        }
        result
    }

    fn to_store_error(&self, fault: PostgresError) -> StoreError {
        fault.into_store_error(&self.config)
    }
}

async fn with_timeout<T>(
    operation: impl Future<Output = Result<T, PostgresError>>,
) -> Result<T, PostgresError> {
    timeout(RESPONSE_TIMEOUT, operation).await.unwrap_or(Err(PostgresError::ResponseTimeout))
}
