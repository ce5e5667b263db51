//! Tests of the adapter over HTTP, against an engine that misbehaves on request. Unit tests are next to the
//! code.

mod behaviour;
mod configs;
mod lifecycle;
mod nasty;
mod security;
mod world;
