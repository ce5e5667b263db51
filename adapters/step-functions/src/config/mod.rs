//! Config of this backend and its tools. It defines shapes and checks single values of `per_caller`;
//! [`crate::check::target`] validates the rest. The comments below become the descriptions in the config's
//! JSON Schema.

pub(crate) mod session;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use taskbridge_sdk::Secret;

use crate::config::session::TagValue;

/// Starts executions of AWS Step Functions. Credentials are found as by every AWS tool: in the environment,
/// in `~/.aws`, or from the container or machine that the server runs on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "StepFunctionsConfig")]
pub struct Config {
    /// The region, such as `eu-central-1`. The default is the region configured with the credentials
    /// (`AWS_REGION`, or the profile).
    pub region: Option<String>,
    /// The profile of `~/.aws/config` and `~/.aws/credentials` with the credentials. Other credentials,
    /// including those in the environment, are then ignored.
    pub profile: Option<String>,
    /// A file to read instead of `~/.aws/config` and `~/.aws/credentials`, in the format of the first. A
    /// relative path starts at the folder of the config file.
    pub config_file: Option<PathBuf>,
    /// The endpoint of Step Functions, if it is not the region's default: a VPC endpoint, or an emulator for
    /// tests.
    pub endpoint: Option<String>,
    /// The endpoint of CloudWatch Logs, if it is not the region's default.
    pub logs_endpoint: Option<String>,
    /// A role to assume with the credentials that were found.
    pub assume_role: Option<AssumeRole>,
    /// Start, stop and answer in a session of the person who asked, so that CloudTrail names them. Requests
    /// of unidentified callers are refused.
    pub per_caller: Option<PerCaller>,
    /// Timeout of one AWS call. It must be shorter than half of the server's `reconciler.lease`. An Express
    /// state machine may take as long as the server waits for a start, which is that half.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub call_timeout: Duration,
    /// The ARNs of activities by which state machines ask people: this server polls them and asks the
    /// question in each task. No other worker may poll them.
    pub activities: Vec<String>,
    /// The URL of an SQS queue for this server alone. Steps that end in `.waitForTaskToken` send their
    /// questions there. A rule of EventBridge may also send the status changes of executions there, so that
    /// they are seen sooner.
    pub queue: Option<String>,
    /// The secret of the header `x-taskbridge-secret`, which an API destination of EventBridge sends with
    /// status changes of executions. They are posted to `/hooks/NAME`, where NAME is this backend's name.
    /// Give the text itself, `{ env = "VARIABLE" }` or `{ file = "PATH" }`. Without it, the hook is off.
    pub hook_secret: Option<Secret>,
    /// Interval of heartbeats to Step Functions while a question is open, and time after which the queue
    /// delivers an unanswered message again. It must be shorter than half of the `HeartbeatSeconds` of the
    /// steps that ask.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub heartbeat: Duration,
    /// Call quotas of the account, if they differ from those that AWS documents for smaller regions. The key
    /// is the name of the operation, such as `DescribeExecution = { burst = 300, per_second = 15 }`. Calls
    /// beyond a quota are delayed.
    pub quotas: BTreeMap<String, Quota>,
    /// Maximum age of a list of running executions. A list is also used for at most a tenth of an execution's
    /// age, and not for an execution that an event reported as changed. `0s`: never.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub list_every: Duration,
    /// How many times per minute the histories of watched, running executions are read, to report their
    /// progress. All executions of this backend share this limit. Executions whose history was not read for
    /// the largest part of their age come first. 0 turns progress off.
    pub progress_calls_per_minute: u16,
    /// Offer the state machines of the account and region as tools.
    pub discover: Option<Discover>,
}

/// Which state machines are offered as tools. Without any filter, all are offered.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "StepFunctionsDiscover")]
pub struct Discover {
    /// Only those whose names start with this.
    pub starting_with: String,
    /// Only those that have all of these tags, such as `{ team = "data" }`. An empty text matches any value.
    pub tags: BTreeMap<String, String>,
    /// Input schemas by the name of the state machine: a JSON Schema of an object each. They take precedence
    /// over tags and definitions.
    pub input_schemas: BTreeMap<String, Map<String, Value>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            region: None,
            profile: None,
            config_file: None,
            endpoint: None,
            logs_endpoint: None,
            assume_role: None,
            per_caller: None,
            call_timeout: Duration::from_secs(6),
            activities: Vec::new(),
            queue: None,
            hook_secret: None,
            heartbeat: Duration::from_secs(20),
            quotas: BTreeMap::new(),
            list_every: Duration::from_secs(60),
            progress_calls_per_minute: 10,
            discover: None,
        }
    }
}

/// Call quota of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsQuota")]
pub struct Quota {
    /// Maximum number of calls at once, after a pause.
    #[schemars(range(min = 1))]
    pub burst: u32,
    /// Calls per second, over time.
    pub per_second: f64,
}

