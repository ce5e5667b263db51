//! Rejects a start that no node of the cluster could ever run, before anything is submitted. Slurm does not
//! test a held submission, and such a job would stay pending forever. Results are cached for a while, so that
//! a frequently called tool costs Slurm one test. If the test gives no result in time, the job is submitted
//! and Slurm decides.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Error, Result};
use tokio::time::Instant;

use crate::backend::Slurm;
use crate::driver::{Options, Submission};

/// How long a start waits for the test, at most.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// How long a positive result, or the lack of a result, is cached.
const SERVED_FOR: Duration = Duration::from_mins(10);

/// How long a refusal is cached: nodes may be added.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Maximum number of cached results.
const MOST: usize = 1000;

/// Options that do not decide whether a node could ever run a job, and may differ from call to call.
const OF_ONE_CALL: [&str; 4] = ["array", "begin", "dependency", "kill-on-invalid-dep"];

/// Cached results of tests, with their times.
#[derive(Default)]
pub(crate) struct Tests(Mutex<HashMap<Options, (Option<String>, Instant)>>);

impl Tests {
    /// Returns the cached result for a request, unless it has expired.
    fn known(&self, request: &Options) -> Option<Option<String>> {
        let known = self.0.lock();
        let (answer, at) = known.get(request)?;
        let keep = if answer.is_some() { REFUSED_FOR } else { SERVED_FOR };
        (at.elapsed() < keep).then(|| answer.clone())
    }

    fn keep(&self, request: Options, answer: Option<String>) {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(request, (answer, Instant::now()));
    }
}

impl Slurm {
    /// Fails with Slurm's message if no node could ever run this job.
    pub(crate) async fn refuse_infeasible(&self, order: &Submission) -> Result<()> {
        let mut request = order.options.clone();
        request.retain(|name, _| !OF_ONE_CALL.contains(&name.as_str()));
        let answer = match self.tests.known(&request) {
            Some(answer) => answer,
            None => {
                let asked = tokio::time::timeout(self.test_within, self.driver.never_fits(order)).await;
                let answer = asked.ok().and_then(Result::ok).flatten();
                self.tests.keep(request, answer.clone());
                answer
            }
        };
        answer.map_or(Ok(()), |words| Err(Error::rejected(in_words(&words))))
    }
}

/// Formats the refusal: Slurm's message, and what to do.
pub(crate) fn in_words(words: &str) -> String {
    format!("{words} (Slurm): no node could ever run this job; ask for less, or for another partition")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::{ErrorKind, suite};

    use super::*;
    use crate::fake::Fake;

    /// Returns the numbers of tests and submissions.
    fn counts(fake: &Fake) -> (usize, usize) {
        let known = fake.knows();
        (known.tests, known.submitted)
    }

    #[tokio::test(start_paused = true)]
    async fn test_is_made_once_per_request() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\n#SBATCH --gres=gpu:8\ntrue\n").unwrap();
        let fake = Fake::default();
        let slurm = Slurm::with(Box::new(fake.clone()), dir.path());
        let start = async |memory: &str| {
            let target = json!({"script": "job.sh", "resources": {"memory": memory}});
            slurm.begin(&suite::job(target, json!({}))).await
        };
        for memory in ["1G", "1G", "2G", "1G"] {
            start(memory).await.unwrap();
        }
        assert_eq!(counts(&fake), (2, 4));
        tokio::time::advance(SERVED_FOR).await;
        fake.knows().never_fits = Some("Requested node configuration is not available".to_owned());
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
        fake.knows().never_fits = None;
        tokio::time::advance(REFUSED_FOR).await;
        start("1G").await.unwrap();
    }

    /// A test that hangs delays one start, and fails none.
    #[tokio::test(start_paused = true)]
    async fn unanswered_test_refuses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\n#SBATCH --gres=gpu:8\ntrue\n").unwrap();
        let fake = Fake::default();
        fake.knows().test_takes = Duration::from_hours(1);
        let slurm = Slurm::with(Box::new(fake.clone()), dir.path());
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
        fake.knows().never_fits = Some("Requested node configuration is not available".to_owned());
        let slurm = Slurm::with(Box::new(fake.clone()), dir.path());
        let mut job = suite::job(json!({"script": "job.sh"}), json!({}));
        job.may_exist = true;
        slurm.begin(&job).await.unwrap();
        assert_eq!(fake.knows().tests, 0);
    }
}
