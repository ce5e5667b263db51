//! The store in a schema of a PostgreSQL database. Any number of processes on any machines can use it at
//! once.
//!
//! - `connection_config`: the connection settings. `connect`: connections and their pool. `executor`:
//!   executes and retries reads and writes; `row_locks`: their order.
//! - `schema`: the schema by version. `row`: converts a row into a task; `column`: encodes text. `fault`:
//!   errors and their fixes.
//! - `tasks` with `insert`, `update` and `claim`, `queue`, `groups`, `history`, `notices`, `notes`,
//!   `sessions`, `tally`: the traits of [`crate::tasks::store`]. `audit`: lines of the audit log. `survey`:
//!   the operators' view.
//! - `hints`: sends hints about writes to other processes, and receives theirs. `import`: the import of
//!   another store.
//!
//! Everything runs at READ COMMITTED. Exactness between processes comes from one compare-and-set statement,
//! or from a lock that is taken before the dependent read; each place names which.

mod audit;
mod claim;
mod column;
mod connect;
mod connection_config;
mod executor;
mod fault;
mod groups;
mod hints;
mod history;
mod import;
mod insert;
mod notes;
mod notices;
mod queue;
mod row;
mod row_locks;
mod schema;
mod sessions;
mod survey;
mod tally;
mod tasks;
mod update;

pub use connection_config::{ConnectionConfig, ConnectionConfigError};
pub(in crate::store) use import::Target;
pub use schema::Migrated;

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use self::connect::Connector;
use self::executor::PostgresExecutor;
use self::fault::PostgresError;
use self::hints::HintQueue;
use crate::clock::Clock;
use crate::tasks::store::Result;

/// The time source of a store.
#[derive(Clone)]
pub enum StoreClock {
    /// The database: all processes agree, regardless of their own clocks.
    Database,
    /// A clock that a test controls.
    Given(Arc<dyn Clock>),
}

impl StoreClock {
    /// Returns the time in the unit of the columns, or `None` to use the database's.
    fn given(&self) -> Option<i64> {
        match self {
            StoreClock::Database => None,
            StoreClock::Given(clock) => Some(clock.now().as_millis()),
        }
    }
}

/// A store in a schema of a PostgreSQL database.
pub struct PostgresStore {
    desk: Arc<PostgresExecutor>,
    /// Hints about writes of other processes.
    heard: Arc<HintQueue>,
    hints: JoinHandle<()>,
}

impl PostgresStore {
    /// Connects, and migrates the schema unless the settings leave that to the operator.
    ///
    /// # Errors
    /// `Unavailable` if the database cannot be reached or refuses the connection; `Broken` if the schema
    /// belongs to another program or a newer version, or is out of date. The text names the fix.
    pub async fn open(place: ConnectionConfig, clock: StoreClock) -> Result<Self> {
        let connector = Connector::to(&place)?;
        prepare(&connector, &place).await.map_err(|fault| fault.into_store_error(&place))?;
        let pool = connector.pool(place.max_connections);
        let desk = Arc::new(PostgresExecutor::new(pool, place, clock));
        let heard = Arc::new(HintQueue::default());
        let hints = spawn(hints::run(Arc::clone(&desk), connector, Arc::clone(&heard)));
        Ok(Self { desk, heard, hints })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.hints.abort();
    }
}

/// Migrates the schema to the newest version.
///
/// # Errors
/// As [`PostgresStore::open`].
pub async fn migrate(place: &ConnectionConfig) -> Result<Migrated> {
    let connector = Connector::to(place)?;
    let migrated = async {
        let (mut client, _driver) = connector.client().await?;
        schema::inspect(&client).await?;
        schema::migrate(&mut client, &place.schema).await
    };
    migrated.await.map_err(|fault| fault.into_store_error(place))
}

/// Checks the server and the schema before the store is used.
async fn prepare(connector: &Connector, place: &ConnectionConfig) -> Result<(), PostgresError> {
    let (mut client, _driver) = connector.client().await?;
    schema::inspect(&client).await?;
    if place.migrates {
        let migrated = schema::migrate(&mut client, &place.schema).await?;
        if !migrated.made.is_empty() {
            tracing::info!(steps = ?migrated.made, "the database's schema was brought up to date");
        }
        return Ok(());
    }
    let version = schema::version(&client, &place.schema).await?;
    if version.is_current()? { Ok(()) } else { Err(schema::out_of_date(version)) }
}

/// Aborts its task when it is dropped.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connector {
    /// Opens one connection, which lives as long as its driver.
    async fn client(&self) -> Result<(Client, Driver), PostgresError> {
        let (client, connection) =
            self.config.connect(self.tls.clone()).await.map_err(PostgresError::Connect)?;
        let driver = spawn(async {
            // The user of the connection gets the error.
            let _ = connection.await;
        });
        Ok((client, Driver(driver)))
    }
}

/// Spawns a task: a write must complete even if its caller is dropped, and a connection must be driven.
/// This is the only function of this store that spawns.
#[expect(clippy::disallowed_methods, reason = "work here outlives the call that asked for it")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}
