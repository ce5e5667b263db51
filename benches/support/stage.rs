//! The measured system: one server, or several bridges over one database.

use std::net::SocketAddr;

use super::Result;
use super::database::Database;
use super::engine::Engine;
use super::place::Places;
use super::server::{Server, Shared};

/// The store of the bridges, and their number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// One bridge, over a file.
    Sqlite,
    /// This number of bridges, over a database.
    Postgres(usize),
}

/// Running servers. (Dropped in this order: without the database, bridges would log errors.)
pub(crate) struct Stage {
    pub(crate) servers: Vec<Server>,
    pub(crate) database: Option<Database>,
    _engine: Option<Engine>,
}

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) servers: u64,
    pub(crate) database: u64,
}

impl Over {
    /// Returns its name in the table.
    pub(crate) fn name(self) -> String {
        match self {
            Over::Sqlite => "SQLite".to_owned(),
            Over::Postgres(replicas) => format!("PG x{replicas}"),
        }
    }
}

impl Stage {
    /// Starts bridges with a new store, on the disk of the build.
    pub(crate) async fn bridges(places: &Places, name: &str, over: Over, tell: bool) -> Result<Self> {
        let Over::Postgres(replicas) = over else {
            return Ok(Self::bare(Server::bridge(places, name, Shared::default(), tell)?));
        };
        let database = Database::start(places).await?;
        let url = database.url();
        // The others cannot reach an engine inside a process, and any bridge may poll any job.
        let engine = if replicas > 1 { Some(Engine::start()?) } else { None };
        let engine_at = engine.as_ref().map(|engine| engine.address.as_str());
        let shared = Shared { database: Some(&url), engine: engine_at, ..Shared::default() };
        let bridge = |n| Server::bridge(places, &format!("{name}-{n}"), shared, tell);
        let servers = (0..replicas).map(bridge).collect::<Result<_>>()?;
        Ok(Self { servers, database: Some(database), _engine: engine })
    }

    /// Wraps a server that shares nothing.
    pub(crate) fn bare(server: Server) -> Self {
        Self { servers: vec![server], database: None, _engine: None }
    }

    /// Returns the addresses of the servers.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.address).collect()
    }

    /// Returns the CPU time so far.
    pub(crate) fn used(&mut self) -> Result<Used> {
        let mut used = Used::default();
        for server in &mut self.servers {
            used.servers += server.meter.cpu_ns()?;
        }
        if let Some(database) = &mut self.database {
            used.database = database.meter.cpu_ns()?;
        }
        Ok(used)
    }

    /// Returns the total memory of the bridges, in KiB.
    pub(crate) fn memory_kib(&self) -> Result<u64> {
        self.servers.iter().map(|server| server.meter.memory_kib()).sum()
    }
}

impl std::ops::Sub for Used {
    type Output = Used;

    fn sub(self, earlier: Used) -> Used {
        Used { servers: self.servers - earlier.servers, database: self.database - earlier.database }
    }
}
