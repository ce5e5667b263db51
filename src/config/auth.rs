//! `[auth]`: who may call, and how they prove who they are. It must not connect to anything, and repeats no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use taskbridge_sdk::Timestamp;

use super::reader::Reader;
use super::secret::Secret;
use super::{duration, files};
use crate::auth::oauth::{self, Algorithm, Claim, Reading, Resource, Source, Trusted, Way, is_safe};

/// The longest that clocks may be apart.
const MOST_LEEWAY: Duration = Duration::from_secs(5 * 60);

/// The longest that the word of an issuer is kept.
const MOST_KEPT: Duration = Duration::from_secs(10 * 60);

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
    /// With `mode = "oauth"`: the address by which clients reach the server, such as `https://bridge.example.com/mcp`.
    /// Tokens must be meant for it (`aud`).
    resource: Option<String>,
    /// With `mode = "oauth"`: what the server is called where users are asked whether a client may use it.
    resource_name: Option<String>,
    /// With `mode = "oauth"`: scopes without which no token is good for anything here.
    required_scopes: Vec<String>,
    /// With `mode = "oauth"`: the scopes that clients are told of. Without this, those of `required_scopes`.
    scopes_supported: Option<Vec<String>>,
    /// With `mode = "oauth"`: scopes that grant others as well: `{ admin = ["read", "write"] }`.
    implied_scopes: BTreeMap<String, Vec<String>>,
    /// With `mode = "oauth"`: how far the clocks of issuers may be from that of this machine.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    leeway: Duration,
    /// With `mode = "oauth"`: whose tokens are good here.
    issuers: Vec<Issuer>,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            mode: AuthMode::None,
            single_user: false,
            anyone_may_do_everything: false,
            keys: Vec::new(),
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

/// Somebody whose access tokens are good here.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Issuer {
    /// Its name, exactly as its tokens say it (`iss`), such as `https://login.example.com/realms/one`.
    issuer: String,
    /// Whom tokens may be meant for (`aud`), in place of `resource`: for issuers that know the server by another name.
    #[serde(default)]
    audiences: Option<Vec<String>>,
    /// Where its keys are. Without it, the issuer's own metadata says where (RFC 8414, OpenID Connect Discovery).
    #[serde(default)]
    jwks_uri: Option<String>,
    /// What its tokens may be signed by. Without this: RS256, PS256, ES256 and the like with SHA-384 and SHA-512, and EdDSA.
    #[serde(default)]
    algorithms: Option<Vec<Algorithm>>,
    /// The claim that lists groups: its name, or a JSON Pointer such as `/realm_access/roles`.
    #[serde(default = "groups_claim")]
    groups_claim: String,
    /// A claim by which owners are told apart as well: that of the tenant, where an issuer serves several.
    #[serde(default)]
    tenant_claim: Option<String>,
    /// The claim that says what people are called. It is shown and logged, and nothing is decided by it.
    #[serde(default = "name_claim")]
    name_claim: String,
    /// A file of certificates (PEM) of authorities to trust for it, in place of this machine's.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// A proxy that it is reached by. Proxies of the environment are not used.
    #[serde(default)]
    proxy: Option<String>,
    /// How it is asked about tokens that only it can read (RFC 7662). One issuer at most can have this.
    #[serde(default)]
    introspection: Option<Introspection>,
}

/// How an issuer is asked about tokens.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Introspection {
    /// Where it is asked.
    endpoint: String,
    /// As whom the server asks.
    client_id: String,
    /// By what it shows that: a text, `{ env = "NAME" }` or `{ file = "PATH" }`.
    client_secret: Secret,
    /// How long an answer is kept: a token that is revoked is good for so long.
    #[serde(default = "cache_for", with = "duration")]
    #[schemars(with = "String")]
    cache_for: Duration,
    /// Whether it answers only for tokens that are meant for this server, and so need not say that with each (`aud`).
    #[serde(default)]
    audience_implied: bool,
}

