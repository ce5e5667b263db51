//! The store in a schema of a PostgreSQL database. Any number of processes on any machines can use it at once.
//!
//! - `place`: what the config says of it. `connect`: connections and their pool. `desk`: how reads and writes are made,
//!   and made again; `turns`: in which order.
//! - `schema`: what is in the database, by version. `row`: how a row becomes a task; `column`: how text is kept.
//! - `tasks` with `insert` and `update`, `queue`, `groups`, `history`, `notices`, `notes`, `sessions`: the traits of
//!   [`crate::tasks::store`].
//! - `hints`: what other processes wrote. `import`: what another store held.
//!
//! Everything runs at READ COMMITTED. What must be exact between processes is so by one statement that compares and
//! sets, or by a lock that is taken before the look that it depends on; each place says by which.

mod audit;
mod claim;
mod column;
mod connect;
mod desk;
mod fault;
mod groups;
mod hints;
mod history;
mod import;
mod insert;
mod notes;
mod notices;
mod place;
mod queue;
mod row;
mod schema;
mod sessions;
mod survey;
mod tally;
mod tasks;
mod turns;
mod update;

pub(in crate::store) use import::Target;
pub use place::{Place, Wrong};
pub use schema::Migrated;

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use self::connect::Connector;
use self::desk::Desk;
use self::fault::Fault;
use self::hints::Mail;
use crate::clock::Clock;
use crate::tasks::store::Result;

/// What a store takes the time from.
#[derive(Clone)]
pub enum StoreClock {
    /// The database: all processes over it agree, whatever their own clocks say.
    Database,
    /// A clock that a test moves.
    Given(Arc<dyn Clock>),
}

impl StoreClock {
    /// The time in the unit of the columns, unless the database has it.
    fn given(&self) -> Option<i64> {
        match self {
            StoreClock::Database => None,
            StoreClock::Given(clock) => Some(clock.now().as_millis()),
        }
    }
}

/// A store in a schema of a PostgreSQL database.
pub struct PostgresStore {
    desk: Arc<Desk>,
    /// What other processes wrote.
    heard: Arc<Mail>,
    hints: JoinHandle<()>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date unless the place says that somebody does that by hand.
    ///
    /// # Errors
    /// `Unavailable` if the database cannot be reached or does not let us in; `Broken` if the schema is another
    /// program's, a newer version's, or out of date. The text says what to do.
    pub async fn open(place: Place, clock: StoreClock) -> Result<Self> {
        let connector = Connector::to(&place)?;
        prepare(&connector, &place).await.map_err(|fault| fault.at(&place))?;
        let pool = connector.pool(place.max_connections);
        let desk = Arc::new(Desk::new(pool, place, clock));
        let heard = Arc::new(Mail::default());
        let hints = spawn(hints::run(Arc::clone(&desk), connector, Arc::clone(&heard)));
        Ok(Self { desk, heard, hints })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.hints.abort();
    }
}

/// Brings the schema of a place up to date.
///
/// # Errors
/// As [`PostgresStore::open`].
pub async fn migrate(place: &Place) -> Result<Migrated> {
    let connector = Connector::to(place)?;
    let migrated = async {
        let (mut client, _driver) = connector.client().await?;
        schema::inspect(&client).await?;
        schema::migrate(&mut client, &place.schema).await
    };
    migrated.await.map_err(|fault| fault.at(place))
}

/// Looks at the server and the schema before the store is used.
async fn prepare(connector: &Connector, place: &Place) -> Result<(), Fault> {
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

/// Ends what it was made for when it goes away.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connector {
    /// One connection, for as long as its driver is kept.
    async fn client(&self) -> Result<(Client, Driver), Fault> {
        let (client, connection) = self.config.connect(self.tls.clone()).await.map_err(Fault::Connect)?;
        let driver = spawn(async {
            // What breaks the connection is told to whoever uses it.
            let _ = connection.await;
        });
        Ok((client, Driver(driver)))
    }
}

/// A write must be done as a whole although whoever asked for it goes away, and a connection must be driven: the one
/// place of this store that spawns.
#[expect(clippy::disallowed_methods, reason = "work here outlives the call that asked for it")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}
