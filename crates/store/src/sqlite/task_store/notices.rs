//! [`Notices`] over SQLite. A notice has no lease of its own: while it is leased, its due time is the end of
//! the lease.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{named_params, params};
use taskbridge_sdk::Timestamp;

use super::row;
use crate::row::{NoticeRow, notice};
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::notices::Notice;
use taskbridge_core::tasks::store::{Holder, LeasedNotice, Notices, ReceiverFilter, Result};

#[async_trait]
impl Notices for SqliteStore {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedNotice>> {
        // An idle tick only reads.
        let sql = "SELECT 1 FROM notices WHERE receiver = ?1 AND due_at <= ?2 LIMIT 1";
        if !self.read(|db| db.exists(sql, params![receiver, db.now_ms()]))? {
            return Ok(Vec::new());
        }
        let (receiver, holder) = (receiver.to_owned(), holder.clone());
        self.write(move |db| lease_notices(db, &receiver, &holder, lease, limit)).await
    }

    async fn ack_notice(&self, notice: &Notice) -> Result<()> {
        let Notice { id, receiver, .. } = notice.clone();
        let sql = "DELETE FROM notices WHERE id = ?1 AND receiver = ?2";
        self.write(move |db| db.execute(sql, [&id, &receiver]).map(drop)).await
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        let (Notice { id, receiver, .. }, holder) = (notice.clone(), holder.clone());
        self.write(move |db| {
            let due = db.expiry_ms(pause);
            let mut statement = db.sql(
                "UPDATE notices SET due_at = :due, holder = NULL
                 WHERE id = :id AND receiver = :receiver AND holder = :holder",
            )?;
            let params = named_params! {
                ":id": id, ":receiver": receiver, ":holder": holder.0, ":due": due,
            };
            row::execute(&mut statement, params)?;
            Ok(())
        })
        .await
    }

    async fn delete_notices(&self, which: ReceiverFilter<'_>, before: Timestamp) -> Result<usize> {
        let (names, only_named) = match which {
            ReceiverFilter::Only(name) => (vec![name.to_owned()], true),
            ReceiverFilter::AllExcept(names) => (names.to_vec(), false),
        };
        let names = serde_json::Value::from(names).to_string();
        let before = before.as_millis();
        let sql = "SELECT 1 FROM notices
                   WHERE since < ?1 AND (receiver IN (SELECT value FROM json_each(?2))) = ?3 LIMIT 1";
        if !self.read(|db| db.exists(sql, params![before, names, only_named]))? {
            return Ok(0);
        }
        let sql = "DELETE FROM notices
                   WHERE since < ?1 AND (receiver IN (SELECT value FROM json_each(?2))) = ?3";
        self.write(move |db| db.execute(sql, params![before, names, only_named])).await
    }
}

fn lease_notices(
    db: &Db<'_>,
    receiver: &str,
    holder: &Holder,
    lease: Duration,
    limit: usize,
) -> Result<Vec<LeasedNotice>, SqliteError> {
    let due: Vec<(String, u32, String)> = db.all(
        "SELECT id, attempts + 1, body FROM notices WHERE receiver = ?1 AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3",
        params![receiver, db.now_ms(), limit],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut update = db.sql(
        "UPDATE notices SET due_at = :due, holder = :holder, attempts = :attempts
         WHERE id = :id AND receiver = :receiver",
    )?;
    let mut leased_notices = Vec::with_capacity(due.len());
    for (id, attempts, body) in due {
        let params = named_params! {
            ":id": id, ":receiver": receiver, ":holder": holder.0, ":due": db.expiry_ms(lease),
            ":attempts": attempts,
        };
        row::execute(&mut update, params)?;
        match notice(id, receiver, &body) {
            Ok(notice) => leased_notices.push(LeasedNotice { notice, attempts }),
            Err(why) => tracing::error!(%why, "a notice is left out"),
        }
    }
    Ok(leased_notices)
}

/// Writes the notices of a change.
pub(super) fn write_notices(db: &Db<'_>, notices: &[NoticeRow]) -> Result<(), SqliteError> {
    for notice in notices {
        let mut statement = db.sql(
            "INSERT OR IGNORE INTO notices (id, receiver, since, due_at, body)
             VALUES (:id, :receiver, :since, :now, :body)",
        )?;
        let params = named_params! {
            ":id": notice.id, ":receiver": notice.receiver, ":since": notice.since, ":now": db.now_ms(),
            ":body": notice.body,
        };
        row::execute(&mut statement, params)?;
    }
    Ok(())
}
