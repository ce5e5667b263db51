//! Tests with malicious clients, against the real program and mostly over raw sockets, because a library
//! would not send such input. docs/attacks.md has a row for each test.

mod connections;
mod counted;
mod deliveries;
mod forms;
mod messages;
pub(crate) mod raw;
mod slow;
mod tls;
