//! Connection to GitHub: address, proxy and credential, without retries. It must not send a request.

use std::time::Duration;

use http::Uri;
use jsonwebtoken::EncodingKey;
use octocrab::models::{AppId, InstallationId};
use octocrab::{DefaultOctocrabBuilderConfig, NoAuth, NoSvc, NotLayerReady, Octocrab, OctocrabBuilder};
use reqwest::{ClientBuilder, Proxy, Url, redirect};
use taskbridge_sdk::{Error, Result, Secret, is_local_address, root_cause};

use crate::config::Config;

/// Timeout of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn connect(config: &Config) -> Result<Octocrab> {
    let builder = base_builder(config)?;
    match (&config.token, &config.app) {
        (Some(secret), None) => build(config, builder.personal_token(token("token", secret)?)),
        (None, Some(app)) => {
            let key = EncodingKey::from_rsa_pem(app.private_key.reveal().as_bytes())
                .map_err(|_| Error::config("`app.private_key` is not an RSA private key in PEM"))?;
            let crab = build(config, builder.app(AppId(app.id), key))?;
            crab.installation(InstallationId(app.installation)).map_err(client_error)
        }
        (None, None) => {
            Err(Error::config("there is no credential: set `token = { env = \"GITHUB_TOKEN\" }`, or `app`"))
        }
        (Some(_), Some(_)) => Err(Error::config("`token` and `app` are both set: remove one of them")),
    }
}

/// Creates a client without a credential.
pub(crate) fn anonymous(config: &Config) -> Result<Octocrab> {
    build(config, base_builder(config)?)
}

/// Returns the address of the API.
pub(crate) fn api_url(config: &Config) -> Result<Url> {
    let parsed = Url::parse(&config.api).ok().filter(Url::has_host);
    parsed.ok_or_else(|| Error::config(format!("`api`: {:?} is not a URL", config.api)))
}

/// Returns the address of the web pages of an API, such as `https://github.com`.
pub(crate) fn web_url(api: &Url) -> String {
    let mut url = api.clone();
    if let Some(host) = api.host_str().and_then(|host| host.strip_prefix("api.")) {
        // The rest of a valid host name is valid.
        let _ = url.set_host(Some(host));
    }
    url.origin().ascii_serialization()
}

/// Creates the builder of a client for the API and for the targets of its links. It uses `proxy`, or the
/// proxy of the environment. Without `proxy`, an API on this machine is reached directly.
pub(crate) fn http_client_builder(config: &Config) -> Result<ClientBuilder> {
    let builder = reqwest::Client::builder().user_agent("taskbridge").connect_timeout(CONNECT_TIMEOUT);
    match &config.proxy {
        Some(proxy) => {
            // The message does not quote the address, which may contain a password.
            let proxy = Proxy::all(proxy.reveal().trim());
            let invalid_proxy =
                |_| Error::config("`proxy` is not a URL: write one such as http://proxy.example.com:3128");
            Ok(builder.proxy(proxy.map_err(invalid_proxy)?))
        }
        None if api_url(config)?.host_str().is_some_and(is_local_address) => Ok(builder.no_proxy()),
        None => Ok(builder),
    }
}

fn build(config: &Config, builder: Builder) -> Result<Octocrab> {
    let http_client = http_client_builder(config)?.redirect(redirect::Policy::none()).build();
    let http_client = http_client
        .map_err(|e| Error::config(format!("the HTTP client cannot be created: {}", root_cause(&e))))?;
    builder.build_with_reqwest(http_client).map_err(client_error)
}

/// Returns the text of a token.
pub(crate) fn token(field: &str, secret: &Secret) -> Result<String> {
    let token = secret.reveal().trim();
    // Other characters would cause a panic in the client.
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => {
            Err(Error::config(format!("`{field}` is not a token: it is empty or has invalid characters")))
        }
    }
}

pub(crate) fn client_error(error: octocrab::Error) -> Error {
    Error::config(format!("the GitHub client cannot be created: {}", root_cause(&error)))
}

type Builder = OctocrabBuilder<NoSvc, DefaultOctocrabBuilderConfig, NoAuth, NotLayerReady>;

/// Creates a builder for the address in the config.
fn base_builder(config: &Config) -> Result<Builder> {
    let builder = Octocrab::builder();
    let base: Uri = config
        .api
        .trim_end_matches('/')
        .parse()
        .map_err(|_| Error::config(format!("`api`: {:?} is not a URL", config.api)))?;
    builder.base_uri(base).map_err(|e| Error::config(format!("`api`: {}", root_cause(&e))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_address_follows_api() {
        for (api, expected) in [
            ("https://api.github.com", "https://github.com"),
            ("https://api.octocorp.ghe.com/", "https://octocorp.ghe.com"),
            ("https://github.example.com:8443/api/v3", "https://github.example.com:8443"),
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
        ] {
            assert_eq!(web_url(&Url::parse(api).unwrap()), expected);
        }
    }
}
