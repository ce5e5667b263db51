//! Engines behind the adapter protocol: each process of a world reaches its engines through the host of
//! `adapters/process`, on the world's clock. The plugin at the other end of the streams loses, delays and
//! doubles its replies, and dies. It must not know a task.

mod faults;
mod messages;
mod plugin;

use std::sync::Arc;
use std::time::Duration;

use taskbridge_process::trial::streams::{Program, connect};
use taskbridge_sdk::Backend;
use taskbridge_sdk::sim::SimEngine;
use tokio::io::duplex;

use super::bugs::Bug;
use super::rng::Rng;

pub(super) use faults::PluginFaults;
use plugin::Plugin;

/// Time for one call.
const LIMIT: Duration = Duration::from_secs(9);
/// Maximum number of calls in progress.
const MAX_IN_FLIGHT: usize = 16;
/// Bytes that a stream holds.
const BUFFER: usize = 1 << 20;

/// What a plugin needs of its engine.
pub(super) struct PluginEngine<'a> {
    pub(super) name: &'static str,
    pub(super) sim: &'a SimEngine,
    pub(super) is_keyed: bool,
    pub(super) faults: Arc<PluginFaults>,
}

/// Starts a process's plugin for an engine, and returns the backend over it.
pub(super) async fn backend(engine: PluginEngine<'_>, rng: &Arc<Rng>, bug: Option<Bug>) -> Arc<dyn Backend> {
    let name = engine.name;
    let plugin = Arc::new(Plugin::new(engine, Arc::clone(rng), bug));
    let start = move || {
        let ((input, requests), (replies, output)) = (duplex(BUFFER), duplex(BUFFER));
        #[allow(clippy::disallowed_methods, reason = "a plugin is a process of its own")]
        tokio::spawn(Arc::clone(&plugin).run(requests, replies));
        Ok((Box::new(input) as _, Box::new(output) as _))
    };
    let program = Program {
        name: name.to_owned(),
        limit: LIMIT,
        max_in_flight: MAX_IN_FLIGHT,
        seed: rng.next(),
        start: Box::new(start),
    };
    let (backend, driver) = connect(program);
    #[allow(clippy::disallowed_methods, reason = "the host's thread")]
    tokio::spawn(driver);
    backend.await.expect("a first run has no faults")
}
