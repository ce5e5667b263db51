//! `kind = "http"`: each job is a run of an engine with an HTTP and JSON API. The config says how the engine
//! is called: requests are templates, and replies are read with expressions. README.md is the tutorial and
//! the reference of the grammar, and `adapters/README.md` describes the layout. In this adapter:
//!
//! - `config` is the grammar, with the presets, and `language` has its templates and expressions.
//! - `driver` renders requests and reads replies; only its `error` interprets errors. Its `net` is the HTTP
//!   client with its limits, and its `auth` has the credentials.
//! - `check::recorded` tries the recorded replies of a config, offline.
//!
//! It must depend on nothing of the server but the sdk.

mod backend;
mod check;
mod config;
mod core;
mod discovery;
mod driver;
mod hooks;
mod identity;
mod language;
mod observe;
mod questions;
mod result;
mod store;
mod submit;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use taskbridge_sdk::{Adapter, Backend, ConnectContext, JobHandle, Problem, Result, async_trait};

pub use config::{Config, Target};

/// Adapter for engines with an HTTP API.
#[derive(Debug)]
pub struct Http;

#[async_trait]
impl Adapter for Http {
    const KIND: &'static str = "http";

    type Config = Config;
    type Target = Target;

    const SECRETS: &'static [&'static str] = &SECRETS;

    const PRESETS: &'static [(&'static str, &'static str)] = config::presets::PRESETS;

    fn complete(fields: &Value) -> Result<Value, Problem> {
        let fields = config::presets::complete(fields)?;
        // Here, because the parsed config no longer has the texts with their places.
        check::names::check(&fields).map(|()| fields)
    }

    fn check_config(config: &Config) -> Result<(), Problem> {
        check::config::check(config)
    }

    fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::target::check(config, target, parameters)
    }

    fn visible_parameters(config: &Config, target: &Target) -> BTreeSet<String> {
        check::target::visible_parameters(config, target)
    }

    fn example_handles(config: &Config) -> Vec<JobHandle> {
        check::recorded::polled_handles(config)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(core::Http::connect(config, context)?))
    }
}

/// Paths of the secrets of a backend: those of `auth`, and others.
const SECRETS: [&str; config::auth::SECRETS.len() + OTHER_SECRETS.len()] = {
    let mut all = [""; config::auth::SECRETS.len() + OTHER_SECRETS.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < OTHER_SECRETS.len() {
            OTHER_SECRETS[n]
        } else {
            config::auth::SECRETS[n - OTHER_SECRETS.len()]
        };
        n += 1;
    }
    all
};

const OTHER_SECRETS: [&str; 4] =
    ["proxy", "hook.token.secret", "hook.hmac.secret", "hook.standard_webhooks.secret"];
