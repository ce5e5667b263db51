//! One module per generation of the protocol: its wire types, their parsing, and what only that generation
//! has. Generations must not depend on each other or on a transport.

pub mod v2025_11_25;
pub mod v2026_07_28;
