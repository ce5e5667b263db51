//! Connects to GitHub: the address, the credential, no retries and no redirects. It must not make a call.

use http::Uri;
use jsonwebtoken::EncodingKey;
use octocrab::models::{AppId, InstallationId};
use octocrab::{DefaultOctocrabBuilderConfig, NoAuth, NoSvc, NotLayerReady, Octocrab, OctocrabBuilder};
use taskbridge_sdk::{Error, Result, Secret, innermost};

use crate::config::Config;

pub(crate) fn connect(config: &Config) -> Result<Octocrab> {
    let builder = at(config)?;
    match (&config.token, &config.app) {
        (Some(given), None) => builder.personal_token(token("token", given)?).build().map_err(unusable),
        (None, Some(app)) => {
            let key = EncodingKey::from_rsa_pem(app.private_key.reveal().as_bytes())
                .map_err(|_| Error::config("`app.private_key` holds no RSA private key in PEM"))?;
            let crab = builder.app(AppId(app.id), key).build().map_err(unusable)?;
            crab.installation(InstallationId(app.installation)).map_err(unusable)
        }
        (None, None) => {
            Err(Error::config("there is no credential: set `token = { env = \"GITHUB_TOKEN\" }`, or `app`"))
        }
        (Some(_), Some(_)) => Err(Error::config("`token` and `app` are both set: leave one of them out")),
    }
}

/// A client without any credential.
pub(crate) fn nobody(config: &Config) -> Result<Octocrab> {
    at(config)?.build().map_err(unusable)
}

/// The text of a token.
pub(crate) fn token(field: &str, given: &Secret) -> Result<String> {
    let token = given.reveal().trim();
    // It would be a panic in the client.
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(Error::config(format!("`{field}` holds something that no token does"))),
    }
}

pub(crate) fn unusable(error: octocrab::Error) -> Error {
    Error::config(format!("GitHub's client cannot be made: {}", innermost(&error)))
}

/// At the address that the config has.
fn at(
    config: &Config,
) -> Result<OctocrabBuilder<NoSvc, DefaultOctocrabBuilderConfig, NoAuth, NotLayerReady>> {
    let builder = Octocrab::builder();
    let base: Uri = config
        .api
        .trim_end_matches('/')
        .parse()
        .map_err(|_| Error::config(format!("`api`: {:?} is no address", config.api)))?;
    builder.base_uri(base).map_err(|e| Error::config(format!("`api`: {}", innermost(&e))))
}
