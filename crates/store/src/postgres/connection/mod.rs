//! How statements reach the database: its settings, its connections, its schema, and its errors. It must not
//! read or write a task, or use another folder of this store.
//!
//! - `connection_config`: the settings. `connect`: connections and their pool. `schema`: the schema by
//!   version.
//! - `executor`: executes and retries reads and writes; `row_locks`: the order of writes to one row.
//! - `db`: one connection during one operation, with its transactions and locks. `named`: parameters by name;
//!   `column`: encodes text. `fault`: errors and their fixes.
//! - `hints`: sends hints about writes to other processes, and receives theirs.

pub(super) mod column;
pub(super) mod connect;
pub(super) mod connection_config;
pub(super) mod db;
pub(super) mod executor;
pub(super) mod fault;
pub(super) mod hints;
pub(super) mod named;
mod row_locks;
pub(super) mod schema;
