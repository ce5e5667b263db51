//! The store in a schema of a PostgreSQL database. Any number of processes on any machines can use it at
//! once.
//!
//! - `connection_config`: the connection settings. `connect`: connections and their pool. `executor`:
//!   executes and retries reads and writes; `row_locks`: their order; `named`: their parameters by name.
//! - `schema`: the schema by version. `row`: converts a row into a task; `column`: encodes text. `fault`:
//!   errors and their fixes.
//! - `tasks` with `insert`, `update` and `claim`, `queue`, `groups`, `history`, `notices`, `notes`,
//!   `tally`: the traits of [`taskbridge_core::tasks::store`]. `sessions`, `deliveries`: the traits of
//!   [`taskbridge_core::sessions`]. `audit`: lines of the audit log. `survey`: the operators' view.
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
mod deliveries;
mod executor;
mod fault;
mod groups;
mod hints;
mod history;
mod import;
mod insert;
mod named;
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
pub(crate) use import::Target;
pub use schema::MigrationReport;

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use self::connect::Connector;
use self::executor::PostgresExecutor;
use self::fault::PostgresError;
use self::hints::HintQueue;
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::Result;

/// The time source of a store.
#[derive(Clone)]
pub enum StoreClock {
    /// The database: all processes agree, regardless of their own clocks.
    Database,
    /// A clock that a test controls.
    Custom(Arc<dyn Clock>),
}

impl StoreClock {
    /// Returns the time in the unit of the columns, or `None` to use the database's.
    fn now_override(&self) -> Option<i64> {
        match self {
            StoreClock::Database => None,
            StoreClock::Custom(clock) => Some(clock.now().as_millis()),
        }
    }
}

/// A store in a schema of a PostgreSQL database.
pub struct PostgresStore {
    executor: Arc<PostgresExecutor>,
    /// Hints about writes of other processes.
    received_hints: Arc<HintQueue>,
    hint_task: JoinHandle<()>,
}

impl PostgresStore {
    /// Connects, and migrates the schema unless the settings leave that to the operator.
    ///
    /// # Errors
    /// `Unavailable` if the database cannot be reached or refuses the connection; `Broken` if the schema
    /// belongs to another program or a newer version, or is out of date. The text names the fix.
    pub async fn open(config: ConnectionConfig, clock: StoreClock) -> Result<Self> {
        let connector = Connector::new(&config)?;
        prepare(&connector, &config).await.map_err(|fault| fault.into_store_error(&config))?;
        let pool = connector.pool(config.max_connections);
        let executor = Arc::new(PostgresExecutor::new(pool, config, clock));
        let received_hints = Arc::new(HintQueue::default());
        let hint_task = spawn(hints::run(Arc::clone(&executor), connector, Arc::clone(&received_hints)));
        Ok(Self { executor, received_hints, hint_task })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.hint_task.abort();
    }
}

/// Migrates the schema to the newest version.
///
/// # Errors
/// As [`PostgresStore::open`].
pub async fn migrate(config: &ConnectionConfig) -> Result<MigrationReport> {
    let connector = Connector::new(config)?;
    let migration = async {
        let (mut client, _driver) = connector.client().await?;
        schema::inspect(&client).await?;
        schema::migrate(&mut client, &config.schema).await
    };
    migration.await.map_err(|fault| fault.into_store_error(config))
}

/// Checks the server and the schema before the store is used.
async fn prepare(connector: &Connector, config: &ConnectionConfig) -> Result<(), PostgresError> {
    let (mut client, _driver) = connector.client().await?;
    schema::inspect(&client).await?;
    if config.auto_migrate {
        let migration = schema::migrate(&mut client, &config.schema).await?;
        if !migration.applied.is_empty() {
            tracing::info!(steps = ?migration.applied, "the database's schema was brought up to date");
        }
        return Ok(());
    }
    let version = schema::version(&client, &config.schema).await?;
    if version.is_current()? { Ok(()) } else { Err(schema::outdated_error(version)) }
}

/// Aborts its task when it is dropped.
struct ConnectionDriver(JoinHandle<()>);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connector {
    /// Opens one connection, which lives as long as its driver.
    async fn client(&self) -> Result<(Client, ConnectionDriver), PostgresError> {
        let (client, connection) =
            self.config.connect(self.tls.clone()).await.map_err(PostgresError::Connect)?;
        let driver = spawn(async {
            // The user of the connection gets the error.
            let _ = connection.await;
        });
        Ok((client, ConnectionDriver(driver)))
    }
}

/// Spawns a task: a write must complete even if its caller is dropped, and a connection must be driven.
/// This is the only function of this store that spawns.
#[expect(clippy::disallowed_methods, reason = "work here outlives the call that asked for it")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}
