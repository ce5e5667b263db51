//! The small traits over PostgreSQL: [`Durations`], [`Keys`], [`Time`] and [`Facts`].

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use super::tasks::millis;
use crate::durations;
use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::{named_params, owned_params};
use taskbridge_core::tasks::pace::usual::UsualDuration;
use taskbridge_core::tasks::store::{Durations, Facts, Keys, Result, Time};

#[async_trait]
impl Durations for PostgresStore {
    async fn record_duration(&self, tool: &str, took: Duration) -> Result<()> {
        let took = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        self.executor
            .write(OperationPriority::Loops, None, RecordDuration { tool: tool.to_owned(), took })
            .await
    }

    async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>> {
        let sql = "SELECT took FROM history WHERE tool = :tool";
        let key = column::encode_key(tool);
        let usual = |rows: &[Row]| {
            let stored: Option<&str> = rows.first().map(|row| row.try_get(0)).transpose()?;
            let usual = stored.map(durations::usual).transpose();
            Ok(usual.map_err(|error| invalid_durations(tool, &error))?.flatten())
        };
        self.executor.query(OperationPriority::Request, sql, &[(":tool", &key)], usual).await
    }
}

fn invalid_durations(tool: &str, error: &serde_json::Error) -> PostgresError {
    PostgresError::Broken(format!("the history of {tool} cannot be understood ({error})"))
}

struct RecordDuration {
    tool: String,
    took: i64,
}

/// Known durations are read under the tool's lock, so that no concurrent one is lost.
#[async_trait]
impl WriteTransaction for RecordDuration {
    type Output = ();

    async fn write(&self, db: &Db, _again: bool) -> Result<(), PostgresError> {
        let tool = column::encode_key(&self.tool);
        let locks = db.locks("history", [self.tool.as_str()]);
        let sql = "SELECT took FROM history WHERE tool = :tool";
        let stored_row = db.begin(locks, sql, &[(":tool", &tool)]).await?;
        let stored: Option<String> = stored_row.map(|row| row.try_get(0)).transpose()?;
        let added = durations::add(stored.as_deref(), self.took);
        let (took, median) = added.map_err(|error| invalid_durations(&self.tool, &error))?;
        let sql = "INSERT INTO history (tool, took, median) VALUES (:tool, :took, :median)
                   ON CONFLICT (tool) DO UPDATE SET took = excluded.took, median = excluded.median";
        db.finish(sql, named_params! { ":tool": tool, ":took": took, ":median": median }).await?;
        Ok(())
    }
}

#[async_trait]
impl Keys for PostgresStore {
    async fn seal_key(&self, new_key: [u8; 32]) -> Result<[u8; 32]> {
        self.executor.write(OperationPriority::Loops, None, SealKey(new_key)).await
    }
}

struct SealKey([u8; 32]);

/// If two processes propose a key, the second waits for the first and keeps its key; the second statement
/// reads it.
#[async_trait]
impl WriteTransaction for SealKey {
    type Output = [u8; 32];

    async fn write(&self, db: &Db, _again: bool) -> Result<[u8; 32], PostgresError> {
        let sql = "INSERT INTO keys (name, value) VALUES ('seal', :key) ON CONFLICT DO NOTHING";
        db.execute(sql, &[(":key", &self.0.as_slice())]).await?;
        let row = db.first("SELECT value FROM keys WHERE name = 'seal'", &[]).await?;
        let key = row.map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()?;
        key.and_then(|key| key.try_into().ok())
            .ok_or_else(|| PostgresError::Broken("the key in its table `keys` has not 32 bytes".to_owned()))
    }
}

#[async_trait]
impl Time for PostgresStore {
    async fn now(&self) -> Result<Timestamp> {
        let now = |rows: &[Row]| {
            let row = rows.first();
            let row =
                row.ok_or_else(|| PostgresError::Broken("the database answered with nothing".to_owned()))?;
            Ok(Timestamp::from_millis(row.try_get(0)?))
        };
        let params = named_params! { ":now": self.executor.now() };
        self.executor.query(OperationPriority::Loops, "SELECT moment(:now)", params, now).await
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        let sql = "WITH latest AS (SELECT moment(:now) + :longest::bigint AS at),
                        of_groups AS (UPDATE groups SET until = latest.at FROM latest WHERE until > latest.at),
                        of_deliveries AS (UPDATE deliveries SET until = latest.at FROM latest
                                          WHERE until > latest.at),
                        of_notices AS (UPDATE notices SET due_at = latest.at FROM latest
                                       WHERE holder IS NOT NULL AND due_at > latest.at)
                   UPDATE tasks SET lease_until = latest.at FROM latest
                   WHERE tasks.due_at IS NOT NULL AND lease_until > latest.at";
        let params = owned_params! { ":now": self.executor.now(), ":longest": millis(longest) };
        self.executor.execute(sql, params).await.map(drop)
    }
}

#[async_trait]
impl Facts for PostgresStore {
    async fn fact(&self, name: &str) -> Result<Option<String>> {
        let sql = "SELECT value FROM facts WHERE name = :name";
        let value = |rows: &[Row]| Ok(rows.first().map(|row| row.try_get(0)).transpose()?);
        self.executor.query(OperationPriority::Loops, sql, &[(":name", &name)], value).await
    }

    async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO facts (name, value) VALUES (:name, :value)
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        let params = owned_params! { ":name": name.to_owned(), ":value": value.to_owned() };
        self.executor.execute(sql, params).await.map(drop)
    }

    async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool> {
        let (name, before, value) = (name.to_owned(), before.map(str::to_owned), value.to_owned());
        self.executor.write(OperationPriority::Loops, None, ReplaceFact { name, before, value }).await
    }

    fn write_failure(&self) -> Option<&'static str> {
        self.executor.write_state.failure()
    }
}

struct ReplaceFact {
    name: String,
    before: Option<String>,
    value: String,
}

#[async_trait]
impl WriteTransaction for ReplaceFact {
    type Output = bool;

    /// On a retry, its own value may already be stored.
    async fn write(&self, db: &Db, again: bool) -> Result<bool, PostgresError> {
        let Self { name, before, value } = self;
        let changed = match before {
            Some(before) => {
                let sql = "UPDATE facts SET value = :value
                           WHERE name = :name AND (value = :before OR (:again AND value = :value))";
                let params = named_params! {
                    ":name": name, ":before": before, ":value": value, ":again": again,
                };
                db.execute(sql, params).await?
            }
            None => {
                let sql = "INSERT INTO facts (name, value) VALUES (:name, :value)
                           ON CONFLICT (name) DO UPDATE SET value = excluded.value
                               WHERE :again AND facts.value = excluded.value";
                db.execute(sql, named_params! { ":name": name, ":value": value, ":again": again }).await?
            }
        };
        Ok(changed == 1)
    }
}
