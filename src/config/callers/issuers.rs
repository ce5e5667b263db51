//! `[[auth.issuers]]` and the related fields of `[auth]`: the trusted token issuers, and how their tokens are
//! interpreted. It must not connect to anything, and never prints a secret.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use super::auth::Auth;
use super::sign_in::{self, SignIn};
use crate::auth::oauth::{
    self, Algorithm, Claim, ClaimRules, IssuerNetwork, KeySource, Resource, TrustedIssuer, is_safe,
};
use crate::config::reading::duration::DurationText;
use crate::config::reading::files;
use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;

/// Maximum `leeway`.
const MAX_LEEWAY: Duration = Duration::from_secs(5 * 60);

/// Maximum `cache_for` of introspection results.
const MAX_CACHE_TIME: Duration = Duration::from_secs(10 * 60);

/// An issuer whose access tokens are accepted.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Issuer {
    /// Its name, exactly as in its tokens (`iss`), such as `https://login.example.com/realms/one`.
    issuer: String,
    /// Accepted audiences of tokens (`aud`), instead of `resource`: for issuers that use another name for
    /// this server.
    #[serde(default)]
    audiences: Option<Vec<String>>,
    /// The URL of its keys. Default: the one in the issuer's metadata (RFC 8414, OpenID Connect Discovery).
    #[serde(default)]
    jwks_uri: Option<String>,
    /// Accepted signature algorithms. Default: RS256, PS256, ES256, their variants with SHA-384 and SHA-512,
    /// and EdDSA.
    #[serde(default)]
    algorithms: Option<Vec<Algorithm>>,
    /// Whether its tokens must be marked as access tokens (`typ` of `at+jwt`, RFC 9068). Set it if the issuer
    /// supports that: then its ID tokens cannot be used as access tokens.
    #[serde(default)]
    require_at_jwt: bool,
    /// The claim with the groups: its name, or a JSON Pointer such as `/realm_access/roles`.
    #[serde(default = "groups_claim")]
    groups_claim: String,
    /// The claim with the tenant, if the issuer serves several. It becomes part of the owner.
    #[serde(default)]
    tenant_claim: Option<String>,
    /// The claim with the display name. It is only displayed and logged.
    #[serde(default = "name_claim")]
    name_claim: String,
    /// A file of CA certificates (PEM) to trust for it, instead of those of this machine.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// The HTTP proxy for requests to it. Default: `HTTPS_PROXY` and `NO_PROXY` of the environment, unless it
    /// uses plain HTTP on this machine.
    #[serde(default)]
    proxy: Option<String>,
    /// Token introspection (RFC 7662) for opaque tokens. At most one issuer can have this.
    #[serde(default)]
    introspection: Option<Introspection>,
    /// Sign-in of persons to the console.
    #[serde(default)]
    sign_in: Option<SignIn>,
}

/// Token introspection at an issuer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Introspection {
    /// The introspection endpoint.
    endpoint: String,
    /// The client id of this server.
    client_id: String,
    /// The client secret: a text, `{ env = "NAME" }` or `{ file = "PATH" }`.
    client_secret: Secret,
    /// How long a response is cached. A revoked token stays valid for this long.
    #[serde(default = "cache_for", with = "DurationText")]
    cache_for: Duration,
    /// Whether it answers only for tokens for this server, so that responses need no `aud`.
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

/// The OAuth settings.
#[derive(Clone, Debug)]
pub struct OauthSettings {
    /// The protected resource that this server represents.
    pub resource: Resource,
    /// The scopes that every token needs.
    pub required_scopes: Vec<String>,
    /// The issuers.
    pub issuers: Vec<TrustedIssuer>,
}

