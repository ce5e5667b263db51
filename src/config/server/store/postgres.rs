//! Resolves the settings of a PostgreSQL store. It must not connect to the database.

use std::path::Path;

use super::{Database, Migrate, Store};
use crate::config::reading::files;
use crate::config::reading::reader::Reader;
use crate::store::postgres::{ConnectionConfig, ConnectionConfigError};

/// Returns the database. `None` if a setting is invalid, which is then reported.
pub(super) fn resolve(reader: &mut Reader<'_>, store: Store, dir: &Path) -> Option<Database> {
    let Some(url) = &store.url else {
        let message = "a PostgreSQL store needs `url`: write postgres://USER@HOST:PORT/DATABASE";
        reader.problem("store.url", message);
        return None;
    };
    let url = url.reveal(reader, "store.url", dir)?;
    let password = match &store.password {
        Some(password) => Some(password.reveal(reader, "store.password", dir)?),
        None => None,
    };
    let schema = store.schema.as_deref().unwrap_or("taskbridge");
    let connection = match ConnectionConfig::parse(&url).and_then(|config| config.in_schema(schema)) {
        Ok(config) => config,
        Err(ConnectionConfigError::Url(message)) => return report_problem(reader, "store.url", message),
        Err(ConnectionConfigError::Schema(message)) => {
            return report_problem(reader, "store.schema", message);
        }
    };
    if let (Some(false), Some(_)) = (store.tls, &store.ca_file) {
        reader
            .problem("store.ca_file", "without TLS no certificate is verified: remove it, or `tls = false`");
    }
    let ca_file = store.ca_file.map(|file| dir.join(file));
    if let Some(file) = &ca_file {
        files::read(reader, "store.ca_file", file.clone());
    }
    let connection = password.iter().fold(connection, |config, password| config.with_password(password));
    let mut connection = connection.with_tls(store.tls, ca_file);
    if let Some(max) = store.max_connections {
        if max.get() < 2 {
            reader.problem("store.max_connections", "one is too few: requests and loops need at least 2");
        }
        connection = connection.with_connections(max.get());
    }
    let migrates = store.migrate != Some(Migrate::Manual);
    Some(Database::Postgres(if migrates { connection } else { connection.without_migration() }))
}

fn report_problem<T>(reader: &mut Reader<'_>, field: &str, message: String) -> Option<T> {
    reader.problem(field, message);
    None
}
