//! Everything that another store held, put into a schema that holds nothing, in one transaction.

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Statement, Transaction};

use super::column;
use super::connect::Connector;
use super::desk::Param;
use super::fault::Fault;
use super::insert::{Columns, INSERT};
use super::place::Place;
use crate::store::change::Wish;
use crate::store::copy::{Kept, TaskKept};
use crate::tasks::store::{NewTask, Result};

/// Rows that are on their way at the same time.
const AT_ONCE: usize = 200;

/// Writes it all.
///
/// # Errors
/// If the schema holds something, or cannot be written; nothing was written then.
pub(in crate::store) async fn write(to: &Place, kept: &Kept) -> Result<()> {
    let connector = Connector::to(to)?;
    let written = async {
        let (mut client, _driver) = connector.client().await?;
        all(&mut client, to, kept).await
    };
    written.await.map_err(|fault| fault.at(to))
}

async fn all(client: &mut Client, to: &Place, kept: &Kept) -> Result<(), Fault> {
    let tx = client.transaction().await?;
    tx.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0")
        .await?;
    // No server writes into it until this has ended.
    tx.batch_execute("LOCK TABLE tasks, once, entries, notices, history, sessions, keys IN EXCLUSIVE MODE")
        .await?;
    let empty = "SELECT NOT EXISTS (SELECT 1 FROM tasks) AND NOT EXISTS (SELECT 1 FROM once)
                    AND NOT EXISTS (SELECT 1 FROM history) AND NOT EXISTS (SELECT 1 FROM sessions)
                    AND NOT EXISTS (SELECT 1 FROM keys) AND NOT EXISTS (SELECT 1 FROM entries)";
    if !tx.query_one(empty, &[]).await?.try_get::<_, bool>(0)? {
        return Err(Fault::Row(format!(
            "the schema {} is not empty: a server has used it. Name another `schema` in [store], or drop this one",
            to.schema
        )));
    }
    let insert = tx.prepare(INSERT).await?;
    let output = tx.prepare("INSERT INTO outputs (task, body) VALUES ($1, $2)").await?;
    for some in kept.tasks.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|kept| task(&tx, &insert, &output, kept))).await?;
    }
    let sql = "INSERT INTO once (scope, key, digest, task) VALUES ($1, $2, $3, $4)";
    let once = tx.prepare(sql).await?;
    for some in kept.once.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|key| async {
            let params: [Param<'_>; 4] = [
                &column::key(&key.scope),
                &column::key(&key.key),
                &column::text(&key.digest),
                &column::text(&key.task),
            ];
            tx.execute(&once, &params).await
        }))
        .await?;
    }
    let sql = "INSERT INTO entries (task, version, at, replica, what) VALUES ($1, $2, $3, $4, $5)";
    let entry = tx.prepare(sql).await?;
    for some in kept.entries.chunks(AT_ONCE) {
        // Sent in this order, and so numbered in it.
        try_join_all(some.iter().map(|kept| async {
            let (task, replica) = (column::text(&kept.task), column::text(&kept.replica));
            let params: [Param<'_>; 5] =
                [&task, &kept.version, &kept.at, &replica, &column::text(&kept.what)];
            tx.execute(&entry, &params).await
        }))
        .await?;
    }
    for notice in &kept.notices {
        let sql = "INSERT INTO notices (id, receiver, since, due_at, attempts, body) VALUES ($1, $2, $3, $4, $5, $6)";
        let params: [Param<'_>; 6] = [
            &notice.id,
            &notice.receiver,
            &notice.since,
            &notice.due_at,
            &notice.attempts,
            &column::text(&notice.body),
        ];
        tx.execute(sql, &params).await?;
    }
    for note in &kept.history {
        let sql = "INSERT INTO history (tool, took, median) VALUES ($1, $2, $3)";
        tx.execute(sql, &[&column::key(&note.tool), &note.took, &note.median]).await?;
    }
    for session in &kept.sessions {
        let sql = "INSERT INTO sessions (nonce, forget_after, settings) VALUES ($1, $2, $3)";
        tx.execute(sql, &[&column::key(&session.nonce), &session.forget_after, &session.settings]).await?;
    }
    for (name, value) in &kept.keys {
        tx.execute("INSERT INTO keys (name, value) VALUES ($1, $2)", &[name, value]).await?;
    }
    tx.commit().await?;
    client.batch_execute("ANALYZE").await?;
    Ok(())
}

async fn task(
    tx: &Transaction<'_>,
    insert: &Statement,
    output: &Statement,
    kept: &TaskKept,
) -> Result<(), Fault> {
    let new = NewTask {
        task: kept.task.clone(),
        most_kept: None,
        limits: Vec::new(),
        behind: Vec::new(),
        once: None,
        attach: None,
        lease: None,
        transition: None,
        notices: Vec::new(),
    };
    let (wish, task) = Wish::of(new).map_err(|error| Fault::Row(error.to_string()))?;
    let version = i64::try_from(task.version).map_err(|error| Fault::Row(error.to_string()))?;
    let columns = Columns::of(&wish, version);
    let id = column::text(&wish.row.id);
    let params_of_output: [Param<'_>; 2] = [&id, &kept.output];
    // Both are sent at once, in this order.
    let row = async { tx.query(insert, &columns.params(&None)).await };
    let result = async {
        match kept.output {
            Some(_) => tx.execute(output, &params_of_output).await,
            None => Ok(0),
        }
    };
    let (row, result) = futures_util::join!(row, result);
    row?;
    result?;
    Ok(())
}
