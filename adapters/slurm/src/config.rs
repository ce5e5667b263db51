//! What a config file may say about this backend and its tools. Shapes only: [`crate::check`] checks them and [`crate::order`]
//! turns them into a submission. The comments below become the config's JSON Schema.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::{CommandArgument, Secret};

use crate::discovery::Discover;
use crate::environment::VariableName;

/// Submits batch scripts to a Slurm cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SlurmConfig")]
pub struct Config {
    /// A folder that this server and the cluster's nodes see at the same path, such as `/home/lab/.taskbridge`. Each job gets a
    /// folder there: its script, its arguments, its logs, and how it ended. A relative path starts at the folder of the config
    /// file. Without it, a folder of the server's own state, which does only where server and nodes are one machine.
    pub jobs_dir: Option<PathBuf>,
    /// Where scripts run, unless their target says otherwise. A relative path starts at the folder of the config file. Without
    /// it, each job runs in an empty folder of its own.
    pub working_dir: Option<PathBuf>,
    /// Run Slurm's commands on a login node, such as `{ host = "bridge@login1" }`. Without it, they run here.
    pub ssh: Option<Ssh>,
    /// The folder of Slurm's commands, where they are not on the `PATH`: `/opt/slurm/bin`.
    pub commands_dir: Option<PathBuf>,
    /// Slurm's configuration file, where it is not the usual one (`SLURM_CONF`).
    pub slurm_conf: Option<PathBuf>,
    /// Talk to slurmrestd instead of running Slurm's commands, such as `{ socket = "/run/slurmrestd.sock" }`.
    pub rest: Option<Rest>,
    /// Submit each caller's jobs as a Unix user of their own, such as `{ ann = { user = "asmith" } }`: by who asks (the name of an
    /// API key, or `ISSUER#SUBJECT` of a token). Whoever is not named here is refused. Without it, all jobs are the server's own user's.
    pub run_as: Option<BTreeMap<String, Person>>,
    /// The command that runs another as a Unix user, in front of `-u USER -- COMMAND`. It is used with `run_as`, unless there is `rest`.
    pub sudo: Vec<String>,
    /// Offer the batch scripts of a folder as tools.
    pub discover: Option<Discover>,
    /// The cluster, where Slurm knows several (`--clusters`). Without it, the one that the commands mean.
    pub cluster: Option<String>,
    /// Whether the accounting (slurmdbd) is asked. Without it, that is as the cluster says.
    pub accounting: Option<bool>,
    /// How long one command may take, or one step in the jobs' folder, whose file system may hang. All that a start needs must fit into
    /// half of the server's `reconciler.lease`, so that it is a third of that at most, whatever is said here.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub command_timeout: Duration,
    /// How often Slurm is asked how all jobs are, at most: one `squeue` for all of them. A controller that is slow is asked less
    /// often.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub look_every: Duration,
    /// How often the jobs of all users that wait are listed, to tell a job's position; zero turns positions off.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub position_every: Duration,
    /// How long the accounting of a job that has ended is waited for, which knows how much memory it used.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub accounting_wait: Duration,
    /// How long the folder of an ended job is kept.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub keep: Duration,
    /// Environment variables for every job, word for word.
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

/// The Unix user as whom a caller's jobs run.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { user = \"NAME\" }")]
#[schemars(rename = "SlurmPerson")]
pub struct Person {
    /// Their name.
    pub user: String,
    /// A group that has this user and the server's as its members, and nobody else: each reads by it what the other wrote into the job's
    /// folder. Without it, the group of the user's name.
    #[serde(default)]
    pub group: Option<String>,
    /// With `rest`: what proves to slurmrestd that we may act as this user, such as `{ file = "tokens/asmith" }` (`scontrol token username=asmith`).
    #[serde(default)]
    pub token: Option<Secret>,
}

/// How slurmrestd is reached: by its socket or its address.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table: { socket = \"PATH\" } or { url = \"URL\" }")]
#[schemars(rename = "SlurmRest")]
pub struct Rest {
    /// Its unix socket. It knows us by who we are there.
    pub socket: Option<PathBuf>,
    /// Its address, such as `http://127.0.0.1:6820`.
    pub url: Option<String>,
    /// Who we are to it, with `url`.
    pub user: Option<String>,
    /// What proves that: a JSON web token of `scontrol token`, such as `{ file = "/home/lab/.slurm-token" }`. It is read again when the file changes.
    pub token: Option<Secret>,
}

impl Rest {
    /// The same, as another user.
    pub(crate) fn of(&self, person: &Person) -> taskbridge_sdk::Result<Self> {
        let (Some(_), Some(token)) = (&self.url, &person.token) else {
            return Err(taskbridge_sdk::Error::config(format!(
                "`run_as`: to act as `{}` by slurmrestd needs `rest.url` and a `token` of theirs",
                person.user
            )));
        };
        Ok(Self { user: Some(person.user.clone()), token: Some(token.clone()), ..self.clone() })
    }

