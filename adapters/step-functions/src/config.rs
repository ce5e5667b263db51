//! What a config file may say about this backend and its tools. Shapes only: [`crate::check`] checks them. The comments
//! below become the config's JSON Schema.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use taskbridge_sdk::Secret;

use crate::session::TagValue;

/// Starts executions of AWS Step Functions. Credentials are found as every AWS tool finds them: in the environment, in
/// `~/.aws`, or from the container or machine that the server runs on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "StepFunctionsConfig")]
pub struct Config {
    /// The region, such as `eu-central-1`. Without it, it is taken from where the credentials are configured
    /// (`AWS_REGION`, or the profile).
    pub region: Option<String>,
    /// The profile of `~/.aws/config` and `~/.aws/credentials` to take credentials from. Others, also those in the
    /// environment, are not looked at then.
    pub profile: Option<String>,
    /// A file to be read in place of `~/.aws/config` and `~/.aws/credentials`, written like the first. A relative path
    /// starts at the folder of the config file.
    pub config_file: Option<PathBuf>,
    /// The address of Step Functions, where it is not the region's own: a VPC endpoint, or a stand-in for tests.
    pub endpoint: Option<String>,
    /// The address of CloudWatch Logs, where it is not the region's own.
    pub logs_endpoint: Option<String>,
    /// A role to be assumed with the credentials that were found.
    pub assume_role: Option<AssumeRole>,
    /// Start, stop and answer in a session of the person who asked, so that CloudTrail names them. Nothing is done for callers
    /// whom nobody knows.
    pub per_caller: Option<PerCaller>,
    /// How long one call of AWS may take. It must be shorter than half of the server's `reconciler.lease`. An Express
    /// state machine may take as long as the server waits for a start, which is that half.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub call_timeout: Duration,
    /// The ARNs of activities by which state machines ask people: this server takes what they hand out, and asks it. Nobody
    /// else may poll them.
    pub activities: Vec<String>,
    /// The URL of an SQS queue of this server's own. Steps that end in `.waitForTaskToken` send what they ask there, and
    /// a rule of EventBridge may send the status changes of executions, which are then seen sooner.
    pub queue: Option<String>,
    /// The secret that an API destination of EventBridge shows in the header `x-taskbridge-secret` when it posts status changes
    /// of executions to `/hooks/NAME`, NAME being this backend's: the text itself, `{ env = "VARIABLE" }` or
    /// `{ file = "PATH" }`. Without it, nothing is taken there.
    pub hook_secret: Option<Secret>,
    /// How often Step Functions is told that somebody still thinks about a question, and after how long a message of the
    /// queue that nobody has answered comes again. It must be shorter than half of the `HeartbeatSeconds` of the steps
    /// that ask.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub heartbeat: Duration,
    /// How many calls AWS allows the account, where that is not what its documentation says for smaller regions: by the
    /// name of the operation, such as `DescribeExecution = { burst = 300, per_second = 15 }`. A call beyond it is put off.
    pub quotas: BTreeMap<String, Quota>,
    /// For how long a list of the executions that run is believed at most. It is believed for a tenth of an execution's age at
    /// most, and not for one of which an event said that it changed. `0s`: never.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub list_every: Duration,
    /// How often in a minute the histories of running executions that somebody watches are read, to tell how far they are. All
    /// executions of this backend share it, those first that were not read for the longest part of their age; 0 turns progress
    /// off.
    pub progress_calls_per_minute: u16,
    /// Offer the state machines of the account and region as tools.
    pub discover: Option<Discover>,
}

