//! `[auth]`: who may call, and how callers authenticate. It must not connect to anything, and never prints a
//! secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use taskbridge_sdk::Timestamp;

use super::certificates::{self, CertificateRule};
use super::issuers::{self, Issuer, OauthSettings};
use crate::auth::EVERYONE;
use crate::config::reading::duration::DurationText;
use crate::config::reading::reader::Reader;

/// The principal that `taskbridge key new` once printed as a placeholder.
const PLACEHOLDER: &str = "NAME";

/// Who may call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Auth {
    /// How callers authenticate.
    mode: AuthMode,
    /// With `mode = "none"`: all callers are one owner, so that tasks can be listed. Over stdio this is
    /// always so.
    single_user: bool,
    /// With `mode = "none"`: listens on an address that other machines can reach. Everyone who can reach it
    /// may start and stop everything. The log warns about this at every start.
    anyone_may_do_everything: bool,
    /// With `mode = "api_keys"`: the keys. A principal can have several. With `mode = "oauth"`: keys for
    /// machines without tokens.
    keys: Vec<ApiKey>,
    /// Maps client certificates to principals: the only method with `mode = "certificates"`, and an
    /// alternative to a key or token with the other modes. `[server.tls] client_ca` verifies them. A key or
    /// token in the request takes precedence.
    certificates: Vec<CertificateRule>,
    /// With `mode = "oauth"`: the URL at which clients reach the server, such as
    /// `https://bridge.example.com/mcp`. Tokens must be issued for it (`aud`).
    pub(super) resource: Option<String>,
    /// With `mode = "oauth"`: the name of the server on consent screens.
    pub(super) resource_name: Option<String>,
    /// With `mode = "oauth"`: scopes that every token must have.
    pub(super) required_scopes: Vec<String>,
    /// With `mode = "oauth"`: the scopes in the metadata for clients. Default: those of `required_scopes`.
    pub(super) scopes_supported: Option<Vec<String>>,
    /// With `mode = "oauth"`: scopes that imply others: `{ admin = ["read", "write"] }`.
    pub(super) implied_scopes: BTreeMap<String, Vec<String>>,
    /// With `mode = "oauth"`: the accepted clock difference between issuers and this machine.
    #[serde(with = "DurationText")]
    pub(super) leeway: Duration,
    /// With `mode = "oauth"`: the trusted issuers.
    pub(super) issuers: Vec<Issuer>,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            mode: AuthMode::None,
            single_user: false,
            anyone_may_do_everything: false,
            keys: Vec::new(),
            certificates: Vec::new(),
            resource: None,
            resource_name: None,
            required_scopes: Vec::new(),
            scopes_supported: None,
            implied_scopes: BTreeMap::new(),
            leeway: Duration::from_secs(30),
            issuers: Vec::new(),
        }
    }
}

/// How callers authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Not at all: everyone who can reach the server may call, and everyone who has a task id may use the
    /// task.
    #[default]
    None,
    /// By an API key, sent as `Authorization: Bearer KEY`.
    ApiKeys,
    /// By an access token of an OAuth 2.1 or OpenID Connect issuer, sent as `Authorization: Bearer TOKEN`.
    Oauth,
    /// Only by a client certificate (mTLS).
    Certificates,
}

/// An API key. The file contains only its digest, which is useless to a thief. `taskbridge key new` generates
/// one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// The owner of the tasks that are created with the key.
    pub principal: String,
    /// The SHA-256 of the key in hexadecimal: `printf %s "$KEY" | sha256sum`. Use long random keys.
    #[serde(deserialize_with = "digest")]
    #[schemars(with = "String", regex(pattern = "^[0-9a-fA-F]{64}$"))]
    pub sha256: [u8; 32],
    /// The groups of the principal.
    #[serde(default)]
    pub groups: BTreeSet<String>,
    /// The scopes that the key grants.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
    /// When the key expires: a date, at its start (UTC), or a time such as `2027-01-31T12:00:00Z`.
    #[serde(default, deserialize_with = "moment")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<Timestamp>,
}

/// The validated `[auth]` table.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// How callers authenticate.
    pub mode: AuthMode,
    /// All callers are one owner.
    pub single_user: bool,
    /// Anonymous callers are accepted on any listen address (`anyone_may_do_everything`).
    pub allow_anonymous: bool,
    /// The keys.
    pub keys: Vec<ApiKey>,
    /// The rules that map certificates to principals.
    pub certificates: Vec<CertificateRule>,
    /// The OAuth settings.
    pub oauth: Option<OauthSettings>,
}

fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    // The value may be the key itself by mistake, so the message does not contain it.
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        serde::de::Error::custom(
            "not a SHA-256 in hexadecimal (64 digits): write the output of `printf %s \"$KEY\" | sha256sum`",
        )
    })
}

fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let day = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let timestamp = text.parse::<jiff::Timestamp>().ok().or_else(|| Some(day()?.timestamp()));
    let timestamp = timestamp.map(|time| Timestamp::from_millis(time.as_millisecond()));
    timestamp.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "\"{text}\" is not a date or a time: write \"2027-01-31\" or \"2027-01-31T12:00:00Z\""
        ))
    })
}

/// Validates the table beyond its schema, and converts it. `client_ca`: whether `[server.tls]` has
/// authorities for client certificates.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    auth: Auth,
    dir: &Path,
    client_ca: bool,
) -> Authentication {
    check_mode(reader, &auth);
    check_keys(reader, &auth.keys);
    certificates::check(reader, &auth.certificates, auth.mode == AuthMode::Certificates, client_ca);
    let oauth = if auth.mode == AuthMode::Oauth { issuers::oauth_settings(reader, &auth, dir) } else { None };
    let Auth { mode, single_user, anyone_may_do_everything: allow_anonymous, keys, certificates, .. } = auth;
    Authentication { mode, single_user, allow_anonymous, keys, certificates, oauth }
}

fn check_mode(reader: &mut Reader<'_>, auth: &Auth) {
    let Auth { mode, keys, certificates, .. } = auth;
    let mode_error = match mode {
        AuthMode::None if !keys.is_empty() => Some("keys are listed, but not used: set mode = \"api_keys\""),
        AuthMode::None if !certificates.is_empty() => {
            Some("certificates are listed, but not used: set mode = \"certificates\"")
        }
        AuthMode::ApiKeys if keys.is_empty() => {
            Some("no keys are listed, so every call would be refused: add [[auth.keys]]")
        }
        AuthMode::Certificates if certificates.is_empty() => {
            Some("no certificates are listed, so every call would be refused: add [[auth.certificates]]")
        }
        AuthMode::Certificates if !keys.is_empty() => {
            Some("keys are listed, but not used: set mode = \"api_keys\", which accepts certificates, too")
        }
        _ => None,
    };
    if let Some(message) = mode_error {
        reader.problem("auth.mode", message);
    }
    if *mode != AuthMode::None && auth.single_user {
        let message = "only allowed with mode = \"none\": with other modes, each principal is an owner";
        reader.problem("auth.single_user", message);
    }
    if *mode != AuthMode::None && auth.anyone_may_do_everything {
        let message = "only allowed with mode = \"none\": remove it";
        reader.problem("auth.anyone_may_do_everything", message);
    }
    if *mode == AuthMode::Oauth {
        return;
    }
    for (field, given) in [
        ("resource", auth.resource.is_some()),
        ("resource_name", auth.resource_name.is_some()),
        ("required_scopes", !auth.required_scopes.is_empty()),
        ("scopes_supported", auth.scopes_supported.is_some()),
        ("implied_scopes", !auth.implied_scopes.is_empty()),
        ("issuers", !auth.issuers.is_empty()),
    ] {
        if given {
            reader.problem(
                format!("auth.{field}"),
                "only allowed with mode = \"oauth\": set that, or remove this",
            );
        }
    }
}

fn check_keys(reader: &mut Reader<'_>, keys: &[ApiKey]) {
    for (index, key) in keys.iter().enumerate() {
        let field = |name: &str| format!("auth.keys[{index}].{name}");
        if key.principal.trim().is_empty() {
            reader.problem(field("principal"), "must not be empty: write the name of the key's owner");
        }
        if [EVERYONE, PLACEHOLDER].contains(&key.principal.as_str()) {
            let message = format!(
                "{:?} is a shared name, and its callers would share their tasks: write the name of the key's owner",
                key.principal
            );
            reader.problem(field("principal"), message);
        }
        if key.principal.starts_with('[') {
            let message = "must not begin with `[`, like the names of owners by token: choose another name";
            reader.problem(field("principal"), message);
        }
        if let Some(other) = keys[..index].iter().find(|other| other.sha256 == key.sha256) {
            let message = format!("duplicate key, already listed for `{}`", other.principal);
            reader.problem(field("sha256"), message);
        }
    }
}
