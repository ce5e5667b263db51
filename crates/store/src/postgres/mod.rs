//! The store in a schema of a PostgreSQL database. Any number of processes on any machines can use it at
//! once.
//!
//! - `connection`: the settings, the connections, the schema, and how statements reach it.
//! - `task_store`: the traits of [`taskbridge_core::tasks::store`].
//! - `session_store`: the traits of [`taskbridge_core::sessions`].
//! - `operators`: the audit log, the operators' view, and the import.
//!
//! The three use `connection`, and `operators` also uses `task_store`. There are no other uses among them.
//!
//! Everything runs at READ COMMITTED. Exactness between processes comes from one compare-and-set statement,
//! or from a lock that is taken before the dependent read; each place names which.

mod connection;
mod operators;
mod session_store;
mod task_store;

pub use self::connection::connection_config::{ConnectionConfig, ConnectionConfigError};
pub use self::connection::schema::MigrationReport;
pub(crate) use self::operators::import::Target;

use std::sync::Arc;

use tokio::task::JoinHandle;

use self::connection::connect::Connector;
use self::connection::executor::PostgresExecutor;
use self::connection::fault::PostgresError;
use self::connection::hints::{self, HintQueue};
use self::connection::schema;
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

/// Spawns a task: a write must complete even if its caller is dropped, and a connection must be driven.
/// This is the only function of this store that spawns.
#[expect(clippy::disallowed_methods, reason = "work here outlives the call that asked for it")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}
