//! [`Deliveries`] over SQLite. The only writing connection orders concurrent changes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Row, params};
use taskbridge_sdk::Timestamp;

use crate::sqlite::SqliteStore;
use taskbridge_core::sessions::deliveries::newest;
use taskbridge_core::sessions::{DeliveredQuestion, Deliveries, Delivery, DeliveryChange};
use taskbridge_core::tasks::store::Result;
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl Deliveries for SqliteStore {
    async fn deliveries(&self, task: &TaskId) -> Result<BTreeMap<String, Delivery>> {
        let sql = "SELECT n, until, over, problem, key FROM deliveries WHERE task = ?1";
        self.read(|db| db.all(sql, [task.as_str()], |row| Ok((row.get(4)?, delivery(row)?))))
    }

    async fn change_delivery(
        &self,
        question: &DeliveredQuestion,
        change: DeliveryChange,
    ) -> Result<Option<Delivery>> {
        let question = question.clone();
        self.write(move |db| {
            let (task, key) = (question.task.as_str(), question.key.as_str());
            let sql = "SELECT n, until, over, problem FROM deliveries WHERE task = ?1 AND key = ?2";
            let stored = db.first(sql, [task, key], delivery)?;
            let after = change.apply(newest(question.recorded.clone(), stored.clone()), db.now);
            let after = match after {
                Some(after) if stored.as_ref() != Some(&after) => after,
                unchanged => return Ok(unchanged),
            };
            let written = db.execute(
                "INSERT OR REPLACE INTO deliveries (task, key, n, until, over, problem)
                 SELECT id, ?2, ?3, ?4, ?5, ?6 FROM tasks WHERE id = ?1",
                params![task, key, after.n, after.until.as_millis(), after.over, after.problem],
            )?;
            Ok((written == 1).then_some(after))
        })
        .await
    }
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let until = Timestamp::from_millis(row.get(1)?);
    Ok(Delivery { n: row.get(0)?, until, over: row.get(2)?, problem: row.get(3)? })
}
