//! `[backends.NAME]`, `[tools.NAME]`, and tools that backends offer. `definition` turns a tool of the file
//! into a definition of the catalog. This module must not call a backend. Of its sibling folders it uses
//! `reading`, `callers` and `server`.

pub(super) mod backends;
pub(super) mod definition;
pub(super) mod discover;
pub(super) mod discovered;
mod input;
mod inquiries;
mod parameters;
pub(super) mod programs;
pub(super) mod shape;
pub(super) mod slots;
