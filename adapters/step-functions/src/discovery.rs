//! Discovery of state machines as tools. The results are cached and may be lost. AWS allows few calls for
//! tags, so each discovery reads the new state machines and refreshes a few known ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_sfn::types::{StateMachineListItem, StateMachineStatus, StateMachineType};
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, ErrorKind, Result, async_trait};
use tokio::time::Instant;

use crate::api::ApiResult;
use crate::backend::StepFunctions;
use crate::config::Discover;
use crate::discovered_machine::DiscoveredMachine;
use crate::history::MOST_PAGES;
use crate::machines::{Description, is_gone};

/// Number of state machines that are read concurrently.
const AT_A_TIME: usize = 8;
/// Number of known state machines that one discovery refreshes, least recently read first.
const AGAIN: usize = 10;

/// Filter of discovery, and the cached results.
pub(crate) struct DiscoveryCache {
    wanted: Discover,
    read: Mutex<HashMap<String, Read>>,
    /// Problems of state machines that were already logged.
    told: Mutex<BTreeSet<String>>,
}

/// Cached result for a state machine.
#[derive(Clone)]
struct Read {
    at: Instant,
    /// Creation time at AWS: a new state machine of the same name has another.
    made: i64,
    /// `None` if the filter excludes it, or it no longer exists.
    machine: Option<DiscoveredMachine>,
}

impl DiscoveryCache {
    pub(crate) fn new(wanted: Discover) -> Self {
        Self { wanted, read: Mutex::default(), told: Mutex::default() }
    }

    fn wants(&self, tags: &BTreeMap<String, String>) -> bool {
        let has = |(name, value): (&String, &String)| {
            tags.get(name).is_some_and(|given| value.is_empty() || given == value)
        };
        self.wanted.tags.iter().all(has)
    }

    /// Removes cached state machines that are no longer in the list. Returns those of the list that are not
    /// cached, and those to refresh.
    fn to_read(
        &self,
        list: &[StateMachineListItem],
    ) -> (Vec<StateMachineListItem>, Vec<StateMachineListItem>) {
        let mut read = self.read.lock();
        let there: HashMap<&str, i64> =
            list.iter().map(|item| (item.state_machine_arn.as_str(), item.creation_date.secs())).collect();
        read.retain(|arn, read| there.get(arn.as_str()) == Some(&read.made));
        let (mut known, new): (Vec<_>, Vec<_>) =
            list.iter().cloned().partition(|item| read.contains_key(&item.state_machine_arn));
        known.sort_by_key(|item| read.get(&item.state_machine_arn).map(|read| read.at));
        known.truncate(AGAIN);
        (new, known)
    }
}

#[async_trait]
impl Discovery for StepFunctions {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let list = self.listed().await?;
        let (new, again) = self.offers.to_read(&list);
        // Results stay cached even if a later read fails: the next discovery continues from there.
        self.read_all(new).await?;
        match self.read_all(again).await {
            // The cached results are good enough.
            Err(error) if matches!(error.kind(), ErrorKind::Limited { .. }) => {}
            other => other?,
        }
        Ok(self.tools().into_iter().filter_map(|(_, tool)| tool.ok()).collect())
    }
}

impl StepFunctions {
    /// Returns the cached state machines as tools. If one cannot be a tool, returns the reason.
    pub(crate) fn tools(&self) -> Vec<(DiscoveredMachine, Result<DiscoveredTool, String>)> {
        let read = self.offers.read.lock();
        let machines = read.values().filter_map(|read| read.machine.clone());
        let schemas = &self.offers.wanted.input_schemas;
        let tools: Vec<_> = machines
            .map(|machine| {
                let tool = machine.tool(schemas.get(&machine.name), self.call_limit);
                (machine, tool)
            })
            .collect();
        let problem = |(machine, tool): &(DiscoveredMachine, Result<_, String>)| {
            let why = tool.as_ref().err()?;
            Some(format!("the state machine `{}` is not offered as a tool: {why}", machine.name))
        };
        let problems: BTreeSet<String> = tools.iter().filter_map(problem).collect();
        let mut told = self.offers.told.lock();
        for problem in problems.difference(&told) {
            tracing::warn!("{problem}");
        }
        *told = problems;
        tools
    }

    /// Returns all state machines of the account and region that match the filter of names.
    async fn listed(&self) -> Result<Vec<StateMachineListItem>> {
        let (mut all, mut page) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let answer = self.api.machines(page).await?;
            let wanted =
                |item: &StateMachineListItem| item.name.starts_with(&self.offers.wanted.starting_with);
            all.extend(answer.state_machines.into_iter().filter(wanted));
            page = answer.next_token;
            if page.is_none() {
                return Ok(all);
            }
        }
        Err(Error::config(
            "ListStateMachines: there are more state machines than can be read: set `starting_with`",
        ))
    }

    async fn read_all(&self, items: Vec<StateMachineListItem>) -> Result<()> {
        let reads = stream::iter(items).map(|item| async move {
            let machine = self.read_one(&item).await?;
            let read = Read { at: Instant::now(), made: item.creation_date.secs(), machine };
            self.offers.read.lock().insert(item.state_machine_arn, read);
            Ok(())
        });
        let done: Vec<ApiResult<()>> = reads.buffer_unordered(AT_A_TIME).collect().await;
        Ok(done.into_iter().collect::<ApiResult<()>>()?)
    }

    async fn read_one(&self, item: &StateMachineListItem) -> ApiResult<Option<DiscoveredMachine>> {
        let arn = item.state_machine_arn.as_str();
        let tags = match self.api.tags(arn).await {
            Ok(tags) => tags,
            Err(failure) if is_gone(&failure) => return Ok(None),
            // Without a filter of tags, tags only supplement the definition.
            Err(failure)
                if self.offers.wanted.tags.is_empty()
                    && matches!(failure.error.kind(), ErrorKind::Denied | ErrorKind::Limited { .. }) =>
            {
                BTreeMap::new()
            }
            Err(failure) => return Err(failure),
        };
        if !self.offers.wants(&tags) {
            return Ok(None);
        }
        let seen = match self.api.describe_machine(arn).await {
            Ok(seen) if seen.status == Some(StateMachineStatus::Deleting) => return Ok(None),
            Ok(seen) => seen,
            Err(failure) if is_gone(&failure) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let said = Description::from(&seen);
        let machine = DiscoveredMachine {
            arn: arn.to_owned(),
            name: item.name.clone(),
            express: item.r#type == StateMachineType::Express,
            tags,
            description: seen.description,
            ..DiscoveredMachine::default()
        };
        let machine = machine.with(&said);
        self.machines.learn(arn, said).await;
        Ok(Some(machine))
    }
}
