//! `kind = "process"`: an adapter in any language. Its program answers JSON-RPC messages on standard input
//! and output, or over HTTP. docs/adapter-protocol.md describes the messages.
//!
//! The server registers [`Process`]. `protocol` has the messages, `driver` keeps a program connected and
//! makes calls, and `launcher` is the process between the server and the program, which ends it with all its
//! children. The other modules have the names of `adapters/README.md`.
//!
//! It must not know any engine, and must not trust what a program sends.

#[cfg(not(target_os = "linux"))]
compile_error!("the process adapter needs Linux: it relies on parent-death signals and /proc");

mod backend;
mod check;
mod config;
mod core;
mod discovery;
mod driver;
mod launcher;
mod observe;
pub mod protocol;
mod questions;
mod result;
mod submit;
pub mod trial;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, ConnectContext, Helper, Problem, Result, async_trait};

pub use check::describe::describe;
pub use config::{Auth, Child, Config, Endpoint, Limits, Schemas, Service, Target};

/// Adapter whose engine is reached through a program.
pub struct Process;

#[async_trait]
impl Adapter for Process {
    const KIND: &'static str = config::KIND;
    const HELPER: Option<Helper> = Some(launcher::main);
    const SECRETS: &'static [&'static str] = &["secrets.*", "auth.bearer", "auth.hmac"];

    type Config = Config;
    type Target = Target;

    fn check_config(config: &Config) -> std::result::Result<(), Problem> {
        match &config.endpoint {
            Endpoint::Child(child) => {
                let user = child.user.as_deref().map(driver::transport::user::User::look_up).transpose();
                user.map(drop).map_err(|message| Problem { field: "user".to_owned(), message })
            }
            Endpoint::Service(service) => driver::transport::service::check(service),
        }
    }

    fn check(config: &Config, target: &Target, _parameters: &[&str]) -> Vec<Problem> {
        check::target::check(config, target)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(core::Core::connect(config, context).await?))
    }
}
