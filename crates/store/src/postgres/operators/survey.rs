//! [`Survey`] over PostgreSQL.

use async_trait::async_trait;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::executor::OperationPriority;
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use crate::postgres::task_store::row;
use crate::postgres::task_store::tasks::number;
use crate::row::RowValue;
use crate::survey::{
    DEPENDENT_TABLES, PAGE_SIZE, PendingNotice, RelatedRecords, Survey, SurveyRow, UNFINISHED,
    UnfinishedRows, compare_columns,
};
use taskbridge_core::tasks::store::Result;
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl Survey for PostgresStore {
    async fn rows(&self, after: &str, limit: usize) -> Result<Vec<SurveyRow>> {
        let sql = "SELECT version, body, n, id, owner, tool, created_at, expires_at, due_at, backend, grp,
                          opened_at, handle, closed, session, line, digest, waiting_until, lease_holder,
                          lease_until,
                          array(SELECT slot FROM slots WHERE slots.task = tasks.id) AS taken,
                          EXISTS (SELECT 1 FROM outputs WHERE outputs.task = tasks.id) AS has_output
                   FROM tasks WHERE id > :after ORDER BY id LIMIT :limit";
        let (after, limit) = (column::encode(after), number(limit));
        let params = named_params! { ":after": after, ":limit": limit };
        let survey_rows = |rows: &[Row]| rows.iter().map(parse_survey_row).collect();
        self.executor.query(OperationPriority::Request, sql, params, survey_rows).await
    }

    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>> {
        let sql = "SELECT id FROM tasks WHERE id >= :from AND id < :to
                   UNION SELECT task FROM entries WHERE task >= :from AND task < :to LIMIT :limit";
        let (from, to) = (column::encode(prefix), format!("{}{}", column::encode(prefix), char::MAX));
        let params = named_params! { ":from": from, ":to": to, ":limit": number(limit) };
        let id = |row: &Row| Ok(TaskId::from_wire(text(row, 0)?));
        let ids = |rows: &[Row]| rows.iter().map(id).collect();
        self.executor.query(OperationPriority::Request, sql, params, ids).await
    }

    async fn count_unfinished(&self) -> Result<Vec<UnfinishedRows>> {
        let read = |row: &Row| {
            let identity: Option<String> = row.try_get(1)?;
            Ok(UnfinishedRows {
                backend: text(row, 0)?,
                identity: identity.as_deref().map(column::decode),
                count: row.try_get(2)?,
                ids: [text(row, 3)?, text(row, 4)?],
            })
        };
        self.all(UNFINISHED, read).await
    }

    async fn related_records(&self) -> Result<RelatedRecords> {
        let mut records = RelatedRecords::default();
        for table in DEPENDENT_TABLES {
            let sql = format!(
                "SELECT DISTINCT task FROM {table} AS beside
                 WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = beside.task) LIMIT 100"
            );
            records.orphans.extend(self.all(&sql, |row| Ok((table, text(row, 0)?))).await?);
        }
        let groups = "SELECT backend, grp, holder, until FROM groups";
        let group = |row: &Row| Ok((text(row, 0)?, text(row, 1)?, row.try_get(2)?, row.try_get(3)?));
        records.groups = self.all(groups, group).await?;
        let deliveries = "SELECT task, key, until FROM deliveries WHERE NOT over";
        let delivery = |row: &Row| Ok((text(row, 0)?, text(row, 1)?, row.try_get(2)?));
        records.deliveries = self.all(deliveries, delivery).await?;
        let ahead = "SELECT e.task, max(e.version), t.version FROM entries e JOIN tasks t ON t.id = e.task
                     WHERE e.version > t.version GROUP BY e.task, t.version LIMIT 100";
        records.histories_ahead =
            self.all(ahead, |row| Ok((text(row, 0)?, row.try_get(1)?, row.try_get(2)?))).await?;
        let sessions = "SELECT nonce, settings FROM sessions WHERE settings IS NOT NULL";
        let session = |row: &Row| Ok((text(row, 0)?, row.try_get::<_, String>(1)?));
        for (nonce, settings) in self.all(sessions, session).await? {
            for (nonce_prefix, task) in records.check_session(&nonce, &settings) {
                let exists_sql = "SELECT 1 FROM tasks WHERE id = :id
                                  UNION ALL SELECT 1 FROM entries WHERE task = :id LIMIT 1";
                let id = column::encode(task.as_str());
                let existing =
                    self.executor.read(OperationPriority::Request, exists_sql, &[(":id", &id)]).await?;
                if existing.is_empty() {
                    records.dangling_sessions.push((nonce_prefix, task.to_string()));
                }
            }
        }
        let slots = "SELECT slot, count(*) FROM slots GROUP BY slot";
        records.slots = self.all(slots, |row| Ok((text(row, 0)?, row.try_get(1)?))).await?;
        let notices = "SELECT id, receiver, due_at, body FROM notices";
        let notice = |row: &Row| {
            Ok(PendingNotice::of(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, &text(row, 3)?))
        };
        records.notices = self.all(notices, notice).await?;
        self.read_entries(&mut records).await?;
        let first = "SELECT at FROM entries ORDER BY at LIMIT 1";
        records.first_entry = self.all(first, |row| Ok(row.try_get(0)?)).await?.pop();
        Ok(records)
    }
}

impl PostgresStore {
    /// Reads page by page: it occupies a connection only briefly, and never loads all entries at once.
    async fn read_entries(&self, records: &mut RelatedRecords) -> Result<()> {
        let sql = "SELECT n, task, what FROM entries WHERE n > :after ORDER BY n LIMIT :limit";
        let mut after = 0_i64;
        loop {
            let params = named_params! { ":after": after, ":limit": number(PAGE_SIZE) };
            let rows = self.executor.read(OperationPriority::Request, sql, params).await?;
            for row in &rows {
                let entry =
                    || -> Result<_, PostgresError> { Ok((row.try_get(0)?, text(row, 1)?, text(row, 2)?)) };
                let (n, task, what) =
                    entry().map_err(|fault| fault.into_store_error(&self.executor.config))?;
                after = n;
                records.check_entry(task, &what);
            }
            if rows.len() < PAGE_SIZE {
                return Ok(());
            }
        }
    }

    async fn all<T>(&self, sql: &str, read: impl Fn(&Row) -> Result<T, PostgresError>) -> Result<Vec<T>> {
        let all = |rows: &[Row]| rows.iter().map(read).collect();
        self.executor.query(OperationPriority::Request, sql, &[], all).await
    }
}

fn text(row: &Row, at: usize) -> Result<String, PostgresError> {
    Ok(column::decode(row.try_get(at)?))
}

fn parse_survey_row(found: &Row) -> Result<SurveyRow, PostgresError> {
    let task = match row::task(found) {
        Ok(task) => Ok(task),
        Err(PostgresError::Unreadable(why)) => Err(why),
        Err(fault) => return Err(fault),
    };
    let is_stored = |column: &str, value: RowValue<'_>| value.is_stored(found, column);
    let mismatches = match &task {
        Ok(task) => {
            compare_columns(task, is_stored, found.try_get("taken")?, |slot| column::encode_key(slot).into())?
        }
        Err(_) => Vec::new(),
    };
    Ok(SurveyRow {
        id: column::decode(found.try_get("id")?),
        version: found.try_get("version")?,
        task,
        mismatches,
        holder: found.try_get("lease_holder")?,
        lease_until: found.try_get("lease_until")?,
        has_output: found.try_get("has_output")?,
    })
}