    /// For messages.
    pub(crate) fn place(&self) -> String {
        match (&self.socket, &self.url) {
            (Some(socket), _) => format!("`rest.socket` {}", socket.display()),
            (None, url) => format!("`rest.url` {}", url.as_deref().unwrap_or_default()),
        }
    }
}

/// How a login node is reached. The jobs' folder must be seen there and here.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { host = \"user@login1\" }")]
#[schemars(rename = "SlurmSsh")]
pub struct Ssh {
    /// The login node: `user@host`, or a name from ssh's own config.
    pub host: String,
    /// The command that runs another there, without the host.
    #[serde(default = "ssh")]
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

fn ssh() -> Vec<String> {
    ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"].map(str::to_owned).to_vec()
}

/// The batch script that a tool submits, and with what.
///
/// Templates are Jinja (minijinja). They see the tool's parameters by name, and `taskbridge.job`, the job's folder; in an array
/// also `taskbridge.element` and `taskbridge.index`. Text is rendered as it is, everything else as JSON.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table: { script = \"FILE\" }")]
#[schemars(rename = "SlurmTarget")]
pub struct Target {
    /// The batch script. It is copied when a job is submitted. Its `#SBATCH` lines are the job's defaults. A relative path
    /// starts at the folder of the config file.
    pub script: Option<PathBuf>,
    /// The script's arguments. A template is always exactly one argument, whatever it renders to. Those in a nested array belong
    /// together, and are left out if they name a parameter that was not given, or if one of them renders empty.
    pub args: Vec<CommandArgument>,
    /// Environment variables for the script (the values are templates). They win over the backend's. One that is nothing but a
    /// parameter that was not given is not set.
    pub env: BTreeMap<VariableName, String>,
    /// Where the script runs (a template); see the backend's `working_dir`.
    pub working_dir: Option<String>,
    /// Submit an array: one task for each element of a list.
    pub array: Option<Array>,
    /// What is asked of Slurm. It wins over the script's `#SBATCH` lines.
    pub resources: Resources,
    /// More options of sbatch by their long names, word for word, such as `{ licenses = "matlab", exclusive = "" }`.
    pub options: BTreeMap<String, String>,
    /// Begin after another job of this backend.
    pub after: Option<After>,
    /// Allow Slurm to run the job again from its beginning, after a node failed or the job was preempted. Without it, nothing
    /// of a job ever runs twice.
    pub requeue: bool,
    /// Hold the job until somebody approves. This is what they are asked (a template).
    pub approval: Option<String>,
    /// The file that holds the result as JSON, within the folder in which the script runs.
    pub result: Option<String>,
    /// The files that are the job's artifacts, within the folder in which the script runs: `["*.csv", "plots/**/*.png"]`. `*`
    /// stands for any text without `/`, `**` for any folders, `?` for one character.
    pub artifacts: Vec<String>,
    /// The size over which a file is no artifact.
    pub max_artifact_bytes: Option<u64>,
    /// Submit nothing, and follow the job of this number: `"{{ job }}"`. To cancel such a task leaves the job alone.
    pub attach: Option<String>,
    /// Submit nothing, and send a signal to a job that this backend submitted.
    pub signal: Option<SignalTo>,
}

/// An array whose tasks are the elements of a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { parameter = \"LIST\" }")]
#[schemars(rename = "SlurmArray")]
pub struct Array {
    /// The parameter that is a list. A task has its element in `$TASKBRIDGE_ELEMENT`, text as it is and everything else as JSON.
    pub parameter: String,
    /// The most elements.
    #[serde(default = "thousand")]
    pub max: u32,
    /// The most tasks that run at a time.
    #[serde(default)]
    pub at_once: Option<u32>,
}

fn thousand() -> u32 {
    1000
}

/// Another job that comes first.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { job = \"{{ before }}\" }")]
#[schemars(rename = "SlurmAfter")]
pub struct After {
    /// The other job: `"{{ before }}"`, where the parameter is a task or the number of a job that this backend submitted. If the
    /// parameter was not given, nothing comes first.
    pub job: String,
    /// How it must have ended.
    #[serde(default)]
    pub when: When,
}

/// How a job must have ended for another to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SlurmWhen")]
pub enum When {
    /// Well. If it does not, the other is cancelled and its task fails.
    #[default]
    Succeeded,
    /// Not well.
    Failed,
    /// In any way.
    Ended,
}

/// What is asked of Slurm. Each is a value, or `{ value = "{{ parameter }}", max = .. }` (or `allowed = [..]`), in which the value
/// is a template; one that is nothing but a parameter that was not given is not asked for.
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

/// One thing that is asked of Slurm.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a value, or a table with `value` and `max`, `min` or `allowed`")]
#[schemars(rename = "SlurmSetting")]
pub enum Setting {
    /// A number.
    Number(u64),
    /// A value, word for word.
    Text(String),
    /// What a template gives, within bounds.
    Bounded(Bounded),
}

/// What a template gives, within bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SlurmBounded")]
pub struct Bounded {
    /// A template: `"{{ hours }}:00:00"`.
    pub value: String,
    /// The most, as Slurm writes it: `"1-00:00:00"`, `"64G"`, `4`.
    #[serde(default)]
    pub max: Option<Amount>,
    /// The least.
    #[serde(default)]
    pub min: Option<Amount>,
    /// What it may be, where `*` stands for any text.
    #[serde(default)]
    pub allowed: Option<Vec<String>>,
}

/// A bound.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number, or a text as Slurm writes it")]
#[schemars(rename = "SlurmAmount")]
pub enum Amount {
    /// A number.
    Number(u64),
    /// As Slurm writes it.
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
    /// The job: `"{{ job }}"`, where the parameter is a task or a job's number. It must be one that this backend submitted.
    pub job: String,
    /// The signal's name, such as `USR1`.
    pub name: String,
    /// Send it to the steps that the script started by `srun`, and not to the script itself.
    #[serde(default)]
    pub steps: bool,
}
