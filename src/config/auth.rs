//! `[auth]`: who may call, and how they prove who they are. It must not connect to anything, and repeats no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use taskbridge_sdk::Timestamp;

use super::certificates::{self, CertificateRule};
use super::duration;
use super::issuers::{self, Issuer, Tokens};
use super::reader::Reader;
use crate::auth::EVERYONE;

/// What `taskbridge key new` wrote where nobody had said whose key it is.
const PLACEHOLDER: &str = "NAME";

/// Who may call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Auth {
    /// How callers prove who they are.
    mode: AuthMode,
    /// With `mode = "none"`: all callers are one owner, so that tasks can be listed. Over stdio this is always so.
    single_user: bool,
    /// With `mode = "none"`: listens on an address that other machines can reach all the same. Whoever reaches it may start
    /// and stop everything that there is. The log warns of it at every start.
    anyone_may_do_everything: bool,
    /// With `mode = "api_keys"`: the keys. A principal can have several. With `mode = "oauth"`: keys for machines that
    /// have no tokens.
    keys: Vec<ApiKey>,
    /// Which client certificates stand for whom: in place of anything else with `mode = "certificates"`, and of a key or a token
    /// with the others. `[server.tls] client_ca` says who vouches for them. Who sends a key or a token as well is who that says.
    certificates: Vec<CertificateRule>,
    /// With `mode = "oauth"`: the address by which clients reach the server, such as `https://bridge.example.com/mcp`.
    /// Tokens must be meant for it (`aud`).
    pub(super) resource: Option<String>,
    /// With `mode = "oauth"`: what the server is called where users are asked whether a client may use it.
    pub(super) resource_name: Option<String>,
    /// With `mode = "oauth"`: scopes without which no token is good for anything here.
    pub(super) required_scopes: Vec<String>,
    /// With `mode = "oauth"`: the scopes that clients are told of. Without this, those of `required_scopes`.
    pub(super) scopes_supported: Option<Vec<String>>,
    /// With `mode = "oauth"`: scopes that grant others as well: `{ admin = ["read", "write"] }`.
    pub(super) implied_scopes: BTreeMap<String, Vec<String>>,
    /// With `mode = "oauth"`: how far the clocks of issuers may be from that of this machine.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub(super) leeway: Duration,
    /// With `mode = "oauth"`: whose tokens are good here.
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

/// How callers prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// They do not: whoever reaches the server may call, and whoever holds a task id may use the task.
    #[default]
    None,
    /// By a key, sent as `Authorization: Bearer KEY`.
    ApiKeys,
    /// By an access token of an OAuth 2.1 or OpenID Connect issuer, sent as `Authorization: Bearer TOKEN`.
    Oauth,
    /// By a client certificate alone (mTLS).
    Certificates,
}

/// An API key. Only its digest stands here, so that the file is of no use to a thief. `taskbridge key new` makes one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Whose key it is: the owner of the tasks that it makes.
    pub principal: String,
    /// The SHA-256 of the key in hexadecimal: `printf %s "$KEY" | sha256sum`. Use long random keys.
    #[serde(deserialize_with = "digest")]
    #[schemars(with = "String", regex(pattern = "^[0-9a-fA-F]{64}$"))]
    pub sha256: [u8; 32],
    /// The groups that its principal is in.
    #[serde(default)]
    pub groups: BTreeSet<String>,
    /// What it grants: its scopes.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
    /// When it ends to be good: a date, from its first moment on (UTC), or a moment, such as `2027-01-31T12:00:00Z`.
    #[serde(default, deserialize_with = "moment")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<Timestamp>,
}

/// `[auth]`, found right.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// How callers prove who they are.
    pub mode: AuthMode,
    /// All callers are one owner.
    pub single_user: bool,
    /// Whoever reaches the server may call, from wherever.
    pub open: bool,
    /// The keys.
    pub keys: Vec<ApiKey>,
    /// Which certificates stand for whom.
    pub certificates: Vec<CertificateRule>,
    /// Whose tokens are good.
    pub tokens: Option<Tokens>,
}

