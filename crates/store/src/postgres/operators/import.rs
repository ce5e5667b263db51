//! Imports the whole content of a SQLite file into an empty schema, in one transaction. It must not change a
//! row: it only converts values to the types of the columns.

use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use crate::copy::{COPY_FACT, ColumnType, CopyCounts, CopyValue, TABLES, Table};
use crate::postgres::connection::column;
use crate::postgres::connection::connect::{ConnectionDriver, Connector};
use crate::postgres::connection::connection_config::ConnectionConfig;
use crate::postgres::connection::fault::PostgresError;
use crate::sqlite::Source;
use taskbridge_core::tasks::store::Result;

/// A schema to import into.
pub(crate) struct Target {
    client: Client,
    _driver: ConnectionDriver,
    config: ConnectionConfig,
}

/// The complete import before its commit.
pub(crate) struct PendingImport<'t> {
    tx: Transaction<'t>,
    counts: CopyCounts,
    config: &'t ConnectionConfig,
}

/// The content of a schema.
enum SchemaContent {
    Nothing,
    ThisCopy,
    Other,
}

impl Target {
    /// Connects to the database.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub(crate) async fn open(config: &ConnectionConfig) -> Result<Self> {
        let connector = Connector::new(config)?;
        let (client, driver) = connector.client().await.map_err(|fault| fault.into_store_error(config))?;
        Ok(Self { client, _driver: driver, config: config.clone() })
    }

    /// Writes the whole content page by page, for [`PendingImport::commit`]; a drop before that rolls it
    /// back. Returns `None` if the schema already contains this copy.
    ///
    /// # Errors
    /// If the schema contains other data, or if one of the stores cannot be used; nothing was written then.
    pub(crate) async fn fill(&mut self, source: &Source, copy: &str) -> Result<Option<PendingImport<'_>>> {
        let config = &self.config;
        let tx = begin(&mut self.client).await.map_err(|fault| fault.into_store_error(config))?;
        match schema_content(&tx, copy).await.map_err(|fault| fault.into_store_error(config))? {
            SchemaContent::ThisCopy => return Ok(None),
            SchemaContent::Nothing => {}
            SchemaContent::Other => {
                let schema = &config.schema;
                let what = format!(
                    "the schema {schema} is not empty: a server has used it. Name another `schema` in [store], or drop this \
                     one"
                );
                return Err(PostgresError::Broken(what).into_store_error(config));
            }
        }
        let mut counts = CopyCounts::of(source.running()?);
        for (at, table) in TABLES.iter().enumerate() {
            let mut select = source.select(table)?;
            let mut pages = select.pages()?;
            loop {
                let page = pages.next()?;
                if page.is_empty() {
                    break;
                }
                insert(&tx, table, &page).await.map_err(|fault| fault.into_store_error(config))?;
                counts.add(at, page.len());
            }
        }
        let inserted =
            tx.execute("INSERT INTO facts (name, value) VALUES ($1, $2)", &[&COPY_FACT, &copy]).await;
        inserted.map_err(|error| PostgresError::from(error).into_store_error(config))?;
        Ok(Some(PendingImport { tx, counts, config }))
    }

    /// Updates the database's statistics for its query plans.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub(crate) async fn analyze(&self) -> Result<()> {
        self.client
            .batch_execute("ANALYZE")
            .await
            .map_err(|error| PostgresError::from(error).into_store_error(&self.config))
    }
}

impl PendingImport<'_> {
    /// Commits the import.
    ///
    /// # Errors
    /// If the database cannot be used; it is then unknown whether the import was committed.
    pub(crate) async fn commit(self) -> Result<CopyCounts> {
        self.tx.commit().await.map_err(|error| PostgresError::from(error).into_store_error(self.config))?;
        Ok(self.counts)
    }
}

async fn begin(client: &mut Client) -> Result<Transaction<'_>, PostgresError> {
    let tx = client.transaction().await?;
    tx.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0")
        .await?;
    // No server can write into the tables until this transaction ends.
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    tx.batch_execute(&format!("LOCK TABLE {} IN EXCLUSIVE MODE", names.join(", "))).await?;
    Ok(tx)
}

/// Returns what the schema contains. Deletes the facts of a schema that is empty otherwise.
async fn schema_content(tx: &Transaction<'_>, copy: &str) -> Result<SchemaContent, PostgresError> {
    let exists_sql = "SELECT EXISTS (SELECT 1 FROM facts WHERE name = $1 AND value = $2)";
    if tx.query_one(exists_sql, &[&COPY_FACT, &copy]).await?.try_get(0)? {
        return Ok(SchemaContent::ThisCopy);
    }
    // A server that was started has created at least a key. Facts alone are no data that could be lost.
    let names = TABLES.iter().map(|table| table.name).filter(|name| *name != "facts");
    let rows: Vec<String> = names.map(|name| format!("EXISTS (SELECT 1 FROM {name})")).collect();
    let is_used = tx.query_one(&format!("SELECT {}", rows.join(" OR ")), &[]).await?.try_get(0)?;
    if is_used {
        return Ok(SchemaContent::Other);
    }
    tx.execute("DELETE FROM facts", &[]).await?;
    Ok(SchemaContent::Nothing)
}

/// Writes rows, in their order.
async fn insert(tx: &Transaction<'_>, table: &Table, page: &[Vec<CopyValue>]) -> Result<(), PostgresError> {
    let columns: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
    let sql = format!("INSERT INTO {} ({}) VALUES ({})", table.name, columns.join(", "), values.join(", "));
    let statement = &tx.prepare(&sql).await?;
    // Sent in this order, and therefore numbered in it.
    try_join_all(page.iter().map(|row| async move {
        let values: Vec<_> =
            table.columns.iter().zip(row).map(|((_, kind), cell)| value(*kind, cell)).collect();
        let params: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
        tx.execute(statement, &params).await
    }))
    .await?;
    Ok(())
}

/// Converts a value to its storage type.
fn value(kind: ColumnType, cell: &CopyValue) -> Box<dyn ToSql + Sync> {
    let number = if let CopyValue::Number(number) = cell { Some(*number) } else { None };
    let text = if let CopyValue::Text(text) = cell { Some(text.as_str()) } else { None };
    match kind {
        ColumnType::Number => Box::new(number),
        ColumnType::Small => Box::new(number.map(|number| i32::try_from(number).unwrap_or(i32::MAX))),
        ColumnType::Flag => Box::new(number.map(|number| number != 0)),
        ColumnType::Text => Box::new(text.map(|text| column::encode(text).into_owned())),
        ColumnType::Key => Box::new(text.map(|text| column::encode_key(text).into_owned())),
        ColumnType::Plain => Box::new(text.map(str::to_owned)),
        ColumnType::Bytes => {
            Box::new(if let CopyValue::Bytes(bytes) = cell { Some(bytes.clone()) } else { None })
        }
    }
}
