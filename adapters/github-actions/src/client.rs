//! Connects to GitHub: the address, the credential, no retries and no redirects. It must not make a call.

use http::Uri;
use jsonwebtoken::EncodingKey;
use octocrab::models::{AppId, InstallationId};
use octocrab::{Octocrab, OctocrabBuilder};
use taskbridge_sdk::{Error, Result};

use crate::config::Config;
use crate::failure::innermost;

pub(crate) fn connect(config: &Config) -> Result<Octocrab> {
    let builder = Octocrab::builder();
    let base: Uri = config
        .api
        .trim_end_matches('/')
        .parse()
        .map_err(|_| Error::config(format!("`api`: {:?} is no address", config.api)))?;
    let builder: OctocrabBuilder<_, _, _, _> =
        builder.base_uri(base).map_err(|e| Error::config(format!("`api`: {}", innermost(&e))))?;
    let unusable =
        |e: octocrab::Error| Error::config(format!("GitHub's client cannot be made: {}", innermost(&e)));
    match (&config.token, &config.app) {
        (Some(token), None) => {
            let token = token.reveal().trim();
            // It would be a panic in the client.
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Error::config("`token` holds something that no token does"));
            }
            builder.personal_token(token.to_owned()).build().map_err(unusable)
        }
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