/// Which state machines are offered as tools. Without any of these, all are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "StepFunctionsDiscover")]
pub struct Discover {
    /// Those alone whose names start with this.
    pub starting_with: String,
    /// Those alone that have all of these tags, such as `{ team = "data" }`. An empty text stands for any value.
    pub tags: BTreeMap<String, String>,
    /// What they take, by the name of the state machine: a JSON Schema of an object each. It goes before what their tags and
    /// definitions say.
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

/// How many calls of one operation are made at most.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsQuota")]
pub struct Quota {
    /// At once, if none were made for a while.
    #[schemars(range(min = 1))]
    pub burst: u32,
    /// In each second, over time.
    pub per_second: f64,
}

/// A role to be assumed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsRole")]
pub struct AssumeRole {
    /// The role's ARN.
    pub role_arn: String,
    /// What the session is called in the logs of AWS.
    #[serde(default = "session_name")]
    pub session_name: String,
    /// The external id that the role asks for, if it does.
    #[serde(default)]
    pub external_id: Option<String>,
}

/// The role that is assumed for each person, with the credentials that were found. Its sessions are called after the person, by
/// name and, where a token's issuer vouches for the name, with a digest of issuer and subject after it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsPerCaller")]
pub struct PerCaller {
    /// The role's ARN.
    #[serde(deserialize_with = "role")]
    pub role_arn: String,
    /// The external id that the role asks for, if it does.
    #[serde(default)]
    pub external_id: Option<String>,
    /// The tags of the sessions, such as `{ user = "{{ name }}", team = "{{ groups }}" }`. Each is text with at most one of `name`, `id`
    /// (as credentials are mapped by it), `issuer`, `subject`, `tenant` and `groups` (`:one:other:`); it is left out where that is
    /// not known of a person.
    #[serde(default, deserialize_with = "tags")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub session_tags: BTreeMap<String, TagValue>,
    /// Whether the session's name is its source identity, too, which stays with it through all further roles.
    #[serde(default = "yes")]
    pub source_identity: bool,
    /// How long a session lasts: 15 minutes to an hour, which is the most that AWS allows where one role assumes another.
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

fn role<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let arn = String::deserialize(from)?;
    let parts: Vec<&str> = arn.split(':').collect();
    let right = matches!(parts[..], ["arn", partition, "iam", "", account, role]
        if !partition.is_empty() && !account.is_empty() && role.len() > "role/".len() && role.starts_with("role/"));
    if right {
        return Ok(arn);
    }
    let message =
        format!("`{arn}` is not the ARN of a role, such as `arn:aws:iam::123456789012:role/people`");
    Err(de::Error::custom(message))
}

fn tags<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, TagValue>, D::Error> {
    let tags = BTreeMap::<String, TagValue>::deserialize(from)?;
    let right = |key: &str| {
        (1..=128).contains(&key.len())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.:/=+-@ ".contains(c))
            && !key.to_ascii_lowercase().starts_with("aws:")
    };
    if let Some(key) = tags.keys().find(|key| !right(key)) {
        return Err(de::Error::custom(format!("`{key}` cannot be the key of a session tag")));
    }
    let mut keys: Vec<String> = tags.keys().map(|key| key.to_ascii_lowercase()).collect();
    keys.sort();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(de::Error::custom(format!(
            "AWS takes `{}` in small and capital letters for one key",
            twice[0]
        )));
    }
    match tags.len() {
        0..=50 => Ok(tags),
        many => Err(de::Error::custom(format!("AWS takes 50 session tags, and these are {many}"))),
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let duration: Duration = humantime_serde::deserialize(from)?;
    match (900..=3600).contains(&duration.as_secs()) {
        true => Ok(duration),
        false => Err(de::Error::custom("give a time between 15m and 1h")),
    }
}

fn session_name() -> String {
    "taskbridge".to_owned()
}

/// The state machine that a tool starts, and what it is given.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepFunctionsTarget")]
pub struct Target {
    /// Its ARN, which may name a version or an alias, or its name. A name is looked for among all state machines of the
    /// region, which needs the permission `states:ListStateMachines`.
    #[schemars(length(min = 1))]
    pub state_machine: String,
    /// What the execution is given, such as `{ bucket = "data", rows = "{{ rows }}" }`. Without it, that is the tool's
    /// arguments.
    ///
    /// Text is a Jinja template (minijinja) that sees the tool's parameters by name, and `taskbridge.arguments` and
    /// `taskbridge.job`. Where nothing but one `{{ .. }}` stands, its value is passed on as it is, and the member is left
    /// out if that is a parameter that was not given. Everything else is passed on word for word.
    #[serde(default)]
    pub input: Option<Map<String, Value>>,
    /// Start nothing, and follow the execution that this template names, by its ARN or its name: `"{{ execution }}"`. It
    /// must be one of the state machine. To cancel such a task leaves the execution alone.
    #[serde(default)]
    pub attach: Option<String>,
    /// Start executions of an Express state machine also if its definition does not promise, by its `TimeoutSeconds`, that they
    /// end while the server waits for them. Those that take longer end as uncertain, whatever they did.
    #[serde(default)]
    pub unbounded: bool,
}
