//! A PostgreSQL server of the benchmark's own, with every commit on the disk, and what it is asked and uses.

use std::path::Path;
use std::process::Command;

use super::Result;
use super::place::Places;
use super::postgres::Postgres;
use super::process::Meter;

/// A running server. It is stopped when it is dropped.
pub(crate) struct Database {
    server: Postgres,
    client: tokio_postgres::Client,
    /// What its processes use together.
    pub(crate) meter: Meter,
    _folder: tempfile::TempDir,
}

impl Database {
    /// True if there is a PostgreSQL server on this machine that can be started.
    pub(crate) fn is_there() -> bool {
        let in_path = || Command::new("initdb").arg("--version").output().is_ok();
        // Debian keeps the programs of the server out of the path.
        Path::new("/usr/lib/postgresql").is_dir() || in_path()
    }

    /// Starts one on the servers' CPU.
    pub(crate) async fn start(places: &Places) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let settings = ["fsync=on", "shared_buffers=128MB"];
        let server = places.as_server(|| Ok(Postgres::start_in(folder.path(), &settings)))?;
        let client = server.client("public").await;
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await?;
        let child = u32::try_from(row.get::<_, i32>(0))?;
        Ok(Self { server, client, meter: Meter::of_siblings(child)?, _folder: folder })
    }

    /// Where it is, with the password.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// How many transactions it has committed; one that asks for nothing more than one statement is one.
    pub(crate) async fn transactions(&self) -> Result<u64> {
        let text = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        Ok(self.client.query_one(text, &[]).await?.get::<_, i64>(0).try_into()?)
    }
}