/// Validates the OAuth settings and converts them.
pub(super) fn oauth_settings(reader: &mut Reader<'_>, auth: &Auth, dir: &Path) -> Option<OauthSettings> {
    if auth.issuers.is_empty() {
        reader.problem(
            "auth.mode",
            "no issuers are listed, so every token would be refused: add [[auth.issuers]]",
        );
    }
    if auth.leeway > MAX_LEEWAY {
        reader.problem("auth.leeway", "too long: write at most \"5m\"");
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
    let mut issuers: Vec<TrustedIssuer> = Vec::new();
    for (index, issuer) in auth.issuers.iter().enumerate() {
        let field = format!("auth.issuers[{index}]");
        let Some(entry) = trusted_issuer(reader, &field, issuer, auth, dir) else { continue };
        if issuers.iter().any(|other| other.claim_rules.issuer == entry.claim_rules.issuer) {
            reader.problem(format!("{field}.issuer"), "duplicate issuer: remove one of the two");
        }
        if entry.introspection.is_some() && issuers.iter().any(|other| other.introspection.is_some()) {
            let message = "only one issuer can have this, so that no issuer sees the opaque tokens of another: remove \
                           one of the two";
            reader.problem(format!("{field}.introspection"), message);
        }
        issuers.push(entry);
    }
    Some(OauthSettings { resource: resource?, required_scopes: auth.required_scopes.clone(), issuers })
}

/// RFC 6749, section 3.3.
pub(super) fn check_scope(reader: &mut Reader<'_>, field: &str, scope: &str) {
    let is_allowed = |c: char| matches!(c, '!'..='~') && !matches!(c, '"' | '\\');
    if scope.is_empty() || !scope.chars().all(is_allowed) {
        reader.problem(
            field,
            format!("{scope:?} is not a scope: write one word, without quotes and backslashes"),
        );
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

fn trusted_issuer(
    reader: &mut Reader<'_>,
    field: &str,
    issuer: &Issuer,
    auth: &Auth,
    dir: &Path,
) -> Option<TrustedIssuer> {
    let at = |name: &str| format!("{field}.{name}");
    let url = address(reader, &at("issuer"), &issuer.issuer);
    let keys = issuer.jwks_uri.as_ref().map(|uri| address(reader, &at("jwks_uri"), uri));
    let authorities = issuer.ca_file.as_ref().map(|file| files::read(reader, &at("ca_file"), dir.join(file)));
    let proxy = issuer.proxy.as_deref().map(|proxy| Url::parse(proxy).ok().filter(Url::has_host));
    if proxy == Some(None) {
        reader.problem(at("proxy"), "not a URL: write one such as http://proxy.example.com:3128");
    }
    let network =
        IssuerNetwork { authorities: authorities.flatten().map(|file| file.bytes), proxy: proxy.flatten() };
    if issuer.algorithms.as_ref().is_some_and(Vec::is_empty) {
        reader.problem(
            at("algorithms"),
            "must not be empty, because every token would be refused: add an entry, or remove it",
        );
    }
    if issuer.audiences.as_ref().is_some_and(|audiences| audiences.iter().all(String::is_empty)) {
        reader.problem(
            at("audiences"),
            "must not be empty, because every token would be refused: add an entry, or remove it",
        );
    }
    let settings = issuer.introspection.as_ref();
    let settings = settings.map(|table| introspection(reader, &at("introspection"), table, &network, dir));
    let sign_in = match &issuer.sign_in {
        None => None,
        Some(table) => Some(sign_in::client(reader, &at("sign_in"), table, &auth.required_scopes, dir)?),
    };
    let audiences = issuer.audiences.clone().unwrap_or_else(|| auth.resource.clone().into_iter().collect());
    let claim_rules = ClaimRules {
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
    Some(TrustedIssuer {
        key_source: KeySource { issuer: issuer.issuer.clone(), url: url?, keys_url: keys, network },
        algorithms: issuer.algorithms.clone().unwrap_or_else(Algorithm::all),
        require_at_jwt: issuer.require_at_jwt,
        claim_rules,
        introspection: settings.flatten(),
        sign_in,
    })
}

fn introspection(
    reader: &mut Reader<'_>,
    field: &str,
    table: &Introspection,
    network: &IssuerNetwork,
    dir: &Path,
) -> Option<oauth::Introspection> {
    let at = |name: &str| format!("{field}.{name}");
    if table.cache_for > MAX_CACHE_TIME {
        reader
            .problem(at("cache_for"), "a revoked token would stay valid for too long: write at most \"10m\"");
    }
    let endpoint = address(reader, &at("endpoint"), &table.endpoint);
    let secret = table.client_secret.reveal(reader, &at("client_secret"), dir);
    Some(oauth::Introspection {
        endpoint: endpoint?,
        client: table.client_id.clone(),
        secret: secret?.into(),
        cache_ttl: table.cache_for,
        audience_implied: table.audience_implied,
        network: network.clone(),
    })
}

/// Reads a URL that uses TLS or is on this machine.
fn address(reader: &mut Reader<'_>, field: &str, text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(is_safe);
    let message = match &url {
        None => "not a valid URL: write one with https (http only for 127.0.0.1, ::1 and localhost)",
        // Credentials would appear in the log, and requests do not send them.
        Some(url) if !url.username().is_empty() || url.password().is_some() => {
            "must not contain a user name or a password (before an @): remove it"
        }
        Some(_) => return url,
    };
    reader.problem(field, message);
    None
}
