//! The adapter from outside, against two stand-ins for AWS and a proxy before them that loses and refuses what it is told
//! to. README.md has a table of what each stand-in gets wrong. It must not look into the crate.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod asks;
mod attach;
mod behaviour;
mod checks;
mod discovers;
mod ends;
mod express;
mod logged;
mod many;
mod persons;
mod proxy;
mod standin;
mod tells;
mod wire;
mod world;
