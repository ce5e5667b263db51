//! Config of this backend and its tools. It only defines the types: [`crate::check::target`] checks them, and
//! [`crate::submit::request`] turns them into something to run. The comments below become the config's JSON
//! Schema.

pub(crate) mod environment;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::CommandArgument;

/// Prefix of the variables that describe the job to itself.
const RESERVED_PREFIX: &str = "TASKBRIDGE_";

/// Name of an environment variable that a config may set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("pattern" = "^(?!TASKBRIDGE_)[^=]+$"))]
pub struct VariableName(String);

impl VariableName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(
                "`{name}` is not a name of an environment variable: it is empty, or contains `=` or NUL"
            ));
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(format!(
                "`{name}` cannot be set: variables that begin with `{RESERVED_PREFIX}` are the server's own"
            ));
        }
        Ok(Self(name))
    }
}

/// Runs commands on the server's machine. Jobs outlive the server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LocalConfig")]
pub struct Config {
    /// Working directory of commands, unless their target sets another. A relative path starts at the folder
    /// of the config file. Without one, each job runs in its own empty folder, which is removed with the
    /// job's files.
    pub working_dir: Option<PathBuf>,
    /// Environment variables for every job, used literally. Jobs see only these, those of `pass_env` and of
    /// their target, a default `PATH`, and the server's `TASKBRIDGE_...` variables.
    pub env: BTreeMap<VariableName, String>,
    /// Names of the server's own environment variables that jobs may see, such as `["HOME", "LANG"]`. They
    /// are read when the backend connects, at the start or after a change of the config. Variables that are
    /// not set then are omitted.
    pub pass_env: Vec<VariableName>,
    /// Time between SIGTERM and SIGKILL when a job is stopped.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub kill_grace: Duration,
    /// Maximum time to keep an ended job's files. They are deleted earlier if the task expires earlier. Use
    /// more than the longest downtime of the server: without its files, the result of a job is lost.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub keep: Duration,
    /// How many bytes of a job's standard output are kept, and the same number of its standard error. Of
    /// longer output, the first third and the end are kept, with a marker between them.
    pub max_output_bytes: NonZeroU64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            working_dir: None,
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            kill_grace: Duration::from_secs(10),
            keep: Duration::from_hours(7 * 24),
            max_output_bytes: const { NonZeroU64::new(256 * 1024).expect("the limit is not zero") },
        }
    }
}

/// The command that a tool runs. It does not use a shell: the program receives each argument exactly as
/// rendered.
///
/// Templates are Jinja (minijinja). They can use the tool's parameters by name, and `taskbridge.job`,
/// `taskbridge.artifacts`, `taskbridge.events`, `taskbridge.output`, `taskbridge.content` and
/// `taskbridge.questions`, which equal `$TASKBRIDGE_JOB` and so on in the job. `taskbridge.caller` is the
/// name of the caller, if there is one. `taskbridge.arguments` is the object of all arguments. Text is
/// rendered unchanged, everything else as JSON.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LocalTarget")]
pub struct Target {
    /// The program and its arguments, such as `["du", "-s", ["--max-depth", "{{ depth }}"], "{{ path }}"]`. A
    /// template is always exactly one argument. Arguments in a nested array are optional together: all of
    /// them are omitted if one names a parameter that is absent or null, or if one renders empty. A program
    /// with a `/` in its name starts at the folder of the config file. Others are searched on the job's
    /// `PATH`.
    #[schemars(length(min = 1))]
    pub command: Vec<CommandArgument>,
    /// Allow a caller's value to start an argument with a dash where no `--` precedes it, directly or before
    /// other such values. By default such a call is refused, because the program could take the value for an
    /// option.
    #[serde(default)]
    pub allow_leading_dash: bool,
    /// Working directory of the command (a template). Default: the backend's `working_dir`.
    #[serde(default)]
    pub working_dir: Option<String>,
    /// Additional environment variables (the values are templates). They override the backend's.
    #[serde(default)]
    pub env: BTreeMap<VariableName, String>,
    /// Standard input of the command (a template). Default: empty.
    #[serde(default)]
    pub stdin: Option<String>,
    /// How long the command may run. After that, it is stopped and the job fails. Default: no limit.
    #[serde(default, with = "humantime_serde")]
    #[schemars(with = "Option<String>")]
    pub timeout: Option<Duration>,
    /// Exit codes that mean success.
    #[serde(default = "zero")]
    #[schemars(length(min = 1))]
    pub success_exit_codes: Vec<u8>,
}

fn zero() -> Vec<u8> {
    vec![0]
}
