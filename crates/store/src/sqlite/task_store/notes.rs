//! The small traits over SQLite: [`Durations`], [`Keys`], [`Time`], [`Facts`] and [`Hints`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use taskbridge_sdk::Timestamp;

use crate::durations;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use crate::sqlite::{Mode, SqliteStore};
use taskbridge_core::tasks::pace::usual::UsualDuration;
use taskbridge_core::tasks::store::{Durations, Facts, Hint, Hints, Keys, Result, Time};

/// Poll interval for writes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[async_trait]
impl Durations for SqliteStore {
    async fn record_duration(&self, tool: &str, took: Duration) -> Result<()> {
        let tool = tool.to_owned();
        let took = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        self.write(move |db| record_duration(db, &tool, took)).await
    }

    async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>> {
        self.read(|db| {
            let stored: Option<String> =
                db.first("SELECT took FROM history WHERE tool = ?1", [tool], |row| row.get(0))?;
            let usual = stored.as_deref().map(durations::usual).transpose();
            Ok(usual.map_err(|error| invalid_durations(tool, &error))?.flatten())
        })
    }
}

fn invalid_durations(tool: &str, error: &serde_json::Error) -> SqliteError {
    SqliteError::Broken(format!("the history of {tool} cannot be understood ({error})"))
}

fn record_duration(db: &Db<'_>, tool: &str, took: i64) -> Result<(), SqliteError> {
    let sql = "SELECT took FROM history WHERE tool = ?1";
    let stored: Option<String> = db.first(sql, [tool], |row| row.get(0))?;
    let added = durations::add(stored.as_deref(), took);
    let (json, median) = added.map_err(|error| invalid_durations(tool, &error))?;
    let sql = "INSERT OR REPLACE INTO history (tool, took, median) VALUES (?1, ?2, ?3)";
    db.execute(sql, params![tool, json, median]).map(drop)
}

#[async_trait]
impl Keys for SqliteStore {
    async fn seal_key(&self, new_key: [u8; 32]) -> Result<[u8; 32]> {
        self.write(move |db| {
            db.execute("INSERT OR IGNORE INTO keys (name, value) VALUES ('seal', ?1)", [new_key])?;
            Ok(db.sql("SELECT value FROM keys WHERE name = 'seal'")?.query_row([], |row| row.get(0))?)
        })
        .await
    }
}

/// A file is used on one machine, whose clock all processes share.
#[async_trait]
impl Time for SqliteStore {
    async fn now(&self) -> Result<Timestamp> {
        self.read(|db| Ok(db.now))
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        self.write(move |db| {
            let latest = db.expiry_ms(longest);
            db.execute("UPDATE groups SET until = ?1 WHERE until > ?1", [latest])?;
            let sql = "UPDATE tasks SET lease_until = ?1 WHERE due_at IS NOT NULL AND lease_until > ?1";
            db.execute(sql, [latest])?;
            let sql = "UPDATE notices SET due_at = ?1 WHERE holder IS NOT NULL AND due_at > ?1";
            db.execute(sql, [latest])?;
            db.execute("UPDATE deliveries SET until = ?1 WHERE until > ?1", [latest]).map(drop)
        })
        .await
    }
}

#[async_trait]
impl Facts for SqliteStore {
    async fn fact(&self, name: &str) -> Result<Option<String>> {
        self.read(|db| db.first("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0)))
    }

    async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
        let (name, value) = (name.to_owned(), value.to_owned());
        let sql = "INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)";
        self.write(move |db| db.execute(sql, [&name, &value]).map(drop)).await
    }

    async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool> {
        let (name, before, value) = (name.to_owned(), before.map(str::to_owned), value.to_owned());
        self.write(move |db| {
            let changed = match &before {
                Some(before) => {
                    let sql = "UPDATE facts SET value = ?3 WHERE name = ?1 AND value = ?2";
                    db.execute(sql, [&name, before, &value])?
                }
                None => {
                    db.execute("INSERT OR IGNORE INTO facts (name, value) VALUES (?1, ?2)", [&name, &value])?
                }
            };
            Ok(changed == 1)
        })
        .await
    }

    fn write_failure(&self) -> Option<&'static str> {
        if self.writer.has_stopped() {
            Some("the writer thread has stopped")
        } else {
            self.write_state.failure()
        }
    }
}

#[async_trait]
impl Hints for SqliteStore {
    async fn changed_elsewhere(&self) -> Vec<Hint> {
        // A simulation creates hints itself.
        if self.mode == Mode::Inline {
            return std::future::pending().await;
        }
        loop {
            // The delay comes first, so that a busy neighbour does not make this process busy as well.
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.others_wrote().await.unwrap_or(false) {
                return vec![Hint::Anything];
            }
        }
    }
}

impl SqliteStore {
    /// Returns true if another process has written since the last call. It is a hint: of two concurrent
    /// calls, only one may get it.
    pub(in crate::sqlite) async fn others_wrote(&self) -> Result<bool> {
        let version = self.write(|db| Ok(data_version(db.conn)?)).await?;
        Ok(self.last_data_version.swap(version, Ordering::Relaxed) != version)
    }
}

/// Returns a number that changes when another connection has written to the file. On the only writing
/// connection of this process, that is another process.
pub(in crate::sqlite) fn data_version(db: &rusqlite::Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "data_version", |row| row.get(0))
}
