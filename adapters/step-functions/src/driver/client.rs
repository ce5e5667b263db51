//! Clients of Step Functions, CloudWatch Logs, SQS and STS, created from the config. Only this file knows how
//! AWS finds credentials.

use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
#[expect(deprecated, reason = "the crate that it moved to is not meant to be used directly")]
use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_sdk_sfn::config::{ProvideCredentials, Region, SharedCredentialsProvider};
use taskbridge_sdk::{ConnectContext, Error, ErrorKind, Result};

use crate::config::{AssumeRole, Config};
use crate::driver::callers::CallerSessions;
use crate::driver::error::missing_credentials_error;
use crate::identity::engine::Account;

/// Timeout of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Clients and the region that they use.
pub(crate) struct Clients {
    pub(crate) step_functions: aws_sdk_sfn::Client,
    pub(crate) logs: aws_sdk_cloudwatchlogs::Client,
    /// `None` without a queue.
    pub(crate) queue: Option<aws_sdk_sqs::Client>,
    pub(crate) region: String,
    pub(crate) account: Account,
    pub(crate) credentials: SharedCredentialsProvider,
    /// `None` if all calls use the bridge's own credentials.
    pub(crate) caller_sessions: Option<CallerSessions>,
}

pub(crate) async fn connect(config: &Config, context: &ConnectContext) -> Result<Clients> {
    let sdk_config = load_sdk_config(config, context).await;
    let region = sdk_config.region().map(|region| region.as_ref().to_owned()).ok_or_else(|| {
        Error::denied("no AWS region is set: set `region`, AWS_REGION, or the region of the profile")
    })?;
    let provider = match &config.assume_role {
        Some(role) => Some(assume(role, &sdk_config, &region).await),
        None => sdk_config.credentials_provider(),
    };
    let Some(provider) = provider else {
        return Err(Error::denied("no AWS credentials were found: set `profile`, or AWS_ACCESS_KEY_ID"));
    };
    let endpoint = config.endpoint.clone().or_else(|| sdk_config.endpoint_url().map(str::to_owned));
    let account = Account::new(config, &region, endpoint.as_deref());
    let builder = aws_sdk_sts::config::Builder::from(&sdk_config)
        .region(Region::new(region.clone()))
        .credentials_provider(provider.clone())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts(config.call_timeout));
    let sts = aws_sdk_sts::Client::from_conf(builder.build());
    match provider.provide_credentials().await {
        Ok(credentials) => {
            if let Some(id) = credentials.account_id() {
                account.learn(id.as_str());
            }
            // This call needs no permission. If STS is unreachable, the first execution reveals the account.
            if account.identity().is_none()
                && let Ok(caller) = sts.get_caller_identity().send().await
            {
                account.learn(caller.account().unwrap_or_default());
            }
        }
        Err(error) => {
            let error = missing_credentials_error("loading credentials", &error);
            // Each call asks again for credentials that are only slow or unreachable now. Missing credentials
            // are reported immediately.
            if error.kind() != ErrorKind::Unavailable {
                return Err(error.while_connecting());
            }
        }
    }
    let caller_sessions =
        config.per_caller.clone().map(|per_caller| CallerSessions::new(sts, per_caller, config.call_timeout));
    let queue = config.queue.as_deref().and_then(origin).map(|queue_endpoint| {
        let builder = aws_sdk_sqs::config::Builder::from(&sdk_config)
            .credentials_provider(provider.clone())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(config.call_timeout))
            .endpoint_url(queue_endpoint);
        aws_sdk_sqs::Client::from_conf(builder.build())
    });
    let mut builder = aws_sdk_cloudwatchlogs::config::Builder::from(&sdk_config)
        .credentials_provider(provider.clone())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts(config.call_timeout));
    if let Some(endpoint) = &config.logs_endpoint {
        builder = builder.endpoint_url(endpoint);
    }
    let logs = aws_sdk_cloudwatchlogs::Client::from_conf(builder.build());
    let mut builder = aws_sdk_sfn::config::Builder::from(&sdk_config)
        .credentials_provider(provider.clone())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts(config.call_timeout));
    builder.set_endpoint_url(endpoint);
    let step_functions = aws_sdk_sfn::Client::from_conf(builder.build());
    Ok(Clients { step_functions, logs, queue, region, account, credentials: provider, caller_sessions })
}

/// Returns the endpoint of a queue: its URL without the account and the name.
pub(crate) fn origin(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next().filter(|host| !host.is_empty())?;
    let is_valid = matches!(scheme, "http" | "https") && rest[host.len()..].split('/').count() == 3;
    is_valid.then(|| &url[..scheme.len() + "://".len() + host.len()])
}

/// Returns the timeouts of one call.
pub(crate) fn timeouts(operation_timeout: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT.min(operation_timeout))
        .operation_timeout(operation_timeout)
        .build()
}

/// Loads the settings from the environment, files and services of AWS.
#[expect(deprecated, reason = "the crate that the type moved to is not meant to be used directly")]
async fn load_sdk_config(config: &Config, context: &ConnectContext) -> SdkConfig {
    let mut loader: ConfigLoader = aws_config::defaults(BehaviorVersion::latest());
    let mut files = None;
    if let Some(file) = &config.config_file {
        let file = context.config_dir.join(file);
        files = Some(ProfileFiles::builder().with_file(ProfileFileKind::Config, file).build());
    }
    if let Some(files) = &files {
        loader = loader.profile_files(files.clone());
    }
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &config.profile {
        // The default chain would try the environment before the requested profile.
        let provider_config = match &config.region {
            Some(region) => ProviderConfig::without_region().with_region(Some(Region::new(region.clone()))),
            None => ProviderConfig::with_default_region().await,
        };
        let mut provider =
            ProfileFileCredentialsProvider::builder().configure(&provider_config).profile_name(profile);
        if let Some(files) = files {
            provider = provider.profile_files(files);
        }
        loader = loader.profile_name(profile).credentials_provider(provider.build());
    }
    loader.load().await
}

async fn assume(role: &AssumeRole, sdk_config: &SdkConfig, region: &str) -> SharedCredentialsProvider {
    let mut builder = AssumeRoleProvider::builder(&role.role_arn)
        .configure(sdk_config)
        .region(Region::new(region.to_owned()))
        .session_name(&role.session_name);
    if let Some(id) = &role.external_id {
        builder = builder.external_id(id);
    }
    let provider = match sdk_config.credentials_provider() {
        Some(base) => builder.build_from_provider(base).await,
        None => builder.build().await,
    };
    SharedCredentialsProvider::new(provider)
}
