//! Clients that mean harm, against the real program and mostly over raw sockets: what is sent is not what a library would
//! send. docs/attacks.md has a row for each.

mod connections;
mod counted;
mod deliveries;
mod forms;
mod messages;
pub(crate) mod raw;
mod slow;
mod tls;
