//! Rejects a start that no node of the cluster could ever run, before anything is submitted. Slurm does not
//! test a held submission, and such a job would stay pending forever. Results are cached for a while, so that
//! a frequently called tool costs Slurm one test. If the test gives no result in time, the job is submitted
//! and Slurm decides.

use taskbridge_sdk::{Error, Result};

use crate::core::Slurm;
use crate::driver::{Feasibility, Submission};

/// Options that do not decide whether a node could ever run a job, and may differ from call to call.
const PER_CALL_OPTIONS: [&str; 4] = ["array", "begin", "dependency", "kill-on-invalid-dep"];

impl Slurm {
    /// Fails with Slurm's message if no node could ever run this job.
    pub(crate) async fn reject_infeasible(&self, submission: &Submission) -> Result<()> {
        let mut request = submission.options.clone();
        request.retain(|name, _| !PER_CALL_OPTIONS.contains(&name.as_str()));
        let result = match self.feasibility_cache.get(&request) {
            Some(result) => result,
            None => {
                let test = self.driver.feasibility(submission);
                let test = tokio::time::timeout(self.feasibility_timeout, test).await;
                let result = test.ok().and_then(Result::ok).unwrap_or(Feasibility::Feasible);
                self.feasibility_cache.insert(request, result.clone());
                result
            }
        };
        match result {
            Feasibility::Feasible | Feasibility::Unknown => Ok(()),
            Feasibility::Infeasible(message) => Err(Error::rejected(rejection_text(&message))),
        }
    }
}

/// Formats the refusal: Slurm's message, and what to do.
fn rejection_text(message: &str) -> String {
    format!(
        "{message} (Slurm): no node could ever run this job; request fewer resources, or another partition"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use taskbridge_sdk::{ErrorKind, suite};

    use super::*;
    use crate::driver::tests::fake::Fake;
    use crate::store::feasibility_cache::{NEGATIVE_TTL, POSITIVE_TTL};

    fn infeasible() -> Feasibility {
        Feasibility::Infeasible("Requested node configuration is not available".to_owned())
    }

    /// Returns the numbers of tests and submissions.
    fn counts(fake: &Fake) -> (usize, usize) {
        let state = fake.state();
        (state.tests, state.submitted)
    }

    #[tokio::test(start_paused = true)]
    async fn test_is_made_once_per_request() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\n#SBATCH --gres=gpu:8\ntrue\n").unwrap();
        let fake = Fake::default();
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let start = async |memory: &str| {
            let target = json!({"script": "job.sh", "resources": {"memory": memory}});
            slurm.begin(&suite::job(target, json!({}))).await
        };
        for memory in ["1G", "1G", "2G", "1G"] {
            start(memory).await.unwrap();
        }
        assert_eq!(counts(&fake), (2, 4));
        tokio::time::advance(POSITIVE_TTL).await;
        fake.state().feasibility = infeasible();
        for _ in 0..2 {
            let error = start("1G").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected);
            assert!(
                error.to_string().starts_with("Requested node configuration is not available"),
                "{error}"
            );
        }
        assert_eq!(counts(&fake), (3, 4), "nothing is submitted");
        // An administrator has added a node.
        fake.state().feasibility = Feasibility::Feasible;
        tokio::time::advance(NEGATIVE_TTL).await;
        start("1G").await.unwrap();
    }

    /// While nodes are unavailable, a start is neither refused nor found to be possible for long.
    #[tokio::test(start_paused = true)]
    async fn unknown_result_is_soon_tested_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\n#SBATCH --gres=gpu:8\ntrue\n").unwrap();
        let fake = Fake::default();
        fake.state().feasibility = Feasibility::Unknown;
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let job = || suite::job(json!({"script": "job.sh"}), json!({}));
        slurm.begin(&job()).await.unwrap();
        fake.state().feasibility = infeasible();
        tokio::time::advance(NEGATIVE_TTL).await;
        assert_eq!(slurm.begin(&job()).await.unwrap_err().kind(), ErrorKind::Rejected);
        assert_eq!(counts(&fake), (2, 1));
    }

    /// A test that hangs delays one start, and fails none.
    #[tokio::test(start_paused = true)]
    async fn unanswered_test_refuses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\n#SBATCH --gres=gpu:8\ntrue\n").unwrap();
        let fake = Fake::default();
        fake.state().test_delay = Duration::from_hours(1);
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        for _ in 0..3 {
            slurm.begin(&suite::job(json!({"script": "job.sh"}), json!({}))).await.unwrap();
        }
        assert_eq!(counts(&fake), (1, 3));
    }

    /// A repeated start is not tested, since an earlier attempt may have submitted the job.
    #[tokio::test]
    async fn repeated_start_makes_no_test() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\ntrue\n").unwrap();
        let fake = Fake::default();
        fake.state().feasibility = infeasible();
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let mut job = suite::job(json!({"script": "job.sh"}), json!({}));
        job.may_exist = true;
        slurm.begin(&job).await.unwrap();
        assert_eq!(fake.state().tests, 0);
    }
}
