//! Builds the client-facing part of a config: the catalog, the protocol settings, and the authentication
//! rules. All of it is built before any of it is applied.

use std::sync::Arc;

use super::AppError;
use crate::auth::oauth::OAuth;
use crate::auth::{ApiKeys, Authenticator, Certificates, Identity, Key};
use crate::catalog::Catalog;
use crate::clock::System;
use crate::config::{AuthMode, Authentication, Config, OauthSettings, ToolRules};
use crate::mcp;
use crate::mcp::transport::http::validation::origin::OriginPolicy;
use crate::mcp::transport::http::{AccessRules, Proxies};
use crate::seal::Seal;

/// The client-facing part of a config.
pub(super) struct ClientFacingConfig {
    pub(super) configured_catalog: ConfiguredCatalog,
    pub(super) settings: mcp::Settings,
    pub(super) rules: AccessRules,
}

/// The config's own catalog, and the rules for adding the tools that backends offer.
#[derive(Clone)]
pub(super) struct ConfiguredCatalog {
    pub(super) catalog: Arc<Catalog>,
    pub(super) tool_rules: ToolRules,
}

impl ClientFacingConfig {
    /// Builds the client-facing part of this config.
    pub(super) fn of(config: Config, seal: Seal) -> Result<Self, AppError> {
        let (settings, rules) = (protocol_settings(&config), rules(&config)?);
        let Config { tools, tool_rules, slot_limits: limits, resources, prompts, access, .. } = config;
        let catalog = Catalog::new(tools, limits, seal).with_content(resources, prompts);
        let catalog = catalog.with_removed_tool_rules(access);
        let configured_catalog = ConfiguredCatalog { catalog: Arc::new(catalog), tool_rules };
        Ok(Self { configured_catalog, settings, rules })
    }
}

fn rules(config: &Config) -> Result<AccessRules, AppError> {
    let server = &config.server;
    let (origins, hosts) = (server.allowed_origins.clone(), server.allowed_hosts.clone());
    let origin_policy = OriginPolicy::new(server.listen.ip(), origins, hosts).map_err(AppError::Config)?;
    let proxies = Proxies::new(server.trusted_proxies.iter().map(|network| network.0));
    let limits = config.bounds.of_connections();
    Ok(AccessRules { auth: authenticator(config)?, origin_policy, limits, tls: config.tls.clone(), proxies })
}

fn authenticator(config: &Config) -> Result<Authenticator, AppError> {
    let auth = &config.auth;
    let rules =
        || Certificates::new(auth.certificates.iter().map(|rule| (rule.conditions(), rule.identity())));
    match auth.mode {
        AuthMode::Certificates => Ok(Authenticator::Certificates(rules(), None)),
        _ if auth.certificates.is_empty() => by_header(auth),
        _ => Ok(Authenticator::Certificates(rules(), Some(Box::new(by_header(auth)?)))),
    }
}

/// Builds the authenticator that reads the request headers.
fn by_header(auth: &Authentication) -> Result<Authenticator, AppError> {
    match (auth.mode, &auth.oauth) {
        (AuthMode::None, _) => Ok(Authenticator::None { single_user: auth.single_user }),
        (AuthMode::ApiKeys, _) => keys(auth).map(Authenticator::ApiKeys),
        (AuthMode::Oauth, Some(OauthSettings { resource, required_scopes: required, issuers })) => {
            let oauth = OAuth::new(resource.clone(), required.clone(), issuers.clone(), System::clock());
            let oauth = oauth.map_err(|why| AppError::Config(format!("auth.issuers: {why}")))?;
            Ok(Authenticator::OAuth(Box::new(oauth), keys(auth)?))
        }
        (AuthMode::Oauth, None) => Err(AppError::Config("auth.issuers: no issuers are listed".to_owned())),
        (AuthMode::Certificates, _) => {
            Err(AppError::Config("auth.mode: request headers do not identify callers".to_owned()))
        }
    }
}

fn keys(auth: &Authentication) -> Result<ApiKeys, AppError> {
    let keys = ApiKeys::new(auth.keys.iter().map(|key| {
        let (groups, scopes) = (key.groups.clone(), key.scopes.clone());
        let identity = Identity { groups, scopes, ..Identity::named(&key.principal) };
        Key::new(&data_encoding::HEXLOWER.encode(&key.sha256), identity).with_expiry(key.expires)
    }));
    keys.map_err(|error| AppError::Config(error.to_string()))
}

fn protocol_settings(config: &Config) -> mcp::Settings {
    let server = &config.server;
    mcp::Settings {
        call_budget: server.call_budget,
        quick_wait: server.quick_wait,
        progress_every: server.progress_every,
        companion_tools: server.companion_tools,
        page_size: server.page_size.get(),
        session_lifetime: server.session_lifetime,
        max_log_bytes: server.max_log_bytes.get(),
        max_artifact_bytes: server.max_artifact_bytes,
        max_body_bytes: server.max_body_bytes.get(),
        max_polls_per_second: server.max_polls_per_second.get(),
        limits: config.bounds.of_messages(),
        max_calls_per_minute: config.bounds.owner.max_calls_per_minute.get(),
    }
}
