//! [`Adapter`]: a kind of engine that a config file can name. It must not keep state; state belongs to the
//! connected [`crate::Backend`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Backend, JobHandle, PolicyDocument, Result, ToolTarget};

/// A kind of engine. Both associated types should reject unknown fields.
#[async_trait]
pub trait Adapter: Send + Sync + 'static {
    /// Value of `kind` in `[backends.NAME]`.
    const KIND: &'static str;

    /// Contents of `[backends.NAME]`, except `kind` and the fields that the server itself reads there.
    type Config: DeserializeOwned + JsonSchema + Send + Sync;

    /// Contents of `[tools.NAME.target]`: what to run for that tool.
    type Target: DeserializeOwned + JsonSchema + Send + Sync;

    /// Additional role of the server's program that this adapter needs, such as a supervisor for each job.
    const HELPER: Option<Helper> = None;

    /// True if a job can only be reached on the machine that started it. If servers on several machines share
    /// a store, the config must name that machine, as `host` in `[backends.NAME]`.
    const ONE_MACHINE: bool = false;

    /// Fields of `Config` that are a [`crate::Secret`], as paths such as `app.private_key` or `users.*.token`
    /// (`*` is any key). The server resolves them from an environment variable or a file, and reports any
    /// error. A changed file counts as a changed config.
    const SECRETS: &'static [&'static str] = &[];

    /// Backends that are known, for `taskbridge presets`: name, and fields as TOML.
    const PRESETS: &'static [(&'static str, &'static str)] = &[];

    /// Returns the fields of a backend with those that they imply, such as those of a preset, before they are
    /// parsed as `Config`. The default changes nothing. The server has resolved the secrets.
    ///
    /// # Errors
    /// The field that is wrong.
    fn complete(fields: &Value) -> Result<Value, Problem> {
        Ok(fields.clone())
    }

    /// Checks, offline, the rules of a backend's config that the type cannot express. The default has none.
    ///
    /// # Errors
    /// The field that is wrong.
    fn check_config(_config: &Self::Config) -> Result<(), Problem> {
        Ok(())
    }

    /// Checks, offline, the rules that the types cannot express. `parameters` contains the tool's top-level
    /// parameter names.
    fn check(config: &Self::Config, target: &Self::Target, parameters: &[&str]) -> Vec<Problem>;

    /// Returns the top-level parameters that a job of this tool shows outside of the body of a request, such as
    /// in an address or a header, where logs have them. A `*` stands for all. The server refuses a tool that
    /// shows a sensitive parameter. It works offline. The default returns none.
    fn visible_parameters(_config: &Self::Config, _target: &Self::Target) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Returns the access policies that the jobs of these tools need, if the engine has such policies. It
    /// works offline. The default returns none.
    fn policies(_config: &Self::Config, _tools: &[ToolTarget]) -> Vec<PolicyDocument> {
        Vec::new()
    }

    /// Returns handles of jobs that the engine should not have, given a valid config. `taskbridge presets try`
    /// polls them: they must be gone. The default has none.
    fn example_handles(_config: &Self::Config) -> Vec<JobHandle> {
        Vec::new()
    }

    /// Connects to the engine. This call detects wrong credentials and settings, as far as that needs no job.
    ///
    /// # Errors
    /// Returns `Config` if the config file is wrong, so that no later attempt can succeed: the server does
    /// not start. After any other kind, the server runs without this backend and retries the connection with
    /// backoff. See [`crate::Error::while_connecting`].
    async fn connect(config: Self::Config, context: &ConnectContext) -> Result<Arc<dyn Backend>>;
}

/// Entry point of an additional role of the server's program. It receives the arguments after
/// `taskbridge adapter-helper KIND`, before any runtime or thread exists.
pub type Helper = fn(&[OsString]) -> ExitCode;

/// Information about the server that an adapter receives when it connects.
#[derive(Clone, Debug)]
pub struct ConnectContext {
    /// Name of the backend in the config.
    pub name: String,
    /// Absolute path of the config file's folder. Relative paths in the config are resolved against it.
    pub config_dir: PathBuf,
    /// Absolute path of a folder that belongs to this backend alone and outlives the process. It may not
    /// exist yet.
    pub state_dir: PathBuf,
    /// Path of the server's program, for starting it in the adapter's helper role.
    pub program: PathBuf,
    /// Timeout of one call. The server abandons a call that takes longer. The result of an abandoned start is
    /// unknown.
    pub call_timeout: Duration,
}

/// An error in a target, or in the config of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `command[2]`. Empty if the error concerns no single field.
    pub field: String,
    /// What is wrong with the value, and how to fix it.
    pub message: String,
}
