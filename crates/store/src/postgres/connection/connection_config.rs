//! The connection settings of a database, validated without a connection. It contains passwords and must
//! never print one.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The server's statement timeout. Each statement finds its rows by an index.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout to wait for another transaction's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout after which the server ends a session that idles in a transaction: a frozen process keeps its
/// locks no longer.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout to establish a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long sent data may stay unacknowledged before the connection is closed, and how long a connection is
/// idle before it is probed.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

/// A schema of a PostgreSQL database, and its connection settings.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionConfig {
    pub(super) config: Config,
    pub(super) tls: bool,
    /// Trusted certificate authorities, instead of this machine's.
    pub(super) ca_file: Option<PathBuf>,
    pub(in crate::postgres) schema: String,
    pub(in crate::postgres) max_connections: usize,
    /// True if an outdated schema is migrated when the store is opened.
    pub(in crate::postgres) auto_migrate: bool,
}

/// An invalid part of a [`ConnectionConfig`], with the reason.
#[derive(Debug, PartialEq, Eq)]
pub enum ConnectionConfigError {
    /// The address.
    Url(String),
    /// The name of the schema.
    Schema(String),
}

impl ConnectionConfig {
    /// Parses an address `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with the schema `taskbridge`.
    ///
    /// # Errors
    /// [`ConnectionConfigError::Url`]. Its text does not repeat the address, which may contain a password.
    pub fn parse(url: &str) -> Result<Self, ConnectionConfigError> {
        let invalid = |what: &str| {
            Err(ConnectionConfigError::Url(format!("{what}: write postgres://USER@HOST:PORT/DATABASE")))
        };
        let url = url.trim();
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return invalid("it is not the address of a PostgreSQL database");
        }
        // A password with an @ would be parsed as if it ended there, and its rest as a host that may be
        // shown.
        let parsed = if url.matches('@').count() > 1 { None } else { Config::from_str(url).ok() };
        let Some(mut config) = parsed else {
            return Err(ConnectionConfigError::Url(
                "it cannot be understood: write postgres://USER@HOST:PORT/DATABASE, and in a password put %40 for @, \
                 %2F for /, %3A for :, %3F for ? and %25 for %. Behind ?, sslmode can be `disable` or `require`: a \
                 server's certificate is checked whenever TLS is used"
                    .to_owned(),
            ));
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return invalid("it names no host");
        }
        if config.get_user().is_none_or(str::is_empty) {
            return invalid("it names no user");
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            let user = config.get_user().unwrap_or_default().to_owned();
            config.dbname(user);
        }
        if config.get_application_name().is_none() {
            config.application_name("taskbridge");
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Require => true,
            _ => !is_local(&config),
        };
        let schema = "taskbridge".to_owned();
        Ok(Self { config, tls, ca_file: None, schema, max_connections: 16, auto_migrate: true })
    }

    /// Replaces the address's password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// Enables or disables TLS, overriding the address, and sets the file of trusted authorities. If `tls` is
    /// `None`, TLS is used if there is a file, and otherwise as the address says.
    #[must_use]
    pub fn with_tls(self, tls: Option<bool>, ca_file: Option<PathBuf>) -> Self {
        Self { tls: tls.unwrap_or(self.tls || ca_file.is_some()), ca_file, ..self }
    }

    /// Sets the schema.
    ///
    /// # Errors
    /// [`ConnectionConfigError::Schema`] if the name would need quotes.
    pub fn in_schema(self, schema: &str) -> Result<Self, ConnectionConfigError> {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if !begins || schema.len() > 48 || !schema.chars().all(letters) || schema.starts_with("pg_") {
            return Err(ConnectionConfigError::Schema(format!(
                "\"{schema}\" cannot be a schema here: write at most 48 of a to z, 0 to 9 and _, not beginning with a \
                 digit or with pg_"
            )));
        }
        Ok(Self { schema: schema.to_owned(), ..self })
    }

    /// Sets the maximum number of connections of the pool (at least 2). Notifications use one more.
    #[must_use]
    pub fn with_connections(self, max_connections: usize) -> Self {
        Self { max_connections, ..self }
    }

    /// Leaves migrations of the schema to `taskbridge migrate`.
    #[must_use]
    pub fn without_migration(self) -> Self {
        Self { auto_migrate: false, ..self }
    }

    /// Returns the settings of a connection.
    pub(super) fn connection(&self) -> Config {
        let mut config = self.config.clone();
        let millis = |duration: Duration| duration.as_millis();
        let user_options = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        config
            .ssl_mode(if self.tls { SslMode::Require } else { SslMode::Disable })
            // Tasks cannot be stored on a read-only server (a standby).
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(TCP_TIMEOUT)
            .keepalives(true)
            .keepalives_idle(TCP_TIMEOUT)
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3)
            // Settings that the statements rely on, regardless of the defaults of the role or the database.
            // All statements are short, and their JIT compilation would take longer than their execution.
            .options(format!(
                "{user_options}-c search_path={} -c statement_timeout={} -c lock_timeout={} \
                 -c idle_in_transaction_session_timeout={} -c default_transaction_isolation=read\\ committed -c jit=off",
                self.schema,
                millis(STATEMENT_TIMEOUT),
                millis(LOCK_TIMEOUT),
                millis(IDLE_TRANSACTION_TIMEOUT),
            ));
        config
    }
}