fn digest<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(from)?;
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    // What stands here may be the key itself by mistake, so it is not repeated.
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        serde::de::Error::custom(
            "it is not a SHA-256 in hexadecimal (64 digits): write what `printf %s \"$KEY\" | sha256sum` prints",
        )
    })
}

fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(from)?;
    let day = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let moment = text.parse::<jiff::Timestamp>().ok().or_else(|| Some(day()?.timestamp()));
    let moment = moment.map(|moment| Timestamp::from_millis(moment.as_millisecond()));
    moment.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "\"{text}\" is no date and no moment: write \"2027-01-31\" or \"2027-01-31T12:00:00Z\""
        ))
    })
}

/// Checks what the shape cannot say, and makes of it what callers are known by. `client_ca`: whether `[server.tls]` says who
/// vouches for clients.
pub(super) fn read(reader: &mut Reader<'_>, auth: Auth, dir: &Path, client_ca: bool) -> Authentication {
    check_mode(reader, &auth);
    check_keys(reader, &auth.keys);
    certificates::check(reader, &auth.certificates, auth.mode == AuthMode::Certificates, client_ca);
    let tokens = if auth.mode == AuthMode::Oauth { issuers::tokens(reader, &auth, dir) } else { None };
    let Auth { mode, single_user, anyone_may_do_everything: open, keys, certificates, .. } = auth;
    Authentication { mode, single_user, open, keys, certificates, tokens }
}

fn check_mode(reader: &mut Reader<'_>, auth: &Auth) {
    let Auth { mode, keys, certificates, .. } = auth;
    let wrong = match mode {
        AuthMode::None if !keys.is_empty() => {
            Some("keys are listed, and nobody would ask for them: set mode = \"api_keys\"")
        }
        AuthMode::None if !certificates.is_empty() => {
            Some("certificates are listed, and nobody would look at them: set mode = \"certificates\"")
        }
        AuthMode::ApiKeys if keys.is_empty() => {
            Some("no keys are listed, so nobody could call: add [[auth.keys]]")
        }
        AuthMode::Certificates if certificates.is_empty() => {
            Some("no certificates are listed, so nobody could call: add [[auth.certificates]]")
        }
        AuthMode::Certificates if !keys.is_empty() => Some(
            "keys are listed, and nobody would ask for them: set mode = \"api_keys\", beside which certificates count as well",
        ),
        _ => None,
    };
    if let Some(message) = wrong {
        reader.problem("auth.mode", message);
    }
    if *mode != AuthMode::None && auth.single_user {
        let message =
            "it goes with mode = \"none\": where callers are told apart, each principal is an owner";
        reader.problem("auth.single_user", message);
    }
    if *mode != AuthMode::None && auth.anyone_may_do_everything {
        let message = "it goes with mode = \"none\", and contradicts this one: remove it";
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
            reader
                .problem(format!("auth.{field}"), "it goes with mode = \"oauth\": set that, or remove this");
        }
    }
}

fn check_keys(reader: &mut Reader<'_>, keys: &[ApiKey]) {
    for (index, key) in keys.iter().enumerate() {
        let field = |name: &str| format!("auth.keys[{index}].{name}");
        if key.principal.trim().is_empty() {
            reader.problem(field("principal"), "it is empty: name whose key it is");
        }
        if [EVERYONE, PLACEHOLDER].contains(&key.principal.as_str()) {
            let message = format!(
                "{:?} is a name that others have as well, who would share its tasks: name whose key it is",
                key.principal
            );
            reader.problem(field("principal"), message);
        }
        if key.principal.starts_with('[') {
            let message = "it begins with `[`, as the names of owners by token do: begin it otherwise";
            reader.problem(field("principal"), message);
        }
        if let Some(other) = keys[..index].iter().find(|other| other.sha256 == key.sha256) {
            let message = format!("this key is listed before, for `{}`", other.principal);
            reader.problem(field("sha256"), message);
        }
    }
}
