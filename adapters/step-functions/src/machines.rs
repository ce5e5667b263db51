//! The state machines that targets mean: their ARN, their type, and their definition. What is kept here may be lost, and
//! is asked for again when AWS no longer agrees with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sfn::types::StateMachineType;
use parking_lot::Mutex;
use taskbridge_sdk::{Error, Result};
use tokio::time::Instant;

use crate::api::Api;
use crate::arn::MachineArn;
use crate::definition::Definition;
use crate::failure::Failure;
use crate::history::MOST_PAGES;

/// How long a definition is believed: somebody may have changed the state machine.
const BELIEVED: Duration = Duration::from_secs(900);

/// A state machine that was found.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) arn: MachineArn,
    pub(crate) express: bool,
}

/// What is known of state machines.
#[derive(Default)]
pub(crate) struct Machines {
    /// By what targets call them.
    named: Mutex<HashMap<String, Machine>>,
    /// By their ARNs. Locked while one is asked for, so that a look at many executions asks once.
    definitions: tokio::sync::Mutex<HashMap<String, (Arc<Definition>, Instant)>>,
}

impl Machines {
    /// The state machine that a target names.
    pub(crate) async fn named(&self, api: &Api, region: &str, name: &str) -> Result<Machine> {
        if let Some(machine) = self.named.lock().get(name) {
            return Ok(machine.clone());
        }
        let machine = match name.starts_with("arn:") {
            true => by_arn(api, region, name).await?,
            false => by_name(api, region, name).await?,
        };
        self.named.lock().insert(name.to_owned(), machine.clone());
        Ok(machine)
    }

    /// Forgets what a target's name meant, since AWS says that it means something else now.
    pub(crate) fn forget(&self, name: &str) {
        self.named.lock().remove(name);
    }

    /// The definition of a state machine, as far as it is known: one that cannot be had now tells nothing.
    pub(crate) async fn definition(&self, api: &Api, arn: &str) -> Arc<Definition> {
        let mut definitions = self.definitions.lock().await;
        let now = Instant::now();
        if let Some((definition, read)) = definitions.get(arn)
            && now - *read < BELIEVED
        {
            return definition.clone();
        }
        let definition = match api.describe_machine(arn).await {
            Ok(machine) => Arc::new(Definition::parse(&machine.definition)),
            Err(_) => Arc::default(),
        };
        definitions.insert(arn.to_owned(), (definition.clone(), now));
        definition
    }

    /// Takes the definition that somebody else asked for.
    pub(crate) async fn learn(&self, arn: &str, definition: Arc<Definition>) {
        self.definitions.lock().await.insert(arn.to_owned(), (definition, Instant::now()));
    }
}

/// What a failed call says of a state machine that there is no more, or soon will not be.
pub(crate) fn is_gone(failure: &Failure) -> bool {
    ["StateMachineDoesNotExist", "StateMachineDeleting", "ResourceNotFound"]
        .iter()
        .any(|code| failure.is(code))
}

async fn by_arn(api: &Api, region: &str, name: &str) -> Result<Machine> {
    let arn = MachineArn::parse(name)
        .ok_or_else(|| Error::config(format!("`{name}` is not the ARN of a state machine")))?;
    if arn.region() != region {
        return Err(Error::config(format!(
            "the state machine `{name}` is in another region than the backend, which works in `{region}`"
        )));
    }
    // All versions of a state machine are of one type.
    let found = api.describe_machine(arn.base()).await?;
    Ok(Machine { express: found.r#type == StateMachineType::Express, arn })
}

async fn by_name(api: &Api, region: &str, name: &str) -> Result<Machine> {
    let mut page = None;
    for _ in 0..MOST_PAGES {
        let answer = api.machines(page).await?;
        for machine in answer.state_machines.iter().filter(|machine| machine.name == name) {
            if let Some(arn) = MachineArn::parse(&machine.state_machine_arn) {
                return Ok(Machine { arn, express: machine.r#type == StateMachineType::Express });
            }
        }
        page = answer.next_token;
        if page.is_none() {
            break;
        }
    }
    Err(Error::config(format!("there is no state machine `{name}` in the region `{region}` of this account")))
}
