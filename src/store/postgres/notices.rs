//! [`Notices`] over PostgreSQL. A notice has no lease of its own: while it is leased, its due time is the end
//! of the lease. One statement decides who sends it: it moves the due time, and skips rows that another
//! transaction has locked.

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::executor::{Db, OperationPriority, Param, WriteTransaction};
use super::fault::PostgresError;
use super::tasks::millis;
use super::{PostgresStore, column};
use crate::store::row::{self, NoticeRow};
use crate::tasks::notices::Notice;
use crate::tasks::store::{Holder, LeasedNotice, Notices, ReceiverFilter, Result};

#[async_trait]
impl Notices for PostgresStore {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedNotice>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (receiver, holder) = (receiver.to_owned(), holder.0.clone());
        self.executor
            .write(
                OperationPriority::Loops,
                None,
                TakeNotices { receiver, holder, lease: millis(lease), limit },
            )
            .await
    }

    async fn ack_notice(&self, notice: &Notice) -> Result<()> {
        let Notice { id, receiver, .. } = notice.clone();
        self.executor.write(OperationPriority::Loops, None, AckNotice { id, receiver }).await
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        let Notice { id, receiver, .. } = notice.clone();
        let retry = RetryNoticeLater { id, receiver, holder: holder.0.clone(), pause: millis(pause) };
        self.executor.write(OperationPriority::Loops, None, retry).await
    }

    async fn delete_notices(&self, which: ReceiverFilter<'_>, before: Timestamp) -> Result<usize> {
        let (names, only_named) = match which {
            ReceiverFilter::Only(name) => (vec![name.to_owned()], true),
            ReceiverFilter::AllExcept(names) => (names.to_vec(), false),
        };
        self.executor
            .write(
                OperationPriority::Loops,
                None,
                DeleteNotices { names, only_named, before: before.as_millis() },
            )
            .await
    }
}

/// Notices as arrays of columns, all of the same length.
pub(super) struct NoticeColumns {
    ids: Vec<String>,
    receivers: Vec<String>,
    since: Vec<i64>,
    bodies: Vec<String>,
}

impl NoticeColumns {
    pub(super) fn of(notices: &[NoticeRow]) -> Self {
        Self {
            ids: notices.iter().map(|notice| notice.id.clone()).collect(),
            receivers: notices.iter().map(|notice| notice.receiver.clone()).collect(),
            since: notices.iter().map(|notice| notice.since).collect(),
            bodies: notices.iter().map(|notice| column::encode(&notice.body).into_owned()).collect(),
        }
    }

    pub(super) fn params(&self) -> [Param<'_>; 4] {
        [&self.ids, &self.receivers, &self.since, &self.bodies]
    }
}

struct TakeNotices {
    receiver: String,
    holder: String,
    lease: i64,
    limit: i64,
}

#[async_trait]
impl WriteTransaction for TakeNotices {
    type Output = Vec<LeasedNotice>;

    async fn write(&self, db: &Db, _again: bool) -> Result<Vec<LeasedNotice>, PostgresError> {
        let sql = "WITH due AS (SELECT id FROM notices WHERE receiver = $2 AND due_at <= moment($1)
                                ORDER BY due_at, id LIMIT $5 FOR NO KEY UPDATE SKIP LOCKED)
                   UPDATE notices SET due_at = moment($1) + $4, holder = $3, attempts = attempts + 1
                   FROM due WHERE notices.id = due.id AND notices.receiver = $2
                   RETURNING notices.id, notices.attempts, notices.body";
        let params: [Param<'_>; 5] = [&db.now, &self.receiver, &self.holder, &self.lease, &self.limit];
        let mut leased = Vec::new();
        for found in db.all(sql, &params).await? {
            let body = column::decode(found.try_get(2)?);
            match row::notice(found.try_get(0)?, &self.receiver, &body) {
                Ok(notice) => {
                    let attempts = u32::try_from(found.try_get::<_, i32>(1)?).unwrap_or_default();
                    leased.push(LeasedNotice { notice, attempts });
                }
                Err(why) => tracing::error!(%why, "a notice is left out"),
            }
        }
        Ok(leased)
    }
}

struct AckNotice {
    id: String,
    receiver: String,
}

#[async_trait]
impl WriteTransaction for AckNotice {
    type Output = ();

    async fn write(&self, db: &Db, _again: bool) -> Result<(), PostgresError> {
        let sql = "DELETE FROM notices WHERE id = $1 AND receiver = $2";
        db.execute(sql, &[&self.id, &self.receiver]).await?;
        Ok(())
    }
}

struct RetryNoticeLater {
    id: String,
    receiver: String,
    holder: String,
    pause: i64,
}

#[async_trait]
impl WriteTransaction for RetryNoticeLater {
    type Output = ();

    async fn write(&self, db: &Db, _again: bool) -> Result<(), PostgresError> {
        let sql = "UPDATE notices SET due_at = moment($1) + $5, holder = NULL
                   WHERE id = $2 AND receiver = $3 AND holder = $4";
        let params: [Param<'_>; 5] = [&db.now, &self.id, &self.receiver, &self.holder, &self.pause];
        db.execute(sql, &params).await?;
        Ok(())
    }
}

struct DeleteNotices {
    names: Vec<String>,
    only_named: bool,
    before: i64,
}

#[async_trait]
impl WriteTransaction for DeleteNotices {
    type Output = usize;

    async fn write(&self, db: &Db, _again: bool) -> Result<usize, PostgresError> {
        let sql = "DELETE FROM notices WHERE since < $1 AND (receiver = ANY ($2::text[])) = $3";
        let deleted = db.execute(sql, &[&self.before, &self.names, &self.only_named]).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}
