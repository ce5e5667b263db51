//! [`Signer`]: signs requests for AWS (Signature Version 4). The credential chain of AWS finds the
//! credentials, and refreshes them. It also asks the metadata services, which requests of `net` never reach.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_config::BehaviorVersion;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SigningParams, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use http::{HeaderName, HeaderValue};
use taskbridge_sdk::{Error, Result, root_cause};
use tokio::sync::OnceCell;

use super::credential::Credential;
use crate::config::auth::{Invalid, SigV4};
use crate::driver::net::Request;

/// Headers that proxies change, or that are added after the signature.
const UNSIGNED: [&str; 2] = ["user-agent", "accept-encoding"];

/// Signs requests.
pub(super) struct Signer {
    config: SigV4,
    /// Loaded at the first request: the chain reads files and the environment.
    credentials: OnceCell<Option<SharedCredentialsProvider>>,
    now: fn() -> SystemTime,
}

/// Checks the config, offline.
pub(super) fn check(config: &SigV4) -> Result<(), Invalid> {
    if config.access_key_id.is_some() != config.secret_access_key.is_some() {
        let message = "has one of `access_key_id` and `secret_access_key`: set both or none";
        return Err(Invalid::new("auth.sigv4", message));
    }
    for (field, text) in [("service", &config.service), ("region", &config.region)] {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let message = format!("is {text:?}: write letters, digits and hyphens");
            return Err(Invalid::new(&format!("auth.sigv4.{field}"), message));
        }
    }
    Ok(())
}

impl Signer {
    pub(super) fn new(config: &SigV4) -> Result<Self, Invalid> {
        check(config)?;
        Ok(Self { config: config.clone(), credentials: OnceCell::new(), now: wall_clock })
    }

    #[cfg(test)]
    pub(super) fn at(mut self, now: fn() -> SystemTime) -> Self {
        self.now = now;
        self
    }

    async fn load(config: &SigV4) -> Option<SharedCredentialsProvider> {
        if let (Some(id), Some(secret)) = (&config.access_key_id, &config.secret_access_key) {
            let fixed = Credentials::new(id, secret.reveal().trim(), None, None, "config");
            return Some(SharedCredentialsProvider::new(fixed));
        }
        let region = aws_config::Region::new(config.region.clone());
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).region(region);
        if let Some(profile) = &config.profile {
            loader = loader.profile_name(profile);
        }
        loader.load().await.credentials_provider()
    }
}

/// Returns the time that a signature contains. AWS compares it with its own.
fn wall_clock() -> SystemTime {
    let since = Duration::try_from_secs_f64(jiff::Timestamp::now().as_duration().as_secs_f64());
    SystemTime::UNIX_EPOCH + since.unwrap_or_default()
}

#[async_trait]
impl Credential for Signer {
    async fn apply(&self, request: &mut Request) -> Result<()> {
        let missing = || {
            Error::denied("`auth.sigv4`: no AWS credentials were found: set `profile`, or AWS_ACCESS_KEY_ID")
        };
        let provider = self.credentials.get_or_init(|| Self::load(&self.config)).await;
        let provider = provider.as_ref().ok_or_else(missing)?;
        let credentials = provider.provide_credentials().await.map_err(|error| {
            use aws_credential_types::provider::error::CredentialsError as E;
            let why = format!("`auth.sigv4`: loading AWS credentials failed: {}", root_cause(&error));
            match error {
                E::CredentialsNotLoaded(_) => missing(),
                E::InvalidConfiguration(_) => Error::denied(why),
                _ => Error::unavailable(why),
            }
        })?;
        let failed = |why: &str| Error::config(format!("`auth.sigv4`: the request cannot be signed: {why}"));
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity = credentials.into();
        let params: SigningParams<'_> = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.config.region)
            .name(&self.config.service)
            .time((self.now)())
            .settings(settings)
            .build()
            .map_err(|error| failed(&root_cause(&error)))?
            .into();
        let headers = request.headers.iter().filter(|(name, _)| !UNSIGNED.contains(&name.as_str()));
        let headers: Vec<(&str, &str)> = headers
            .map(|(name, value)| value.to_str().map(|value| (name.as_str(), value)))
            .collect::<Result<_, _>>()
            .map_err(|_| failed("a header is not text"))?;
        let body = SignableBody::Bytes(&request.body);
        let signable =
            SignableRequest::new(request.method.as_str(), request.url.as_str(), headers.into_iter(), body)
                .map_err(|error| failed(&root_cause(&error)))?;
        let signed = sign(signable, &params).map_err(|error| failed(&root_cause(&error)))?;
        let (headers, _) = signed.into_parts().0.into_parts();
        for header in headers {
            let name = HeaderName::from_static(header.name());
            let mut value =
                HeaderValue::from_str(header.value()).map_err(|_| failed("a value is not valid"))?;
            value.set_sensitive(true);
            request.headers.insert(name, value);
        }
        Ok(())
    }
}
