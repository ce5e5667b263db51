//! Tests for [`crate::Checkup`].

use serde_json::Value;

use super::{Fixture, InjectedFault, cancel_and_wait, claimed_ability, claimed_item, start};
use crate::{Backend, Finding, ToolTarget, Verdict};

/// Returns the findings for a tool with this target. Returns `None` if the fixture claims no self-check.
async fn run_checkup<F: Fixture>(
    fixture: &F,
    backend: &dyn Backend,
    tool: &str,
    target: Value,
) -> Option<Vec<Finding>> {
    let checkup = claimed_ability(fixture.claims().checkup, backend.abilities().checkup, "checkup")?;
    Some(checkup.check_up(&[ToolTarget::new(tool, target)]).await)
}

fn assert_fixes_given(findings: &[Finding]) {
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Fault) {
        assert!(
            finding.fix.as_ref().is_some_and(|fix| !fix.is_empty()),
            "a fault without a fix: {finding:?}"
        );
    }
}

/// Checks that successful checks are reported, and that nothing is a fault if everything is right.
pub async fn checkup_tells_what_is_right<F: Fixture>(fixture: &F) {
    let (backend, (job, _)) = (fixture.backend(), fixture.succeeding_job());
    let Some(findings) = run_checkup(fixture, &*backend, "a_good_tool", job.target).await else { return };
    assert!(findings.iter().any(|finding| finding.verdict == Verdict::Ok), "no finding is ok: {findings:?}");
    assert!(findings.iter().all(|finding| finding.verdict != Verdict::Fault), "{findings:?}");
}

/// Checks that a self-check starts nothing and does not touch running jobs.
pub async fn checkup_changes_nothing<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let job = fixture.long_job();
    let handle = start(fixture, &*backend, &job).await.handle;
    if run_checkup(fixture, &*backend, "a_long_tool", job.target.clone()).await.is_some() {
        super::assert_starts(fixture, &job, 1..=1).await;
        let observation = backend.observe(&handle).await.expect("the job can be polled");
        assert!(!observation.state.has_ended(), "the check-up ended a job: {:?}", observation.state);
    }
    cancel_and_wait(fixture, &*backend, &handle).await;
}

/// Checks that a fault names the tool whose target does not exist in the engine, and explains how to fix it.
pub async fn checkup_names_the_tool_whose_target_is_missing<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let Some(target) = claimed_item(fixture.claims().checkup, fixture.missing_target(), "missing_target")
    else {
        return;
    };
    let findings =
        run_checkup(fixture, &*backend, "a_lost_tool", target).await.expect("the check-up is claimed");
    let names_tool = |finding: &&Finding| {
        finding.verdict == Verdict::Fault
            && format!("{} {}", finding.what, finding.says).contains("a_lost_tool")
    };
    assert!(findings.iter().any(|finding| names_tool(&finding)), "no fault names the tool: {findings:?}");
    assert_fixes_given(&findings);
}

/// Checks that an unreachable engine is a fault that explains how to fix it.
pub async fn checkup_of_an_engine_that_is_away_is_a_fault<F: Fixture>(fixture: &F) {
    if !fixture.claims().faults.contains(&InjectedFault::CheckupUnavailable) {
        return;
    }
    let (backend, (job, _)) = (fixture.backend(), fixture.succeeding_job());
    fixture.inject(InjectedFault::CheckupUnavailable).await;
    let findings = run_checkup(fixture, &*backend, "a_good_tool", job.target).await;
    let findings = findings.expect("a fixture with this fault has a check-up");
    assert!(
        findings.iter().any(|finding| finding.verdict == Verdict::Fault),
        "no finding is a fault: {findings:?}"
    );
    assert_fixes_given(&findings);
}
