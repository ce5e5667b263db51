//! Tests for [`crate::Discovery`].

use std::sync::Arc;

use super::{
    DiscoverableTool, Fixture, InjectedFault, claimed_ability, claimed_item, job, output, retry_until_some,
    run_to_end,
};
use crate::{Backend, DiscoveredTool, ErrorKind};

/// A backend whose engine contains something that can be discovered.
struct DiscoverableBackend {
    backend: Arc<dyn Backend>,
    added_tool: DiscoverableTool,
}

impl DiscoverableBackend {
    /// Creates something to discover. Returns `None` if the fixture claims no discovery.
    async fn create<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        claimed_ability(fixture.claims().discovery, backend.abilities().discovery, "discovery");
        let added_tool = claimed_item(fixture.claims().discovery, fixture.add_tool().await, "add_tool")?;
        let discoverable = Self { backend, added_tool };
        // Some engines need a while to list something new.
        retry_until_some(fixture, "the tool is discovered", async || discoverable.find().await.map(drop))
            .await;
        Some(discoverable)
    }

    async fn discover(&self) -> crate::Result<Vec<DiscoveredTool>> {
        self.backend.abilities().discovery.expect("discovery is claimed").discover().await
    }

    async fn sorted_tools(&self) -> Vec<DiscoveredTool> {
        let mut tools = self.discover().await.expect("the engine can list its tools");
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }

    async fn find(&self) -> Option<DiscoveredTool> {
        self.sorted_tools().await.into_iter().find(|tool| tool.name == self.added_tool.tool)
    }
}

/// Checks that a discovered tool works as described, with arguments that are valid against its schema.
pub async fn discovered_tool_is_called_as_it_says<F: Fixture>(fixture: &F) {
    let Some(discoverable) = DiscoverableBackend::create(fixture).await else { return };
    let tool = discoverable.find().await.expect("the tool is discovered");
    assert_eq!(tool.input_schema.get("type"), Some(&"object".into()), "{:?}", tool.input_schema);
    let DiscoverableTool { arguments, text, .. } = &discoverable.added_tool;
    let (_, observation) =
        run_to_end(fixture, &*discoverable.backend, &job(tool.target, arguments.clone())).await;
    let output_text = format!("{:?}", output(&observation.state));
    assert!(output_text.contains(text.as_str()), "{text:?} is not in {output_text}");
}

/// Checks that all tool names are valid and unique, and that an added tool does not change the name of an
/// existing one.
pub async fn discovered_names_are_unique_and_stay<F: Fixture>(fixture: &F) {
    let Some(discoverable) = DiscoverableBackend::create(fixture).await else { return };
    let before = discoverable.find().await.expect("the tool is discovered");
    let other = DiscoverableBackend::create(fixture).await.expect("discovery is claimed");
    assert_ne!(other.added_tool.tool, discoverable.added_tool.tool, "the fixture adds the same tool twice");
    assert_eq!(discoverable.find().await.as_ref(), Some(&before), "the tool has changed");
    let names: Vec<String> = discoverable.sorted_tools().await.into_iter().map(|tool| tool.name).collect();
    for name in &names {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        assert!(
            (1..=128).contains(&name.len()) && name.chars().all(is_allowed),
            "{name:?} is not a valid tool name"
        );
    }
    assert!(names.is_sorted_by(|one, next| one < next), "duplicate or unsorted names: {names:?}");
}

/// Checks that the list does not contain what the engine no longer has.
pub async fn discovered_tool_that_is_gone_is_left_out<F: Fixture>(fixture: &F) {
    let Some(discoverable) = DiscoverableBackend::create(fixture).await else { return };
    fixture.remove_tool(&discoverable.added_tool.tool).await;
    retry_until_some(fixture, "the tool is no longer listed", async || {
        discoverable.find().await.is_none().then_some(())
    })
    .await;
}

/// Checks that a fault is an error, and never an empty or shorter list of tools.
pub async fn fault_of_a_discovery_is_an_error<F: Fixture>(fixture: &F) {
    if !fixture.claims().faults.contains(&InjectedFault::DiscoveryUnavailable) {
        return;
    }
    let discoverable =
        DiscoverableBackend::create(fixture).await.expect("a fixture with this fault has a discovery");
    fixture.inject(InjectedFault::DiscoveryUnavailable).await;
    match discoverable.discover().await {
        Ok(tools) => panic!("an unavailable engine returned {} tools", tools.len()),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
    assert!(discoverable.find().await.is_some(), "the tool is missing after the fault");
}
