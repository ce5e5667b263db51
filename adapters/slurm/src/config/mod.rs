//! Config of this backend and its tools. Defines only the format: [`crate::check::target`] validates it and
//! [`crate::submit::request`] turns it into a submission. The doc comments below become the config's JSON
//! Schema.

pub(crate) mod discover;
pub(crate) mod environment;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::{CommandArgument, Secret};

use crate::config::discover::Discover;
use crate::config::environment::VariableName;

/// Submits batch scripts to a Slurm cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SlurmConfig")]
pub struct Config {
    /// A folder that this server and the cluster's nodes see at the same path, such as
    /// `/home/lab/.taskbridge`. Each job gets a folder there for its script, arguments, logs and exit status.
    /// A relative path starts at the folder of the config file. The default is a folder in the server's state
    /// directory, which works only if server and nodes are one machine.
    pub jobs_dir: Option<PathBuf>,
    /// The folder in which scripts run, unless their target sets another. A relative path starts at the
    /// folder of the config file. By default, each job runs in an empty folder of its own.
    pub working_dir: Option<PathBuf>,
    /// Run Slurm's commands on a login node, such as `{ host = "bridge@login1" }`. By default, they run on
    /// this machine.
    pub ssh: Option<Ssh>,
    /// The folder of Slurm's commands, if they are not on the `PATH`: `/opt/slurm/bin`.
    pub commands_dir: Option<PathBuf>,
    /// Slurm's configuration file, if it is not the usual one (`SLURM_CONF`).
    pub slurm_conf: Option<PathBuf>,
    /// Use slurmrestd instead of Slurm's commands, such as `{ socket = "/run/slurmrestd.sock" }`.
    pub rest: Option<Rest>,
    /// Submit each caller's jobs as their own Unix user, such as `{ ann = { user = "asmith" } }`. The key is
    /// the name of an API key, or `ISSUER#SUBJECT` of a token. Callers that are not listed are refused. By
    /// default, all jobs run as the server's own user.
    pub run_as: Option<BTreeMap<String, Person>>,
    /// The command that runs another command as a Unix user. It is followed by `-u USER -- COMMAND`. Used
    /// with `run_as`, unless `rest` is set.
    pub sudo: Vec<String>,
    /// Offer the batch scripts of a folder as tools.
    pub discover: Option<Discover>,
    /// The cluster, if Slurm knows several (`--clusters`). The default is the one that the commands use.
    pub cluster: Option<String>,
    /// Whether to query the accounting database (slurmdbd). The default follows the cluster's configuration.
    pub accounting: Option<bool>,
    /// Timeout of one command, or of one step in the jobs folder, whose file system may hang. A start runs up
    /// to three commands within half of the server's `reconciler.lease`, so the timeout is at most a third of
    /// that half.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub command_timeout: Duration,
    /// Minimum interval between two polls of Slurm: one `squeue` for all jobs. A slow controller is polled
    /// less often.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub look_every: Duration,
    /// Interval at which the pending jobs of all users are listed, to report a job's position in the queue.
    /// Zero turns positions off.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub position_every: Duration,
    /// How long to wait for the accounting record of an ended job. It contains the used memory.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub accounting_wait: Duration,
    /// How long the folder of an ended job is kept.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub keep: Duration,
    /// Environment variables for every job, used verbatim.
    pub env: BTreeMap<VariableName, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            jobs_dir: None,
            working_dir: None,
            ssh: None,
            commands_dir: None,
            slurm_conf: None,
            rest: None,
            run_as: None,
            sudo: ["sudo", "-n"].map(str::to_owned).to_vec(),
            discover: None,
            cluster: None,
            accounting: None,
            command_timeout: Duration::from_secs(8),
            look_every: Duration::from_secs(15),
            position_every: Duration::from_secs(60),
            accounting_wait: Duration::from_secs(10),
            keep: Duration::from_hours(30 * 24),
            env: BTreeMap::new(),
        }
    }
}

/// The Unix user that a caller's jobs run as.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { user = \"NAME\" }")]
#[schemars(rename = "SlurmPerson")]
pub struct Person {
    /// The name of the user.
    pub user: String,
    /// A group with this user and the server's user as its only members. Through it, each can read what the
    /// other wrote into the job's folder. The default is the group with the user's name.
    #[serde(default)]
    pub group: Option<String>,
    /// With `rest`: the token that lets us act as this user, such as `{ file = "tokens/asmith" }`
    /// (`scontrol token username=asmith`).
    #[serde(default)]
    pub token: Option<Secret>,
}

