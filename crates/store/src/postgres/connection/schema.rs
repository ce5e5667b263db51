//! The schema and its migrations. A migration runs in one transaction under a lock. So any number of
//! processes that start at once run it once, and a crash leaves the schema unchanged.
//!
//! Replicas of two versions share one schema during a rolling upgrade, so a migration only adds. In
//! addition to its version, the schema records the oldest program version that can still use it.

use tokio_postgres::Client;

use super::column;
use super::fault::PostgresError;

/// One step. A released step never changes; a new one is added at the end.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// The oldest program that can use the schema after this step, given by the newest step that it knows.
    oldest: i32,
}

/// The step in the file of this name.
macro_rules! migration {
    ($name:literal, oldest: $oldest:literal) => {
        Migration {
            name: $name,
            sql: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
            oldest: $oldest,
        }
    };
}

const MIGRATIONS: [Migration; 9] = [
    migration!("0001_tasks", oldest: 1),
    migration!("0002_history", oldest: 1),
    migration!("0003_notices", oldest: 1),
    migration!("0004_of_backend", oldest: 1),
    migration!("0005_followed_logs", oldest: 1),
    migration!("0006_audit", oldest: 1),
    migration!("0007_backends", oldest: 1),
    migration!("0008_bytes", oldest: 1),
    migration!("0009_deliveries", oldest: 1),
];

/// The schema version that this program writes: the number of migrations.
const CURRENT_VERSION: i32 = MIGRATIONS.len() as i32;

/// The oldest server version with the required SQL.
const OLDEST_SERVER: i32 = 130_000;

/// The version of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum Version {
    /// There is no schema, or it is empty.
    None,
    /// The number of applied steps; programs that know fewer than `oldest` cannot use the schema.
    Applied { steps: i32, oldest: i32 },
}

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The number of steps before the migration.
    pub before: i32,
    /// The number of steps after the migration.
    pub after: i32,
    /// The names of the steps that were applied.
    pub applied: Vec<&'static str>,
}

/// Returns the schema's version.
///
/// # Errors
/// If it contains tables of another program.
pub(in crate::postgres) async fn version(db: &Client, schema: &str) -> Result<Version, PostgresError> {
    let found = "SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                         WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')),
                        to_regclass($1 || '.taskbridge_schema') IS NOT NULL";
    let row = db.query_one(found, &[&schema]).await?;
    match (row.try_get::<_, i64>(0)?, row.try_get(1)?) {
        (_, true) => {}
        (0, false) => return Ok(Version::None),
        (_, false) => {
            return Err(PostgresError::Broken(format!(
                "the schema {schema} holds tables of another program: name another one with `schema` in [store]"
            )));
        }
    }
    let version = format!("SELECT steps, oldest FROM {schema}.taskbridge_schema");
    let row = db.query_one(&version, &[]).await?;
    Ok(Version::Applied { steps: row.try_get(0)?, oldest: row.try_get(1)? })
}

impl Version {
    /// Returns true if this program can use the schema without a migration.
    ///
    /// # Errors
    /// If only a newer program can use it.
    pub(in crate::postgres) fn is_current(self) -> Result<bool, PostgresError> {
        match self {
            Version::None => Ok(false),
            Version::Applied { steps, oldest } if oldest > CURRENT_VERSION => {
                Err(PostgresError::Broken(format!(
                    "its schema has version {steps}, which programs that know version {oldest} can use, and this one knows \
                 versions up to {CURRENT_VERSION}: a newer taskbridge has migrated it. Run that one, or a newer one, or name \
                 another `schema` in [store]"
                )))
            }
            Version::Applied { steps, .. } => Ok(steps >= CURRENT_VERSION),
        }
    }

    fn steps(self) -> i32 {
        match self {
            Version::None => 0,
            Version::Applied { steps, .. } => steps,
        }
    }
}

/// Returns the error for a schema that the operator must migrate.
pub(in crate::postgres) fn outdated_error(version: Version) -> PostgresError {
    PostgresError::Broken(format!(
        "its schema has version {}, and this program needs {CURRENT_VERSION}: run `taskbridge migrate` (with migrate = \"auto\" \
         in [store], the server does it by itself)",
        version.steps()
    ))
}

/// Migrates the schema to the newest version.
///
/// # Errors
/// As [`version`] and [`Version::is_current`], or if it cannot be written; it is then unchanged.
pub(in crate::postgres) async fn migrate(
    db: &mut Client,
    schema: &str,
) -> Result<MigrationReport, PostgresError> {
    // Most starts find nothing to do, and take no lock.
    let before = version(db, schema).await?;
    if before.is_current()? {
        return Ok(MigrationReport { before: before.steps(), after: before.steps(), applied: Vec::new() });
    }
    let tx = db.transaction().await?;
    tx.batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
        .await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&column::lock_id(schema, "schema", "")]).await?;
    // Read again under the lock: another process may have migrated in the meantime.
    let before = version(tx.client(), schema).await?;
    if before.is_current()? {
        return Ok(MigrationReport { before: before.steps(), after: before.steps(), applied: Vec::new() });
    }
    let exists = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    if !tx.query_one(exists, &[&schema]).await?.try_get::<_, bool>(0)? {
        tx.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    let mut applied = Vec::new();
    for step in MIGRATIONS.iter().skip(usize::try_from(before.steps()).unwrap_or(usize::MAX)) {
        tx.batch_execute(step.sql).await?;
        applied.push(step.name);
    }
    let oldest = MIGRATIONS.iter().map(|step| step.oldest).max().unwrap_or(CURRENT_VERSION);
    tx.batch_execute(
        "CREATE TABLE IF NOT EXISTS taskbridge_schema (
             single boolean PRIMARY KEY DEFAULT true CHECK (single), steps integer NOT NULL, oldest integer NOT NULL)",
    )
    .await?;
    let upsert = "INSERT INTO taskbridge_schema (steps, oldest) VALUES ($1, $2)
                 ON CONFLICT (single) DO UPDATE SET steps = $1, oldest = $2";
    tx.execute(upsert, &[&CURRENT_VERSION, &oldest]).await?;
    tx.commit().await?;
    Ok(MigrationReport { before: before.steps(), after: CURRENT_VERSION, applied })
}

/// Checks that tasks can be stored on this server, and warns about settings that can lose data.
///
/// # Errors
/// If the server is too old, or if its encoding cannot represent every text.
pub(in crate::postgres) async fn inspect(db: &Client) -> Result<(), PostgresError> {
    let settings = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                           current_setting('server_encoding'), current_setting('synchronous_commit'),
                           current_setting('fsync')";
    let row = db.query_one(settings, &[]).await?;
    let [version, encoding, commit, fsync]: [&str; 4] =
        [row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?];
    if row.try_get::<_, i32>(0)? < OLDEST_SERVER {
        return Err(PostgresError::Broken(format!("it is PostgreSQL {version}: 13 or newer is needed")));
    }
    if encoding != "UTF8" {
        return Err(PostgresError::Broken(format!(
            "its encoding is {encoding}, in which not every text can be kept: use a database that was made with \
             ENCODING 'UTF8'"
        )));
    }
    if commit == "off" || fsync == "off" {
        tracing::warn!(
            synchronous_commit = commit,
            fsync,
            "the database may forget the last tasks in a crash: switch both on"
        );
    }
    Ok(())
}
