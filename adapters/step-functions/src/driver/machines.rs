//! State machines of targets: ARN, type, definition and log group. The cache may be lost. ARN and type are
//! requested again only when AWS contradicts them, definition and log group also after `DESCRIPTION_TTL`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sfn::operation::describe_state_machine::DescribeStateMachineOutput;
use aws_sdk_sfn::types::StateMachineType;
use parking_lot::Mutex;
use taskbridge_sdk::{Error, Result};
use tokio::time::Instant;

use crate::driver::api::{Api, ApiResult, MAX_PAGES};
use crate::driver::definition::Definition;
use crate::driver::error::Failure;
use crate::driver::log_group::LogGroup;
use crate::identity::arn::MachineArn;

/// How long a description is cached. The state machine may change.
const DESCRIPTION_TTL: Duration = Duration::from_secs(900);
/// How long `definition` does not repeat a failed request for a description.
const FAILURE_TTL: Duration = Duration::from_secs(60);

/// Resolved state machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) arn: MachineArn,
    pub(crate) express: bool,
}

/// Description of a state machine by AWS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    pub(crate) definition: Arc<Definition>,
    /// `None` if it does not log.
    pub(crate) log_group: Option<LogGroup>,
}

impl From<&DescribeStateMachineOutput> for Description {
    fn from(machine: &DescribeStateMachineOutput) -> Self {
        Self {
            definition: Arc::new(Definition::parse(&machine.definition)),
            log_group: machine.logging_configuration.as_ref().and_then(LogGroup::of),
        }
    }
}

/// Cache of state machines.
#[derive(Default)]
pub(crate) struct Machines {
    /// By the name or ARN in the target.
    resolved: Mutex<HashMap<String, Machine>>,
    /// Locked during a request, so that a poll of many executions sends one request.
    descriptions: tokio::sync::Mutex<DescriptionCache>,
}

/// Descriptions by ARN, with the time of the request. `None` if the request failed.
type DescriptionCache = HashMap<String, (Option<Description>, Instant)>;

/// Returns the cached description unless it has expired.
fn cached_description(cache: &DescriptionCache, arn: &str) -> Option<Option<Description>> {
    let (description, requested_at) = cache.get(arn)?;
    let ttl = if description.is_some() { DESCRIPTION_TTL } else { FAILURE_TTL };
    (requested_at.elapsed() < ttl).then(|| description.clone())
}

async fn request_description(cache: &mut DescriptionCache, api: &Api, arn: &str) -> ApiResult<Description> {
    let result = api.describe_machine(arn).await.map(|machine| Description::from(&machine));
    cache.insert(arn.to_owned(), (result.as_ref().ok().cloned(), Instant::now()));
    result
}

impl Machines {
    /// Returns the state machine that a target names.
    pub(crate) async fn resolve(&self, api: &Api, region: &str, name: &str) -> Result<Machine> {
        if let Some(machine) = self.resolved.lock().get(name) {
            return Ok(machine.clone());
        }
        let machine = match name.starts_with("arn:") {
            true => self.resolve_arn(api, region, name).await?,
            false => resolve_name(api, region, name).await?,
        };
        self.resolved.lock().insert(name.to_owned(), machine.clone());
        Ok(machine)
    }

    /// Removes the cached entry of a target, because AWS contradicted it.
    pub(crate) fn forget(&self, name: &str) {
        self.resolved.lock().remove(name);
    }

    /// Returns the definition of a state machine, or an empty one if it is not available now.
    pub(crate) async fn definition(&self, api: &Api, arn: &str) -> Arc<Definition> {
        let mut cache = self.descriptions.lock().await;
        let description = match cached_description(&cache, arn) {
            Some(description) => description,
            None => request_description(&mut cache, api, arn).await.ok(),
        };
        description.unwrap_or_default().definition
    }

    /// Requests the current definition of a state machine.
    pub(crate) async fn definition_now(&self, api: &Api, arn: &str) -> ApiResult<Arc<Definition>> {
        let mut cache = self.descriptions.lock().await;
        Ok(request_description(&mut cache, api, arn).await?.definition)
    }

    /// Returns the log group of a state machine. `None` if it does not log, or no longer exists.
    pub(crate) async fn log_group(&self, api: &Api, arn: &str) -> ApiResult<Option<LogGroup>> {
        let mut cache = self.descriptions.lock().await;
        if let Some(Some(description)) = cached_description(&cache, arn) {
            return Ok(description.log_group);
        }
        match request_description(&mut cache, api, arn).await {
            Ok(description) => Ok(description.log_group),
            Err(failure) if is_gone(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn resolve_arn(&self, api: &Api, region: &str, name: &str) -> Result<Machine> {
        let arn = MachineArn::parse(name)
            .ok_or_else(|| Error::config(format!("`{name}` is not the ARN of a state machine")))?;
        if arn.region() != region {
            return Err(Error::config(format!(
                "the state machine `{name}` is in another region than the backend, which works in `{region}`"
            )));
        }
        // All versions of a state machine have the same type.
        let output = api.describe_machine(arn.base()).await?;
        self.cache_description(arn.base(), Description::from(&output)).await;
        Ok(Machine { express: output.r#type == StateMachineType::Express, arn })
    }

    /// Caches a description that another function requested.
    pub(crate) async fn cache_description(&self, arn: &str, description: Description) {
        self.descriptions.lock().await.insert(arn.to_owned(), (Some(description), Instant::now()));
    }
}

/// Returns true if a call failed because the state machine is deleted or being deleted.
pub(crate) fn is_gone(failure: &Failure) -> bool {
    ["StateMachineDoesNotExist", "StateMachineDeleting", "ResourceNotFound"]
        .iter()
        .any(|code| failure.is(code))
}

async fn resolve_name(api: &Api, region: &str, name: &str) -> Result<Machine> {
    let mut page = None;
    for _ in 0..MAX_PAGES {
        let response = api.list_machines(page).await?;
        for machine in response.state_machines.iter().filter(|machine| machine.name == name) {
            if let Some(arn) = MachineArn::parse(&machine.state_machine_arn) {
                return Ok(Machine { arn, express: machine.r#type == StateMachineType::Express });
            }
        }
        page = response.next_token;
        if page.is_none() {
            break;
        }
    }
    Err(Error::config(format!("there is no state machine `{name}` in the region `{region}` of this account")))
}