/// How to reach slurmrestd: by its socket or its URL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table: { socket = \"PATH\" } or { url = \"URL\" }")]
#[schemars(rename = "SlurmRest")]
pub struct Rest {
    /// The Unix socket. slurmrestd identifies us by our Unix user there.
    pub socket: Option<PathBuf>,
    /// The URL, such as `http://127.0.0.1:6820`.
    pub url: Option<String>,
    /// Our user name at slurmrestd, with `url`.
    pub user: Option<String>,
    /// The token for `user`: a JSON web token of `scontrol token`, such as
    /// `{ file = "/home/lab/.slurm-token" }`. It is read again when the file changes.
    pub token: Option<Secret>,
}

impl Rest {
    /// Returns the same settings for another user. Fails without `url` or without the user's token.
    pub(crate) fn for_person(&self, person: &Person) -> taskbridge_sdk::Result<Self> {
        let (Some(_), Some(token)) = (&self.url, &person.token) else {
            return Err(taskbridge_sdk::Error::config(format!(
                "`run_as`: user `{}` needs a `token` and `rest.url` to use slurmrestd",
                person.user
            )));
        };
        Ok(Self { user: Some(person.user.clone()), token: Some(token.clone()), ..self.clone() })
    }

    /// Returns the setting and the address, for messages.
    pub(crate) fn display_address(&self) -> String {
        match (&self.socket, &self.url) {
            (Some(socket), _) => format!("`rest.socket` {}", socket.display()),
            (None, url) => format!("`rest.url` {}", url.as_deref().unwrap_or_default()),
        }
    }
}

