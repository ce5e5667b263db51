//! What a config file may say about this backend and its tools. Shapes only: [`crate::check`] checks them and
//! [`crate::order`] turns them into something to run. The comments below become the config's JSON Schema.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::CommandArgument;

use crate::environment::VariableName;

/// Runs commands on the machine that the server runs on. Jobs outlive the server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LocalConfig")]
pub struct Config {
    /// Where commands run, unless their target says otherwise. A relative path starts at the folder of the config
    /// file. Without one, each job runs in an empty folder of its own that is removed with it.
    pub working_dir: Option<PathBuf>,
    /// Environment variables for every job, word for word. Jobs see only these, those of `pass_env` and of their
    /// target, a plain `PATH`, and what the server tells them in `TASKBRIDGE_...`.
    pub env: BTreeMap<VariableName, String>,
    /// Names of the server's own environment variables that jobs may see, such as `["HOME", "LANG"]`. They are read
    /// when the backend is connected, at the start or with a changed config; those that are not set then are left out.
    pub pass_env: Vec<VariableName>,
    /// How long a job that is told to stop (SIGTERM) may take before it is killed (SIGKILL).
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub kill_grace: Duration,
    /// How long an ended job's files stay at most; they go with its task, if that expires earlier. It must be longer than
    /// the server may be down: a job whose files are gone can tell nobody how it ended.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub keep: Duration,
    /// How many bytes of a job's standard output are kept, and as many of its standard error. Of what is longer, the
    /// first third and the end are kept, with a marker between them.
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
            max_output_bytes: const { NonZeroU64::new(256 * 1024).expect("it is not zero") },
        }
    }
}

/// The command that a tool runs. No shell is involved: the program receives each argument exactly as it was rendered.
///
/// Templates are Jinja (minijinja). They see the tool's parameters by name, and `taskbridge.job`,
/// `taskbridge.artifacts`, `taskbridge.events`, `taskbridge.output`, `taskbridge.content` and `taskbridge.questions`,
/// which are what the job sees as `$TASKBRIDGE_JOB` and so on, and `taskbridge.caller`, the name of whoever asked, if there is
/// one. Text is rendered as it is, everything else as JSON.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LocalTarget")]
pub struct Target {
    /// The program and its arguments, such as `["du", "-s", ["--max-depth", "{{ depth }}"], "{{ path }}"]`. A
    /// template is always exactly one argument. Arguments in a nested array belong together and are optional: all of
    /// them are left out if they name a parameter that was not given (or null), or if one of them renders empty. A
    /// program with a `/` in it starts at the folder of the config file; others are looked for on the job's `PATH`.
    #[schemars(length(min = 1))]
    pub command: Vec<CommandArgument>,
    /// Lets a caller's value begin an argument with a dash where no `--` stands right before it, or before the values that it
    /// follows. Without this such a call is refused, since the program could take the value for an option.
    #[serde(default)]
    pub allow_leading_dash: bool,
    /// Where the command runs (a template); see the backend's `working_dir`.
    #[serde(default)]
    pub working_dir: Option<String>,
    /// More environment variables (the values are templates). They win over the backend's.
    #[serde(default)]
    pub env: BTreeMap<VariableName, String>,
    /// What the command reads on its standard input (a template); without it, nothing.
    #[serde(default)]
    pub stdin: Option<String>,
    /// How long the command may run before it is stopped and the job fails. Without it, there is no limit here.
    #[serde(default, with = "humantime_serde")]
    #[schemars(with = "Option<String>")]
    pub timeout: Option<Duration>,
    /// The exit codes that mean success.
    #[serde(default = "zero")]
    #[schemars(length(min = 1))]
    pub success_exit_codes: Vec<u8>,
}

fn zero() -> Vec<u8> {
    vec![0]
}
