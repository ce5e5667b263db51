//! One connection during one operation: executes its statements, and begins and ends its transactions under
//! advisory locks. It must not retry anything: the executor does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::Object;
use futures_util::join;
use tokio_postgres::{Row, Statement};

use super::column;
use super::fault::PostgresError;
use super::named::{self, NamedParam, Param, Params};

/// One connection during one operation.
pub(in crate::postgres) struct Db {
    client: Object,
    /// The current time, if it is not the database's own.
    pub(in crate::postgres) now: Option<i64>,
    schema: Arc<str>,
    /// True within a transaction of several statements.
    in_transaction: AtomicBool,
}

/// Advisory locks of a transaction. All transactions acquire locks in the same order, so that no two
/// deadlock.
#[derive(Default)]
pub(in crate::postgres) struct AdvisoryLocks(Vec<i64>);

impl AdvisoryLocks {
    fn with<'n>(mut self, schema: &str, kind: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.0.extend(names.into_iter().map(|name| column::lock_id(schema, kind, name)));
        self.0.sort_unstable();
        self.0.dedup();
        self
    }
}

/// Acquires locks in the order of the array.
const ACQUIRE_LOCKS: &str = "SELECT pg_advisory_xact_lock(name) FROM unnest(:locks::bigint[]) AS name";

impl Db {
    pub(super) fn new(client: Object, now: Option<i64>, schema: Arc<str>) -> Self {
        Self { client, now, schema, in_transaction: AtomicBool::new(false) }
    }

    /// Returns a statement, prepared on its first use per connection, and its parameters in their order.
    async fn prepare<'p>(
        &self,
        sql: &str,
        params: &[NamedParam<'p>],
    ) -> Result<(Statement, Vec<Param<'p>>), PostgresError> {
        let numbered = named::numbered(sql);
        let params = numbered.order(params)?;
        Ok((self.client.prepare_cached(&numbered.sql).await?, params))
    }

    /// Returns the rows of a statement.
    pub(in crate::postgres) async fn all(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let (statement, params) = self.prepare(sql, params).await?;
        Ok(self.client.query(&statement, &params).await?)
    }

    /// Returns the first of the rows.
    pub(in crate::postgres) async fn first(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, PostgresError> {
        Ok(self.all(sql, params).await?.into_iter().next())
    }

    /// Returns how many rows a statement wrote.
    pub(in crate::postgres) async fn execute(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<u64, PostgresError> {
        let (statement, params) = self.prepare(sql, params).await?;
        Ok(self.client.execute(&statement, &params).await?)
    }

    /// Begins a transaction under locks and runs a first query, all in one round trip.
    ///
    /// It waits until no other transaction has one of these locks, and keeps them until it ends. Everything
    /// that those transactions committed is visible from then on. At READ COMMITTED each statement sees
    /// what was committed before it began. This query begins after the locks are acquired, and a commit is
    /// visible before its locks are released.
    pub(in crate::postgres) async fn begin(
        &self,
        locks: AdvisoryLocks,
        check_sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, PostgresError> {
        // Prepared before anything is sent, so that the three are sent in this order, which is that of
        // `join!`.
        let (lock, lock_params) = self.prepare(ACQUIRE_LOCKS, &[(":locks", &locks.0)]).await?;
        let (check, check_params) = self.prepare(check_sql, params).await?;
        self.in_transaction.store(true, Ordering::Relaxed);
        let (begin_result, lock_result, rows) = join!(
            self.client.batch_execute("BEGIN"),
            self.client.query(&lock, &lock_params),
            self.client.query(&check, &check_params),
        );
        begin_result?;
        lock_result?;
        Ok(rows?.into_iter().next())
    }

    /// Executes the last statement of a transaction and its commit, in one round trip, and returns the
    /// statement's rows. If the statement fails, nothing is committed.
    pub(in crate::postgres) async fn finish(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let (statement, params) = self.prepare(sql, params).await?;
        let (rows, commit_result) =
            join!(self.client.query(&statement, &params), self.client.batch_execute("COMMIT"));
        let rows = rows?;
        commit_result?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(rows)
    }

    /// Rolls back a transaction that wrote nothing.
    pub(in crate::postgres) async fn roll_back(&self) -> Result<(), PostgresError> {
        self.client.batch_execute("ROLLBACK").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the locks for these names of a kind.
    pub(in crate::postgres) fn locks<'n>(
        &self,
        kind: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> AdvisoryLocks {
        AdvisoryLocks::default().with(&self.schema, kind, names)
    }

    /// Adds the locks for more names.
    pub(in crate::postgres) fn add_locks<'n>(
        &self,
        locks: AdvisoryLocks,
        kind: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> AdvisoryLocks {
        locks.with(&self.schema, kind, names)
    }

    /// Returns true within a transaction of several statements.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.in_transaction.load(Ordering::Relaxed)
    }

    /// Closes the connection instead of returning it to the pool.
    pub(super) fn discard(self) {
        drop(Object::take(self.client));
    }
}
