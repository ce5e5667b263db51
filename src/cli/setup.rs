//! A user's first minutes: a demo, a first config, the settings of clients, what shells and `man` read, and
//! what a server prints at its start.

pub(super) mod connect;
pub(super) mod dev;
pub(super) mod init;
pub(super) mod manual;
pub(super) mod welcome;
