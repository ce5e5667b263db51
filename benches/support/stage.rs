//! What is measured: one server, or several bridges over one database.

use std::net::SocketAddr;

use super::Result;
use super::database::Database;
use super::place::Places;
use super::server::Server;

/// Where bridges keep their tasks, and how many of them do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// One, in a file.
    Sqlite,
    /// So many, in a database.
    Postgres(usize),
}

/// Running servers. (Dropped in this order: a database that goes first would make bridges complain.)
pub(crate) struct Stage {
    pub(crate) servers: Vec<Server>,
    pub(crate) database: Option<Database>,
}

/// CPU in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) servers: u64,
    pub(crate) database: u64,
}

impl Over {
    /// What stands in the table.
    pub(crate) fn name(self) -> String {
        match self {
            Over::Sqlite => "SQLite".to_owned(),
            Over::Postgres(replicas) => format!("PG x{replicas}"),
        }
    }
}

impl Stage {
    /// Bridges with a new store, on the disk that has the build.
    pub(crate) async fn bridges(places: &Places, name: &str, over: Over, tell: bool) -> Result<Self> {
        let Over::Postgres(replicas) = over else {
            return Ok(Self { servers: vec![Server::bridge(places, name, None, tell)?], database: None });
        };
        let database = Database::start(places).await?;
        let url = database.url();
        let bridge = |n| Server::bridge(places, &format!("{name}-{n}"), Some(&url), tell);
        let servers = (0..replicas).map(bridge);
        Ok(Self { servers: servers.collect::<Result<_>>()?, database: Some(database) })
    }

    /// A bare server.
    pub(crate) fn bare(server: Server) -> Self {
        Self { servers: vec![server], database: None }
    }

    /// Where they listen.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.address).collect()
    }

    /// What they have used so far.
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

    /// Memory of the bridges together, in KiB.
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
