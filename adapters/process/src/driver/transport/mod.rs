//! The ways to a program: the pipes of a child process, and HTTP to a service.

pub(crate) mod child;
pub(crate) mod connection;
pub(crate) mod service;
pub(crate) mod user;