/// How to reach a login node. It must see the jobs folder at the same path as this server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { host = \"user@login1\" }")]
#[schemars(rename = "SlurmSsh")]
pub struct Ssh {
    /// The login node: `user@host`, or a name from ssh's own config.
    pub host: String,
    /// The command that runs another command on the login node, without the host.
    #[serde(default = "ssh")]
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

fn ssh() -> Vec<String> {
    ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"].map(str::to_owned).to_vec()
}

/// The batch script that a tool submits, and its settings.
///
/// Templates are Jinja (minijinja). They see the tool's parameters by name, and `taskbridge.job`, the job's
/// folder; in an array also `taskbridge.element` and `taskbridge.index`. Text is rendered as it is,
/// everything else as JSON.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table: { script = \"FILE\" }")]
#[schemars(rename = "SlurmTarget")]
pub struct Target {
    /// The batch script. It is copied when a job is submitted. Its `#SBATCH` lines are the job's defaults. A
    /// relative path starts at the folder of the config file.
    pub script: Option<PathBuf>,
    /// The script's arguments. A template is always exactly one argument, whatever it renders to. The
    /// arguments in a nested array are one group. The group is omitted if it uses a parameter that was not
    /// given, or if one of its templates renders empty.
    pub args: Vec<CommandArgument>,
    /// Environment variables for the script (the values are templates). They override the backend's. A
    /// variable whose value is only a parameter that was not given is not set.
    pub env: BTreeMap<VariableName, String>,
    /// The folder in which the script runs (a template); see the backend's `working_dir`.
    pub working_dir: Option<String>,
    /// Submit an array: one task for each element of a list.
    pub array: Option<Array>,
    /// The resources to request. They override the script's `#SBATCH` lines.
    pub resources: Resources,
    /// More options of sbatch by their long names, used verbatim, such as
    /// `{ licenses = "matlab", exclusive = "" }`.
    pub options: BTreeMap<String, String>,
    /// Begin after another job of this backend.
    pub after: Option<After>,
    /// Allow Slurm to run the job again from its beginning after a node failure or a preemption. Without it,
    /// no part of a job ever runs twice.
    pub requeue: bool,
    /// Hold the job until it is approved. This is the question (a template).
    pub approval: Option<String>,
    /// The file with the result as JSON, in the folder in which the script runs.
    pub result: Option<String>,
    /// The files that are the job's artifacts, in the folder in which the script runs:
    /// `["*.csv", "plots/**/*.png"]`. `*` matches any text without `/`, `**` any folders, `?` one character.
    pub artifacts: Vec<String>,
    /// The maximum size of an artifact in bytes. Larger files are not artifacts.
    pub max_artifact_bytes: Option<u64>,
    /// Submit nothing, and follow the job of this number: `"{{ job }}"`. Cancelling such a task does not
    /// cancel the job.
    pub attach: Option<String>,
    /// Submit nothing, and send a signal to a job that this backend submitted.
    pub signal: Option<SignalTo>,
}

/// An array with one task for each element of a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { parameter = \"LIST\" }")]
#[schemars(rename = "SlurmArray")]
pub struct Array {
    /// The parameter that is a list. A task gets its element in `$TASKBRIDGE_ELEMENT`: text as it is,
    /// everything else as JSON.
    pub parameter: String,
    /// The maximum number of elements.
    #[serde(default = "thousand")]
    pub max: u32,
    /// The maximum number of tasks that run at the same time.
    #[serde(default)]
    pub at_once: Option<u32>,
}

fn thousand() -> u32 {
    1000
}

/// A job that must end before this one begins.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { job = \"{{ before }}\" }")]
#[schemars(rename = "SlurmAfter")]
pub struct After {
    /// The other job: `"{{ before }}"`. The parameter is a task, or the number of a job that this backend
    /// submitted. If it was not given, the job does not wait.
    pub job: String,
    /// How the other job must have ended.
    #[serde(default)]
    pub when: When,
}

/// How a job must have ended for another to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SlurmWhen")]
pub enum When {
    /// Successfully. If it did not, the waiting job is cancelled and its task fails.
    #[default]
    Succeeded,
    /// Unsuccessfully.
    Failed,
    /// In any way.
    Ended,
}

/// The resources to request from Slurm. Each is a value, or `{ value = "{{ parameter }}", max = .. }` (or
/// `allowed = [..]`) with a template as the value. If the value is only a parameter that was not given, the
/// resource is not requested.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table: { memory = \"4G\" }")]
#[schemars(rename = "SlurmResources")]
pub struct Resources {
    /// The partition.
    pub partition: Option<Setting>,
    /// The account that is charged.
    pub account: Option<Setting>,
    /// The quality of service.
    pub qos: Option<Setting>,
    /// The reservation.
    pub reservation: Option<Setting>,
    /// The features that nodes must have.
    pub constraint: Option<Setting>,
    /// The time limit: `minutes`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes:seconds`.
    pub time: Option<Setting>,
    /// The memory on each node: `4G`; a number alone is megabytes.
    pub memory: Option<Setting>,
    /// The memory for each processor: `4G`.
    pub memory_per_cpu: Option<Setting>,
    /// The processors for each task.
    pub cpus: Option<Setting>,
    /// The GPUs: a number, or `type:number`.
    pub gpus: Option<Setting>,
    /// The nodes.
    pub nodes: Option<Setting>,
    /// The tasks that `srun` starts (`--ntasks`).
    pub tasks: Option<Setting>,
}

/// One requested resource.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a value, or a table with `value` and `max`, `min` or `allowed`")]
#[schemars(rename = "SlurmSetting")]
pub enum Setting {
    /// A number.
    Number(u64),
    /// A value, used verbatim.
    Text(String),
    /// The result of a template, within bounds.
    Bounded(Bounded),
}

/// The result of a template, within bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SlurmBounded")]
pub struct Bounded {
    /// A template: `"{{ hours }}:00:00"`.
    pub value: String,
    /// The maximum, in Slurm's notation: `"1-00:00:00"`, `"64G"`, `4`.
    #[serde(default)]
    pub max: Option<Amount>,
    /// The minimum.
    #[serde(default)]
    pub min: Option<Amount>,
    /// The allowed values, where `*` matches any text.
    #[serde(default)]
    pub allowed: Option<Vec<String>>,
}

/// A bound.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number, or text in Slurm's notation")]
#[schemars(rename = "SlurmAmount")]
pub enum Amount {
    /// A number.
    Number(u64),
    /// Text in Slurm's notation.
    Text(String),
}

impl Amount {
    pub(crate) fn text(&self) -> String {
        match self {
            Amount::Number(number) => number.to_string(),
            Amount::Text(text) => text.clone(),
        }
    }
}

/// A signal to a running job.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { job = \"{{ job }}\", name = \"USR1\" }")]
#[schemars(rename = "SlurmSignal")]
pub struct SignalTo {
    /// The job: `"{{ job }}"`. The parameter is a task or a job's number. This backend must have submitted
    /// the job.
    pub job: String,
    /// The signal's name, such as `USR1`.
    pub name: String,
    /// Send the signal to the steps that the script started with `srun`, and not to the script itself.
    #[serde(default)]
    pub steps: bool,
}
