//! [`Config`] and [`Target`]: the shape of the config. It must not start a program or read a file.

pub(crate) mod schema;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema as JsonSchemaValue, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use taskbridge_sdk::Secret;

/// Value of `kind` in the config.
pub(crate) const KIND: &str = "process";

/// A program that is an adapter: it answers JSON-RPC messages.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the program runs.
    pub endpoint: Endpoint,
    /// The program's own config.
    pub config: Map<String, Value>,
    /// The program's secrets, by name.
    pub secrets: BTreeMap<String, Secret>,
    /// Maximum number of calls in progress.
    pub max_in_flight: usize,
    /// Which of the discovered tools are offered.
    pub discover: Option<Map<String, Value>>,
    /// JSON Schemas of the program's config and targets.
    pub schemas: Schemas,
}

/// Where a program runs.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// Here, as a child process.
    Child(Child),
    /// Elsewhere, as a service.
    Service(Service),
}

impl Endpoint {
    /// Returns the secrets that must not be shown.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let auth = match self {
            Self::Child(_) => None,
            Self::Service(service) => Some(&service.auth),
        };
        auth.into_iter().flat_map(|auth| [&auth.bearer, &auth.hmac]).flatten().map(Secret::reveal)
    }
}

/// A program that the server starts.
#[derive(Clone, Debug)]
pub struct Child {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Names of environment variables that the program inherits.
    pub env: Vec<String>,
    /// Limits of the operating system.
    pub limits: Limits,
    /// The user that it runs as, if not the server's.
    pub user: Option<String>,
}

/// A program that is reached by HTTP.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its address.
    pub url: String,
    /// PEM file of root certificates, in place of those of this machine.
    pub ca_file: Option<PathBuf>,
    /// How the server proves who it is.
    pub auth: Auth,
}

/// The secret of a service. Exactly one of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProcessAuth")]
pub struct Auth {
    /// Token for the header `Authorization: Bearer ..`.
    pub bearer: Option<Secret>,
    /// Key for a signature of each message and its time, by the Standard Webhooks scheme: `whsec_..`.
    pub hmac: Option<Secret>,
}

/// Limits of the operating system for a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ProcessLimits")]
pub struct Limits {
    /// Maximum size of its address space, in bytes.
    pub memory_bytes: Option<u64>,
    /// Maximum number of open files.
    pub open_files: Option<u64>,
    /// Maximum number of processes of its user.
    pub processes: Option<u64>,
    /// Maximum size of a file that it writes, in bytes.
    pub file_bytes: Option<u64>,
}

/// JSON Schemas that a program declares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ProcessSchemas")]
pub struct Schemas {
    /// Schema of the program's own config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Schema of a tool's target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Map<String, Value>>,
}

/// What to run: the fields that the program understands.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "ProcessTarget")]
pub struct Target(pub Map<String, Value>);

/// A program that is an adapter: it answers JSON-RPC messages on its standard input and output (`command`),
/// or over HTTP (`url`).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProcessConfig")]
struct ConfigFields {
    /// The program and its arguments. No shell is involved. A relative path with `/` starts at the folder of
    /// this config file. Never write a secret here: other users can read a process's arguments.
    #[schemars(length(min = 1))]
    command: Option<Vec<String>>,
    /// Address of a service, in place of `command`: `https://..`, or `http://` on this machine. Each message
    /// is one POST.
    url: Option<String>,
    /// Secret for `url`: `bearer` or `hmac`.
    auth: Option<Auth>,
    /// PEM file of root certificates for `url`, in place of those of this machine.
    ca_file: Option<PathBuf>,
    /// The program's own config, which it receives in `initialize`.
    #[serde(default)]
    config: Map<String, Value>,
    /// The program's secrets, by name, which it receives in `initialize`.
    #[serde(default)]
    secrets: BTreeMap<String, Secret>,
    /// Names of environment variables that the program inherits, besides `PATH`, `LANG`, `TZ` and `HOME`.
    #[serde(default)]
    env: Vec<String>,
    /// User that the program runs as, such as `"jobs"` or `"1001:1001"`. The server must run as root.
    user: Option<String>,
    /// Maximum number of calls in progress.
    #[serde(default = "default_in_flight")]
    #[schemars(range(min = 1, max = 1024))]
    max_in_flight: usize,
    /// Limits of the operating system for the program.
    #[serde(default)]
    limits: Limits,
    /// Offer what the program discovers as tools. The program receives the fields as `discover` in its
    /// config.
    #[serde(default)]
    discover: Option<Map<String, Value>>,
    /// JSON Schemas of the program's config and targets, from its manifest.
    #[serde(default)]
    schemas: Schemas,
}

fn default_in_flight() -> usize {
    16
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ConfigFields::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl JsonSchema for Config {
    fn schema_name() -> Cow<'static, str> {
        ConfigFields::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        ConfigFields::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> JsonSchemaValue {
        ConfigFields::json_schema(generator)
    }
}

impl TryFrom<ConfigFields> for Config {
    type Error = String;

    fn try_from(fields: ConfigFields) -> Result<Self, String> {
        let ConfigFields {
            command,
            url,
            auth,
            ca_file,
            config,
            secrets,
            env,
            user,
            max_in_flight,
            limits,
            discover,
            schemas,
        } = fields;
        let endpoint = match (command, url) {
            (Some(command), None) => {
                if auth.is_some() || ca_file.is_some() {
                    return Err("auth and ca_file: are for `url` only".to_owned());
                }
                Endpoint::Child(Child { command, env, limits, user })
            }
            (None, Some(url)) => {
                if !env.is_empty() || limits != Limits::default() || user.is_some() {
                    return Err("env, limits and user: are for `command` only".to_owned());
                }
                Endpoint::Service(Service { url, ca_file, auth: auth.unwrap_or_default() })
            }
            (None, None) => {
                return Err("must have either `command`, for a program, or `url`, for a service".to_owned());
            }
            (Some(_), Some(_)) => return Err("command and url: only one of them is possible".to_owned()),
        };
        if let Endpoint::Child(child) = &endpoint {
            check_child(child)?;
        }
        if !(1..=1024).contains(&max_in_flight) {
            return Err(format!("max_in_flight: {max_in_flight} is not between 1 and 1024"));
        }
        if let Some(schema) = &schemas.config {
            schema::validate("config", schema, &Value::Object(config.clone()))?;
        }
        Ok(Self { endpoint, config, secrets, max_in_flight, discover, schemas })
    }
}

fn check_child(child: &Child) -> Result<(), String> {
    let Child { command, env, .. } = child;
    if command.first().is_none_or(String::is_empty) {
        return Err(
            "command: must name a program, such as command = [\"python3\", \"my_engine.py\"]".to_owned()
        );
    }
    if command.iter().any(|part| part.contains('\0')) {
        return Err("command: must not contain a NUL character".to_owned());
    }
    match env.iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        Some(name) => Err(format!("env: {name:?} is not the name of an environment variable")),
        None => Ok(()),
    }
}
