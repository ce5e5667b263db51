//! Tests for [`crate::Checkup`].

use serde_json::Value;

use super::{Fixture, Trouble, cancel_and_wait, made, offered, start};
use crate::{Backend, Finding, ToolTarget, Verdict};

/// Returns the findings for a tool with this target. Returns `None` if the fixture claims no self-check.
async fn look_over<F: Fixture>(backend: &dyn Backend, tool: &str, target: Value) -> Option<Vec<Finding>> {
    let checkup = offered(F::CLAIMS.checkup, backend.checkup(), "a check-up")?;
    Some(checkup.check_up(&[ToolTarget { tool: tool.to_owned(), target }]).await)
}

fn assert_mendable(found: &[Finding]) {
    for finding in found.iter().filter(|finding| finding.verdict == Verdict::Fault) {
        assert!(finding.fix.as_ref().is_some_and(|fix| !fix.is_empty()), "how is it mended? {finding:?}");
    }
}

/// Checks that successful checks are reported, and that nothing is a fault if everything is right.
pub async fn checkup_tells_what_is_right<F: Fixture>(fixture: &F) {
    let (backend, (job, _)) = (fixture.backend(), fixture.succeeds());
    let Some(found) = look_over::<F>(&*backend, "a_good_tool", job.target).await else { return };
    assert!(found.iter().any(|finding| finding.verdict == Verdict::Ok), "nothing is right: {found:?}");
    assert!(found.iter().all(|finding| finding.verdict != Verdict::Fault), "{found:?}");
}

/// Checks that a self-check starts nothing and does not touch running jobs.
pub async fn checkup_changes_nothing<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let job = fixture.runs_long();
    let handle = start(fixture, &*backend, &job).await.handle;
    if look_over::<F>(&*backend, "a_long_tool", job.target.clone()).await.is_some() {
        super::assert_starts(fixture, &job, 1..=1).await;
        let seen = backend.observe(&handle).await.expect("the job can be looked at");
        assert!(!seen.state.has_ended(), "the check-up ended a job: {:?}", seen.state);
    }
    cancel_and_wait(fixture, &*backend, &handle).await;
}

/// Checks that a fault names the tool whose target does not exist in the engine, and explains how to fix it.
pub async fn checkup_names_the_tool_whose_target_is_missing<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let Some(target) = made(F::CLAIMS.checkup, fixture.missing(), "missing") else { return };
    let found = look_over::<F>(&*backend, "a_lost_tool", target).await.expect("it is claimed");
    let names = |finding: &&Finding| {
        finding.verdict == Verdict::Fault
            && format!("{} {}", finding.what, finding.says).contains("a_lost_tool")
    };
    assert!(found.iter().any(|finding| names(&finding)), "no fault names the tool: {found:?}");
    assert_mendable(&found);
}

/// Checks that an unreachable engine is a fault that explains how to fix it.
pub async fn checkup_of_an_engine_that_is_away_is_a_fault<F: Fixture>(fixture: &F) {
    if !F::CLAIMS.troubles.contains(&Trouble::CheckupUnavailable) {
        return;
    }
    let (backend, (job, _)) = (fixture.backend(), fixture.succeeds());
    fixture.make(Trouble::CheckupUnavailable).await;
    let found = look_over::<F>(&*backend, "a_good_tool", job.target).await;
    let found = found.expect("who can make trouble for a check-up has one");
    assert!(found.iter().any(|finding| finding.verdict == Verdict::Fault), "all is well: {found:?}");
    assert_mendable(&found);
}
