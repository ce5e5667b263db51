//! `[store]`: the database that contains the tasks. It must not connect to anything.

#[cfg(feature = "postgres")]
mod postgres;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

#[cfg(feature = "postgres")]
use self::postgres::resolve as resolve_postgres;
use crate::config::reading::duration;
use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;

/// The store of tasks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Store {
    /// The kind of store.
    kind: StoreKind,
    /// With `kind = "sqlite"`: the database file; a relative path starts at the folder of this config file.
    /// Default: `taskbridge/taskbridge.db` under `$XDG_STATE_HOME`, or under `~/.local/state`.
    path: Option<PathBuf>,
    /// With `kind = "postgres"`: the URL of the database, `postgres://USER@HOST:PORT/DATABASE`.
    url: Option<Secret>,
    /// With `kind = "postgres"`: the password, if the URL does not contain it.
    password: Option<Secret>,
    /// With `kind = "postgres"`: whether TLS is used and the server's certificate is verified. Default: true,
    /// unless the database is on this machine.
    tls: Option<bool>,
    /// With `kind = "postgres"`: a file of CA certificates (PEM) to trust, instead of those of this machine.
    ca_file: Option<PathBuf>,
    /// With `kind = "postgres"`: the database schema [default: `taskbridge`]. It is created if it does not
    /// exist.
    schema: Option<String>,
    /// With `kind = "postgres"`: maximum number of database connections of this process, not counting one for
    /// notifications [default: 16].
    max_connections: Option<NonZeroUsize>,
    /// With `kind = "postgres"`: how schema migrations run.
    migrate: Option<Migrate>,
    /// Retention of task histories; `"0s"` disables them [default: 7d].
    #[serde(deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    history: Option<Duration>,
    /// The folder for backend data on this machine. Default: `backends` next to the database file, or
    /// `taskbridge/backends` in the state folder.
    backends_dir: Option<PathBuf>,
}

/// Default retention of task histories.
const DEFAULT_HISTORY: Duration = Duration::from_secs(7 * 86_400);

/// The kinds of stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StoreKind {
    /// A SQLite database file, for the servers of one machine.
    #[default]
    Sqlite,
    /// A PostgreSQL database, for any number of servers.
    Postgres,
}

/// How schema migrations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Migrate {
    /// Each server migrates when it starts (the default).
    Auto,
    /// An operator runs `taskbridge migrate`.
    Manual,
}

/// The resolved store settings. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// The database.
    pub database: Database,
    /// The folder for backend data.
    pub backends_dir: PathBuf,
    /// Retention of task histories; zero disables them.
    pub history: Duration,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(crate::store::postgres::ConnectionConfig),
}

/// The location for messages. It contains no secret.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Database::Postgres(connection) => connection.fmt(f),
        }
    }
}

impl Database {
    /// Returns true if servers on several machines can use it.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Database::Sqlite(_))
    }
}

impl Store {
    /// Returns true if servers on several machines can use it.
    pub(in crate::config) fn is_shared(&self) -> bool {
        self.kind == StoreKind::Postgres
    }
}

/// Resolves the store settings. Without a state folder the path is empty, which is reported as a problem.
pub(in crate::config) fn resolve(
    reader: &mut Reader<'_>,
    store: Store,
    dir: &Path,
    state_home: Option<&Path>,
) -> StoreSettings {
    check_misplaced(reader, &store);
    let history = store.history.unwrap_or(DEFAULT_HISTORY);
    let state = state_home.map(|home| home.join("taskbridge"));
    let backends_dir = store.backends_dir.as_ref().map(|folder| dir.join(folder));
    let unknown = |reader: &mut Reader<'_>, field: &str| {
        let message = "no folder for state is known ($XDG_STATE_HOME and $HOME are not set): set";
        reader.problem(format!("store.{field}"), format!("{message} `{field}`"));
        PathBuf::new()
    };
    match store.kind {
        StoreKind::Sqlite => {
            let path = match (&store.path, state) {
                (Some(path), _) => dir.join(path),
                (None, Some(state)) => state.join("taskbridge.db"),
                (None, None) => unknown(reader, "path"),
            };
            let default_dir = || path.parent().unwrap_or(dir).join("backends");
            let backends_dir = backends_dir.unwrap_or_else(default_dir);
            StoreSettings { database: Database::Sqlite(path), backends_dir, history }
        }
        StoreKind::Postgres => {
            let backends_dir = backends_dir
                .or_else(|| state.map(|state| state.join("backends")))
                .unwrap_or_else(|| unknown(reader, "backends_dir"));
            // On an error the problem is recorded, so this placeholder is never used.
            let database =
                resolve_postgres(reader, store, dir).unwrap_or_else(|| Database::Sqlite(PathBuf::new()));
            StoreSettings { database, backends_dir, history }
        }
    }
}

/// Reports fields that belong to the other kind.
fn check_misplaced(reader: &mut Reader<'_>, store: &Store) {
    let of_postgres = [
        ("url", store.url.is_some()),
        ("password", store.password.is_some()),
        ("tls", store.tls.is_some()),
        ("ca_file", store.ca_file.is_some()),
        ("schema", store.schema.is_some()),
        ("max_connections", store.max_connections.is_some()),
        ("migrate", store.migrate.is_some()),
    ];
    let (other, misplaced): (&str, Vec<&str>) = match store.kind {
        StoreKind::Sqlite => {
            ("postgres", of_postgres.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect())
        }
        StoreKind::Postgres => ("sqlite", store.path.iter().map(|_| "path").collect()),
    };
    for name in misplaced {
        let hint = format!("only allowed with kind = \"{other}\": remove it, or change `kind`");
        reader.problem(format!("store.{name}"), hint);
    }
}

#[cfg(not(feature = "postgres"))]
fn resolve_postgres(reader: &mut Reader<'_>, _store: Store, _dir: &Path) -> Option<Database> {
    let message = "this program is built without PostgreSQL: build it with the Cargo feature `postgres`, or use \
                   kind = \"sqlite\"";
    reader.problem("store.kind", message);
    None
}
