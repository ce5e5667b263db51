//! [`Adapter`]: a kind of engine that can be named in a config file. It must not keep anything: what is connected
//! is a [`crate::Backend`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{Backend, Result};

/// A kind of engine. Both associated types should refuse unknown fields.
#[async_trait]
pub trait Adapter: Send + Sync + 'static {
    /// The `kind` in `[backends.NAME]`.
    const KIND: &'static str;

    /// What `[backends.NAME]` holds beside `kind` and what the server itself reads there.
    type Config: DeserializeOwned + JsonSchema + Send + Sync;

    /// What `[tools.NAME.target]` holds: what to run for that tool.
    type Target: DeserializeOwned + JsonSchema + Send + Sync;

    /// A second role of the server's own program that this adapter needs, such as a supervisor beside each job.
    const HELPER: Option<Helper> = None;

    /// True if a job can only be reached on the machine that started it. Where servers on several machines share their
    /// tasks, the config must say which one that is, as `host` in `[backends.NAME]`.
    const ONE_MACHINE: bool = false;

    /// The fields of `Config` that are a [`crate::Secret`], as paths such as `app.private_key` or `users.*.token` (`*` is any key). The server finds what they name (an
    /// environment variable, a file), and says what is wrong with that; a file that changes is another config.
    const SECRETS: &'static [&'static str] = &[];

    /// Checks, offline, what the shapes cannot say. `parameters` are the tool's top-level parameter names.
    fn check(config: &Self::Config, target: &Self::Target, parameters: &[&str]) -> Vec<Problem>;

    /// Connects. Wrong credentials and settings are found here, where that needs no job.
    ///
    /// # Errors
    /// `Config` if the config file is wrong, so that no later attempt can succeed: the server does not start. All other kinds
    /// leave the server without this backend, and it connects again with backoff. See [`crate::Error::while_connecting`].
    async fn connect(config: Self::Config, context: &Connect) -> Result<Arc<dyn Backend>>;
}

/// A second role of the server's program: run with the arguments after `taskbridge adapter-helper KIND`, before any
/// runtime or thread exists.
pub type Helper = fn(&[OsString]) -> ExitCode;

/// What the server tells an adapter about its surroundings.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The backend's name in the config.
    pub name: String,
    /// The absolute folder of the config file: relative paths in the config start here.
    pub config_dir: PathBuf,
    /// An absolute folder that belongs to this backend alone and outlives the process. It may not exist yet.
    pub state_dir: PathBuf,
    /// The server's program, to be run in the adapter's helper role.
    pub program: PathBuf,
    /// How long the server waits for one call. What takes longer is given up, and if that is a start, nobody knows what came
    /// of it.
    pub call_limit: Duration,
}

/// Something wrong in a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field within the target, such as `command[2]`.
    pub field: String,
    /// What is wrong with its value and how to mend it.
    pub message: String,
}
