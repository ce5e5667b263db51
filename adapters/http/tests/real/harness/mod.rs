//! What the tests of all engines share: the engine's process, a proxy before it, and a backend that is connected
//! to it. It must not know an engine.

pub(crate) mod as_server;
pub(crate) mod engine;
pub(crate) mod keyless;
pub(crate) mod proxy;
pub(crate) mod world;
