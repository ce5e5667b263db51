//! Shape of `auth` and `per_caller` in a backend's config. It must not load or send credentials.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use taskbridge_sdk::{Error, Secret};

use crate::language::Expression;

/// Credentials for the engine: one of the fields, or none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpAuth")]
pub(crate) struct AuthConfig {
    /// A token, sent as `Authorization: Bearer TOKEN`.
    #[serde(default)]
    pub(crate) bearer: Option<Secret>,
    /// A user and a password, sent as `Authorization: Basic ..`.
    #[serde(default)]
    pub(crate) basic: Option<Basic>,
    /// A header with a secret value, such as `PRIVATE-TOKEN`.
    #[serde(default)]
    pub(crate) header: Option<Header>,
    /// OAuth 2.0 client credentials.
    #[serde(default)]
    pub(crate) oauth: Option<OAuth>,
    /// A user and a password, exchanged for a token.
    #[serde(default)]
    pub(crate) exchange: Option<Exchange>,
    /// Signatures of AWS, with the credentials that the AWS command line would use.
    #[serde(default)]
    pub(crate) sigv4: Option<SigV4>,
    /// A service account of Google Cloud.
    #[serde(default)]
    pub(crate) google: Option<Google>,
}

/// A user and a password.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpBasic")]
pub(crate) struct Basic {
    /// The user. It must not contain a colon.
    pub(crate) user: String,
    /// The password, or an API token that takes its place.
    pub(crate) password: Secret,
}

/// A header with a secret value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpHeader")]
pub(crate) struct Header {
    /// The header's name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: Secret,
}

/// OAuth 2.0 client credentials (RFC 6749, section 4.4).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpOAuth")]
pub(crate) struct OAuth {
    /// Address of the token endpoint.
    pub(crate) token_url: String,
    /// The client's id.
    pub(crate) client_id: String,
    /// The client's secret.
    pub(crate) client_secret: Secret,
    /// Scopes, separated by spaces.
    #[serde(default)]
    pub(crate) scope: Option<String>,
    /// Audience, for servers that require one.
    #[serde(default)]
    pub(crate) audience: Option<String>,
    /// Send the client's id and secret in the form instead of a header.
    #[serde(default)]
    pub(crate) in_form: bool,
}

/// A user and a password, exchanged for a token by a request to the engine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpExchange")]
pub(crate) struct Exchange {
    /// The user.
    pub(crate) user: String,
    /// The password.
    pub(crate) password: Secret,
    /// The request for a token. Presets have it.
    #[schemars(with = "Option<ExchangeRequest>")]
    pub(crate) request: ExchangeRequest,
    /// Expression for the token in the reply, such as `body.access_token`. Presets have it.
    #[schemars(with = "Option<String>")]
    pub(crate) token: Expression,
    /// Expression for the lifetime of the token in seconds, such as `body.expires_in`. Without it, the token
    /// is kept for `lasts`.
    #[serde(default)]
    pub(crate) expires_in: Option<Expression>,
    /// How long a token is used. After a 401, a new one is requested in any case.
    #[serde(default = "default_lasts", with = "humantime_serde")]
    #[schemars(with = "String")]
    pub(crate) lasts: Duration,
    /// Name of the header for the token.
    #[serde(default = "default_header")]
    pub(crate) header: String,
    /// Text before the token in the header.
    #[serde(default = "default_prefix")]
    pub(crate) prefix: String,
}

fn default_lasts() -> Duration {
    Duration::from_secs(15 * 60)
}

fn default_header() -> String {
    "Authorization".to_owned()
}

fn default_prefix() -> String {
    "Bearer ".to_owned()
}

/// The request for a token.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpExchangeRequest")]
pub(crate) struct ExchangeRequest {
    /// Path below `base`.
    pub(crate) path: String,
    /// The body as JSON. The texts `{{ user }}` and `{{ password }}` are replaced.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub(crate) json: Option<Value>,
    /// The body as a form, with the same texts.
    #[serde(default)]
    pub(crate) form: Option<BTreeMap<String, String>>,
}

/// Signatures of AWS (Signature Version 4).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpSigV4")]
pub(crate) struct SigV4 {
    /// The service's signing name, such as `codebuild`.
    pub(crate) service: String,
    /// The region, such as `eu-central-1`.
    pub(crate) region: String,
    /// The profile in the files of AWS. The default is the credential chain of AWS: environment, files,
    /// roles of containers and instances.
    #[serde(default)]
    pub(crate) profile: Option<String>,
    /// An access key, in place of the chain; with `secret_access_key`.
    #[serde(default)]
    pub(crate) access_key_id: Option<String>,
    /// The secret of the access key.
    #[serde(default)]
    pub(crate) secret_access_key: Option<Secret>,
}

/// A service account of Google Cloud.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpGoogle")]
pub(crate) struct Google {
    /// The service account's key in JSON: `{ file = "service-account.json" }`.
    pub(crate) credentials: Secret,
    /// Scopes. The default is `https://www.googleapis.com/auth/cloud-platform`.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// Address of the token endpoint, in place of Google's.
    #[serde(default)]
    pub(crate) token_url: Option<String>,
}

/// Credentials of people, for requests that change something.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpPerCaller")]
pub(crate) struct PerCaller {
    /// The token of each person, such as `{ ann = { env = "ANN" }, bob = { file = "bob.token" } }`. It is sent
    /// as the backend's own credential is: as a bearer token, in the header of `auth.header`, or as
    /// `USER:PASSWORD` with `auth.basic`. A person is identified by the name of their API key, by
    /// `certificate#NAME` of their certificate, or by `ISSUER#SUBJECT` of their token.
    pub(crate) tokens: BTreeMap<String, Secret>,
}

/// The configured kind of credentials.
pub(crate) enum Kind<'a> {
    Bearer(&'a Secret),
    Basic(&'a Basic),
    Header(&'a Header),
    OAuth(&'a OAuth),
    Exchange(&'a Exchange),
    SigV4(&'a SigV4),
    Google(&'a Google),
}

impl AuthConfig {
    /// Returns the one kind that is configured, if any.
    ///
    /// # Errors
    /// There is more than one.
    pub(crate) fn kind(&self) -> Result<Option<Kind<'_>>, Invalid> {
        let kinds = [
            self.bearer.as_ref().map(Kind::Bearer),
            self.basic.as_ref().map(Kind::Basic),
            self.header.as_ref().map(Kind::Header),
            self.oauth.as_ref().map(Kind::OAuth),
            self.exchange.as_ref().map(Kind::Exchange),
            self.sigv4.as_ref().map(Kind::SigV4),
            self.google.as_ref().map(Kind::Google),
        ];
        let mut found = kinds.into_iter().flatten();
        match (found.next(), found.next()) {
            (kind, None) => Ok(kind),
            (_, Some(_)) => Err(Invalid::new("auth", "has more than one kind of credential: keep one")),
        }
    }
}

/// Invalid field of the config.
#[derive(Debug)]
pub(crate) struct Invalid {
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Invalid {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

impl From<Invalid> for Error {
    fn from(Invalid { field, message }: Invalid) -> Self {
        Self::config(format!("`{field}` {message}"))
    }
}

/// Paths of the secrets in the backend's config.
pub(crate) const SECRETS: &[&str] = &[
    "auth.bearer",
    "auth.basic.password",
    "auth.header.value",
    "auth.oauth.client_secret",
    "auth.exchange.password",
    "auth.google.credentials",
    "auth.sigv4.secret_access_key",
    "per_caller.tokens.*",
];
