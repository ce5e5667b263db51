//! How statements reach the file: its connections, its schema, and its errors. It must not read or write
//! a task, or use another folder of this store.
//!
//! - `connect`: opens connections. `schema`: the schema by version. `moved`: the mark of a copied file.
//! - `writer`: one connection writes, with many operations per transaction; `fair_yield`: lets other
//!   processes write. `files`: checks that the paths still name the open files.
//! - `readers`: a small pool of reading connections.
//! - `db`: one connection during one operation. `fault`: errors and their fixes.

pub(super) mod connect;
pub(super) mod db;
mod fair_yield;
pub(super) mod fault;
pub(super) mod files;
pub(super) mod moved;
pub(super) mod readers;
pub(super) mod schema;
pub(super) mod writer;

use std::time::Duration;

/// How long an operation waits for another process that has the file locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
