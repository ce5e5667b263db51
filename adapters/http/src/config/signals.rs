//! Hooks, discovery and the self-check. It must not send anything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::Secret;

use super::request::{Pages, Request};
use crate::language::{Expression, Template};

/// Posts of the engine to `/hooks/NAME`. Exactly one proof is set.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hook {
    /// A secret in a header.
    #[serde(default)]
    pub(crate) token: Option<Token>,
    /// A signature of the body in a header.
    #[serde(default)]
    pub(crate) hmac: Option<Hmac>,
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    #[serde(default)]
    pub(crate) standard_webhooks: Option<StandardWebhooks>,
    /// Handles of the jobs that a post names: a list of objects with the members of `start.handle`.
    #[serde(default)]
    pub(crate) jobs: Option<Expression>,
    /// Our keys of the jobs that a post names, for an engine that cannot name the handle: a list. Expressions
    /// also see `path`, what follows `/hooks/NAME/`.
    #[serde(default)]
    pub(crate) keys: Option<Expression>,
    /// Id of the delivery.
    #[serde(default)]
    pub(crate) id: Option<Expression>,
}

/// A secret in a header.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    /// Name of the header.
    pub(crate) header: String,
    /// Its value.
    pub(crate) secret: Secret,
}

/// A signature of the body in a header.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hmac {
    /// Name of the header.
    pub(crate) header: String,
    /// The key.
    pub(crate) secret: Secret,
    /// Text before the signature, such as `sha256=`.
    #[serde(default)]
    pub(crate) prefix: String,
    /// How the signature is written.
    #[serde(default)]
    pub(crate) encoding: Encoding,
    /// Hash function.
    #[serde(default)]
    pub(crate) hash: Hash,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    /// Hexadecimal.
    #[default]
    Hex,
    /// Base64.
    Base64,
}

/// Hash function of a signature.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hash {
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-512.
    Sha512,
}

/// Secret of Standard Webhooks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StandardWebhooks {
    /// The secret: `whsec_` and base64.
    pub(crate) secret: Secret,
}

/// What the engine offers as tools.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Discover {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Items, each of which is a tool.
    pub(crate) items: Expression,
    /// True for an item that is a tool. The default is every item.
    #[serde(default, rename = "match")]
    pub(crate) matches: Option<Expression>,
    /// Further pages.
    #[serde(default)]
    pub(crate) next: Option<Pages>,
    /// A request for each item. Expressions see its reply as `detail`.
    #[serde(default)]
    pub(crate) detail: Option<Request>,
    /// Name of the tool.
    pub(crate) name: Expression,
    /// Title of the tool.
    #[serde(default)]
    pub(crate) title: Option<Expression>,
    /// Description of the tool.
    #[serde(default)]
    pub(crate) description: Option<Expression>,
    /// Target of the tool.
    pub(crate) target: BTreeMap<String, Expression>,
    /// JSON Schema of the arguments.
    #[serde(default)]
    pub(crate) schema: Option<Expression>,
    /// Parameters, as an object by name or as a list.
    #[serde(default)]
    pub(crate) properties: Option<Expression>,
    /// What each of them is.
    #[serde(default)]
    pub(crate) property: Property,
}

/// What a parameter is. Expressions see `name` and `value`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Property {
    /// Its name, if `properties` is a list.
    #[serde(default)]
    pub(crate) name: Option<Expression>,
    /// Its JSON Schema.
    #[serde(default)]
    pub(crate) schema: Option<Expression>,
    /// Its default.
    #[serde(default)]
    pub(crate) default: Option<Expression>,
    /// What it is for.
    #[serde(default)]
    pub(crate) description: Option<Expression>,
    /// Whether it is required.
    #[serde(default)]
    pub(crate) required: Option<Expression>,
}

/// What `taskbridge doctor` checks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Doctor {
    /// A request that needs the credentials and changes nothing.
    #[serde(default)]
    pub(crate) credentials: Option<Request>,
    /// A request about the target of a tool.
    #[serde(default)]
    pub(crate) tool: Option<DoctorTool>,
}

/// A request about the target of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoctorTool {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// True for a reply about a target that will not work.
    #[serde(default)]
    pub(crate) wrong: Option<Expression>,
    /// What is wrong then.
    #[serde(default)]
    pub(crate) says: Option<Template>,
    /// How to fix it.
    #[serde(default)]
    pub(crate) fix: Option<Template>,
}
