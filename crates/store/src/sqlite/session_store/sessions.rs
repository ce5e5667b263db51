//! [`Sessions`] over SQLite: the few settings of a session. A row without settings means that the session
//! has ended.

use async_trait::async_trait;
use rusqlite::params;
use taskbridge_sdk::Timestamp;

use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::sessions::{SessionChange, SessionSettings, Sessions};
use taskbridge_core::tasks::store::Result;

#[async_trait]
impl Sessions for SqliteStore {
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()> {
        let nonce = nonce.to_owned();
        let sql = "INSERT OR REPLACE INTO sessions (nonce, forget_after) VALUES (?1, ?2)";
        self.write(move |db| db.execute(sql, params![nonce, forget_after.as_millis()]).map(drop)).await
    }

    async fn has_ended(&self, nonce: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM sessions WHERE nonce = ?1 AND settings IS NULL";
        self.read(|db| db.exists(sql, [nonce]))
    }

    async fn settings(&self, nonce: &str) -> Result<Option<SessionSettings>> {
        self.read(|db| Ok(settings(db, nonce)?.unwrap_or_else(|| Some(SessionSettings::default()))))
    }

    async fn set(
        &self,
        nonce: &str,
        change: SessionChange,
        forget_after: Timestamp,
    ) -> Result<Option<SessionSettings>> {
        let nonce = nonce.to_owned();
        self.write(move |db| {
            let before = match settings(db, &nonce)? {
                // An ended session is not restarted.
                Some(None) => return Ok(None),
                before => before.flatten().unwrap_or_default(),
            };
            let Some(after) = before.with(&change) else { return Ok(None) };
            let json =
                serde_json::to_string(&after).map_err(|error| SqliteError::Broken(error.to_string()))?;
            let sql = "INSERT OR REPLACE INTO sessions (nonce, forget_after, settings) VALUES (?1, ?2, ?3)";
            db.execute(sql, params![nonce, forget_after.as_millis(), json])?;
            Ok(Some(after))
        })
        .await
    }
}

/// Returns the settings of a session: outer `None` if it has no row, inner `None` if it has ended.
fn settings(db: &Db<'_>, nonce: &str) -> Result<Option<Option<SessionSettings>>, SqliteError> {
    let sql = "SELECT settings FROM sessions WHERE nonce = ?1";
    let row: Option<Option<String>> = db.first(sql, [nonce], |row| row.get(0))?;
    let Some(Some(json)) = row else { return Ok(row.map(|_| None)) };
    let settings = taskbridge_sdk::from_json(json.as_bytes()).map_err(|error| {
        SqliteError::Unreadable(format!("what a session has set cannot be understood ({error})"))
    })?;
    Ok(Some(Some(settings)))
}
