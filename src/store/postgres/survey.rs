//! [`Survey`] over PostgreSQL.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::executor::{OperationPriority, Param};
use super::fault::PostgresError;
use super::tasks::number;
use super::{PostgresStore, column, row};
use crate::store::survey::{
    BESIDE, Cell, OwedNotice, PAGE, RelatedRecords, Survey, SurveyRow, UNFINISHED, Unfinished, differs,
};
use crate::tasks::store::Result;
use crate::tasks::task::TaskId;

#[async_trait]
impl Survey for PostgresStore {
    async fn rows(&self, after: &str, limit: usize) -> Result<Vec<SurveyRow>> {
        let sql = "SELECT version, body, n, owner, tool, created_at, expires_at, due_at, backend, grp, opened_at, handle,
                          closed, session, line, digest, waiting_until,
                          array(SELECT slot FROM slots WHERE slots.task = tasks.id) AS held,
                          id, lease_holder, lease_until, EXISTS (SELECT 1 FROM outputs WHERE outputs.task = tasks.id)
                   FROM tasks WHERE id > $1 ORDER BY id LIMIT $2";
        let params: [Param<'_>; 2] = [&column::text(after), &number(limit)];
        let rows = self.desk.read(OperationPriority::Request, sql, &params).await?;
        let surveyed: Result<Vec<SurveyRow>, PostgresError> = rows.iter().map(surveyed).collect();
        surveyed.map_err(|fault| fault.into_store_error(&self.desk.place))
    }

    async fn ids(&self, beginning: &str, limit: usize) -> Result<Vec<TaskId>> {
        let sql = "SELECT id FROM tasks WHERE id >= $1 AND id < $2
                   UNION SELECT task FROM entries WHERE task >= $1 AND task < $2 LIMIT $3";
        let (from, to) = (column::text(beginning), format!("{}{}", column::text(beginning), char::MAX));
        let params: [Param<'_>; 3] = [&from, &to, &number(limit)];
        let rows = self.desk.read(OperationPriority::Request, sql, &params).await?;
        let id = |row: &Row| Ok(TaskId::from_wire(column::read(row.try_get(0)?)));
        let ids: Result<Vec<TaskId>, PostgresError> = rows.iter().map(id).collect();
        ids.map_err(|fault| fault.into_store_error(&self.desk.place))
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>> {
        let read = |row: &Row| {
            let identity: Option<String> = row.try_get(1)?;
            Ok(Unfinished {
                backend: text(row, 0)?,
                identity: identity.as_deref().map(column::read),
                count: row.try_get(2)?,
                ids: [text(row, 3)?, text(row, 4)?],
            })
        };
        self.all(UNFINISHED, read).await
    }

    async fn related_records(&self) -> Result<RelatedRecords> {
        let mut strays = RelatedRecords::default();
        for table in BESIDE {
            let sql = format!(
                "SELECT DISTINCT task FROM {table} AS beside
                 WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = beside.task) LIMIT 100"
            );
            strays.orphans.extend(self.all(&sql, |row| Ok((table, text(row, 0)?))).await?);
        }
        let groups = "SELECT backend, grp, holder, until FROM groups";
        let group = |row: &Row| Ok((text(row, 0)?, text(row, 1)?, row.try_get(2)?, row.try_get(3)?));
        strays.groups = self.all(groups, group).await?;
        let ahead = "SELECT e.task, max(e.version), t.version FROM entries e JOIN tasks t ON t.id = e.task
                     WHERE e.version > t.version GROUP BY e.task, t.version LIMIT 100";
        strays.ahead = self.all(ahead, |row| Ok((text(row, 0)?, row.try_get(1)?, row.try_get(2)?))).await?;
        let sessions = "SELECT nonce, settings FROM sessions WHERE settings IS NOT NULL";
        let session = |row: &Row| Ok((text(row, 0)?, row.try_get::<_, String>(1)?));
        for (nonce, settings) in self.all(sessions, session).await? {
            for (shown, task) in strays.session(&nonce, &settings) {
                let known = "SELECT 1 FROM tasks WHERE id = $1 UNION ALL SELECT 1 FROM entries WHERE task = $1 LIMIT 1";
                let known = self
                    .desk
                    .read(OperationPriority::Request, known, &[&column::text(task.as_str())])
                    .await?;
                if known.is_empty() {
                    strays.held.push((shown, task.to_string()));
                }
            }
        }
        let slots = "SELECT slot, count(*) FROM slots GROUP BY slot";
        strays.slots = self.all(slots, |row| Ok((text(row, 0)?, row.try_get(1)?))).await?;
        let notices = "SELECT id, receiver, due_at, body FROM notices";
        let notice =
            |row: &Row| Ok(OwedNotice::of(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, &text(row, 3)?));
        strays.notices = self.all(notices, notice).await?;
        self.read_entries(&mut strays).await?;
        let first = "SELECT at FROM entries ORDER BY at LIMIT 1";
        strays.first_entry = self.all(first, |row| Ok(row.try_get(0)?)).await?.pop();
        Ok(strays)
    }
}

impl PostgresStore {
    /// Reads page by page: it occupies a connection only briefly, and never loads all entries at once.
    async fn read_entries(&self, strays: &mut RelatedRecords) -> Result<()> {
        let sql = "SELECT n, task, what FROM entries WHERE n > $1 ORDER BY n LIMIT $2";
        let mut after = 0_i64;
        loop {
            let rows = self.desk.read(OperationPriority::Request, sql, &[&after, &number(PAGE)]).await?;
            for row in &rows {
                let entry =
                    || -> Result<_, PostgresError> { Ok((row.try_get(0)?, text(row, 1)?, text(row, 2)?)) };
                let (n, task, what) = entry().map_err(|fault| fault.into_store_error(&self.desk.place))?;
                after = n;
                strays.entry(task, &what);
            }
            if rows.len() < PAGE {
                return Ok(());
            }
        }
    }

    async fn all<T>(&self, sql: &str, read: impl Fn(&Row) -> Result<T, PostgresError>) -> Result<Vec<T>> {
        let rows = self.desk.read(OperationPriority::Request, sql, &[]).await?;
        let all: Result<Vec<T>, PostgresError> = rows.iter().map(read).collect();
        all.map_err(|fault| fault.into_store_error(&self.desk.place))
    }
}

fn text(row: &Row, at: usize) -> Result<String, PostgresError> {
    Ok(column::read(row.try_get(at)?))
}

fn surveyed(found: &Row) -> Result<SurveyRow, PostgresError> {
    let id = column::read(found.try_get(18)?);
    let task = match row::task(found) {
        Ok(task) => Ok(task),
        Err(PostgresError::Unreadable(why)) => Err(why),
        Err(fault) => return Err(fault),
    };
    let text =
        |at: usize| -> Result<Cell, PostgresError> { Ok(found.try_get::<_, Option<String>>(at)?.into()) };
    let number =
        |at: usize| -> Result<Cell, PostgresError> { Ok(found.try_get::<_, Option<i64>>(at)?.into()) };
    let cells = [
        text(3)?,
        text(4)?,
        number(5)?,
        number(6)?,
        number(7)?,
        text(8)?,
        text(9)?,
        number(10)?,
        text(11)?,
        Cell::Number(found.try_get::<_, bool>(12)?.into()),
        text(13)?,
        text(14)?,
        text(15)?,
        number(16)?,
    ];
    let slots: Vec<String> = found.try_get(17)?;
    let key = |name: &str| column::key(name).into_owned();
    let plain = |name: &str| column::text(name).into_owned();
    let differs = task.as_ref().map(|task| differs(&id, task, &cells, slots, key, plain)).unwrap_or_default();
    Ok(SurveyRow {
        id,
        version: found.try_get(0)?,
        task,
        differs,
        holder: found.try_get(19)?,
        lease_until: found.try_get(20)?,
        has_output: found.try_get(21)?,
    })
}
