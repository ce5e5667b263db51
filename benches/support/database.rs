//! A PostgreSQL server for the benchmark, which flushes every commit to the disk, with its counters and
//! resource usage.

use std::path::Path;
use std::process::Command;

use super::Result;
use super::place::Places;
use super::postgres::Postgres;
use super::process::Meter;

/// A running server, which is stopped on drop.
pub(crate) struct Database {
    server: Postgres,
    client: tokio_postgres::Client,
    /// The resource usage of all of its processes.
    pub(crate) meter: Meter,
    _folder: tempfile::TempDir,
}

impl Database {
    /// Reports whether this machine has a PostgreSQL server that can be started.
    pub(crate) fn is_there() -> bool {
        let in_path = || Command::new("initdb").arg("--version").output().is_ok();
        // Debian installs the server's programs outside of the path.
        Path::new("/usr/lib/postgresql").is_dir() || in_path()
    }

    /// Starts a server on the servers' CPU.
    pub(crate) async fn start(places: &Places) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let settings = ["fsync=on", "shared_buffers=128MB"];
        let server = places.as_server(|| Ok(Postgres::start_in(folder.path(), &settings)))?;
        let client = server.client("public").await;
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await?;
        let child = u32::try_from(row.get::<_, i32>(0))?;
        Ok(Self { server, client, meter: Meter::of_siblings(child)?, _folder: folder })
    }

    /// Returns its URL with the password.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the number of committed transactions. A single statement is one transaction.
    pub(crate) async fn transactions(&self) -> Result<u64> {
        let text = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        Ok(self.client.query_one(text, &[]).await?.get::<_, i64>(0).try_into()?)
    }
}
