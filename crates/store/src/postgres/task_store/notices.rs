//! [`Notices`] over PostgreSQL. A notice has no lease of its own: while it is leased, its due time is the end
//! of the lease. One statement decides who sends it: it moves the due time, and skips rows that another
//! transaction has locked.

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::tasks::millis;
use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::{NamedParam, named_params, owned_params};
use crate::row::{self, NoticeRow};
use taskbridge_core::tasks::notices::Notice;
use taskbridge_core::tasks::store::{Holder, LeasedNotice, Notices, ReceiverFilter, Result};

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
        let sql = "DELETE FROM notices WHERE id = :id AND receiver = :receiver";
        let Notice { id, receiver, .. } = notice.clone();
        self.executor.execute(sql, owned_params! { ":id": id, ":receiver": receiver }).await.map(drop)
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        let sql = "UPDATE notices SET due_at = moment(:now) + :pause, holder = NULL
                   WHERE id = :id AND receiver = :receiver AND holder = :holder";
        let Notice { id, receiver, .. } = notice.clone();
        let params = owned_params! {
            ":now": self.executor.now(), ":pause": millis(pause), ":id": id, ":receiver": receiver,
            ":holder": holder.0.clone(),
        };
        self.executor.execute(sql, params).await.map(drop)
    }

    async fn delete_notices(&self, which: ReceiverFilter<'_>, before: Timestamp) -> Result<usize> {
        let (names, only_named) = match which {
            ReceiverFilter::Only(name) => (vec![name.to_owned()], true),
            ReceiverFilter::AllExcept(names) => (names.to_vec(), false),
        };
        let sql =
            "DELETE FROM notices WHERE since < :before AND (receiver = ANY (:names::text[])) = :only_named";
        let params = owned_params! {
            ":before": before.as_millis(), ":names": names, ":only_named": only_named,
        };
        self.executor.execute(sql, params).await
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
    /// Returns `None` if there are no notices.
    pub(super) fn of(notices: &[NoticeRow]) -> Option<Self> {
        (!notices.is_empty()).then(|| Self {
            ids: notices.iter().map(|notice| notice.id.clone()).collect(),
            receivers: notices.iter().map(|notice| notice.receiver.clone()).collect(),
            since: notices.iter().map(|notice| notice.since).collect(),
            bodies: notices.iter().map(|notice| column::encode(&notice.body).into_owned()).collect(),
        })
    }

    pub(super) fn params(&self) -> [NamedParam<'_>; 4] {
        *named_params! {
            ":notices": self.ids, ":receivers": self.receivers, ":since": self.since, ":contents": self.bodies,
        }
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
        let sql = "WITH due AS (SELECT id FROM notices WHERE receiver = :receiver AND due_at <= moment(:now)
                                ORDER BY due_at, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED)
                   UPDATE notices SET due_at = moment(:now) + :lease, holder = :holder,
                       attempts = attempts + 1
                   FROM due WHERE notices.id = due.id AND notices.receiver = :receiver
                   RETURNING notices.id, notices.attempts, notices.body";
        let mut leased = Vec::new();
        let params = named_params! {
            ":now": db.now, ":receiver": self.receiver, ":holder": self.holder, ":lease": self.lease,
            ":limit": self.limit,
        };
        for found in db.all(sql, params).await? {
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