fn groups_claim() -> String {
    "groups".to_owned()
}

fn name_claim() -> String {
    "name".to_owned()
}

fn cache_for() -> Duration {
    Duration::from_secs(60)
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
    /// Whose tokens are good.
    pub tokens: Option<Tokens>,
}

/// Whose tokens are good, and what they must grant.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// What the server is to clients.
    pub resource: Resource,
    /// The scopes that every token needs.
    pub required: Vec<String>,
    /// The issuers.
    pub issuers: Vec<Trusted>,
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

/// Checks what the shape cannot say, and makes of it what tokens are read by.
pub(super) fn read(reader: &mut Reader<'_>, auth: Auth, dir: &Path) -> Authentication {
    check_mode(reader, &auth);
    check_keys(reader, &auth.keys);
    let tokens = if auth.mode == AuthMode::Oauth { tokens(reader, &auth, dir) } else { None };
    let Auth { mode, single_user, anyone_may_do_everything: open, keys, .. } = auth;
    Authentication { mode, single_user, open, keys, tokens }
}

fn check_mode(reader: &mut Reader<'_>, auth: &Auth) {
    let Auth { mode, keys, .. } = auth;
    if *mode == AuthMode::None && !keys.is_empty() {
        let message = "keys are listed, and nobody would ask for them: set mode = \"api_keys\"";
        reader.problem("auth.mode", message);
    }
    if *mode == AuthMode::ApiKeys && keys.is_empty() {
        reader.problem("auth.mode", "no keys are listed, so nobody could call: add [[auth.keys]]");
    }
    if *mode != AuthMode::None && auth.single_user {
        let message = "it goes with mode = \"none\": with keys or tokens, each principal is an owner";
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

fn tokens(reader: &mut Reader<'_>, auth: &Auth, dir: &Path) -> Option<Tokens> {
    if auth.issuers.is_empty() {
        reader
            .problem("auth.mode", "no issuers are listed, so nobody's tokens are good: add [[auth.issuers]]");
    }
    if auth.leeway > MOST_LEEWAY {
        reader.problem("auth.leeway", "it lets tokens live on for too long: 5m at most");
    }
    for (field, scopes) in [
        ("required_scopes", Some(&auth.required_scopes)),
        ("scopes_supported", auth.scopes_supported.as_ref()),
    ] {
        for (index, scope) in scopes.into_iter().flatten().enumerate() {
            check_scope(reader, &format!("auth.{field}[{index}]"), scope);
        }
    }
    let resource = resource(reader, auth);
    let mut issuers: Vec<Trusted> = Vec::new();
    for (index, issuer) in auth.issuers.iter().enumerate() {
        let field = format!("auth.issuers[{index}]");
        let Some(trusted) = trusted(reader, &field, issuer, auth, dir) else { continue };
        if issuers.iter().any(|other| other.reading.issuer == trusted.reading.issuer) {
            reader.problem(format!("{field}.issuer"), "this issuer is listed before: list it once");
        }
        if trusted.introspection.is_some() && issuers.iter().any(|other| other.introspection.is_some()) {
            let message = "another issuer has this: tokens that say nothing are asked about at one place only, so that \
                           no issuer sees those of another";
            reader.problem(format!("{field}.introspection"), message);
        }
        issuers.push(trusted);
    }
    Some(Tokens { resource: resource?, required: auth.required_scopes.clone(), issuers })
}

/// RFC 6749, section 3.3.
fn check_scope(reader: &mut Reader<'_>, field: &str, scope: &str) {
    let right = |c: char| matches!(c, '!'..='~') && !matches!(c, '"' | '\\');
    if scope.is_empty() || !scope.chars().all(right) {
        reader
            .problem(field, format!("{scope:?} is no scope: write one word, without quotes and backslashes"));
    }
}

fn resource(reader: &mut Reader<'_>, auth: &Auth) -> Option<Resource> {
    let Some(id) = &auth.resource else {
        let message = "`resource` is missing: write the address by which clients reach the server, such as \
                       resource = \"https://bridge.example.com/mcp\"";
        reader.problem("auth.mode", message);
        return None;
    };
    let scopes = auth.scopes_supported.as_ref().unwrap_or(&auth.required_scopes).clone();
    Resource::new(id, auth.resource_name.clone(), scopes)
        .map_err(|message| reader.problem("auth.resource", message))
        .ok()
}

fn trusted(
    reader: &mut Reader<'_>,
    field: &str,
    issuer: &Issuer,
    auth: &Auth,
    dir: &Path,
) -> Option<Trusted> {
    let at = |name: &str| format!("{field}.{name}");
    let url = address(reader, &at("issuer"), &issuer.issuer);
    let keys = issuer.jwks_uri.as_ref().map(|uri| address(reader, &at("jwks_uri"), uri));
    let authorities = issuer.ca_file.as_ref().map(|file| files::read(reader, &at("ca_file"), dir.join(file)));
    let proxy = issuer.proxy.as_deref().map(|proxy| Url::parse(proxy).ok().filter(Url::has_host));
    if proxy == Some(None) {
        reader.problem(at("proxy"), "it is no address: write one such as http://proxy.example.com:3128");
    }
    let way = Way { authorities: authorities.flatten().map(|read| read.bytes), proxy: proxy.flatten() };
    if issuer.algorithms.as_ref().is_some_and(Vec::is_empty) {
        reader.problem(
            at("algorithms"),
            "it is empty, so that no token would be good: list some, or remove it",
        );
    }
    if issuer.audiences.as_ref().is_some_and(|audiences| audiences.iter().all(String::is_empty)) {
        reader
            .problem(at("audiences"), "it is empty, so that no token would be good: list some, or remove it");
    }
    let asks = issuer.introspection.as_ref();
    let asks = asks.map(|asks| introspection(reader, &at("introspection"), asks, &way, dir));
    let audiences = issuer.audiences.clone().unwrap_or_else(|| auth.resource.clone().into_iter().collect());
    let reading = Reading {
        issuer: issuer.issuer.clone(),
        audiences,
        leeway: auth.leeway,
        groups: Claim::new(&issuer.groups_claim),
        tenant: issuer.tenant_claim.as_deref().map(Claim::new),
        name: Claim::new(&issuer.name_claim),
        implied: auth.implied_scopes.clone(),
    };
    let keys = match keys {
        None => None,
        Some(keys) => Some(keys?),
    };
    Some(Trusted {
        source: Source { issuer: issuer.issuer.clone(), url: url?, keys, way },
        algorithms: issuer.algorithms.clone().unwrap_or_else(Algorithm::all),
        reading,
        introspection: asks.flatten(),
    })
}

fn introspection(
    reader: &mut Reader<'_>,
    field: &str,
    asks: &Introspection,
    way: &Way,
    dir: &Path,
) -> Option<oauth::Introspection> {
    let at = |name: &str| format!("{field}.{name}");
    if asks.cache_for > MOST_KEPT {
        reader.problem(at("cache_for"), "a revoked token would be good for too long: 10m at most");
    }
    let endpoint = address(reader, &at("endpoint"), &asks.endpoint);
    let secret = asks.client_secret.reveal(reader, &at("client_secret"), dir);
    Some(oauth::Introspection {
        endpoint: endpoint?,
        client: asks.client_id.clone(),
        secret: secret?.into(),
        keep: asks.cache_for,
        audience_implied: asks.audience_implied,
        way: way.clone(),
    })
}

/// An address that is asked over TLS, or on this machine.
fn address(reader: &mut Reader<'_>, field: &str, text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(is_safe);
    if url.is_none() {
        let message = "it is no address that can be asked: write one with https (http only for 127.0.0.1, ::1 and localhost)";
        reader.problem(field, message);
    }
    url
}