/// A role to assume.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsRole")]
pub struct AssumeRole {
    /// The ARN of the role.
    pub role_arn: String,
    /// The name of the session in the logs of AWS.
    #[serde(default = "session_name")]
    pub session_name: String,
    /// The external id, if the role requires one.
    #[serde(default)]
    pub external_id: Option<String>,
}

/// The role that is assumed for each person, with the credentials that were found. The name of a session is
/// the name of the person. If a token's issuer vouches for that name, a digest of issuer and subject follows.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsPerCaller")]
pub struct PerCaller {
    /// The ARN of the role.
    #[serde(deserialize_with = "role")]
    pub role_arn: String,
    /// The external id, if the role requires one.
    #[serde(default)]
    pub external_id: Option<String>,
    /// The tags of the sessions, such as `{ user = "{{ name }}", team = "{{ groups }}" }`. Each is text with
    /// at most one of `name`, `id` (by which credentials are mapped), `issuer`, `subject`, `tenant` and
    /// `groups` (`:one:other:`). A tag is omitted if the value is unknown for a person.
    #[serde(default, deserialize_with = "tags")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub session_tags: BTreeMap<String, TagValue>,
    /// Whether to set the session's name as its source identity as well, which AWS keeps across all further
    /// roles.
    #[serde(default = "yes")]
    pub source_identity: bool,
    /// Duration of a session: 15 minutes to an hour, the maximum that AWS allows if one role assumes another.
    #[serde(default = "an_hour", deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub session_duration: Duration,
}

fn yes() -> bool {
    true
}

fn an_hour() -> Duration {
    Duration::from_secs(3600)
}

fn role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let arn = String::deserialize(deserializer)?;
    let parts: Vec<&str> = arn.split(':').collect();
    let is_valid = matches!(parts[..], ["arn", partition, "iam", "", account, role]
        if !partition.is_empty() && !account.is_empty() && role.len() > "role/".len() && role.starts_with("role/"));
    if is_valid {
        return Ok(arn);
    }
    let message =
        format!("`{arn}` is not the ARN of a role, such as `arn:aws:iam::123456789012:role/people`");
    Err(de::Error::custom(message))
}

fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, TagValue>, D::Error> {
    let tags = BTreeMap::<String, TagValue>::deserialize(deserializer)?;
    let is_valid_key = |key: &str| {
        (1..=128).contains(&key.len())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.:/=+-@ ".contains(c))
            && !key.to_ascii_lowercase().starts_with("aws:")
    };
    if let Some(key) = tags.keys().find(|key| !is_valid_key(key)) {
        return Err(de::Error::custom(format!("`{key}` cannot be the key of a session tag")));
    }
    let mut keys: Vec<String> = tags.keys().map(|key| key.to_ascii_lowercase()).collect();
    keys.sort();
    if let Some(duplicate) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(de::Error::custom(format!(
            "the key `{}` occurs twice: AWS ignores the case of session tag keys",
            duplicate[0]
        )));
    }
    match tags.len() {
        0..=50 => Ok(tags),
        count => Err(de::Error::custom(format!("{count} session tags are set, and AWS accepts at most 50"))),
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration: Duration = humantime_serde::deserialize(deserializer)?;
    match (900..=3600).contains(&duration.as_secs()) {
        true => Ok(duration),
        false => Err(de::Error::custom("give a time between 15m and 1h")),
    }
}

fn session_name() -> String {
    "taskbridge".to_owned()
}

/// The state machine that a tool starts, and its input.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsTarget")]
pub struct Target {
    /// Its ARN, which may name a version or an alias, or its name. A name is searched among all state
    /// machines of the region, which needs the permission `states:ListStateMachines`.
    #[schemars(length(min = 1))]
    pub state_machine: String,
    /// The input of the execution, such as `{ bucket = "data", rows = "{{ rows }}" }`. The default is the
    /// tool's arguments.
    ///
    /// Text is a Jinja template (minijinja). It can use the tool's parameters by name, and
    /// `taskbridge.arguments` and `taskbridge.job`. If the text is a single `{{ .. }}`, its value keeps its
    /// type. The member is omitted if it is a parameter that was not given. Everything else is passed on
    /// unchanged.
    #[serde(default)]
    pub input: Option<Map<String, Value>>,
    /// Start nothing, and follow the execution that this template names, by its ARN or its name: `"{{
    /// execution }}"`. It must belong to the state machine. Cancelling such a task does not stop the
    /// execution.
    #[serde(default)]
    pub attach: Option<String>,
    /// Start executions of an Express state machine even if the `TimeoutSeconds` of its definition does not
    /// guarantee that they end while the server waits. Executions that take longer end as uncertain, whatever
    /// they did.
    #[serde(default)]
    pub unbounded: bool,
}
