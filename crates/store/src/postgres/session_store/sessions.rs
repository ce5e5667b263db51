//! [`Sessions`] over PostgreSQL. A row without settings means that the session has ended. Both writes take
//! the session's lock. So a setting is applied to the value that was read, and an ended session stays
//! ended.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use taskbridge_core::sessions::{SessionChange, SessionSettings, Sessions};
use taskbridge_core::tasks::store::{Hint, Result};

#[async_trait]
impl Sessions for PostgresStore {
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()> {
        let end = EndSession { nonce: nonce.to_owned(), forget_after: forget_after.as_millis() };
        self.executor.write(OperationPriority::Request, None, end).await
    }

    async fn has_ended(&self, nonce: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM sessions WHERE nonce = :nonce AND settings IS NULL";
        let nonce = column::encode_key(nonce);
        Ok(!self.executor.read(OperationPriority::Request, sql, &[(":nonce", &nonce)]).await?.is_empty())
    }

    async fn settings(&self, nonce: &str) -> Result<Option<SessionSettings>> {
        let nonce = column::encode_key(nonce);
        let stored = |rows: &[Row]| settings(rows.first());
        let stored =
            self.executor.query(OperationPriority::Request, READ, &[(":nonce", &nonce)], stored).await?;
        Ok(stored.unwrap_or_else(|| Some(SessionSettings::default())))
    }

    async fn set(
        &self,
        nonce: &str,
        change: SessionChange,
        forget_after: Timestamp,
    ) -> Result<Option<SessionSettings>> {
        let set = ChangeSession { nonce: nonce.to_owned(), change, forget_after: forget_after.as_millis() };
        self.executor.write(OperationPriority::Request, None, set).await
    }
}

const READ: &str = "SELECT settings FROM sessions WHERE nonce = :nonce";

const WRITE: &str = "
    INSERT INTO sessions (nonce, forget_after, settings) VALUES (:nonce, :forget_after, :settings)
    ON CONFLICT (nonce) DO UPDATE SET forget_after = excluded.forget_after, settings = excluded.settings";

struct EndSession {
    nonce: String,
    forget_after: i64,
}

#[async_trait]
impl WriteTransaction for EndSession {
    type Output = ();

    async fn write(&self, db: &Db, _again: bool) -> Result<(), PostgresError> {
        let nonce = column::encode_key(&self.nonce);
        db.begin(db.locks("session", [self.nonce.as_str()]), READ, &[(":nonce", &nonce)]).await?;
        let params = named_params! {
            ":nonce": nonce, ":forget_after": self.forget_after, ":settings": None::<String>,
        };
        db.finish(WRITE, params).await?;
        Ok(())
    }

    fn hint(&self, (): &()) -> Option<Hint> {
        Some(Hint::Channel(self.nonce.clone()))
    }
}

struct ChangeSession {
    nonce: String,
    change: SessionChange,
    forget_after: i64,
}

#[async_trait]
impl WriteTransaction for ChangeSession {
    type Output = Option<SessionSettings>;

    async fn write(&self, db: &Db, _again: bool) -> Result<Option<SessionSettings>, PostgresError> {
        let nonce = column::encode_key(&self.nonce);
        let row = db.begin(db.locks("session", [self.nonce.as_str()]), READ, &[(":nonce", &nonce)]).await?;
        let after = match settings(row.as_ref())? {
            // An ended session is not restarted.
            Some(None) => None,
            before => before.flatten().unwrap_or_default().with(&self.change),
        };
        let Some(after) = after else {
            db.roll_back().await?;
            return Ok(None);
        };
        let json = serde_json::to_string(&after).map_err(|error| PostgresError::Broken(error.to_string()))?;
        let params = named_params! {
            ":nonce": nonce, ":forget_after": self.forget_after, ":settings": json,
        };
        db.finish(WRITE, params).await?;
        Ok(Some(after))
    }

    fn hint(&self, set: &Option<SessionSettings>) -> Option<Hint> {
        set.as_ref().map(|_| Hint::Channel(self.nonce.clone()))
    }
}

/// Returns the settings of a session: outer `None` if it has no row, inner `None` if it has ended.
fn settings(row: Option<&Row>) -> Result<Option<Option<SessionSettings>>, PostgresError> {
    let Some(row) = row else { return Ok(None) };
    let Some(json) = row.try_get::<_, Option<&str>>(0)? else { return Ok(Some(None)) };
    let settings = taskbridge_sdk::from_json(json.as_bytes()).map_err(|error| {
        PostgresError::Unreadable(format!("what a session has set cannot be understood ({error})"))
    })?;
    Ok(Some(Some(settings)))
}
