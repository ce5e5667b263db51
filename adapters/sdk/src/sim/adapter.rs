//! [`Sim`]: the simulated engine as an adapter, with its config.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backend::Own;
use super::{FaultRates, SimClient, SimEngine, Target, helper};
use crate::{Adapter, Backend, Connect, Error, ErrorKind, Helper, Problem, Result, Secret};

/// The adapter of the simulated engine.
pub struct Sim;

/// How a simulated engine behaves. Without an `address`, its jobs live in the server's own process and end with it.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where an engine that is a process of its own listens, on loopback: `127.0.0.1:PORT`. Such a process is started
    /// with `taskbridge adapter-helper sim`, and is told there how to behave.
    pub address: Option<SocketAddr>,
    /// What a second start under a key that the engine knows does. Default: keyed, or as the process at `address`
    /// has it.
    pub mode: Option<Mode>,
    /// How many ended jobs are remembered, at about half a KiB each; older ones are gone.
    pub remember: usize,
    /// Decides which requests the `faults` befall: the same seed and the same requests give the same faults.
    pub seed: u64,
    /// What goes wrong by chance. Default: nothing.
    pub faults: FaultRates,
    /// The secret that whoever posts to `/hooks/NAME` shows in the header `x-sim-secret`. Without it, nothing is taken there.
    pub hook_secret: Option<Secret>,
    /// Offer what the engine says could be run as tools.
    pub discover: Option<Discover>,
    /// What the backend says that it is connected to. Default: its `address`; an engine in the server's process has none.
    pub identity: Option<String>,
    /// For how long the backend says that it may list a question after it was answered. The engine itself never does.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub list_lag: Duration,
    /// How long a new job is unknown to polls, searches and cancellations, and how long the backend says that it may be. An engine
    /// at `address` has a lag of its own, `--start-lag`.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub start_lag: Duration,
}

/// Which of the things that could be run are offered as tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SimDiscover")]
pub struct Discover {
    /// Those alone whose names start with this.
    pub starting_with: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: None,
            mode: None,
            remember: 100_000,
            seed: 0,
            faults: FaultRates::default(),
            hook_secret: None,
            discover: None,
            identity: None,
            list_lag: Duration::ZERO,
            start_lag: Duration::ZERO,
        }
    }
}

/// How a simulated engine treats a key that it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A start under a known key returns its job, as with an engine that has idempotency keys or unique names.
    #[default]
    Keyed,
    /// Every start makes a new job. The key is only a mark in the list of jobs, by which a job can be found.
    Unkeyed,
}

#[async_trait]
impl Adapter for Sim {
    const KIND: &'static str = "sim";

    type Config = Config;
    type Target = Target;

    const HELPER: Option<Helper> = Some(helper::run);
    const SECRETS: &'static [&'static str] = &["hook_secret"];

    fn check(_config: &Config, target: &Target, _parameters: &[&str]) -> Vec<Problem> {
        target.problems()
    }

    async fn connect(config: Config, _context: &Connect) -> Result<Arc<dyn Backend>> {
        match config.address {
            None => {
                let engine = SimEngine::from_config(&config);
                Ok(Arc::new(engine.backend_for(Own::of(&config))))
            }
            Some(address) => connect_to_process(address, &config).await,
        }
    }
}

async fn connect_to_process(address: SocketAddr, config: &Config) -> Result<Arc<dyn Backend>> {
    if !address.ip().is_loopback() {
        let message =
            format!("address = {address}: give a loopback address, such as 127.0.0.1:{}", address.port());
        return Err(Error::config(message));
    }
    // What belongs to the engine must be as in a config that says nothing of it.
    let Config { remember, seed, faults, .. } = Config::default();
    if (config.remember, config.seed, config.faults) != (remember, seed, faults) {
        return Err(Error::config(
            "remember, seed and faults belong to the process at `address`: give them to `taskbridge adapter-helper sim`",
        ));
    }
    let client = SimClient::new(address);
    match client.counts(None).await {
        Ok(counts) if config.mode.is_some_and(|mode| mode != counts.mode) => {
            let mode = counts.mode;
            Err(Error::config(format!(
                "mode: the engine at {address} is {mode:?}; set the same or leave it out"
            )))
        }
        // An engine that is away is no fault of the config: every job will say so.
        Err(error) if error.kind() != ErrorKind::Unavailable => Err(error),
        _ => Ok(Arc::new(client.backend_for(Own::of(config)))),
    }
}
