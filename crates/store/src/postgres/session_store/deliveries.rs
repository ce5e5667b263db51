//! [`Deliveries`] over PostgreSQL. A change takes a lock of its task, so that it is applied to the delivery
//! that it has read.

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use crate::postgres::connection::{column, hints};
use taskbridge_core::sessions::deliveries::newest;
use taskbridge_core::sessions::{DeliveredQuestion, Deliveries, Delivery, DeliveryChange};
use taskbridge_core::tasks::store::{Hint, Result};
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl Deliveries for PostgresStore {
    async fn deliveries(&self, task: &TaskId) -> Result<BTreeMap<String, Delivery>> {
        let sql = "SELECT n, until, over, problem, key FROM deliveries WHERE task = :task";
        let task = column::encode(task.as_str());
        let parse = |row: &Row| Ok((column::decode(row.try_get(4)?), delivery(row)?));
        let deliveries = |rows: &[Row]| rows.iter().map(parse).collect();
        self.executor.query(OperationPriority::Request, sql, &[(":task", &task)], deliveries).await
    }

    async fn change_delivery(
        &self,
        question: &DeliveredQuestion,
        change: DeliveryChange,
    ) -> Result<Option<Delivery>> {
        let change = ChangeDelivery { question: question.clone(), change, attempted: Mutex::default() };
        self.executor.write(OperationPriority::Request, None, change).await
    }
}

struct ChangeDelivery {
    question: DeliveredQuestion,
    change: DeliveryChange,
    /// What the last attempt has written, if it was committed.
    attempted: Mutex<Option<Delivery>>,
}

/// The lock on the row keeps a purge from deleting the task before the delivery is written.
const READ: &str = "
    SELECT d.n, d.until, d.over, d.problem, moment(:now)
    FROM tasks LEFT JOIN deliveries d ON d.task = tasks.id AND d.key = :key
    WHERE tasks.id = :task FOR KEY SHARE OF tasks";

const WRITE: &str = "
    INSERT INTO deliveries (task, key, n, until, over, problem)
    VALUES (:task, :key, :n, :until, :over, :problem)
    ON CONFLICT (task, key) DO UPDATE
    SET n = excluded.n, until = excluded.until, over = excluded.over, problem = excluded.problem";

#[async_trait]
impl WriteTransaction for ChangeDelivery {
    type Output = Option<Delivery>;

    async fn write(&self, db: &Db, again: bool) -> Result<Option<Delivery>, PostgresError> {
        let (task, key) = (column::encode(self.question.task.as_str()), column::encode(&self.question.key));
        let locks = db.locks("delivery", [self.question.task.as_str()]);
        let params = named_params! { ":task": task, ":key": key, ":now": db.now };
        let Some(row) = db.begin(locks, READ, params).await? else {
            db.roll_back().await?;
            return Ok(None);
        };
        let stored = row.try_get::<_, Option<i64>>(0)?.map(|_| delivery(&row)).transpose()?;
        let now = Timestamp::from_millis(row.try_get(4)?);
        let is_done = again && stored.is_some() && stored == *self.attempted.lock();
        let after = match is_done {
            true => stored.clone(),
            false => self.change.apply(newest(self.question.recorded.clone(), stored.clone()), now),
        };
        let after = match after {
            Some(after) if stored.as_ref() != Some(&after) => after,
            unchanged => {
                db.roll_back().await?;
                return Ok(unchanged);
            }
        };
        *self.attempted.lock() = Some(after.clone());
        let (n, until) = (i64::from(after.n), after.until.as_millis());
        let problem = after.problem.as_deref().map(column::encode);
        let params = named_params! {
            ":task": task, ":key": key, ":n": n, ":until": until, ":over": after.over, ":problem": problem,
        };
        db.finish(WRITE, params).await?;
        Ok(Some(after))
    }

    fn hint(&self, changed: &Option<Delivery>) -> Option<Hint> {
        let Self { question, change, .. } = self;
        let is_news = changed.is_some() && change.concerns_others();
        is_news.then(|| hints::task_hint(question.task.as_str(), question.channel.as_ref()))
    }
}

/// Reads the first four columns.
fn delivery(row: &Row) -> Result<Delivery, PostgresError> {
    let n: i64 = row.try_get(0)?;
    Ok(Delivery {
        n: u32::try_from(n).unwrap_or(u32::MAX),
        until: Timestamp::from_millis(row.try_get(1)?),
        over: row.try_get(2)?,
        problem: row.try_get::<_, Option<&str>>(3)?.map(column::decode),
    })
}
