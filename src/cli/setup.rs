//! A user's first minutes: a demo, a first config, the settings of clients, and what shells and `man` read.

pub(super) mod connect;
pub(super) mod dev;
pub(super) mod init;
pub(super) mod manual;