/// Returns true if the database is on this machine, so that no data crosses the network.
fn is_local(config: &Config) -> bool {
    let is_local_host = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    };
    config.get_hosts().iter().all(is_local_host) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// Formats the address without its password, for messages.
impl fmt::Display for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@", self.config.get_user().unwrap_or_default())?;
        let ports = self.config.get_ports();
        for (n, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) if name.contains(':') => write!(f, "{comma}[{name}]:{port}")?,
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        if self.config.get_hosts().is_empty() {
            for (n, address) in self.config.get_hostaddrs().iter().enumerate() {
                write!(f, "{}{address}", if n == 0 { "" } else { "," })?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())?;
        if self.schema != "taskbridge" {
            write!(f, " (schema {})", self.schema)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        let config = ConnectionConfig::parse("postgres://me:hunter2@db.example.com/tasks").unwrap();
        assert_eq!(config.to_string(), "postgres://me@db.example.com:5432/tasks");
        assert!(!format!("{config:?} {:?}", config.connection()).contains("hunter2"));
        for url in
            ["postgres://me:hunt@er2@db/tasks", "mysql://me:hunter2@db", "postgres://me:hunter2@db:port/x"]
        {
            let error = format!("{:?}", ConnectionConfig::parse(url).unwrap_err());
            assert!(!error.contains("hunt") && !error.contains("er2"), "{error}");
        }
    }

    /// TLS is used for every remote host unless `sslmode` or the config turns it off.
    #[test]
    fn postgres_tls_is_default_for_remote() {
        let tls = |url: &str| ConnectionConfig::parse(url).unwrap().tls;
        assert!(tls("postgres://me@db.example.com/tasks"));
        assert!(tls("postgres://me@127.0.0.1,db.example.com/tasks"));
        assert!(tls("postgres://me@localhost/tasks?sslmode=require"));
        assert!(!tls("postgres://me@localhost/tasks"));
        assert!(!tls("postgres://me@[::1]:5433/tasks"));
        assert!(!tls("postgres://me@%2Frun%2Fpostgresql/tasks"));
        assert!(!tls("postgres://me@db.example.com/tasks?sslmode=disable"));
        let config = ConnectionConfig::parse("postgres://me@db.example.com/tasks").unwrap();
        assert!(!config.with_tls(Some(false), None).tls);
    }

    #[test]
    fn postgres_url_error_names_problem() {
        for (url, words) in [
            ("host=db user=me", "not the address of a PostgreSQL database"),
            ("postgres:///tasks?user=me", "names no host"),
            ("postgres://db.example.com/tasks", "names no user"),
            ("postgres://me@db/tasks?sslmode=verify-full", "sslmode can be"),
        ] {
            let Err(ConnectionConfigError::Url(why)) = ConnectionConfig::parse(url) else {
                panic!("{url} was taken")
            };
            assert!(why.contains(words), "{url}: {why}");
        }
        let config = ConnectionConfig::parse("postgres://me@db").unwrap();
        assert_eq!(config.to_string(), "postgres://me@db:5432/me");
        for schema in ["", "Tasks", "a-b", "pg_tasks", "1st", "a; drop"] {
            assert!(
                matches!(config.clone().in_schema(schema), Err(ConnectionConfigError::Schema(_))),
                "{schema}"
            );
        }
        assert_eq!(
            config.in_schema("tasks_2").unwrap().to_string(),
            "postgres://me@db:5432/me (schema tasks_2)"
        );
    }
}
