//! [`Sim`]: the adapter of the simulated engine, and its config.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backend::BackendSettings;
use super::{FaultRates, SimClient, SimEngine, Target, helper};
use crate::{Adapter, Backend, ConnectContext, Error, ErrorKind, Helper, Problem, Result, Secret};

/// Adapter of the simulated engine.
pub struct Sim;

/// Behaviour of a simulated engine. Without an `address`, its jobs run in the server's own process and end
/// with it.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Loopback address of an engine in a separate process: `127.0.0.1:PORT`. Start that process with
    /// `taskbridge adapter-helper sim`; its options configure the engine.
    pub address: Option<SocketAddr>,
    /// What a second start under a known key does. Default: keyed, or the mode of the process at `address`.
    pub mode: Option<Mode>,
    /// How many ended jobs the engine remembers, at about half a KiB each. It forgets older ones.
    pub remember: usize,
    /// Seed that selects the requests with `faults`: the same seed and the same requests give the same
    /// faults.
    pub seed: u64,
    /// Random faults. Default: none.
    pub faults: FaultRates,
    /// Secret that a request to `/hooks/NAME` must have in the header `x-sim-secret`. Without it, all such
    /// requests are rejected.
    pub hook_secret: Option<Secret>,
    /// Offer what the engine could run as tools.
    pub discover: Option<Discover>,
    /// Identity of what the backend is connected to. Default: its `address`; an engine in the server's
    /// process has none.
    pub identity: Option<String>,
    /// How long the backend claims that it may list a question after the answer. The engine itself never
    /// lists it again.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub list_lag: Duration,
    /// How long a new job is unknown to polls, searches and cancellations, which the backend also claims. An
    /// engine at `address` has its own lag, `--start-lag`.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub start_lag: Duration,
    /// How long the engine knows a key: a start under an older key starts another job. Default: for ever. An
    /// engine at `address` has its own, `--key-lifetime`.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "Option<String>")]
    pub key_lifetime: Option<Duration>,
}

/// Which entries of the engine's list are offered as tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SimDiscover")]
pub struct Discover {
    /// Only entries whose names start with this text.
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
            key_lifetime: None,
        }
    }
}

/// How a simulated engine handles a key that it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A start under a known key returns the job of that key, as in an engine with idempotency keys or unique
    /// names.
    #[default]
    Keyed,
    /// Every start creates a new job. The key is only a label in the list of jobs, by which a search finds a
    /// job.
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

    async fn connect(config: Config, _context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        match config.address {
            None => {
                let engine = SimEngine::from_config(&config);
                Ok(Arc::new(engine.backend_for(BackendSettings::of(&config))))
            }
            Some(address) => connect_to_process(address, &config).await,
        }
    }
}

async fn connect_to_process(address: SocketAddr, config: &Config) -> Result<Arc<dyn Backend>> {
    if !address.ip().is_loopback() {
        let message =
            format!("address = {address}: write a loopback address, such as 127.0.0.1:{}", address.port());
        return Err(Error::config(message));
    }
    // The settings of the engine itself must have their default values.
    let Config { remember, seed, faults, .. } = Config::default();
    if (config.remember, config.seed, config.faults) != (remember, seed, faults) {
        return Err(Error::config(
            "remember, seed and faults belong to the process at `address`: pass them to `taskbridge adapter-helper sim`",
        ));
    }
    let client = SimClient::new(address);
    match client.counts(None).await {
        Ok(counts) if config.mode.is_some_and(|mode| mode != counts.mode) => {
            let mode = counts.mode;
            Err(Error::config(format!(
                "mode: the engine at {address} is {mode:?}; set the same mode, or remove the field"
            )))
        }
        // An unreachable engine is not an error of the config. Every job will report it.
        Err(error) if error.kind() != ErrorKind::Unavailable => Err(error),
        _ => Ok(Arc::new(client.backend_for(BackendSettings::of(config)))),
    }
}
