//! Tests for [`crate::Discovery`].

use std::sync::Arc;

use super::{Fixture, Offering, Trouble, ended, job, made, offered, output, wait};
use crate::{Backend, DiscoveredTool, ErrorKind};

/// A backend whose engine contains something that can be discovered.
struct Offered {
    backend: Arc<dyn Backend>,
    offering: Offering,
}

impl Offered {
    /// Creates something to discover. Returns `None` if the fixture claims no discovery.
    async fn by<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        offered(F::CLAIMS.discovery, backend.discovery(), "discovery");
        let offering = made(F::CLAIMS.discovery, fixture.offers().await, "offers")?;
        let offered = Self { backend, offering };
        // Some engines need a while to list something new.
        wait(fixture, "the tool is discovered", async || offered.find().await.map(drop)).await;
        Some(offered)
    }

    async fn discover(&self) -> crate::Result<Vec<DiscoveredTool>> {
        self.backend.discovery().expect("it was offered before").discover().await
    }

    async fn all(&self) -> Vec<DiscoveredTool> {
        let mut all = self.discover().await.expect("the engine can say what it could run");
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    async fn find(&self) -> Option<DiscoveredTool> {
        self.all().await.into_iter().find(|tool| tool.name == self.offering.tool)
    }
}

/// Checks that a discovered tool works as described, with arguments that are valid against its schema.
pub async fn discovered_tool_is_called_as_it_says<F: Fixture>(fixture: &F) {
    let Some(offered) = Offered::by(fixture).await else { return };
    let tool = offered.find().await.expect("it was discovered before");
    assert_eq!(tool.input_schema.get("type"), Some(&"object".into()), "{:?}", tool.input_schema);
    let Offering { arguments, text, .. } = &offered.offering;
    let (_, seen) = ended(fixture, &*offered.backend, &job(tool.target, arguments.clone())).await;
    let said = format!("{:?}", output(&seen.state));
    assert!(said.contains(text.as_str()), "{text:?} is not in {said}");
}

/// Checks that all tool names are valid and unique, and that an added tool does not change the name of an
/// existing one.
pub async fn discovered_names_are_unique_and_stay<F: Fixture>(fixture: &F) {
    let Some(offered) = Offered::by(fixture).await else { return };
    let before = offered.find().await.expect("it was discovered before");
    let other = Offered::by(fixture).await.expect("it was offered before");
    assert_ne!(other.offering.tool, offered.offering.tool, "the fixture offers the same thing twice");
    assert_eq!(offered.find().await.as_ref(), Some(&before), "it is another now");
    let names: Vec<String> = offered.all().await.into_iter().map(|tool| tool.name).collect();
    for name in &names {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        assert!((1..=128).contains(&name.len()) && name.chars().all(fits), "{name:?} is no tool's name");
    }
    assert!(names.is_sorted_by(|one, next| one < next), "a name is there twice: {names:?}");
}

/// Checks that the list does not contain what the engine no longer has.
pub async fn discovered_tool_that_is_gone_is_left_out<F: Fixture>(fixture: &F) {
    let Some(offered) = Offered::by(fixture).await else { return };
    fixture.withdraws(&offered.offering.tool).await;
    wait(fixture, "the tool is gone", async || offered.find().await.is_none().then_some(())).await;
}

/// Checks that a fault is an error, and never an empty or shorter list of tools.
pub async fn fault_of_a_discovery_is_an_error<F: Fixture>(fixture: &F) {
    if !F::CLAIMS.troubles.contains(&Trouble::DiscoveryUnavailable) {
        return;
    }
    let offered = Offered::by(fixture).await.expect("who can make trouble for a discovery has one");
    fixture.make(Trouble::DiscoveryUnavailable).await;
    match offered.discover().await {
        Ok(tools) => panic!("in trouble, {} tools were discovered", tools.len()),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
    assert!(offered.find().await.is_some(), "it is not there after the trouble");
}
