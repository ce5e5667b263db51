//! Discovery of state machines as tools. The results are cached and may be lost. AWS allows few calls for
//! tags, so each discovery reads the new state machines and refreshes a few known ones.

pub(crate) mod machine;

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sfn::types::{StateMachineListItem, StateMachineStatus, StateMachineType};
use futures_util::stream::{self, StreamExt as _};
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, ErrorKind, Result, async_trait};
use tokio::time::Instant;

use crate::core::StepFunctions;
use crate::driver::api::{ApiResult, MAX_PAGES};
use crate::driver::machines::{Description, is_gone};
use crate::store::discovery_cache::{CachedMachine, DiscoveredMachine};

/// Number of state machines that are read concurrently.
const CONCURRENCY: usize = 8;

#[async_trait]
impl Discovery for StepFunctions {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let list = self.list_matching().await?;
        let (new, refresh) = self.discovery_cache.select_reads(&list);
        // Results stay cached even if a later read fails: the next discovery continues from there.
        self.read_all(new).await?;
        match self.read_all(refresh).await {
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
        let entries = self.discovery_cache.entries.lock();
        let machines = entries.values().filter_map(|entry| entry.machine.clone());
        let schemas = &self.discovery_cache.filter.input_schemas;
        let tools: Vec<_> = machines
            .map(|machine| {
                let tool = machine.tool(schemas.get(&machine.name), self.call_limit);
                (machine, tool)
            })
            .collect();
        let problem = |(machine, tool): &(DiscoveredMachine, Result<_, String>)| {
            let reason = tool.as_ref().err()?;
            Some(format!("the state machine `{}` is not offered as a tool: {reason}", machine.name))
        };
        let problems: BTreeSet<String> = tools.iter().filter_map(problem).collect();
        let mut logged = self.discovery_cache.logged_problems.lock();
        for problem in problems.difference(&logged) {
            tracing::warn!("{problem}");
        }
        *logged = problems;
        tools
    }

    /// Returns all state machines of the account and region that match the filter of names.
    async fn list_matching(&self) -> Result<Vec<StateMachineListItem>> {
        let (mut all, mut page) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let response = self.api.list_machines(page).await?;
            let matches_name = |item: &StateMachineListItem| {
                item.name.starts_with(&self.discovery_cache.filter.starting_with)
            };
            all.extend(response.state_machines.into_iter().filter(matches_name));
            page = response.next_token;
            if page.is_none() {
                return Ok(all);
            }
        }
        Err(Error::config("ListStateMachines: too many state machines to read: set `starting_with`"))
    }

    async fn read_all(&self, items: Vec<StateMachineListItem>) -> Result<()> {
        let reads = stream::iter(items).map(|item| async move {
            let machine = self.read_one(&item).await?;
            let entry =
                CachedMachine { read_at: Instant::now(), created_at: item.creation_date.secs(), machine };
            self.discovery_cache.entries.lock().insert(item.state_machine_arn, entry);
            Ok(())
        });
        let results: Vec<ApiResult<()>> = reads.buffer_unordered(CONCURRENCY).collect().await;
        Ok(results.into_iter().collect::<ApiResult<()>>()?)
    }

    async fn read_one(&self, item: &StateMachineListItem) -> ApiResult<Option<DiscoveredMachine>> {
        let arn = item.state_machine_arn.as_str();
        let tags = match self.api.tags(arn).await {
            Ok(tags) => tags,
            Err(failure) if is_gone(&failure) => return Ok(None),
            // Without a filter of tags, tags only supplement the definition.
            Err(failure)
                if self.discovery_cache.filter.tags.is_empty()
                    && matches!(failure.error.kind(), ErrorKind::Denied | ErrorKind::Limited { .. }) =>
            {
                BTreeMap::new()
            }
            Err(failure) => return Err(failure),
        };
        if !self.discovery_cache.matches_tags(&tags) {
            return Ok(None);
        }
        let output = match self.api.describe_machine(arn).await {
            Ok(output) if output.status == Some(StateMachineStatus::Deleting) => return Ok(None),
            Ok(output) => output,
            Err(failure) if is_gone(&failure) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let description = Description::from(&output);
        let machine = DiscoveredMachine {
            arn: arn.to_owned(),
            name: item.name.clone(),
            express: item.r#type == StateMachineType::Express,
            tags,
            description: output.description,
            ..DiscoveredMachine::default()
        };
        let machine = machine.with_description(&description);
        self.machines.cache_description(arn, description).await;
        Ok(Some(machine))
    }
}
